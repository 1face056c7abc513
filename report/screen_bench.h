/* screen_bench.h: the tables of --mode=bench, in the form of nccl-tests, from its JSON object.
 *
 * Printed in pieces, since a bench prints each line as soon as it is measured:
 *
 *     head; for each entry of "results": section, a row for each of its rows, section_end; end
 */
#ifndef TRAINER_REPORT_SCREEN_BENCH_H
#define TRAINER_REPORT_SCREEN_BENCH_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

void screen_bench_head(FILE *out, const cJSON *object);
void screen_bench_section(FILE *out, const cJSON *result);
void screen_bench_row(FILE *out, const cJSON *row);
void screen_bench_section_end(FILE *out, const cJSON *result);

/* "OK", or "FAILED" and what failed. */
void screen_bench_end(FILE *out, const cJSON *object);

/* All rows are there and no element is wrong. */
bool screen_bench_passed(const cJSON *object);

/* The mean of the rows' bus bandwidths in GB/s; NAN without rows. */
double screen_bench_mean(const cJSON *result);

/* The object is one of --mode=bench. */
bool screen_bench_is(const cJSON *object);

/* All of it. */
void screen_bench(FILE *out, const cJSON *object);

#endif
