/* bench_mode.h: --mode=bench as the command line asks for it.
 */
#ifndef TRAINER_BENCH_MODE_H
#define TRAINER_BENCH_MODE_H

#include "options.h"

/* Runs it: tables on standard output, JSON where it was asked for. `*status` becomes the exit
 * status. An Error is about options that this machine cannot follow: nothing has run then. */
Error bench_mode(Options *options, int *status);

#endif
