/* fault.h: faults on purpose, to be seen in class: a rank that is killed, frozen or slow from a
 * step on (--fail, --stop, --slow).
 *
 * Nothing else knows of them: a fault listens to the stopwatch of the device that it is for, and
 * strikes on that device's own thread when a phase begins or ends. So a rank is killed or frozen
 * where the backward pass begins, in the middle of the step, with the others about to need its
 * gradients; and a slow device is slow in all that it computes.
 */
#ifndef TRAINER_FAULT_H
#define TRAINER_FAULT_H

#include "base/error.h"
#include "report/phases.h"

typedef enum { FAULT_NONE, FAULT_KILL, FAULT_STOP, FAULT_SLOW } FaultKind;

typedef struct Fault {
    FaultKind kind;
    int rank;           /* of DDP; in DP, the device */
    int64_t step;       /* from 1, as in all messages; slow: from this step on */
    const char *option; /* "fail", "stop" or "slow", and what was typed after it */
    const char *text;
} Fault;

/* Reads "rank2@100", after "kill=", "stop=" or "slow=" if `option` is "fail" (nothing: kill). A
 * rank may also be called a device or a replica, and rank 0 the boss. `text` is kept. */
Error fault_parse(const char *option, const char *text, Fault *fault);

/* What lets a fault strike: one per device. */
typedef struct FaultStrike {
    FaultKind kind;
    Timer *timer;
    _Atomic bool *struck;
    double from_ms; /* slow: when the phase began, on the host's clock */
} FaultStrike;

struct Job;

/* At the beginning of each step of a worker's: if the fault is this device's and its step has come,
 * it will strike in this step: kill and stop where backward begins, slow at the end of each phase
 * in which the device computes, by sleeping once more as long as that took: so it is half as fast.
 * In a comparison only DP and DDP have a slow device; what they are compared with has none. */
void fault_arm(struct Job *job, int worker, int64_t step);

struct Run;

/* The device that a process of the run had failed at, `rank` being its first: in DP, that of a
 * replica that was killed. */
int fault_device(const Fault *fault, const struct Run *run, int rank);

/* What a run's summary says when the fault has struck there: "; this was asked for with
 * --fail=rank2@100"; empty if it has not. Returns `text`. */
const char *fault_explain(const Fault *fault, const struct Run *run, char *text, size_t size);

#endif
