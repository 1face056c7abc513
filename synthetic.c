/* synthetic.c: generated images (see synthetic.h). */
#include "synthetic.h"

#include "base/random.h"

#include <math.h>

enum { SIDE = 28, CLASSES = 10, VARIANTS = 3, BLOBS = 5, MOST_SHIFT = 2 };

/* Brightness of a pattern, 0 to 1. */
typedef float Pattern[SIDE][SIDE];

/* A sum of soft round spots, the brightest point at 1. */
static void draw_pattern(Random *random, Pattern pattern)
{
    float brightest = 0;
    float x[BLOBS], y[BLOBS], width[BLOBS];
    for (int blob = 0; blob < BLOBS; blob++) {
        x[blob] = random_uniform(random, 5, SIDE - 5);
        y[blob] = random_uniform(random, 5, SIDE - 5);
        width[blob] = random_uniform(random, 1.5f, 4);
    }
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            float sum = 0;
            for (int blob = 0; blob < BLOBS; blob++) {
                float dx = ((float)column - x[blob]) / width[blob];
                float dy = ((float)row - y[blob]) / width[blob];
                sum += expf(-(dx * dx + dy * dy) / 2);
            }
            pattern[row][column] = sum;
            brightest = fmaxf(brightest, sum);
        }
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            pattern[row][column] /= brightest;
}

static float shifted(Pattern pattern, int row, int column)
{
    return row < 0 || row >= SIDE || column < 0 || column >= SIDE ? 0 : pattern[row][column];
}

static int below(Random *random, int limit)
{
    return (int)(random_next(random) % (uint32_t)limit);
}

Error synthetic_make(Images *images, size_t count, uint64_t seed, int part)
{
    TRY(images_map(images, count, SIDE, SIDE));
    images->classes = CLASSES;
    static Pattern patterns[CLASSES][VARIANTS];
    Random random;
    random_seed(&random, seed);
    for (int class = 0; class < CLASSES; class ++)
        for (int variant = 0; variant < VARIANTS; variant++)
            draw_pattern(&random, patterns[class][variant]);

    random_seed(&random, seed ^ (0x9e3779b9u + (uint32_t)part));
    uint8_t *pixel = images->pixels;
    for (size_t i = 0; i < count; i++) {
        int label = below(&random, CLASSES);
        int other = (label + 1 + below(&random, CLASSES - 1)) % CLASSES;
        float *own = &patterns[label][below(&random, VARIANTS)][0][0];
        float *shine = &patterns[other][below(&random, VARIANTS)][0][0];
        float mixed = random_uniform(&random, 0, 0.8f); /* how much of the other class */
        float light = random_uniform(&random, 0.5f, 1);
        int dx = below(&random, 2 * MOST_SHIFT + 1) - MOST_SHIFT;
        int dy = below(&random, 2 * MOST_SHIFT + 1) - MOST_SHIFT;
        images->labels[i] = (uint8_t)label;
        for (int row = 0; row < SIDE; row++)
            for (int column = 0; column < SIDE; column++) {
                float value = shifted((float(*)[SIDE])own, row + dy, column + dx) +
                              mixed * ((float(*)[SIDE])shine)[row][column];
                /* the noise: one random word per pixel, +- a quarter of the range */
                float noise = (float)(random_next(&random) & 0xff) / 512 - 0.25f;
                value = light * value + noise;
                value = value < 0 ? 0 : value > 1 ? 1 : value;
                *pixel++ = (uint8_t)(value * 255);
            }
    }
    return NULL;
}
