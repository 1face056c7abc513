/* test_accumulate.c: how a batch is split into micro-batches: a rank's samples stay its own, in
 * their order, and no micro-batch has more of them than there is room for. */
#include "batch.h"
#include "report/phases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The positions of one rank's share of a batch, as feed_load takes them. */
static size_t share_of(const Batch *batch, int rank, int world, size_t *positions)
{
    size_t rows = 0;
    for (size_t at = (size_t)rank; at < batch->count; at += (size_t)world)
        positions[rows++] = batch->begin + at;
    assert_int_equal(rows, batch_share(batch, rank, world));
    return rows;
}

static void check_split(size_t count, int micros, int world)
{
    const Batch batch = {.begin = 1000, .count = count, .update_count = count, .learn = true};
    size_t whole[64], parts[64], end = batch.begin;
    int most = batch_micro_rows((int)count, micros, world), found_most = 0;
    for (int rank = 0; rank < world; rank++) {
        size_t rows = share_of(&batch, rank, world, whole), found = 0, before = SIZE_MAX;
        for (int i = 0; i < micros; i++) {
            Batch micro = batch_micro(&batch, i, micros, world);
            size_t here = share_of(&micro, rank, world, parts + found);
            assert_true(here <= (size_t)most);
            assert_true(micro.learn && micro.update_count == count);
            assert_true(micro.count <= (size_t)(most * world));
            if (i > 0 && rank == 0) { /* evenly, and nothing after an empty one */
                assert_true(here <= before);
                assert_true(here > 0 || count < (size_t)(micros * world));
            }
            before = rank == 0 && (i == 0 || here > 0) ? here : before;
            found += here;
            found_most = (int)here > found_most ? (int)here : found_most;
            if (rank == 0)
                end += micro.count;
        }
        assert_int_equal(found, rows);
        assert_memory_equal(parts, whole, rows * sizeof *parts);
    }
    assert_int_equal(found_most, most);
    assert_int_equal(end, batch.begin + count);
}

static void test_micro_batches_are_the_ranks_shares_in_their_order(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 60; count++)
        for (int micros = 1; micros <= 12; micros++)
            for (int world = 1; world <= 5; world++)
                check_split(count, micros, world);
}

static void test_one_micro_batch_is_the_batch(void **state)
{
    (void)state;
    const Batch batch = {.begin = 7, .count = 23, .update_count = 24, .learn = true, .slot = 3};
    Batch micro = batch_micro(&batch, 0, 1, 4);
    assert_true(micro.begin == 7 && micro.count == 23 && micro.update_count == 24);
    assert_true(micro.learn && micro.slot == 3);
}

/* --- the stopwatch ------------------------------------------------------------------------ */

enum { MICROS = 5, STEPS = 3 };

static void test_phases_of_micro_batches_add_up_and_their_parts_are_kept(void **state)
{
    (void)state;
    Error error = NULL;
    Device *device = device_open(DEVICE_CPU, 0, false, &error);
    assert_null(error);
    int most = timer_most_marks(MICROS);
    StepRecord records[STEPS] = {0};
    StepPart parts[STEPS * 100];
    assert_true(most <= 100);
    Timer timer;
    assert_null(timer_open(&timer, device, NULL, MICROS, records, parts, NULL));
    for (int step = 0; step < STEPS; step++) {
        timer_begin(&timer);
        for (int i = 0; i < MICROS; i++)
            for (int phase = PHASE_INPUT; phase <= PHASE_REDUCE; phase++) {
                double from_ms = device_host_clock_ms();
                timer_phase(&timer, (Phase)phase);
                while (device_host_clock_ms() < from_ms + 0.01) {
                }
            }
        timer_phase(&timer, PHASE_UPDATE);
        timer_end(&timer);
    }
    timer_collect(&timer);
    for (int step = 0; step < STEPS; step++) {
        const StepRecord *record = &records[step];
        const StepPart *part = parts + step * most;
        double sum = 0, of_parts[PHASES] = {0}, end = 0;
        int forwards = 0;
        for (int i = 0; i < record->parts; i++) {
            if (part[i].phase == PHASE_NONE)
                continue;
            of_parts[part[i].phase] += (double)(part[i].end_ms - part[i].start_ms);
            forwards += part[i].phase == PHASE_FORWARD;
            assert_true((double)part[i].start_ms >= end - 1e-4); /* one after the other */
            end = (double)part[i].end_ms;
        }
        assert_int_equal(forwards, MICROS);
        for (int phase = 0; phase < PHASES; phase++) {
            sum += (double)record->phase_ms[phase];
            assert_float_equal(record->phase_ms[phase], of_parts[phase], 1e-3);
        }
        assert_true(record->phase_ms[PHASE_REDUCE] >= MICROS * 0.0099f);
        assert_true(sum <= (double)record->step_ms + 1e-3); /* no mark was lost */
        assert_true(end <= (double)record->step_ms + 1e-3);
        assert_true(end > 0.9 * sum);
    }
    timer_close(&timer);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_micro_batches_are_the_ranks_shares_in_their_order),
        cmocka_unit_test(test_one_micro_batch_is_the_batch),
        cmocka_unit_test(test_phases_of_micro_batches_add_up_and_their_parts_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
