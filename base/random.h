/* random.h: PyTorch's random numbers on a CPU: the Mersenne Twister MT19937 (Matsumoto and
 * Nishimura, ACM Transactions on Modeling and Computer Simulation 8, 1998), used as
 * at::CPUGeneratorImpl uses it.
 */
#ifndef TRAINER_RANDOM_H
#define TRAINER_RANDOM_H

#include <stdint.h>

#define RANDOM_WORDS 624

typedef struct Random {
    uint32_t state[RANDOM_WORDS];
    int used; /* words of the state that have been given out */
} Random;

/* The stream of torch.manual_seed(seed), which looks at the seed's low 32 bits only
 * (aten/src/ATen/core/MT19937RNGEngine.h). */
void random_seed(Random *random, uint64_t seed);

uint32_t random_next(Random *random);

/* A float in [low, high] as torch's uniform_ makes it (aten/src/ATen/core/TransformationHelper.h):
 * 24 random bits, scaled with one rounding. */
float random_uniform(Random *random, float low, float high);

#endif
