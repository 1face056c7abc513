/* bench_collectives.h: --mode=bench: how fast collectives are, over sizes, in the form of
 * nccl-tests, with every result checked.
 */
#ifndef TRAINER_BENCH_COLLECTIVES_H
#define TRAINER_BENCH_COLLECTIVES_H

#include "base/error.h"
#include "bench_check.h"
#include "comm/comm.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>

/* A collective on one transport; `algorithm` is that of an all-reduce in shared memory. */
typedef struct BenchSection {
    BenchWhat what;
    CommKind transport;
    CommAlgorithm algorithm;
} BenchSection;

enum { BENCH_MOST_SECTIONS = 16, BENCH_MOST_SIZES = 32 };

typedef struct Bench {
    int ranks;
    DeviceKind device_kind;
    int gpus; /* that the ranks are spread over */
    double timeout_s;
    const int *cpus; /* [cores], for pinning */
    int cores;

    BenchSection section[BENCH_MOST_SECTIONS]; /* those on one transport follow each other */
    int sections;
    size_t size[BENCH_MOST_SIZES]; /* bytes, ascending */
    int sizes;
    int64_t warmup; /* operations before the measured ones */
    int64_t steps;  /* measured ones; 0: as many as fit into `line_ms` */
    double line_ms;
} Bench;

/* Sizes from `least` to `most` bytes, each four times the one before. */
void bench_fill_sizes(Bench *bench, size_t least, size_t most);

/* Memory that all ranks together use. */
double bench_memory_bytes(const Bench *bench);

/* Forks the ranks, prints each line to `out` as soon as it is measured, and adds everything to
 * `object` (which has the environment and the configuration already): the list "results", and
 * "complete". `*status` becomes the exit status: 0, 1 if a rank failed or an element was wrong
 * (said on standard error), 128 + signal if interrupted. An Error only when ranks could not be
 * made. */
Error bench_collectives(const Bench *bench, FILE *out, cJSON *object, int *status);

#endif
