/* test_faults.c: what --fail reads, which devices in which steps a fault is for, and that a slow
 * device takes at least twice as long for what it computes, and no longer for anything else. */
#include "base/clock.h"
#include "fault.h"
#include "train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check_read(const char *option, const char *text, FaultKind kind, int rank, int64_t step)
{
    Fault fault = {0};
    assert_null(fault_parse(option, text, &fault));
    assert_int_equal(fault.kind, kind);
    assert_int_equal(fault.rank, rank);
    assert_int_equal(fault.step, step);
    assert_string_equal(fault.option, option);
    assert_string_equal(fault.text, text);
}

static void test_ranks_have_several_names(void **state)
{
    (void)state;
    check_read("fail", "rank2@100", FAULT_KILL, 2, 100);
    check_read("fail", "kill=device0@1", FAULT_KILL, 0, 1);
    check_read("fail", "stop=replica12@7", FAULT_STOP, 12, 7);
    check_read("fail", "slow=boss@123456789", FAULT_SLOW, 0, 123456789);
    check_read("stop", "rank1@3", FAULT_STOP, 1, 3);
    check_read("slow", "rank1@3", FAULT_SLOW, 1, 3);
}

enum { STEPS = 4, DEVICES = 2 };

/* A run with one worker, device 1 of two. */
typedef struct Fixture {
    Plan plan;
    Run *run;
    StepRecord records[STEPS];
    LaneShared lanes[DEVICES];
    Worker worker;
    Job job;
} Fixture;

static Fixture *set_up(Fault fault, RunKind kind, int runs)
{
    static Fixture fixture;
    memset(&fixture, 0, sizeof fixture);
    Error error = NULL;
    fixture.plan.config = (Config){.fault = fault, .first_step = 10, .total_steps = STEPS};
    fixture.plan.runs = runs;
    fixture.run = &fixture.plan.run[0];
    fixture.run->kind = kind;
    fixture.run->lanes = fixture.lanes;
    fixture.run->devices = DEVICES;
    fixture.worker.device = device_open(DEVICE_CPU, 0, false, &error);
    assert_null(error);
    assert_null(timer_open(&fixture.worker.timer, fixture.worker.device, NULL, 1, fixture.records,
                           NULL, NULL));
    fixture.job = (Job){.plan = &fixture.plan,
                        .config = &fixture.plan.config,
                        .run = fixture.run,
                        .rank = 1,
                        .workers = 1,
                        .worker = &fixture.worker};
    return &fixture;
}

static void tear_down(Fixture *fixture)
{
    timer_close(&fixture->worker.timer);
    device_close(fixture->worker.device);
}

static bool armed_in(Fixture *fixture, int64_t step)
{
    fixture->worker.timer.phase_changes = NULL;
    fault_arm(&fixture->job, 0, step);
    return fixture->worker.timer.phase_changes != NULL;
}

