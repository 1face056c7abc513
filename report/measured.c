/* measured.c: which steps count, and their times (see measured.h). */
#include "report/measured.h"

#include <math.h>
#include <stdlib.h>

void measured_free(Measured *measured)
{
    free(measured->step);
    free(measured->ms);
    free(measured->sorted);
    free(measured->scratch);
}

/* How long a step took: on the boss, on rank 0, or, where nobody waits for anybody, on average. */
static double step_duration(const Plan *plan, const Run *run, int64_t step)
{
    if (run->kind != RUN_LIMIT)
        return run_records(plan, run, 0)[step].step_ms;
    double sum = 0;
    for (int device = 0; device < run->recorded; device++)
        sum += run_records(plan, run, device)[step].step_ms;
    return sum / run->recorded;
}

bool measured_init(Measured *measured, const Plan *plan, const Run *run)
{
    size_t steps = (size_t)plan->config.total_steps;
    *measured = (Measured){
        .step = malloc(sizeof *measured->step * steps),
        .ms = malloc(sizeof *measured->ms * steps),
        .sorted = malloc(sizeof *measured->sorted * steps),
        .scratch = malloc(sizeof *measured->scratch * steps),
    };
    if (!measured->step || !measured->ms || !measured->sorted || !measured->scratch) {
        measured_free(measured);
        return false;
    }
    const StepRecord *records = run_records(plan, run, 0);
    for (int64_t step = 0; step < plan->config.total_steps; step++) {
        if (!records[step].measured)
            continue;
        measured->step[measured->count] = step;
        measured->ms[measured->count] = step_duration(plan, run, step);
        measured->sorted[measured->count] = measured->ms[measured->count];
        measured->count++;
    }
    statistics_sort(measured->sorted, measured->count);
    measured->median = statistics_median(measured->sorted, measured->count);
    measured->middle = statistics_middle_half(measured->sorted, measured->count);
    double nearest = INFINITY;
    measured->typical = -1;
    for (size_t i = 0; i < measured->count; i++) {
        double distance = fabs(measured->ms[i] - measured->median);
        if (distance < nearest) {
            nearest = distance;
            measured->typical = measured->step[i];
        }
    }
    return true;
}

double measured_phase_ms(const Plan *plan, const Run *run, const Measured *measured, int device,
                         Phase phase)
{
    const StepRecord *records = run_records(plan, run, device);
    for (size_t i = 0; i < measured->count; i++)
        measured->scratch[i] = records[measured->step[i]].phase_ms[phase];
    return statistics_mean_within(measured->scratch, measured->ms, measured->count,
                                  measured->middle);
}

size_t measured_turns(const Plan *plan, const Measured *measured, double *medians)
{
    size_t turns = 0, i = 0;
    for (int64_t step = 0; step < plan->config.total_steps;) {
        int64_t end = config_turn_end(&plan->config, step);
        size_t count = 0;
        for (; i < measured->count && measured->step[i] < end; i++)
            measured->scratch[count++] = measured->ms[i];
        statistics_sort(measured->scratch, count);
        if (count > 0)
            medians[turns++] = statistics_median(measured->scratch, count);
        step = end;
    }
    return turns;
}

double run_weight_difference(const Plan *plan, const Run *run, const Run *other)
{
    double most = 0;
    if (config_timing_only(&plan->config))
        return NAN;
    for (size_t i = 0; i < plan->layout.arena_count; i++)
        most = fmax(most, fabs((double)run->final_weights[i] - (double)other->final_weights[i]));
    return most;
}

void json_add_number(cJSON *object, const char *name, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

void json_add_interval(cJSON *object, const char *name, MedianInterval interval, size_t pairs)
{
    cJSON *percent = cJSON_AddObjectToObject(object, name);
    json_add_number(percent, "median", interval.median);
    json_add_number(percent, "low", interval.low);
    json_add_number(percent, "high", interval.high);
    json_add_number(percent, "confidence", interval.confidence);
    cJSON_AddNumberToObject(percent, "pairs", (double)pairs);
}
