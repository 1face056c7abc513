/* ladder.c: the rungs of the ladder compared with each other (see ladder.h). */
#include "report/ladder.h"

#include "report/communication.h"

#include <math.h>
#include <string.h>

typedef struct Ladder {
    const Plan *plan;
    const Measured *measured;
    double *scratch;
} Ladder;

static const Run *find_rung(const Plan *plan, Rung rung)
{
    for (int i = 0; i < plan->runs; i++)
        if (plan->run[i].rung == rung)
            return &plan->run[i];
    return NULL;
}

static double median_ms(const Ladder *ladder, const Run *run)
{
    return ladder->measured[run - ladder->plan->run].median;
}

/* How many per cent more steps per second `run` does than `other`; null if it is the other. */
static void add_gain(cJSON *object, const char *name, const Ladder *ladder, const Run *run,
                     const Run *other)
{
    const Plan *plan = ladder->plan;
    if (run == other) {
        cJSON_AddNullToObject(object, name);
        return;
    }
    size_t steps = (size_t)plan->config.total_steps;
    double *other_ms = ladder->scratch, *run_ms = other_ms + steps, *rest = run_ms + steps;
    size_t turns = measured_turns(plan, &ladder->measured[other - plan->run], other_ms);
    measured_turns(plan, &ladder->measured[run - plan->run], run_ms);
    json_add_interval(object, name, statistics_faster_percent(other_ms, run_ms, turns, rest),
                      turns);
}

static cJSON *rungs_json(const Ladder *ladder)
{
    cJSON *array = cJSON_CreateArray();
    for (int rung = RUNG_PER_TENSOR; rung < RUNGS; rung++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "rung", rung);
        add_gain(object, "gain_percent", ladder, find_rung(ladder->plan, (Rung)rung),
                 find_rung(ladder->plan, (Rung)(rung - 1)));
        cJSON_AddItemToArray(array, object);
    }
    return array;
}

static const Run *best_rung(const Ladder *ladder)
{
    const Run *best = find_rung(ladder->plan, RUNG_BUCKETS_OVERLAPPED);
    for (int rung = RUNG_PER_TENSOR; rung < RUNGS; rung++) {
        const Run *run = find_rung(ladder->plan, (Rung)rung);
        if (median_ms(ladder, run) < median_ms(ladder, best))
            best = run;
    }
    return best;
}

static cJSON *sweep_json(const Ladder *ladder)
{
    const Plan *plan = ladder->plan;
    const Run *best = NULL;
    for (int i = 0; i < plan->runs; i++)
        if (plan->run[i].sweep &&
            (!best || median_ms(ladder, &plan->run[i]) < median_ms(ladder, best)))
            best = &plan->run[i];
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < plan->runs; i++) {
        if (!plan->run[i].sweep)
            continue;
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "bucket_mb", plan->run[i].bucket_mb);
        add_gain(object, "best_gain_percent", ladder, best, &plan->run[i]);
        cJSON_AddItemToArray(array, object);
    }
    return array;
}

/* Every rank adds the same numbers in the same order, whatever the buckets are, unless the order
 * depends on where in a buffer a number lies (communication_sums_in_order). */
static void add_equality(cJSON *object, const Plan *plan)
{
    const Run *ddp = find_rung(plan, RUNG_BUCKETS_OVERLAPPED);
    bool equal = true;
    double apart = 0;
    for (int i = 0; i < plan->runs; i++) {
        const Run *run = &plan->run[i];
        if (!run->group)
            continue;
        equal = equal && memcmp(run->final_weights, ddp->final_weights,
                                sizeof(float) * plan->layout.arena_count) == 0;
        apart = fmax(apart, run_weight_difference(plan, run, ddp));
    }
    if (!config_timing_only(&plan->config) &&
        communication_sums_in_order(&plan->config, ddp->devices))
        cJSON_AddBoolToObject(object, "weights_equal", equal);
    else
        cJSON_AddNullToObject(object, "weights_equal");
    json_add_number(object, "max_abs_weight_diff", config_timing_only(&plan->config) ? NAN : apart);
}

cJSON *ladder_json(const Plan *plan, const Measured *measured, double *scratch)
{
    const Ladder ladder = {plan, measured, scratch};
    const Run *ddp = find_rung(plan, RUNG_BUCKETS_OVERLAPPED), *best = best_rung(&ladder);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToObject(object, "rungs", rungs_json(&ladder));
    add_gain(object, "ddp_gain_percent", &ladder, ddp, find_rung(plan, RUNG_PER_TENSOR));
    cJSON_AddNumberToObject(object, "best_rung", best->rung);
    add_gain(object, "best_gain_percent", &ladder, best, ddp);
    cJSON_AddItemToObject(object, "sweep", sweep_json(&ladder));
    add_equality(object, plan);
    return object;
}
