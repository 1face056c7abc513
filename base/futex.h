/* futex.h: waiting for a number in memory to reach a value: the one way in which threads and
 * processes of this program wait for each other.
 *
 * A Word only grows. Who advances it wakes whoever sleeps on it; who waits first looks again and
 * again for a moment (a hand-over between two running cores takes under a microsecond, waking a
 * sleeper some fifty), then sleeps in the kernel. It works in private and in shared memory, and
 * nobody owns it, so nobody's death leaves it locked.
 */
#ifndef TRAINER_FUTEX_H
#define TRAINER_FUTEX_H

#include <stdbool.h>
#include <stdint.h>

/* Alone on its cache line, so that waiting for one word does not disturb the others. */
typedef struct Word {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} Word;

/* True when `value` has reached `target`. Both may have wrapped around: they are compared by their
 * difference, which is under 2^31. */
bool word_reached(const Word *word, uint32_t target);

/* Sets the value (the word has one writer) or adds one to it (it may have many; returns the new
 * value), and wakes whoever sleeps on it. */
void word_set(Word *word, uint32_t value);
uint32_t word_add(Word *word);

/* Waits until `word` has reached `target`. Looks for `spin_us` microseconds before it sleeps.
 * `timeout_s`: gives up and returns false after so much time awake; 0 waits for ever. Time during
 * which this process or the whole machine was stopped does not count. */
bool word_wait(Word *word, uint32_t target, double spin_us, double timeout_s);

#endif
