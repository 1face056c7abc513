/* batch.c: from positions in an epoch's order to floats on a device (see batch.h). */
#include "batch.h"

#include <stdlib.h>

int batch_share(const Batch *batch, int rank, int world)
{
    size_t before = (size_t)rank;
    return batch->count <= before
               ? 0
               : (int)((batch->count - before + (size_t)world - 1) / (size_t)world);
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* The position, in a batch of `count`, at which a micro-batch begins. */
static size_t micro_begin(size_t count, int index, int micros, int world)
{
    size_t rows = divide_up(count, (size_t)world); /* of rank 0, which has the most */
    size_t each = rows / (size_t)micros, larger = rows % (size_t)micros, i = (size_t)index;
    size_t begin = (i * each + (i < larger ? i : larger)) * (size_t)world;
    return begin < count ? begin : count;
}

Batch batch_micro(const Batch *batch, int index, int micros, int world)
{
    size_t from = micro_begin(batch->count, index, micros, world);
    size_t to = micro_begin(batch->count, index + 1, micros, world);
    Batch micro = *batch;
    micro.begin += from;
    micro.count = to - from;
    return micro;
}

int batch_micro_rows(int samples, int micros, int world)
{
    size_t share = divide_up((size_t)samples, (size_t)world);
    return (int)divide_up(share, (size_t)micros);
}

Error feed_open(Feed *feed, Device *device, int most_rows, size_t pixels)
{
    *feed = (Feed){.device = device, .most_rows = most_rows, .pixels = pixels};
    size_t rows = (size_t)most_rows;
    TRY(device_alloc(device, rows * pixels, (void **)&feed->device_pixels));
    TRY(device_alloc(device, rows, (void **)&feed->labels));
    /* A CPU's memory is the host's: samples are gathered right into it. */
    feed->direct = device_shares_host_memory(device);
    feed->host_pixels = feed->direct ? feed->device_pixels : malloc(rows * pixels);
    feed->host_labels = feed->direct ? feed->labels : malloc(rows);
    feed->host_samples = malloc(rows * sizeof *feed->host_samples);
    if (!feed->host_pixels || !feed->host_labels || !feed->host_samples)
        return error_make("no memory for a batch of %d samples", most_rows);
    return NULL;
}

void feed_close(Feed *feed)
{
    if (!feed->direct) {
        free(feed->host_pixels);
        free(feed->host_labels);
    }
    free(feed->host_samples);
    *feed = (Feed){0};
}

int feed_load(Feed *feed, const Batch *batch, int first, int last, int world, float *input)
{
    size_t rows = 0;
    for (int rank = first; rank < last; rank++)
        for (size_t at = (size_t)rank; at < batch->count; at += (size_t)world) {
            size_t position = batch->begin + at;
            feed->host_samples[rows++] = batch->order ? batch->order[position] : (uint32_t)position;
        }
    device_host_gathers(feed->device, (int)rows);
    if (!device_is_timing_only(feed->device))
        data_gather(batch->images, feed->host_samples, rows, feed->host_pixels, feed->host_labels);
    if (!feed->direct) {
        device_upload(feed->device, feed->device_pixels, feed->host_pixels, rows * feed->pixels);
        device_upload(feed->device, feed->labels, feed->host_labels, rows);
    }
    device_bytes_to_float(feed->device, input, feed->device_pixels, rows * feed->pixels);
    return (int)rows;
}
