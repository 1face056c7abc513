/* show_sampler.h: who gets which sample: PyTorch's DistributedSampler on a few samples.
 */
#ifndef TRAINER_SHOW_SAMPLER_H
#define TRAINER_SHOW_SAMPLER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ShowSampler {
    size_t samples;
    int ranks;
    int epochs;
    uint64_t seed;
    bool set_epoch; /* false: the mistake of forgetting it */
} ShowSampler;

/* Prints each rank's samples in each epoch, and counts: that each sample came once, or how many
 * came twice because the ranks' shares must be equal in number; and whether the epochs differ. */
Error show_sampler(FILE *out, const ShowSampler *show);

#endif
