/* random.c: MT19937 (see random.h). */
#include "base/random.h"

#include <math.h>

void random_seed(Random *random, uint64_t seed)
{
    uint32_t *state = random->state;
    state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < RANDOM_WORDS; i++)
        state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    random->used = RANDOM_WORDS;
}

/* The next 624 words of the recurrence: each from the top bit of one word, the rest of its
 * successor, and the word 397 further on. */
static void refill(Random *random)
{
    uint32_t *state = random->state;
    for (int i = 0; i < RANDOM_WORDS; i++) {
        uint32_t mixed = (state[i] & 0x80000000u) | (state[(i + 1) % RANDOM_WORDS] & 0x7fffffffu);
        uint32_t twist = mixed & 1 ? 0x9908b0dfu : 0;
        state[i] = state[(i + 397) % RANDOM_WORDS] ^ (mixed >> 1) ^ twist;
    }
    random->used = 0;
}

uint32_t random_next(Random *random)
{
    if (random->used == RANDOM_WORDS)
        refill(random);
    uint32_t word = random->state[random->used++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

float random_uniform(Random *random, float low, float high)
{
    float share = (float)(random_next(random) & 0xffffff) * 0x1p-24f;
    return fmaf(share, high - low, low);
}
