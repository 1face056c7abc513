/* model.h: a multi-layer perceptron: linear layers with ReLU between them.
 *
 * The layout says where each parameter lies; it is the same on every device. A model is one copy of
 * the parameters on one device, with room for what the passes compute.
 */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include "base/error.h"
#include "device/device.h"

#include <stdint.h>

#define MODEL_MOST_LAYERS 64

/* A weight [rows, columns] or a bias [rows], named as in PyTorch's nn.Sequential of nn.Linear and
 * nn.ReLU: layer i is module 2i ("0.weight", "0.bias", "2.weight", ...); a model of one layer is a
 * plain nn.Linear ("weight", "bias"). */
typedef struct Parameter {
    char name[24];
    int rows;
    int columns;   /* 0 for a bias */
    size_t offset; /* floats from the start of an arena */
    size_t count;  /* floats */
} Parameter;

/* Where parameters lie in an arena: one flat array for all weights, one for all gradients, and so
 * on. They lie in the order in which backward finishes their gradients, last layer first and bias
 * before weight (the reverse of PyTorch's registration order), so that a DDP bucket is a slice.
 * Each starts on a multiple of 16 bytes, as vector loads and cuBLAS like it; the floats between
 * stay zero. */
typedef struct Layout {
    int layers;
    int widths[MODEL_MOST_LAYERS + 1];          /* input, hidden ..., classes */
    int parameters;                             /* 2 per layer */
    Parameter parameter[2 * MODEL_MOST_LAYERS]; /* in arena order */
    size_t parameter_count;                     /* floats that are learned */
    size_t arena_count;                         /* floats of an arena, with the gaps */
} Layout;

/* `widths` has layers + 1 entries, all at least 1. */
void layout_init(Layout *layout, const int *widths, int layers);

/* Index of the bias of `layer` in layout->parameter; its weight is the next one. */
int layout_bias(const Layout *layout, int layer);

/* Parameter `index` in PyTorch's order, weight before bias and the first layer first. */
const Parameter *layout_registered(const Layout *layout, int index);

/* Fills an arena in host memory with the weights that PyTorch gives the same model after
 * torch.manual_seed(seed) (torch/nn/init.py, kaiming_uniform_; torch/nn/modules/linear.py). */
void layout_init_weights(const Layout *layout, uint64_t seed, float *arena);

typedef struct Model {
    const Layout *layout; /* the caller's */
    Device *device;       /* the caller's */
    int most_rows;
    float *weights;   /* arena */
    float *gradients; /* arena */
    /* activation[0] is the input [rows, widths[0]]; activation[i] what layer i - 1 puts out, and
     * the last the logits [rows, classes] */
    float *activation[MODEL_MOST_LAYERS + 1];
    float *logit_gradient; /* [rows, classes] */
    float *delta[2]; /* gradients of hidden activations, [rows, widest hidden layer], in turn */
} Model;

/* Makes room on the device for passes of up to `most_rows` rows; input, logits and logit_gradient
 * get room for `most_outer_rows`, at least as many: DataParallel's boss keeps the whole batch
 * there. The arenas are the caller's (from device_alloc or comm_alloc). The rest is freed with the
 * device. */
Error model_open(Model *model, const Layout *layout, Device *device, float *weights,
                 float *gradients, int most_rows, int most_outer_rows);

/* activation[0] [rows, in] -> logits [rows, classes], all activations kept for the backward pass.
 */
void model_forward(Model *model, int rows);

float *model_input(const Model *model);
float *model_logits(const Model *model);

/* Called when a parameter's gradient has been queued, once each, in arena order. */
typedef void (*GradientReady)(void *context, int parameter);

/* logit_gradient [rows, classes] -> all gradients, after model_forward of the same rows. Last layer
 * first; announces every parameter to `ready` (may be NULL) as soon as its gradient is queued.
 * Gradients are written, or added to what is there if `accumulate`. */
void model_backward(Model *model, int rows, bool accumulate, GradientReady ready, void *context);

/* 64-bit FNV-1a hash of each parameter's bits, for comparing replicas: `hashes` [parameters], from
 * an arena in host memory. */
void layout_hash(const Layout *layout, const float *arena, uint64_t *hashes);

#endif
