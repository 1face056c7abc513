/* test_ladder.c: what the JSON says of a ladder, from step times and weights that are made up here.
 */
#include "report/ladder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 60, TURN = 6, WEIGHTS = 8, MOST_RUNS = 8 };

static Plan plan;
static Measured measured[MOST_RUNS];
static StepRecord records[MOST_RUNS][STEPS];
static float weights[MOST_RUNS][WEIGHTS];
static char group; /* only whether a run has one is asked */

/* A run whose steps take `ms`, but every second turn twice as long, as on a busy machine: what
 * counts is the turn beside it. */
static void add(RunKind kind, Rung rung, double ms, double bucket_mb, bool sweep)
{
    int index = plan.runs++;
    Run *run = &plan.run[index];
    *run = (Run){
        .kind = kind,
        .devices = kind == RUN_SINGLE ? 1 : 2,
        .rung = rung,
        .bucket_mb = bucket_mb,
        .sweep = sweep,
        .records = records[index],
        .final_weights = weights[index],
        .group = kind == RUN_DDP || kind == RUN_DDP_NO_OVERLAP ? (Group *)&group : NULL,
    };
    memset(records[index], 0, sizeof records[index]);
    memset(weights[index], 0, sizeof weights[index]);
    for (int step = 0; step < STEPS; step++) {
        records[index][step].measured = step % TURN != 0;
        records[index][step].step_ms = (float)(ms * (step / TURN % 2 ? 2 : 1));
    }
    assert_true(measured_init(&measured[index], &plan, run));
}

static cJSON *climb(void)
{
    double *scratch = malloc(sizeof *scratch * 3 * STEPS);
    assert_non_null(scratch);
    cJSON *ladder = ladder_json(&plan, measured, scratch);
    free(scratch);
    return ladder;
}

static int set_up(void **state)
{
    (void)state;
    plan = (Plan){.config = {.total_steps = STEPS, .turn_steps = TURN, .evaluations = 1},
                  .layout = {.arena_count = WEIGHTS}};
    add(RUN_SINGLE, RUNG_ONE_DEVICE, 12, 0, false);
    add(RUN_DDP_NO_OVERLAP, RUNG_PER_TENSOR, 10, 0, false);
    add(RUN_DDP_NO_OVERLAP, RUNG_ONE_BUCKET, 5, 2, false);
    add(RUN_DDP, RUNG_PER_TENSOR_OVERLAPPED, 8, 0, false);
    add(RUN_DDP, RUNG_BUCKETS_OVERLAPPED, 8, 25, false);
    add(RUN_DDP, RUNG_NONE, 9, 0, true);
    add(RUN_DDP, RUNG_NONE, 6, 1, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < plan.runs; i++)
        measured_free(&measured[i]);
    return 0;
}

static void assert_gain(const cJSON *entry, const char *name, double percent)
{
    const cJSON *gain = cJSON_GetObjectItem(entry, name);
    assert_float_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(gain, "median")), percent, 1e-4);
    assert_float_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(gain, "low")), percent, 1e-4);
    assert_float_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(gain, "high")), percent, 1e-4);
    assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(gain, "confidence")) >= 0.95);
    assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(gain, "pairs")), STEPS / TURN);
}

static void gains_are_over_the_rung_before(void **state)
{
    (void)state;
    static const double percent[] = {20, 100, -37.5, 0};
    cJSON *ladder = climb(), *rungs = cJSON_GetObjectItem(ladder, "rungs");
    assert_int_equal(cJSON_GetArraySize(rungs), 4);
    for (int i = 0; i < 4; i++) {
        const cJSON *rung = cJSON_GetArrayItem(rungs, i);
        assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(rung, "rung")), i + 1);
        assert_gain(rung, "gain_percent", percent[i]);
    }
    assert_gain(ladder, "ddp_gain_percent", 25);
    assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(ladder, "best_rung")), 2);
    assert_gain(ladder, "best_gain_percent", 60);
    cJSON_Delete(ladder);
}

static void the_curve_is_compared_with_its_best(void **state)
{
    (void)state;
    cJSON *ladder = climb(), *sweep = cJSON_GetObjectItem(ladder, "sweep");
    assert_int_equal(cJSON_GetArraySize(sweep), 2);
    assert_gain(cJSON_GetArrayItem(sweep, 0), "best_gain_percent", 50);
    const cJSON *best = cJSON_GetArrayItem(sweep, 1);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(best, "best_gain_percent")));
    assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(best, "bucket_mb")), 1);
    cJSON_Delete(ladder);
}

static void assert_equality(bool (*is)(const cJSON *), double apart)
{
    cJSON *ladder = climb();
    assert_true(is(cJSON_GetObjectItem(ladder, "weights_equal")));
    assert_float_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(ladder, "max_abs_weight_diff")),
                       apart, 1e-9);
    cJSON_Delete(ladder);
}

static bool is_true(const cJSON *item)
{
    return cJSON_IsTrue(item);
}
static bool is_false(const cJSON *item)
{
    return cJSON_IsFalse(item);
}
static bool is_null(const cJSON *item)
{
    return cJSON_IsNull(item);
}

static void one_bit_in_any_run_is_seen(void **state)
{
    (void)state;
    assert_equality(is_true, 0);
    weights[0][3] = 5; /* one device adds up in another order */
    assert_equality(is_true, 0);
    for (int run = 1; run < plan.runs; run++) {
        weights[run][WEIGHTS - 1] = 0.125f;
        assert_equality(is_false, 0.125);
        weights[run][WEIGHTS - 1] = -0.0f; /* equal, but not the same bits */
        assert_equality(is_false, 0);
        weights[run][WEIGHTS - 1] = 0;
    }
}

/* A ring's order depends on where in a buffer a number lies, so on the buckets. */
static void a_ring_of_three_promises_nothing(void **state)
{
    (void)state;
    plan.config.algorithm = COMM_RING;
    weights[2][0] = 0.5f;
    assert_equality(is_false, 0.5); /* two numbers have one sum */
    for (int run = 1; run < plan.runs; run++)
        plan.run[run].devices = 3;
    assert_equality(is_null, 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gains_are_over_the_rung_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_curve_is_compared_with_its_best, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_bit_in_any_run_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_of_three_promises_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
