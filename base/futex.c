/* futex.c: spin, then sleep in the kernel (see futex.h). */
#include "base/futex.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps are cut into slices. One that took much longer than asked for means that the process was
 * stopped meanwhile, and only a slice's worth is charged against the time-out. */
#define SLICE_MS 100.0

/* Tells the core that this is a waiting loop, which frees its resources for its other thread. */
static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool reached(uint32_t value, uint32_t target)
{
    return (int32_t)(value - target) >= 0;
}

bool word_reached(const Word *word, uint32_t target)
{
    return reached(atomic_load_explicit(&word->value, memory_order_acquire), target);
}

/* The value is written before the sleepers are counted, and a sleeper counts itself before it looks
 * at the value once more (both sequentially consistent): one of the two sees the other. */
static void wake(Word *word)
{
    if (atomic_load(&word->sleepers) > 0)
        syscall(SYS_futex, &word->value, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void word_set(Word *word, uint32_t value)
{
    atomic_store(&word->value, value);
    wake(word);
}

uint32_t word_add(Word *word)
{
    uint32_t value = atomic_fetch_add(&word->value, 1) + 1;
    wake(word);
    return value;
}

static bool spin(Word *word, uint32_t target, double spin_us)
{
    if (word_reached(word, target))
        return true;
    if (spin_us <= 0)
        return false;
    double end_ms = clock_ms() + spin_us * 1e-3;
    do {
        for (int i = 0; i < 16; i++) {
            if (word_reached(word, target))
                return true;
            pause_core();
        }
    } while (clock_ms() < end_ms);
    return false;
}

bool word_wait(Word *word, uint32_t target, double spin_us, double timeout_s)
{
    if (spin(word, target, spin_us))
        return true;

    const struct timespec slice = {.tv_nsec = (long)(SLICE_MS * 1e6)};
    double awake_ms = 0;
    bool arrived = false;
    atomic_fetch_add(&word->sleepers, 1);
    for (;;) {
        uint32_t value = atomic_load(&word->value);
        arrived = reached(value, target);
        if (arrived || (timeout_s > 0 && awake_ms >= timeout_s * 1e3))
            break;
        double from_ms = clock_ms();
        syscall(SYS_futex, &word->value, FUTEX_WAIT, value, &slice, NULL, 0);
        double slept_ms = clock_ms() - from_ms;
        awake_ms += slept_ms < 2 * SLICE_MS ? slept_ms : SLICE_MS;
    }
    atomic_fetch_sub(&word->sleepers, 1);
    return arrived;
}
