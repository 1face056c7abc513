/* phases.h: what a step's time goes to: the phases, a device's stopwatch, and the record of a step.
 *
 * Nothing is stopped in order to be timed. The stopwatch notes a point in the device's queue at
 * every border between phases (device_record: a time stamp on a CPU, a CUDA event on a GPU) and
 * turns the points into milliseconds later, between turns, when the device is idle.
 */
#ifndef TRAINER_PHASES_H
#define TRAINER_PHASES_H

#include "comm/comm.h"
#include "device/device.h"
#include "report/phase_names.h"

#include <stdatomic.h>

/* One all-reduce beside the computation, in ms after the step's start. */
typedef struct TalkRecord {
    float start_ms;   /* this rank arrived */
    float arrived_ms; /* the last rank had arrived */
    float done_ms;
} TalkRecord;

#define STEP_TALKS 12

/* What one device did in one step. Lies in memory shared with the supervisor. Times in ms. */
typedef struct StepRecord {
    double start_ms;        /* host clock */
    float step_ms;          /* from start to end */
    float begin_ms[PHASES]; /* after start_ms; of the phase's first part */
    float phase_ms[PHASES]; /* how long; 0 for phases that did not occur */
    int parts;              /* of the step, where they are kept (StepPart) */
    float talk_ms;          /* of all operations of the communicator, once all ranks had arrived */
    int talks;              /* operations of the communicator; of more than fit, the first ones */
    TalkRecord talk[STEP_TALKS];
    uint64_t sent[BYTES_KINDS]; /* bytes in this step */
    uint64_t received[BYTES_KINDS];
    uint64_t collectives;         /* of parameter gradients in this step */
    uint64_t communication_steps; /* times that it had to wait for another in them */
    double loss_sum;              /* over the rows whose loss this device computed */
    int rows;                     /* of the whole update */
    bool measured;                /* counts in the tables */
} StepRecord;

/* Where a process is, for the supervisor's summary when it dies there. Shared. */
typedef struct Whereabouts {
    _Atomic int64_t step;
    _Atomic int phase;
} Whereabouts;

/* A stretch of a step in one phase, in ms after the step's start. */
typedef struct StepPart {
    Phase phase; /* PHASE_NONE: one that was not needed */
    float start_ms, end_ms;
} StepPart;

/* Steps between two calls of timer_collect, at most. */
#define TIMER_STEPS 16

/* Borders between phases in a step of so many micro-batches, at most: also the parts of a step. */
int timer_most_marks(int micro_batches);

typedef struct Timer {
    Device *device;           /* the caller's */
    Comm *comm;               /* whose operations are recorded; NULL: none */
    StepRecord *records;      /* [steps of the run], shared */
    StepPart *parts;          /* [steps of the run][most_marks], shared; NULL: not kept */
    Whereabouts *whereabouts; /* NULL: nobody asks */
    int64_t steps;            /* begun so far */
    int pending;              /* steps that are not collected yet */
    int most_marks;
    int marks[TIMER_STEPS];
    struct Mark {
        Phase phase; /* that begins here */
        Event event;
    } * mark;        /* [TIMER_STEPS][most_marks] */
    Counters before; /* when the step began */
    double wait_from_ms;
    bool in_range; /* a profiler's range is open */
    Phase phase;   /* of the step that is under way */
    /* Called between two phases of a step, on the thread that goes from one to the other, before
     * the border is noted: what it takes belongs to the phase that ends. NULL: nobody listens. */
    void (*phase_changes)(void *context, Phase ends, Phase begins);
    void *phase_changes_context;
} Timer;

/* For steps of so many micro-batches. `parts` may be NULL: then of a phase that a step comes to
 * more than once only begin and sum are kept. Freed by timer_close. */
Error timer_open(Timer *timer, Device *device, Comm *comm, int micro_batches, StepRecord *records,
                 StepPart *parts, Whereabouts *whereabouts);
void timer_close(Timer *timer);

/* The next step of the run begins. */
void timer_begin(Timer *timer);

/* From here on the device is in `phase` (PHASE_NONE: in none). */
void timer_phase(Timer *timer, Phase phase);

/* Around the wait for communication that the computation did not cover. Afterwards the part before
 * the last rank arrived is PHASE_LATE_COLLEAGUE and the rest PHASE_TRANSFER; where the communicator
 * cannot tell, all is PHASE_TRANSFER. */
void timer_wait_begin(Timer *timer);
void timer_wait_end(Timer *timer);

/* Adds the communicator's operations that were completed since to the step's record, for the
 * timeline. timer_wait_end does that for those before it. */
void timer_take_talk(Timer *timer);

/* The step is over. */
void timer_end(Timer *timer);

/* Writes the records of all steps since the last call. The device must be idle (device_sync). */
void timer_collect(Timer *timer);

#endif
