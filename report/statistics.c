/* statistics.c: medians, quantiles and an interval for a median (see statistics.h). */
#include "report/statistics.h"

#include <math.h>
#include <stdlib.h>

static const double level = 0.95;

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void statistics_sort(double *values, size_t count)
{
    if (count > 1)
        qsort(values, count, sizeof *values, ascending);
}

double statistics_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : NAN;
}

double statistics_quantile(const double *sorted, size_t count, double p)
{
    if (count == 0)
        return NAN;
    double position = fmin(fmax(p, 0), 1) * (double)(count - 1);
    size_t below = (size_t)position;
    if (below + 1 >= count)
        return sorted[count - 1];
    double part = position - (double)below;
    return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

double statistics_median(const double *sorted, size_t count)
{
    return statistics_quantile(sorted, count, 0.5);
}

Range statistics_middle_half(const double *sorted, size_t count)
{
    if (count == 0)
        return (Range){NAN, NAN};
    size_t away = count / 4;
    return (Range){sorted[away], sorted[count - 1 - away]};
}

double statistics_mean_within(const double *values, const double *keys, size_t count, Range range)
{
    double sum = 0;
    size_t inside = 0;
    for (size_t i = 0; i < count; i++) {
        if (keys[i] >= range.low && keys[i] <= range.high) {
            sum += values[i];
            inside++;
        }
    }
    return inside ? sum / (double)inside : NAN;
}

/* P(Bin(count, 1/2) = successes). By logarithms, as 2^-count is too small for a double from 1075
 * on. */
static double binomial_half(size_t count, size_t successes)
{
    double n = (double)count, k = (double)successes;
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2));
}

MedianInterval statistics_median_interval(const double *sorted, size_t count)
{
    if (count == 0)
        return (MedianInterval){NAN, NAN, NAN, 0};
    size_t cut = 0; /* values left out at each end */
    double outside = 2 * binomial_half(count, 0);
    for (;;) {
        double further = outside + 2 * binomial_half(count, cut + 1);
        if (further > 1 - level || 2 * (cut + 1) >= count)
            break;
        outside = further;
        cut++;
    }
    return (MedianInterval){
        .median = statistics_median(sorted, count),
        .low = sorted[cut],
        .high = sorted[count - 1 - cut],
        .confidence = fmax(0, 1 - outside),
    };
}

MedianInterval statistics_faster_percent(const double *first_ms, const double *second_ms,
                                         size_t count, double *scratch)
{
    for (size_t i = 0; i < count; i++)
        scratch[i] = 100 * (first_ms[i] / second_ms[i] - 1);
    statistics_sort(scratch, count);
    return statistics_median_interval(scratch, count);
}