static void test_it_is_for_one_device_from_its_step_on(void **state)
{
    (void)state;
    for (int rank = 0; rank < 3; rank++) {
        Fixture *fixture =
            set_up((Fault){.kind = FAULT_SLOW, .rank = rank, .step = 13}, RUN_DDP, 1);
        for (int64_t step = 0; step < STEPS; step++) /* the run's first step is step 11 of all */
            assert_int_equal(armed_in(fixture, step), rank == 1 && step >= 2);
        tear_down(fixture);
    }
    static const struct {
        RunKind kind;
        int runs;
        bool armed;
    } cases[] = {
        {RUN_SINGLE, 1, true}, {RUN_SINGLE, 5, false}, {RUN_LIMIT, 5, false},
        {RUN_DP, 5, true},     {RUN_DDP, 5, true},     {RUN_DDP_NO_OVERLAP, 5, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture *fixture = set_up((Fault){.kind = FAULT_SLOW, .rank = 1, .step = 11}, cases[i].kind,
                                  cases[i].runs);
        assert_int_equal(armed_in(fixture, 0), cases[i].armed);
        tear_down(fixture);
    }
    Fixture *fixture = set_up((Fault){0}, RUN_DDP, 1);
    assert_false(armed_in(fixture, 0));
    tear_down(fixture);
}

static void work_for(double ms)
{
    double until_ms = clock_ms() + ms;
    while (clock_ms() < until_ms) {
    }
}

static void test_a_slow_device_takes_twice_as_long_to_compute(void **state)
{
    (void)state;
    static const Phase phases[] = {
        PHASE_INPUT, PHASE_REPLICATE,    PHASE_SCATTER,  PHASE_FORWARD,  PHASE_GATHER,
        PHASE_LOSS,  PHASE_SCATTER_GRAD, PHASE_BACKWARD, PHASE_TRANSFER, PHASE_UPDATE};
    Fixture *fixture = set_up(
        (Fault){.kind = FAULT_SLOW, .rank = 1, .step = 13, .option = "slow", .text = "rank1@13"},
        RUN_DDP, 1);
    Timer *timer = &fixture->worker.timer;
    for (int64_t step = 0; step < STEPS; step++) {
        timer_begin(timer);
        fault_arm(&fixture->job, 0, step);
        for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
            timer_phase(timer, phases[i]);
            work_for(2);
        }
        timer_end(timer);
        assert_int_equal(fixture->lanes[1].struck, step >= 2);
    }
    timer_collect(timer);
    for (int64_t step = 2; step < STEPS; step++)
        for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
            bool computes = phases[i] == PHASE_INPUT || phases[i] == PHASE_FORWARD ||
                            phases[i] == PHASE_LOSS || phases[i] == PHASE_BACKWARD ||
                            phases[i] == PHASE_UPDATE;
            float ms = fixture->records[step].phase_ms[phases[i]];
            assert_true(ms >= (computes ? 3.999f : 1.999f));
        }
    char text[512];
    fault_explain(&fixture->plan.config.fault, fixture->run, text, sizeof text);
    assert_string_equal(text,
                        "; rank 1 was slow from step 13 on, as asked for with --slow=rank1@13");
    tear_down(fixture);
}

/* Only computing is doubled: of many tries the fastest copy takes what a copy takes. */
static void test_a_slow_device_is_not_slow_to_copy_or_wait(void **state)
{
    (void)state;
    Fixture *fixture = set_up((Fault){.kind = FAULT_SLOW, .rank = 1, .step = 11}, RUN_DDP, 1);
    Timer *timer = &fixture->worker.timer;
    float least = 1e9f;
    for (int tries = 0; tries < 200 && least > 7.5f; tries++) {
        timer->steps = 0;
        memset(fixture->records, 0, sizeof fixture->records);
        timer_begin(timer);
        fault_arm(&fixture->job, 0, 0);
        timer_phase(timer, PHASE_TRANSFER);
        work_for(5);
        timer_end(timer);
        timer_collect(timer);
        float ms = fixture->records[0].phase_ms[PHASE_TRANSFER];
        least = ms < least ? ms : least;
    }
    assert_true(least <= 7.5f);
    tear_down(fixture);
}

static void test_nothing_is_said_of_a_fault_that_has_not_struck(void **state)
{
    (void)state;
    char text[512] = "x";
    Fixture *fixture = set_up(
        (Fault){.kind = FAULT_KILL, .rank = 1, .step = 11, .option = "fail", .text = "rank1@11"},
        RUN_DDP, 1);
    assert_string_equal(fault_explain(&fixture->plan.config.fault, fixture->run, text, sizeof text),
                        "");
    fixture->lanes[1].struck = true;
    assert_string_equal(fault_explain(&fixture->plan.config.fault, fixture->run, text, sizeof text),
                        "; this was asked for with --fail=rank1@11");
    fixture->run->devices = 1; /* another run of the command, without that device */
    assert_string_equal(fault_explain(&fixture->plan.config.fault, fixture->run, text, sizeof text),
                        "");
    tear_down(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_have_several_names),
        cmocka_unit_test(test_it_is_for_one_device_from_its_step_on),
        cmocka_unit_test(test_a_slow_device_takes_twice_as_long_to_compute),
        cmocka_unit_test(test_a_slow_device_is_not_slow_to_copy_or_wait),
        cmocka_unit_test(test_nothing_is_said_of_a_fault_that_has_not_struck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
