/* model.h: a multi-layer perceptron: linear layers with ReLU between them.
 *
 * The layout says where each parameter lies; it is the same on every device. A model is one copy of
 * the parameters on one device, with room for what the passes compute.
 */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include "base/error.h"
#include "device/device.h"
#include "workload.h"

#include <stdint.h>

#define MODEL_MOST_LAYERS     64
#define MODEL_MOST_PARAMETERS WORKLOAD_MOST_PARAMETERS /* an MLP has 130 at most */

/* A model may have a branch: one more linear layer beside the last one, from the same activation to
 * the logits, to which its output is added. It is there to be skipped: a parameter that took no
 * part in the forward pass gets no gradient, and that is what this says of the branch's. */
typedef enum {
    UNUSED_NONE,  /* no branch */
    UNUSED_NEVER, /* a branch, and every replica uses it */
    UNUSED_ALWAYS,
    UNUSED_RANK0 /* replica 0 alone skips it */
} Unused;

/* "never", "always", "rank0"; "none" for UNUSED_NONE. */
const char *unused_name(Unused unused);

/* A weight [rows, columns] or a bias [rows], named as in PyTorch's nn.Sequential of nn.Linear and
 * nn.ReLU: layer i is module 2i ("0.weight", "0.bias", "2.weight", ...); a model of one layer is a
 * plain nn.Linear ("weight", "bias"). The branch is "branch.weight" and "branch.bias". */
typedef struct Parameter {
    char name[40];
    int rows;
    int columns;   /* 0 for a bias */
    size_t offset; /* floats from the start of an arena */
    size_t count;  /* floats */
} Parameter;

/* Where parameters lie in an arena: one flat array for all weights, one for all gradients, and so
 * on. They lie in the order in which backward finishes their gradients, last layer first and bias
 * before weight (the reverse of PyTorch's registration order), so that a DDP bucket is a slice; a
 * branch is registered last, so it lies first.
 * Each starts on a multiple of 16 bytes, as vector loads and cuBLAS like it; the floats between
 * stay zero. */
typedef struct Layout {
    int layers;
    int widths[MODEL_MOST_LAYERS + 1]; /* input, hidden ..., classes */
    bool branch;
    const Workload *workload; /* the caller's: what is only timed; NULL: an MLP */
    int gradient_width;       /* of the loss's gradient, per sample: the classes, but for some
                                 workloads */
    int parameters;           /* 2 per layer, and 2 of the branch */
    Parameter parameter[MODEL_MOST_PARAMETERS]; /* in arena order */
    size_t parameter_count;                     /* floats that are learned */
    size_t arena_count;                         /* floats of an arena, with the gaps */
} Layout;

/* `widths` has layers + 1 entries, all at least 1. */
void layout_init(Layout *layout, const int *widths, int layers);

/* The same with a branch, unless `unused` is UNUSED_NONE. */
void layout_init_branched(Layout *layout, const int *widths, int layers, Unused unused);

/* The layout of a network that is only described: its tensors, with one "layer" from input to
 * output. */
void layout_init_workload(Layout *layout, const Workload *workload);

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
    float *branch_output; /* [rows, classes]; NULL without a branch */
    bool skips_branch;    /* set by the caller; of no account without a branch */
    /* What in PyTorch is a gradient of None, after a backward pass: the parameter took no part in
     * the forward pass, and an update leaves it alone. */
    bool no_gradient[MODEL_MOST_PARAMETERS];
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

/* Whether forward passes leave the parameter out. */
bool model_skips(const Model *model, int parameter);

float *model_input(const Model *model);
float *model_logits(const Model *model);

/* Called when a parameter's gradient has been queued, once each, in arena order. */
typedef void (*GradientReady)(void *context, int parameter);

/* logit_gradient [rows, classes] -> all gradients, after model_forward of the same rows. Last layer
 * first; announces every parameter to `ready` (may be NULL) as soon as its gradient is queued.
 * Gradients are written, or added to what is there if `accumulate`. Those of parameters that the
 * forward pass skipped are neither written nor announced, but noted in no_gradient. */
void model_backward(Model *model, int rows, bool accumulate, GradientReady ready, void *context);

/* Zeroes the gradients of skipped parameters: before a sum over replicas, to which this one then
 * adds nothing. What lies there is an earlier sum. */
void model_zero_skipped(Model *model);

/* 64-bit FNV-1a hash of each parameter's bits, for comparing replicas: `hashes` [parameters], from
 * an arena in host memory. */
void layout_hash(const Layout *layout, const float *arena, uint64_t *hashes);

#endif
