/* screen_series.h: one table of several comparisons on virtual devices (series.c).
 */
#ifndef TRAINER_REPORT_SCREEN_SERIES_H
#define TRAINER_REPORT_SCREEN_SERIES_H

#include "base/error.h"
#include "report/text.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

/* The object holds a series. */
bool screen_series_is(const cJSON *object);

/* A row per comparison, with the speed-up of DP and DDP at each device count, and a sentence about
 * each. */
Error screen_series(Text *text, const cJSON *object);

#endif
