/* environment.h: on what machine, with what libraries, from what source a result was found.
 */
#ifndef TRAINER_REPORT_ENVIRONMENT_H
#define TRAINER_REPORT_ENVIRONMENT_H

#include "run.h"

#include <cjson/cJSON.h>

/* The JSON's `environment`. The caller owns it. */
cJSON *environment_json(const Plan *plan, const char *command_line);

#endif
