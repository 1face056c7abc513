/* bench_check.c: the numbers of --mode=bench and the checks on them (see bench_check.h). */
#include "bench_check.h"

/* The numbers of a rank repeat after so many: a prime, so that they do not fall into step with
 * slices, lines and pages. */
#define PERIOD 251

const char *bench_name(BenchWhat what)
{
    static const char *const names[BENCH_WHATS] = {"all_reduce", "all_gather", "broadcast",
                                                   "reduce_scatter"};
    return names[what];
}

static int has_parts(BenchWhat what)
{
    return what == BENCH_ALL_GATHER || what == BENCH_REDUCE_SCATTER;
}

BenchSize bench_size(BenchWhat what, size_t bytes, int ranks)
{
    size_t parts = has_parts(what) ? (size_t)ranks : 1;
    size_t count = bytes / sizeof(float) / parts;
    if (parts > 1 && count > 4)
        count -= count % 4;
    if (count == 0)
        count = 1;
    return (BenchSize){.count = count, .bytes = count * parts * sizeof(float)};
}

size_t bench_inputs(BenchWhat what, size_t count, int ranks)
{
    return what == BENCH_REDUCE_SCATTER ? count * (size_t)ranks : count;
}

size_t bench_outputs(BenchWhat what, size_t count, int ranks)
{
    return what == BENCH_ALL_GATHER ? count * (size_t)ranks : count;
}

double bench_bus_factor(BenchWhat what, int ranks)
{
    double others = (double)(ranks - 1) / ranks;
    return what == BENCH_ALL_REDUCE ? 2 * others : has_parts(what) ? others : 1;
}

/* --- numbers ------------------------------------------------------------------------------ */

/* 1 ... 31 */
static int number_of(int rank, size_t place)
{
    return (int)((place * 7 + (size_t)rank * 13) % 31) + 1;
}

static int sum_of(int ranks, size_t place)
{
    int sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += number_of(rank, place);
    return sum;
}

void bench_fill(float *numbers, size_t first, size_t elements, int rank)
{
    float period[PERIOD];
    for (size_t place = 0; place < PERIOD; place++)
        period[place] = (float)number_of(rank, place);
    size_t place = first % PERIOD;
    for (size_t i = 0; i < elements; i++) {
        numbers[i] = period[place];
        place = place + 1 == PERIOD ? 0 : place + 1;
    }
}

/* Counts the elements that are not those of a period, from `place` on. */
static size_t count_wrong(const float *numbers, size_t elements, const float period[PERIOD],
                          size_t place)
{
    size_t wrong = 0;
    for (size_t i = 0; i < elements; i++) {
        wrong += !(numbers[i] == period[place]); /* true also of NaN */
        place = place + 1 == PERIOD ? 0 : place + 1;
    }
    return wrong;
}

size_t bench_wrong(BenchWhat what, const float *numbers, size_t first, size_t elements,
                   size_t count, int rank, int ranks)
{
    float period[PERIOD];
    if (what == BENCH_ALL_GATHER) { /* a part per rank, each from its beginning */
        size_t wrong = 0;
        for (size_t done = 0; done < elements;) {
            size_t at = (first + done) % count;
            int owner = (int)((first + done) / count);
            size_t here = count - at < elements - done ? count - at : elements - done;
            for (size_t place = 0; place < PERIOD; place++)
                period[place] = (float)number_of(owner, place);
            wrong += count_wrong(numbers + done, here, period, at % PERIOD);
            done += here;
        }
        return wrong;
    }
    for (size_t place = 0; place < PERIOD; place++)
        period[place] =
            (float)(what == BENCH_BROADCAST ? number_of(0, place) : sum_of(ranks, place));
    size_t from = what == BENCH_REDUCE_SCATTER ? (size_t)rank * count : 0;
    return count_wrong(numbers, elements, period, (from + first) % PERIOD);
}
