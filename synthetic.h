/* synthetic.h: generated images to learn from where no real ones are at hand.
 */
#ifndef TRAINER_SYNTHETIC_H
#define TRAINER_SYNTHETIC_H

#include "data.h"

/* Maps memory for images (data.c); labels and pixels are 0. */
Error images_map(Images *images, size_t count, int height, int width);

/* `count` images of 28 x 28 pixels and ten classes. Each class has three soft patterns; an image is
 * one of its class's patterns, shifted by up to two pixels, with some of another class's shining
 * through, and noise. The patterns depend on the seed only, the images also on `part` (0 for
 * training, 1 for testing), so that what is learned from one part holds for the other. */
Error synthetic_make(Images *images, size_t count, uint64_t seed, int part);

#endif
