/* json.h: everything that a command found out, as one JSON object. The tables print from it.
 */
#ifndef TRAINER_REPORT_JSON_H
#define TRAINER_REPORT_JSON_H

#include "base/error.h"
#include "run.h"

#include <cjson/cJSON.h>

/* What the object says beside the plan. */
typedef struct ReportContext {
    const char *mode; /* "compare", "dp", ... */
    const char *command_line;
    int64_t epochs;         /* 0: the run was by steps */
    int64_t measured_steps; /* that were asked for; 0: by epochs */
    double bucket_mb;       /* as asked for; a run has its own */
    bool bucket_explicit;
    bool overlap;
    bool guess_given;
    double guess;            /* by how many per cent DDP does more steps per second than DP */
    bool log_losses;         /* all losses, not only the first and the last */
    double program_start_ms; /* host clock */
    double data_ms;          /* that loading the data took */
} ReportContext;

/* Builds the object from what the processes of all runs have left in shared memory, after all of
 * them have ended well. The caller frees it with cJSON_Delete. NULL and `*error` without memory. */
cJSON *report_json(const Plan *plan, const ReportContext *context, Error *error);

/* A sentence if runs in the object should have the same weights to the last bit and have not, else
 * NULL. For an object from a file, too. */
Error report_failure(const cJSON *object);

/* Writes the object to a file, or to standard output for "-". */
Error report_write(const cJSON *object, const char *path);

#endif
