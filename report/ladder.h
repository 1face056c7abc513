/* ladder.h: what --mode=ladder found out over its rungs, for the JSON.
 */
#ifndef TRAINER_REPORT_LADDER_H
#define TRAINER_REPORT_LADDER_H

#include "report/measured.h"

/* The member `ladder`. In all of it a gain {median, low, high, confidence, pairs} says how many per
 * cent more steps per second one run does than another, from their turns:
 *
 *   rungs                 [{rung, gain_percent}]: over the rung before; from rung 1 on
 *   ddp_gain_percent      the last rung over the naive one
 *   best_rung             of those that talk, by the median step
 *   best_gain_percent     that rung over the last one; null if it is the last one
 *   sweep                 [{bucket_mb, best_gain_percent}]: the curve's best point over each; null
 *                         for itself
 *   weights_equal         all DDP runs end with the same bits; null where sums are taken in another
 *                         order and equality is not to be expected
 *   max_abs_weight_diff   between any of them and the last rung
 *
 * `measured` has an entry for each run of the plan; `scratch` has room for three times the steps.
 */
cJSON *ladder_json(const Plan *plan, const Measured *measured, double *scratch);

#endif
