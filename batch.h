/* batch.h: the samples of one update, and bringing a device its share of them, whole or in
 * micro-batches.
 */
#ifndef TRAINER_BATCH_H
#define TRAINER_BATCH_H

#include "data.h"
#include "device/device.h"

/* The samples at positions begin to begin + count - 1 of an order. All ranks hold the same batch
 * and take their own share of it. */
typedef struct Batch {
    const Images *images;
    const uint32_t *order; /* [images->count] position -> sample; NULL: the samples as they lie */
    size_t begin, count;
    size_t update_count; /* samples of the whole update, of which this may be a micro-batch */
    bool learn;          /* false: only loss and correct answers are asked for */
    int slot;            /* where in Worker.stats the loss is added up */
} Batch;

/* How many of the batch's samples are rank r's of `world`: positions r, r + world, ... */
int batch_share(const Batch *batch, int rank, int world);

/* Micro-batch `index` of the `micros` into which `world` ranks split a batch (--accumulate): a run
 * of positions that begins with rank 0's, so that each rank's shares of all micro-batches are, one
 * after the other, its share of the batch. A rank's sizes are those of torch.tensor_split: they
 * differ by one at most, the larger ones first; of more micro-batches than samples, the last ones
 * are empty. */
Batch batch_micro(const Batch *batch, int index, int micros, int world);

/* The most samples that a rank of `world` has in a micro-batch of a batch of `samples`. */
int batch_micro_rows(int samples, int micros, int world);

/* Puts samples on a device: their bytes go up, the device makes floats of them. */
typedef struct Feed {
    Device *device; /* the caller's */
    int most_rows;
    size_t pixels;          /* of an image */
    bool direct;            /* the next two are the device's own memory, not a copy to upload */
    uint8_t *host_pixels;   /* [rows, pixels] */
    uint8_t *host_labels;   /* [rows] */
    uint32_t *host_samples; /* [rows] */
    uint8_t *device_pixels; /* [rows, pixels] */
    uint8_t *labels;        /* [rows], on the device: what the loss needs */
} Feed;

/* Room for up to `most_rows` samples at a time. */
Error feed_open(Feed *feed, Device *device, int most_rows, size_t pixels);
void feed_close(Feed *feed);

/* Brings the shares of ranks `first` to `last` - 1 of `world`, one after the other: `input` [rows,
 * pixels] on the feed's device as floats in 0..1, their labels in feed->labels. Returns the rows.
 */
int feed_load(Feed *feed, const Batch *batch, int first, int last, int world, float *input);

#endif
