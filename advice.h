/* advice.h: what bounds the step on virtual devices, and which bucket size suits it: found by
 * trying. Calculated runs cost next to nothing, so the same run is repeated on hardware that lacks
 * one cost at a time, and with other buckets.
 */
#ifndef TRAINER_ADVICE_H
#define TRAINER_ADVICE_H

#include "options.h"

#include <cjson/cJSON.h>

/* Adds "advice" to the report of a command on virtual devices, for the largest number of devices:
 *
 *     "devices"
 *     "dp", "ddp"             of the two modes, those that ran:
 *         "step_ms"           the run that is judged
 *         "bound_by"          the cost without which the step would be shortest; "nothing" if
 *                             none of them matters
 *         "without_ms"        the step without each cost: "computing", "the boss" (what it computes
 *                             alone), "links", "launches", "loading", "the slowest device"
 *     "ddp" has besides:
 *         "bucket_mb"         the buckets of the run that is judged
 *         "buckets"           [{"bucket_mb", "step_ms"}]
 *         "best_bucket_mb"    "bucket_mb" if its step is within 1 % of the shortest; else the
 *                             smallest whose step is
 *
 * Reports of real devices, of one device and of slowed ones (--slow) stay as they are. If a run
 * is interrupted or fails there is no advice, and `*status` becomes its exit status. An Error says
 * why a run was not possible. */
Error advice_add(const Options *options, cJSON *report, int *status);

#endif
