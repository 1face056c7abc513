/* probe.h: which GPUs there are, found out without touching CUDA in this process.
 */
#ifndef TRAINER_DEVICE_PROBE_H
#define TRAINER_DEVICE_PROBE_H

#include <stddef.h>

#define PROBE_MOST_GPUS 64

typedef struct ProbedGpu {
    char name[96];
    int major, minor; /* compute capability: sm_90 is 9, 0 */
    size_t bytes;     /* of memory */
} ProbedGpu;

typedef struct Probe {
    int count;
    ProbedGpu gpu[PROBE_MOST_GPUS]; /* by ordinal, as device_open takes it */
    int driver, runtime;            /* versions of CUDA, 1000 major + 10 minor; 0 where unknown */
    char reason[512];               /* why count is 0, and what to do about it */
} Probe;

/* Asks in a throw-away child, once; later calls return what the first one found. Called before any
 * thread is made, and leaves this process free to fork. */
const Probe *device_probe(void);

#endif
