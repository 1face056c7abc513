/* series.h: several comparisons on virtual devices in one table: a tiny model beside a meaty one,
 * or one model over links of several speeds.
 */
#ifndef TRAINER_SERIES_H
#define TRAINER_SERIES_H

#include "options.h"

#include <cjson/cJSON.h>

/* Whether the options ask for it: a profile without a word on what to train, or a list of speeds or
 * latencies. */
bool series_wanted(const Options *options);

/* Runs the options' mode on virtual devices, timing only, and returns its report, which the caller
 * frees; NULL with `*error` (a wrong usage) or `*status`, the exit status of runs that failed or
 * were interrupted, set. */
cJSON *series_report(Options *options, double start_ms, Error *error, int *status);

/* The result of a report with this mode ("ddp") and number of devices, or NULL. */
const cJSON *series_result(const cJSON *report, const char *mode, double devices);

/* Runs them, prints the table, writes the JSON. `*status` is the exit status; an Error is a wrong
 * usage. */
Error series_run(Options *options, double start_ms, int *status);

/* With --device=cpu and --profile: runs the same comparison on virtual devices, timing only, and
 * adds to each result of `object` what they took, "virtual_ms". */
Error series_beside(const Options *options, cJSON *object);

#endif
