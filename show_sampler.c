/* show_sampler.c: --show-sampler (see show_sampler.h). */
#include "show_sampler.h"

#include "sampler.h"

#include <stdlib.h>
#include <string.h>

/* Samples per rank: DistributedSampler gives every rank the same number and, where that does not
 * come out even, begins again at the front (torch/utils/data/distributed.py, drop_last=False). */
static size_t share_of(const ShowSampler *show)
{
    return (show->samples + (size_t)show->ranks - 1) / (size_t)show->ranks;
}

/* Prints one epoch; `times` [samples] counts how often each sample came in it. */
static void print_epoch(FILE *out, const ShowSampler *show, const Sampler *sampler, int epoch,
                        int *times)
{
    memset(times, 0, sizeof *times * show->samples);
    for (int rank = 0; rank < show->ranks; rank++) {
        fprintf(out, "epoch %d  rank %d:", epoch, rank);
        for (size_t i = 0; i < share_of(show); i++) {
            size_t position = (size_t)rank + i * (size_t)show->ranks;
            uint32_t sample = sampler->order[position % show->samples];
            times[sample]++;
            fprintf(out, " %u", sample);
        }
        fprintf(out, "\n");
    }
}

/* What the counts of an epoch prove. */
static void print_proof(FILE *out, const ShowSampler *show, const int *times)
{
    size_t missing = 0, more = 0;
    for (size_t i = 0; i < show->samples; i++) {
        missing += times[i] == 0;
        more += times[i] > 1 ? (size_t)(times[i] - 1) : 0;
    }
    if (missing > 0)
        fprintf(out, "         %zu of %zu samples never came\n", missing, show->samples);
    else if (more > 0)
        fprintf(out,
                "         every sample came; %zu came again, to give each of %d ranks %zu: PyTorch "
                "pads\n",
                more, show->ranks, share_of(show));
    else
        fprintf(out, "         each of the %zu samples came exactly once\n", show->samples);
}

Error show_sampler(FILE *out, const ShowSampler *show)
{
    Sampler sampler;
    TRY(sampler_open(&sampler, show->samples, show->seed));
    int *times = calloc(show->samples, sizeof *times);
    uint32_t *first = calloc(show->samples, sizeof *first);
    if (!times || !first) {
        free(times);
        free(first);
        sampler_close(&sampler);
        return error_make("no memory for %zu samples", show->samples);
    }
    memcpy(first, sampler.order, sizeof *first * show->samples);
    bool repeated = show->epochs > 1;
    for (int epoch = 0; epoch < show->epochs; epoch++) {
        if (show->set_epoch)
            sampler_set_epoch(&sampler, (uint64_t)epoch);
        repeated = repeated && memcmp(first, sampler.order, sizeof *first * show->samples) == 0;
        print_epoch(out, show, &sampler, epoch, times);
        print_proof(out, show, times);
    }
    if (repeated && show->samples > 1)
        fprintf(out,
                "Every epoch has the same order: set_epoch was forgotten, so each rank sees the "
                "same\nsamples in the same order again and again.\n");
    else if (show->epochs > 1)
        fprintf(out, "Every epoch has an order of its own: the seed plus the epoch's number makes "
                     "it, on\nevery rank alike, so nothing needs to be sent.\n");
    free(times);
    free(first);
    sampler_close(&sampler);
    return NULL;
}
