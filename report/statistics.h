/* statistics.h: the few statistics that the tables need, as pure functions on arrays of double.
 *
 * Functions that say `sorted` want the values in ascending order (statistics_sort). Without values
 * (count 0) the answer is NAN. Nothing is allocated.
 */
#ifndef TRAINER_STATISTICS_H
#define TRAINER_STATISTICS_H

#include <stddef.h>

/* Values from low to high, both included. */
typedef struct Range {
    double low, high;
} Range;

/* A median and the interval that holds the true median with probability `confidence`. */
typedef struct MedianInterval {
    double median, low, high;
    double confidence; /* at least 0.95, or less where there are too few values for that */
} MedianInterval;

/* Sorts in place, ascending. */
void statistics_sort(double *values, size_t count);

double statistics_mean(const double *values, size_t count);

/* The value below which a share `p` (0 to 1) of the values lies, interpolated linearly between the
 * neighbours of position p * (count - 1), counted from 0: definition 7 of Hyndman and Fan, "Sample
 * quantiles in statistical packages" (The American Statistician 50, 1996), which is also the
 * default of NumPy and R. */
double statistics_quantile(const double *sorted, size_t count, double p);

/* The middle value, or the mean of the two in the middle. */
double statistics_median(const double *sorted, size_t count);

/* The range of the middle half: what is left when a quarter of the values (rounded down) is taken
 * away at each end. Up to three values are all in it. */
Range statistics_middle_half(const double *sorted, size_t count);

/* The mean of values[i] over all i whose keys[i] lies in `range`; NAN if none does. The time of a
 * phase is this, with the durations of the steps as keys and their middle half as range: as every
 * phase is taken from the same steps, the phases add up to the mean duration of those steps. */
double statistics_mean_within(const double *values, const double *keys, size_t count, Range range);

/* The median and its exact distribution-free interval at the level of 95 %.
 *
 * Each value lies below the true median with probability 1/2, so the number that do is binomial and
 * the k-th smallest and k-th largest value enclose it with probability 1 - 2 P(Bin(count, 1/2) <
 * k). The largest k that still gives 95 % is taken (Thompson, "On confidence ranges for the
 * median", Annals of Mathematical Statistics 7, 1936; Conover, "Practical Nonparametric
 * Statistics", 1999, section 3.2). It assumes independent values and nothing about their
 * distribution.
 *
 * Fewer than 6 values cannot give 95 %: then low and high are the smallest and the largest value
 * and `confidence` says what they are worth (1 - 2^(1 - count): 0 for one value, 0.5 for two). */
MedianInterval statistics_median_interval(const double *sorted, size_t count);

/* How many per cent more steps per second the second of two runs does, from paired times of the
 * same number of steps: the median of 100 * (first[i] / second[i] - 1) and its interval. Times are
 * positive. `scratch` holds `count` values. */
MedianInterval statistics_faster_percent(const double *first_ms, const double *second_ms,
                                         size_t count, double *scratch);

#endif
