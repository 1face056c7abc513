/* plan.h: from the command line to the runs that answer it.
 */
#ifndef TRAINER_PLAN_H
#define TRAINER_PLAN_H

#include "options.h"
#include "run.h"

/* Chooses devices and how they talk: --device=auto takes GPUs where there are some, and says in a
 * line when it has to use the CPU. Sets these fields of `config` only. An Error is the user's to
 * mend. */
Error plan_devices(const Options *options, Config *config);

/* Makes everything that the processes of all runs will find in memory when they begin:
 * configuration, schedule, runs and their groups, shared memory, initial weights. plan->cores and
 * cpus are set before. `checkpoint`: what --load or --resume names, or NULL. plan_free frees it,
 * also after an error. */
Error plan_make(const Options *options, const Dataset *data, const Checkpoint *checkpoint,
                Plan *plan);

#endif
