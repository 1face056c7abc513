/* measured.h: the steps of a run that count, and what the JSON takes from them. For report/ only.
 */
#ifndef TRAINER_REPORT_MEASURED_H
#define TRAINER_REPORT_MEASURED_H

#include "report/statistics.h"
#include "run.h"

#include <cjson/cJSON.h>

/* The steps of a run that count, by number, and their times in the order of the steps. */
typedef struct Measured {
    size_t count;
    int64_t *step;
    double *ms;     /* of each step */
    double *sorted; /* the same, ascending */
    double *scratch;
    double median;
    Range middle;
    int64_t typical; /* the step nearest to the median */
} Measured;

/* False without memory; then there is nothing to free. */
bool measured_init(Measured *measured, const Plan *plan, const Run *run);
void measured_free(Measured *measured);

/* Mean of a phase over the middle half of the measured steps, on one device. */
double measured_phase_ms(const Plan *plan, const Run *run, const Measured *measured, int device,
                         Phase phase);

/* The median step time of each turn: measurements that lie next to each other in time are compared
 * with each other. `medians` has room for all steps. Returns the number of turns with measured
 * steps, which all runs of a plan share. */
size_t measured_turns(const Plan *plan, const Measured *measured, double *medians);

/* The largest difference between two runs' weights at the end. */
double run_weight_difference(const Plan *plan, const Run *run, const Run *other);

/* A number, or null for one that does not exist. */
void json_add_number(cJSON *object, const char *name, double value);

/* {median, low, high, confidence, pairs} */
void json_add_interval(cJSON *object, const char *name, MedianInterval interval, size_t pairs);

#endif
