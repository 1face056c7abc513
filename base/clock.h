/* clock.h: the machine's clock, the same in all processes. */
#ifndef TRAINER_CLOCK_H
#define TRAINER_CLOCK_H

/* CLOCK_MONOTONIC in milliseconds: it never goes back, and has no meaning but its differences. */
double clock_ms(void);

#endif
