/* data.h: images and their labels, from IDX files or generated.
 */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pixels stay the bytes that they are on disk; a batch becomes floats when it is needed. The memory
 * is mapped, so that processes forked later share it. */
typedef struct Images {
    uint8_t *pixels; /* [count, height, width] */
    uint8_t *labels; /* [count], each less than classes */
    size_t count;
    int height, width;
    int classes; /* the largest label plus one */
} Images;

typedef struct Dataset {
    char name[64];   /* "fashion-mnist", "synthetic", or the directory */
    bool substitute; /* the packaged Fashion-MNIST was asked for but is not installed */
    Images train, test;
} Dataset;

/* Loads a data set. `source` is
 *     "fashion-mnist"   the files of Debian's package dataset-fashion-mnist; where they are
 * missing, generated images, with `substitute` set "synthetic"       `samples` generated training
 * images, 28 x 28, ten classes, and a sixth as many for testing; the same for the same seed a
 * directory       of IDX files by their usual names, gzipped or not (train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-...) A file that is truncated, too long, of another kind, or does
 * not match the others is refused: which file, at which byte, what is there and what should be. To
 * be called before threads or forks; no thread is left behind. */
Error data_load(const char *source, size_t samples, uint64_t seed, Dataset *dataset);
void data_free(Dataset *dataset);

/* Images that are only counted, where nothing is computed: `samples` of `pixels` pixels. */
void data_describe(size_t samples, int pixels, int classes, Dataset *dataset);

/* Copies samples into a batch: pixels [count, height * width], labels [count]. */
void data_gather(const Images *images, const uint32_t *samples, size_t count, uint8_t *pixels,
                 uint8_t *labels);

#endif
