/* calibrate.h: --mode=calibrate: measures this machine and writes what it found as a profile, so
 * that virtual devices can stand for its cores.
 */
#ifndef TRAINER_CALIBRATE_H
#define TRAINER_CALIBRATE_H

#include "base/error.h"

/* Measures with a process on each of the `cores` cores (`cpus`), and writes the profile to `path`.
 * An Error says what could not be done; `*status` is the exit status otherwise. */
Error calibrate(const char *path, const int *cpus, int cores, int *status);

#endif
