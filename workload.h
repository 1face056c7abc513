/* workload.h: a network that this program does not compute, described layer by layer (see
 * workloads/README.md): what its layers cost, for timing on virtual devices.
 */
#ifndef TRAINER_WORKLOAD_H
#define TRAINER_WORKLOAD_H

#include "base/error.h"

#include <stddef.h>

#define WORKLOAD_MOST_LAYERS     1024
#define WORKLOAD_MOST_PARAMETERS 1024

/* One layer. Costs are for one sample of the forward pass; backward has twice the arithmetic, the
 * bytes and the operations. */
typedef struct WorkLayer {
    char name[48];
    int parameters;  /* tensors */
    size_t count[8]; /* elements of each, in PyTorch's order of registration */
    double flop;
    double activation_bytes;
    int operations;
} WorkLayer;

typedef struct Workload {
    char name[64];
    char sample[64];                                         /* "image, 224 x 224" */
    double input_bytes, output_bytes, output_gradient_bytes; /* per sample */
    int layers;
    int parameters; /* tensors of all layers */
    WorkLayer layer[WORKLOAD_MOST_LAYERS];
} Workload;

/* Reads a workload: a file, or the name of one in the folder workloads/ beside the program or in
 * the working directory. The Error names the file, and the field that is unknown, missing or
 * impossible. The caller frees it. NULL and `*error` on failure. */
Workload *workload_read(const char *name, Error *error);

/* The names of the workloads that are there, with commas between them, for messages. */
void workload_names(char *text, size_t size);

#endif
