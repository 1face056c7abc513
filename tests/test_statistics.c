/* test_statistics.c: medians, quantiles and intervals against values worked out by hand. */
#include "report/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_close(double actual, double expected)
{
    if (!(fabs(actual - expected) <= 1e-12 * fmax(1, fabs(expected))))
        fail_msg("%.17g, expected %.17g", actual, expected);
}

static void sorts_ascending(void **state)
{
    (void)state;
    double values[] = {3, -1, 2, 2, 10};
    const double expected[] = {-1, 2, 2, 3, 10};
    statistics_sort(values, 5);
    for (int i = 0; i < 5; i++)
        assert_close(values[i], expected[i]);
    statistics_sort(values, 0);
}

static void quantiles_interpolate(void **state)
{
    (void)state;
    const double values[] = {10, 20, 40, 80};
    assert_close(statistics_median(values, 1), 10);
    assert_close(statistics_median(values, 2), 15);
    assert_close(statistics_median(values, 3), 20);
    assert_close(statistics_median(values, 4), 30);
    assert_close(statistics_quantile(values, 4, 0), 10);
    assert_close(statistics_quantile(values, 4, 1), 80);
    /* numpy.quantile([10, 20, 40, 80], [0.05, 0.25, 0.95]): positions 0.15, 0.75 and 2.85 */
    assert_close(statistics_quantile(values, 4, 0.05), 11.5);
    assert_close(statistics_quantile(values, 4, 0.25), 17.5);
    assert_close(statistics_quantile(values, 4, 0.95), 74);
    assert_close(statistics_quantile(values, 1, 0.95), 10);
    assert_true(isnan(statistics_median(values, 0)));
}

static void mean_of_nothing_is_unknown(void **state)
{
    (void)state;
    const double values[] = {1, 2, 6};
    assert_close(statistics_mean(values, 3), 3);
    assert_true(isnan(statistics_mean(values, 0)));
}

static void middle_half_drops_a_quarter_at_each_end(void **state)
{
    (void)state;
    const double values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const double low[] = {1, 1, 1, 2, 2, 2, 2, 3}, high[] = {1, 2, 3, 3, 4, 5, 6, 6};
    for (size_t count = 1; count <= 8; count++) {
        Range range = statistics_middle_half(values, count);
        assert_close(range.low, low[count - 1]);
        assert_close(range.high, high[count - 1]);
    }
    assert_true(isnan(statistics_middle_half(values, 0).low));
}

/* Two phases of steps of which one was disturbed: the phases must add up to the middle steps. */
static void phases_of_the_middle_half_add_up(void **state)
{
    (void)state;
    const double forward[] = {1, 2, 1, 3}, backward[] = {2, 2, 90, 2};
    double step[4], sorted[4];
    for (int i = 0; i < 4; i++)
        sorted[i] = step[i] = forward[i] + backward[i]; /* 3, 4, 91, 5 */
    statistics_sort(sorted, 4);
    Range middle = statistics_middle_half(sorted, 4); /* 4 and 5 */
    assert_close(statistics_mean_within(forward, step, 4, middle), 2.5);
    assert_close(statistics_mean_within(backward, step, 4, middle), 2);
    assert_close(statistics_mean_within(step, step, 4, middle), 4.5);
    assert_true(isnan(statistics_mean_within(step, step, 4, (Range){1000, 2000})));
}

static void few_values_admit_what_their_interval_is_worth(void **state)
{
    (void)state;
    const double values[] = {1, 2, 4, 8, 16};
    const double confidence[] = {0, 0.5, 0.75, 0.875, 0.9375};
    for (size_t count = 1; count <= 5; count++) {
        MedianInterval interval = statistics_median_interval(values, count);
        assert_close(interval.low, values[0]);
        assert_close(interval.high, values[count - 1]);
        assert_true(fabs(interval.confidence - confidence[count - 1]) < 1e-12);
    }
    MedianInterval nothing = statistics_median_interval(values, 0);
    assert_true(isnan(nothing.median) && nothing.confidence == 0);
}

/* Ranks and confidence worked out from binomial coefficients in whole numbers (Python). */
static void intervals_are_the_exact_ones(void **state)
{
    (void)state;
    static const struct {
        size_t count, low_rank; /* from 1 */
        double confidence;
    } known[] = {
        {6, 1, 0.96875},         {8, 1, 0.9921875},         {9, 2, 0.9609375},
        {10, 2, 0.978515625},    {12, 3, 0.96142578125},    {20, 6, 0.95861053466796875},
        {100, 40, 0.9647997997}, {2000, 956, 0.9534471795},
    };
    static double values[2000];
    for (size_t i = 0; i < 2000; i++)
        values[i] = (double)(i + 1);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t count = known[i].count;
        MedianInterval interval = statistics_median_interval(values, count);
        assert_close(interval.low, (double)known[i].low_rank);
        assert_close(interval.high, (double)(count + 1 - known[i].low_rank));
        assert_close(interval.median, (double)(count + 1) / 2);
        assert_true(fabs(interval.confidence - known[i].confidence) < 1e-9);
    }
}

/* The interval is the narrowest of its kind: sums of Pascal's triangle, in whole numbers. */
static void intervals_are_the_narrowest(void **state)
{
    (void)state;
    double values[40];
    uint64_t row[41] = {1};
    for (size_t i = 0; i < 40; i++)
        values[i] = (double)(i + 1);
    for (size_t count = 1; count <= 40; count++) {
        for (size_t k = count; k > 0; k--)
            row[k] += row[k - 1];
        size_t rank = 1;
        uint64_t outside = 2; /* of 2^count, both tails, if the k-th smallest is the border */
        uint64_t next = 2 + 2 * row[1];
        while ((double)next <= 0.05 * ldexp(1, (int)count)) {
            outside = next;
            rank++;
            next += 2 * row[rank];
        }
        MedianInterval interval = statistics_median_interval(values, count);
        assert_close(interval.low, (double)rank);
        assert_true(fabs(interval.confidence - (1 - (double)outside * ldexp(1, -(int)count))) <
                    1e-9);
    }
}

static void faster_is_counted_in_steps_per_second(void **state)
{
    (void)state;
    const double dp_ms[] = {12, 10, 13, 12, 12, 11}, ddp_ms[] = {10, 10, 10, 10, 8, 10};
    double scratch[6]; /* 20, 0, 30, 20, 50, 10 % */
    MedianInterval faster = statistics_faster_percent(dp_ms, ddp_ms, 6, scratch);
    assert_close(faster.median, 20);
    assert_close(faster.low, 0);
    assert_true(fabs(faster.high - 50) < 1e-9);
    assert_true(faster.confidence > 0.95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_ascending),
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(mean_of_nothing_is_unknown),
        cmocka_unit_test(middle_half_drops_a_quarter_at_each_end),
        cmocka_unit_test(phases_of_the_middle_half_add_up),
        cmocka_unit_test(few_values_admit_what_their_interval_is_worth),
        cmocka_unit_test(intervals_are_the_exact_ones),
        cmocka_unit_test(intervals_are_the_narrowest),
        cmocka_unit_test(faster_is_counted_in_steps_per_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
