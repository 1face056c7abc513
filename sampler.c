/* sampler.c: the order of an epoch (see sampler.h). */
#include "sampler.h"

#include "base/random.h"

#include <stdlib.h>

Error sampler_open(Sampler *sampler, size_t count, uint64_t seed)
{
    *sampler = (Sampler){.count = count, .seed = seed};
    sampler->order = malloc(sizeof *sampler->order * (count ? count : 1));
    if (!sampler->order)
        return error_make("no memory for the order of %zu samples", count);
    sampler_set_epoch(sampler, 0);
    return NULL;
}

void sampler_close(Sampler *sampler)
{
    free(sampler->order);
    *sampler = (Sampler){0};
}

/* Fisher and Yates' shuffle from the front, as aten's randperm does it for fewer than 2^32 / 20
 * elements on a CPU (aten/src/ATen/native/TensorFactories.cpp). */
void sampler_set_epoch(Sampler *sampler, uint64_t epoch)
{
    size_t count = sampler->count;
    uint32_t *order = sampler->order;
    Random random;
    random_seed(&random, sampler->seed + epoch);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = 0; i + 1 < count; i++) {
        size_t other = i + random_next(&random) % (count - i);
        uint32_t swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
}

size_t sampler_chunk(size_t rows, int devices, int device)
{
    size_t chunk = (rows + (size_t)devices - 1) / (size_t)devices;
    size_t before = chunk * (size_t)device;
    if (before >= rows)
        return 0;
    return rows - before < chunk ? rows - before : chunk;
}
