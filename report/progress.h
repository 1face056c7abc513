/* progress.h: how far a run is: a bar on a terminal, a line per epoch elsewhere.
 */
#ifndef TRAINER_REPORT_PROGRESS_H
#define TRAINER_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ProgressState {
    const char *what;     /* "compare", "DDP, 2 devices" */
    int64_t done, total;  /* steps */
    int epoch, epochs;    /* the one being trained, from 1; epochs 0: by steps, none is shown */
    double loss;          /* of the last step known; NAN: none yet */
    double samples_per_s; /* NAN: not known yet */
    double seconds_left;  /* NAN: not known yet */
} ProgressState;

/* Formats a line of at most `columns` characters: name, bar, percentage, figures. Where there is no
 * room for all of them, the most wanted stay. `utf8`: the bar may use block characters. `line` has
 * `size` bytes; 4 per column and one are enough. */
void progress_format(char *line, size_t size, int columns, bool utf8, const ProgressState *state);

/* A line that is redrawn in place. */
typedef struct Progress {
    FILE *out;
    bool terminal;
    bool utf8;
    int drawn;      /* characters of the bar that stands on the screen; 0: none does */
    double last_ms; /* when it was drawn, CLOCK_MONOTONIC */
} Progress;

void progress_open(Progress *progress, FILE *out);

/* Redraws the bar, at most ten times a second. Does nothing where `out` is no terminal. */
void progress_show(Progress *progress, const ProgressState *state);

/* A plain line that stays, above the bar if there is one. */
void progress_line(Progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes the bar off the screen. */
void progress_close(Progress *progress);

#endif
