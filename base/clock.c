/* clock.c: the machine's clock (see clock.h). */
#include "base/clock.h"

#include <time.h>

double clock_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}
