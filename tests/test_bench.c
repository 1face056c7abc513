/* test_bench.c: the checks of --mode=bench on results that are right and wrong, the sizes and
 * factors of nccl-tests, and what the tables say in the end. */
#include "bench_check.h"
#include "bench_collectives.h"
#include "report/screen_bench.h"
#include "report/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3, COUNT = 1000 };

/* --- the checker -------------------------------------------------------------------------- */

/* What a rank must have, computed from what all put in, element by element. */
static void right_result(BenchWhat what, int rank, float *result)
{
    static float inputs[RANKS][RANKS * COUNT];
    size_t elements = bench_inputs(what, COUNT, RANKS);
    for (int r = 0; r < RANKS; r++)
        bench_fill(inputs[r], 0, elements, r);
    size_t outputs = bench_outputs(what, COUNT, RANKS);
    for (size_t i = 0; i < outputs; i++) {
        size_t from = what == BENCH_REDUCE_SCATTER ? (size_t)rank * COUNT + i : i;
        if (what == BENCH_BROADCAST)
            result[i] = inputs[0][i];
        else if (what == BENCH_ALL_GATHER)
            result[i] = inputs[i / COUNT][i % COUNT];
        else
            result[i] = inputs[0][from] + inputs[1][from] + inputs[2][from];
    }
}

static void test_right_results_are_right(void **state)
{
    (void)state;
    float result[RANKS * COUNT];
    for (BenchWhat what = BENCH_ALL_REDUCE; what < BENCH_WHATS; what++)
        for (int rank = 0; rank < RANKS; rank++) {
            right_result(what, rank, result);
            size_t outputs = bench_outputs(what, COUNT, RANKS);
            assert_int_equal(bench_wrong(what, result, 0, outputs, COUNT, rank, RANKS), 0);
            /* in pieces, as a rank checks a large buffer */
            for (size_t first = 0; first < outputs; first += 333) {
                size_t here = outputs - first < 333 ? outputs - first : 333;
                assert_int_equal(bench_wrong(what, result + first, first, here, COUNT, rank, RANKS),
                                 0);
            }
        }
}

static void test_a_planted_wrong_element_is_found(void **state)
{
    (void)state;
    float result[RANKS * COUNT];
    for (BenchWhat what = BENCH_ALL_REDUCE; what < BENCH_WHATS; what++)
        for (int rank = 0; rank < RANKS; rank++) {
            size_t outputs = bench_outputs(what, COUNT, RANKS);
            right_result(what, rank, result);
            result[0] += 1;
            result[outputs / 2] = NAN;
            result[outputs - 1] = -result[outputs - 1];
            assert_int_equal(bench_wrong(what, result, 0, outputs, COUNT, rank, RANKS), 3);
        }
}

/* What goes wrong in a collective: it is not done, a rank is left out, or pieces are exchanged. */
static void test_the_usual_mistakes_are_found(void **state)
{
    (void)state;
    float result[RANKS * COUNT], mine[COUNT], other[COUNT];
    bench_fill(mine, 0, COUNT, 1);
    assert_true(bench_wrong(BENCH_ALL_REDUCE, mine, 0, COUNT, COUNT, 1, RANKS) > COUNT * 9 / 10);
    assert_true(bench_wrong(BENCH_BROADCAST, mine, 0, COUNT, COUNT, 1, RANKS) > COUNT * 9 / 10);
    bench_fill(other, 0, COUNT, 0);
    for (int i = 0; i < COUNT; i++)
        mine[i] += other[i]; /* rank 2 is missing */
    assert_int_equal(bench_wrong(BENCH_ALL_REDUCE, mine, 0, COUNT, COUNT, 1, RANKS), COUNT);
    right_result(BENCH_ALL_GATHER, 0, result);
    memcpy(mine, result, sizeof mine);
    memcpy(result, result + COUNT, sizeof mine);
    memcpy(result + COUNT, mine, sizeof mine);
    assert_true(bench_wrong(BENCH_ALL_GATHER, result, 0, RANKS * COUNT, COUNT, 0, RANKS) > COUNT);
    right_result(BENCH_REDUCE_SCATTER, 0, result);
    assert_true(bench_wrong(BENCH_REDUCE_SCATTER, result, 0, COUNT, COUNT, 1, RANKS) > COUNT / 2);
    /* a slice that lies a line of 16 elements too far on */
    right_result(BENCH_ALL_REDUCE, 0, result);
    assert_true(bench_wrong(BENCH_ALL_REDUCE, result + 16, 0, 500, COUNT, 0, RANKS) > 250);
}

