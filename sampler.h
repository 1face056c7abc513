/* sampler.h: the order of an epoch, and how a batch is split over devices: PyTorch's
 * DistributedSampler and torch.chunk.
 */
#ifndef TRAINER_SAMPLER_H
#define TRAINER_SAMPLER_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* What DDP does when a rank has fewer batches than the others. */
typedef enum {
    UNEVEN_ERROR, /* ends before the first step */
    UNEVEN_JOIN,  /* that rank answers the others with zeros, as in PyTorch's join */
    UNEVEN_HANG   /* the mistake: the others wait for it */
} OnUneven;

/* The order of `count` samples in one epoch: order[position] is a sample. Every rank computes the
 * same order from the same seed, so nothing needs to be sent. */
typedef struct Sampler {
    size_t count;
    uint64_t seed;
    uint32_t *order; /* [count] */
} Sampler;

/* Starts with epoch 0's order. Freed by sampler_close. `count` may be 0. */
Error sampler_open(Sampler *sampler, size_t count, uint64_t seed);
void sampler_close(Sampler *sampler);

/* The order of DistributedSampler(shuffle=True, seed=seed) after set_epoch(epoch): torch.randperm
 * with a generator seeded with seed + epoch (torch/utils/data/distributed.py). */
void sampler_set_epoch(Sampler *sampler, uint64_t epoch);

/* Rows that torch.chunk(devices) gives device `device` of a batch of `rows`: ceil(rows / devices)
 * to each while there are any left, so that the last devices may get none. */
size_t sampler_chunk(size_t rows, int devices, int device);

#endif
