/* place.h: which cores this program may use, and a core for each device.
 */
#ifndef TRAINER_PLACE_H
#define TRAINER_PLACE_H

#include <stdbool.h>

/* The physical cores that this process may compute on: those its affinity mask allows, each counted
 * once however many hardware threads it has, and no more than the CPU time its cgroup grants
 * (cpu.max). At least 1. */
int place_cores(void);

/* One hardware thread of each of those cores, in order; `most` at most. Returns how many. */
int place_core_list(int *cpus, int most);

/* Pins the calling thread to the core of device `index` when `devices` devices can each have one of
 * their own among `cores` (from place_core_list, taken before anything was pinned); otherwise
 * leaves it to the scheduler. Returns the CPU or -1. Threads made afterwards inherit it. */
int place_pin(const int *cpus, int cores, int index, int devices);

/* Gives the calling thread a name that ps and htop show; 15 characters at most. */
void place_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
