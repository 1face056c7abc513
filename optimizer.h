/* optimizer.h: SGD with momentum, Adam and AdamW over a whole arena.
 */
#ifndef TRAINER_OPTIMIZER_H
#define TRAINER_OPTIMIZER_H

#include "device/device.h"

typedef enum { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW } OptimizerKind;

/* Adam's betas and epsilon are PyTorch's defaults: 0.9, 0.999, 1e-8. */
typedef struct OptimizerSettings {
    OptimizerKind kind;
    double lr;
    double momentum; /* SGD only */
    double weight_decay;
} OptimizerSettings;

typedef struct Optimizer {
    OptimizerSettings settings;
    Device *device;  /* the caller's */
    size_t count;    /* floats of an arena */
    float *state[2]; /* SGD: velocity; Adam: mean and square. Arenas, zero at first; the device's */
    int64_t steps;   /* taken so far */
} Optimizer;

/* "sgd", "adam" or "adamw". */
const char *optimizer_name(OptimizerKind kind);

/* How many arenas of state an optimizer keeps, 0 to 2, and what PyTorch calls the one of that
 * index, such as "exp_avg". */
int optimizer_states(const OptimizerSettings *settings);
const char *optimizer_state_name(const OptimizerSettings *settings, int state);

Error optimizer_open(Optimizer *optimizer, const OptimizerSettings *settings, Device *device,
                     size_t count);

/* One update of `weights` by `gradients`, both arenas on the optimizer's device. */
void optimizer_step(Optimizer *optimizer, float *weights, const float *gradients);

/* A part of an arena, in floats. */
typedef struct Slice {
    size_t offset, count;
} Slice;

/* One update of these slices; the rest of the weights and of the optimizer's state stays as it is,
 * as in PyTorch for a parameter whose gradient is None: not even weight decay touches it. There it
 * counts its own steps, too; here all count the same, so the slices must be the same in every step
 * or Adam's bias corrections are another's. */
void optimizer_step_slices(Optimizer *optimizer, float *weights, const float *gradients,
                           const Slice *slice, int slices);

#endif
