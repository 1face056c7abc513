/* communication.h: how DDP's ranks summed their gradients, for the JSON.
 */
#ifndef TRAINER_REPORT_COMMUNICATION_H
#define TRAINER_REPORT_COMMUNICATION_H

#include "run.h"

#include <cjson/cJSON.h>

/* The member `communication` of a DDP run's result, counted in step number `step`: algorithm, and
 * all_reduces, steps (times that a rank has to wait for another; null where nobody can count them),
 * sent_bytes and received_bytes per rank, all of them for parameter gradients only. */
cJSON *communication_json(const Plan *plan, const Run *run, int64_t step);

/* The ranks of DDP sum as DP does, one after another: equal numbers give equal sums. Two numbers
 * give the same sum in either order. */
bool communication_sums_in_order(const Config *config, int devices);

#endif
