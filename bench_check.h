/* bench_check.h: the numbers that --mode=bench sends round, and what must have become of them.
 *
 * A number depends on the rank and on the place, so that a piece which is missing, doubled or in
 * the wrong place shows. They are small whole numbers: sums of them are exact in any order.
 */
#ifndef TRAINER_BENCH_CHECK_H
#define TRAINER_BENCH_CHECK_H

#include <stddef.h>

typedef enum {
    BENCH_ALL_REDUCE,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_REDUCE_SCATTER,
    BENCH_WHATS
} BenchWhat;

/* "all_reduce" and so on */
const char *bench_name(BenchWhat what);

/* A collective on a buffer of about `bytes`: the elements that comm.h calls its count, and the
 * bytes that nccl-tests calls its size. all_gather and reduce_scatter have a part of `count`
 * elements for each rank, in whole multiples of 16 bytes; their size is that of all parts. At least
 * one element. */
typedef struct BenchSize {
    size_t count, bytes;
} BenchSize;
BenchSize bench_size(BenchWhat what, size_t bytes, int ranks);

/* Elements that a rank puts in before, and has afterwards. */
size_t bench_inputs(BenchWhat what, size_t count, int ranks);
size_t bench_outputs(BenchWhat what, size_t count, int ranks);

/* Bus bandwidth is so many times the algorithm's bandwidth size / time: what the busiest link would
 * have carried at best (nccl-tests, doc/PERFORMANCE.md). Comparable over any number of ranks. */
double bench_bus_factor(BenchWhat what, int ranks);

/* Writes what `rank` puts into elements `first` ... `first` + `elements` - 1. */
void bench_fill(float *numbers, size_t first, size_t elements, int rank);

/* How many of elements `first` ... of what `rank` has after the collective (sums; broadcast from
 * rank 0) are wrong. */
size_t bench_wrong(BenchWhat what, const float *numbers, size_t first, size_t elements,
                   size_t count, int rank, int ranks);

#endif
