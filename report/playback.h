/* playback.h: one step of a run in slow motion, in the terminal: lanes that grow while devices work
 * and wait (--slow-motion=K). Of a comparison, DP and DDP with the most devices, one above the
 * other and on the same clock, so that one sees who finishes first.
 */
#ifndef TRAINER_PLAYBACK_H
#define TRAINER_PLAYBACK_H

#include "base/error.h"
#include "report/table.h"

typedef struct Playback {
    double slower;     /* than the step was; 1 or more */
    bool more_follows; /* the last picture stays until a key is pressed */
} Playback;

/* Plays the JSON object that --json=FILE writes, and leaves the last picture in `out`.
 *
 * On a terminal it takes the whole screen and gives it back as it was, whatever ends the play: q,
 * or a signal (SIGINT, SIGTERM, SIGHUP, SIGQUIT), whose number is then in `*ended_by`, else 0. The
 * space bar pauses. Elsewhere, and where TERM is unset or "dumb", it writes a few pictures, one
 * below the other, and does not wait. An Error says that the object is not one of ours or holds no
 * timeline, or that `out` cannot be written. */
Error playback(FILE *out, const cJSON *object, const Playback *playback, TableStyle style,
               int *ended_by);

#endif
