/* checkpoint.h: a training run in a file: its weights, and what it takes to go on with it.
 *
 * The file is a safetensors file, which PyTorch reads and writes with Python's `safetensors`. The
 * model's tensors have the keys of PyTorch's state_dict and its order; the optimizer's are named
 * after what PyTorch calls them, and the rest are the file's metadata:
 *
 *     0.weight, 0.bias, 2.weight, ...                       module.0.weight, ... if wrapped
 *     optimizer.momentum_buffer.0.weight, ...               SGD with momentum
 *     optimizer.exp_avg.0.weight, optimizer.exp_avg_sq...   Adam and AdamW
 *     branch.weight, branch.bias                            of a model with a branch
 *     __metadata__: step, epoch, seed, batch, layers, optimizer, lr, ...
 */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include "model.h"
#include "optimizer.h"

#include <stdio.h>

/* What is known of a run besides its tensors. */
typedef struct Progressed {
    int layers;
    int widths[MODEL_MOST_LAYERS + 1];
    Unused unused;
    OptimizerSettings optimizer;
    uint64_t seed;
    int batch;        /* samples per update */
    const char *data; /* as --data names it; from a file: valid while that is open */
    int64_t samples;  /* training samples */
    int64_t step;     /* updates made so far */
    int64_t epoch;    /* whole epochs among them */
} Progressed;

/* Its layers as --layers takes them: "784,512,10". */
void checkpoint_widths(const Progressed *progressed, char *text, size_t size);

/* --- saving ------------------------------------------------------------------------------- */

/* How a run is saved; part of its configuration. */
typedef struct CheckpointSettings {
    const char *path; /* NULL: not at all */
    bool wrapped;     /* "module." before the model's keys */
    bool weights_only;
    const char *data; /* see Progressed */
} CheckpointSettings;

/* Saves `weights` and, unless only these are wanted, the optimizer's state: arenas in host memory,
 * `state` as in Optimizer. The old file is replaced when the new one is whole, and not before (see
 * safetensors_write). */
Error checkpoint_save(const CheckpointSettings *settings, const Layout *layout,
                      const float *weights, float *const state[2], const Progressed *progressed);

/* --- loading ------------------------------------------------------------------------------ */

typedef struct Checkpoint Checkpoint;

/* Opens a file and checks that it is a sound one. NULL and `*error` on failure. `path` must stay
 * valid. The file stays open, so a new one under its name does not mix with it. */
Checkpoint *checkpoint_open(const char *path, Error *error);
void checkpoint_close(Checkpoint *checkpoint); /* NULL: does nothing */

/* Where the run that was saved stands. An Error if the file does not say, or says nonsense: it can
 * then be loaded, but not resumed. */
Error checkpoint_progressed(const Checkpoint *checkpoint, Progressed *progressed);

/* What must fit when weights are loaded. */
typedef struct CheckpointFit {
    bool strict;       /* every key must be the model's, to the letter, and none may be missing */
    bool wrapped;      /* strict: the model's keys begin with "module." */
    bool complete;     /* none may be missing */
    const char *class; /* strict: what PyTorch calls the model */
} CheckpointFit;

/* Copies the model's tensors to `weights`, an arena in host memory; what the file lacks stays as it
 * is. As in PyTorch's load_state_dict, a shape that differs is an error, and missing and unexpected
 * keys are one if `strict`, and else are listed on `notes`. Unless strict, "module." at the
 * beginning of a key makes no difference. Tensors of the optimizer are no part of the model.
 * `loaded` [256] says what was loaded, in a line.
 *
 * A strict error is a list: PyTorch's message for it is written to `notes`, the Error is a sentence
 * besides (torch/nn/modules/module.py, load_state_dict). */
Error checkpoint_load(const Checkpoint *checkpoint, const Layout *layout, const CheckpointFit *fit,
                      FILE *notes, float *weights, char loaded[256]);

/* Copies the optimizer's state to `state`, arenas in host memory, as many as `settings` has. All of
 * it must be there. */
Error checkpoint_load_state(const Checkpoint *checkpoint, const Layout *layout,
                            const OptimizerSettings *settings, float *const state[2]);

#endif
