/* supervisor.h: the parent process: forks the processes of all runs, shows progress, and says what
 * happened when one of them fails.
 */
#ifndef TRAINER_SUPERVISOR_H
#define TRAINER_SUPERVISOR_H

#include "run.h"

typedef enum { RUNS_DONE, RUNS_FAILED, RUNS_INTERRUPTED } RunsOutcome;

typedef struct Supervision {
    bool quiet;       /* no progress, no list of processes */
    bool show_pids;   /* a line per process at the start */
    bool epochs;      /* training goes by epochs: a line for each */
    const char *what; /* what is being done, for the progress bar: "compare" */
} Supervision;

/* What a run is called in messages: "DDP, 2 devices". Returns `title`. */
const char *run_title(const Run *run, char *title, size_t size);

/* Runs all runs of the plan to their end, or until one of their processes fails. Failures are
 * explained on standard error; the last line is a summary of the first one. `*signal` is the signal
 * after RUNS_INTERRUPTED. An Error only when processes could not be made. */
Error supervise_runs(Plan *plan, const Supervision *supervision, RunsOutcome *outcome, int *signal);

#endif