/* --- sizes -------------------------------------------------------------------------------- */

static void test_sizes_are_those_of_nccl_tests(void **state)
{
    (void)state;
    BenchSize size = bench_size(BENCH_ALL_REDUCE, 4096, 3);
    assert_int_equal(size.count, 1024);
    assert_int_equal(size.bytes, 4096);
    size = bench_size(BENCH_ALL_GATHER, 4096, 2);
    assert_int_equal(size.count, 512);
    assert_int_equal(size.bytes, 4096);
    /* 1024 / 3 = 341, in whole multiples of four: 340 */
    size = bench_size(BENCH_REDUCE_SCATTER, 4096, 3);
    assert_int_equal(size.count, 340);
    assert_int_equal(size.bytes, 4080);
    size = bench_size(BENCH_ALL_GATHER, 4, 8);
    assert_int_equal(size.count, 1);
    assert_int_equal(size.bytes, 32);

    Bench bench;
    bench_fill_sizes(&bench, 4096, 64 << 20);
    assert_int_equal(bench.sizes, 8);
    assert_int_equal(bench.size[7], 64 << 20);
    bench_fill_sizes(&bench, 1000, 1000);
    assert_int_equal(bench.sizes, 1);
}

static void test_bus_factors_are_those_of_nccl_tests(void **state)
{
    (void)state;
    assert_true(bench_bus_factor(BENCH_ALL_REDUCE, 4) == 1.5);
    assert_true(bench_bus_factor(BENCH_ALL_GATHER, 4) == 0.75);
    assert_true(bench_bus_factor(BENCH_REDUCE_SCATTER, 4) == 0.75);
    assert_true(bench_bus_factor(BENCH_BROADCAST, 4) == 1);
    assert_true(bench_bus_factor(BENCH_ALL_REDUCE, 1) == 0);
}

/* --- the last line ------------------------------------------------------------------------ */

/* Prints a bench with a row of so many wrong elements; the caller frees the text. */
static char *printed(const char *wrong, const char *complete, bool *passed)
{
    char json[600], *text = NULL;
    size_t size = 0;
    snprintf(json, sizeof json,
             "{\"schema\": 1, \"environment\": {}, \"config\": {\"mode\": \"bench\", \"devices\": "
             "2}, \"results\": [{\"collective\": \"all_reduce\", \"transport\": \"NCCL\", "
             "\"rows\": [{\"size_bytes\": 4096, \"count\": 1024, \"type\": \"float\", \"redop\": "
             "\"sum\", \"time_us\": 2.5, \"algbw_gb_s\": 1.64, \"busbw_gb_s\": 1.64, \"wrong\": "
             "%s}]}], \"complete\": %s}",
             wrong, complete);
    cJSON *object = cJSON_Parse(json);
    assert_non_null(object);
    *passed = screen_bench_passed(object);
    FILE *out = open_memstream(&text, &size);
    assert_null(table_print(out, object, TABLE_BEGINNER, (TableStyle){.columns = 80}));
    fclose(out);
    cJSON_Delete(object);
    return text;
}

static void expect_last_line(const char *wrong, const char *complete, const char *line)
{
    bool passed;
    char *text = printed(wrong, complete, &passed);
    size_t length = strlen(text), wanted = strlen(line);
    assert_true(length > wanted);
    assert_string_equal(text + length - wanted, line);
    assert_int_equal(passed, strstr(line, "OK") != NULL);
    assert_non_null(strstr(text, "        4096         1024    float    sum       2.50     1.64"));
    free(text);
}

static void test_the_last_line(void **state)
{
    (void)state;
    expect_last_line("0", "true", "#\nOK\n");
    expect_last_line("1", "true", "#\nFAILED\n");
    expect_last_line("0", "false", "#\nFAILED\n"); /* a rank died */
    expect_last_line("null", "true", "#\nFAILED\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_results_are_right),
        cmocka_unit_test(test_a_planted_wrong_element_is_found),
        cmocka_unit_test(test_the_usual_mistakes_are_found),
        cmocka_unit_test(test_sizes_are_those_of_nccl_tests),
        cmocka_unit_test(test_bus_factors_are_those_of_nccl_tests),
        cmocka_unit_test(test_the_last_line),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
