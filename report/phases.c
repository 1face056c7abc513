/* phases.c: a stopwatch that notes points in a device's queue and reads them later (see phases.h).
 */
#include "report/phases.h"

#include "device/range.h"

#include <math.h>
#include <string.h>

const char *phase_name(Phase phase)
{
    static const char *const names[PHASES] = {
        [PHASE_INPUT] = "input",
        [PHASE_REPLICATE] = "replicate",
        [PHASE_SCATTER] = "scatter",
        [PHASE_FORWARD] = "forward",
        [PHASE_GATHER] = "gather",
        [PHASE_LOSS] = "loss",
        [PHASE_SCATTER_GRAD] = "scatter_grad",
        [PHASE_BACKWARD] = "backward",
        [PHASE_REDUCE] = "reduce",
        [PHASE_LATE_COLLEAGUE] = "late_colleague",
        [PHASE_TRANSFER] = "transfer",
        [PHASE_USED_MAP] = "used_map",
        [PHASE_UPDATE] = "update",
    };
    return phase == PHASE_NONE ? "none" : names[phase];
}

void timer_init(Timer *timer, Device *device, Comm *comm, StepRecord *records,
                Whereabouts *whereabouts)
{
    memset(timer, 0, sizeof *timer);
    timer->device = device;
    timer->comm = comm;
    timer->records = records;
    timer->whereabouts = whereabouts;
}

static StepRecord *current_record(Timer *timer)
{
    return &timer->records[timer->steps - 1];
}

static void mark(Timer *timer, Phase phase, Event event)
{
    struct StepMarks *step = &timer->step[timer->pending - 1];
    if (step->marks == TIMER_MARKS)
        return;
    step->mark[step->marks].phase = phase;
    step->mark[step->marks].event = event;
    step->marks++;
}

void timer_begin(Timer *timer)
{
    CommSpan before; /* operations between steps are no step's */
    while (timer->comm && comm_take_spans(timer->comm, &before, 1) == 1) {
    }
    timer->steps++;
    timer->pending++;
    timer->step[timer->pending - 1].marks = 0;
    timer->before = *device_counters(timer->device);
    if (timer->whereabouts)
        atomic_store_explicit(&timer->whereabouts->step, timer->steps, memory_order_relaxed);
    Event event = device_record(timer->device);
    current_record(timer)->start_ms = event.time_ms;
    mark(timer, PHASE_NONE, event);
}

void timer_phase(Timer *timer, Phase phase)
{
    if (timer->whereabouts)
        atomic_store_explicit(&timer->whereabouts->phase, phase, memory_order_relaxed);
    if (timer->in_range)
        device_range_pop();
    timer->in_range = phase != PHASE_NONE;
    if (timer->in_range)
        device_range_push(phase_name(phase)); /* for NVIDIA's profiler */
    if (timer->pending > 0) /* between steps, in an evaluation, nothing is timed */
        mark(timer, phase, device_record(timer->device));
}

/* --- communication ------------------------------------------------------------------------ */

void timer_wait_begin(Timer *timer)
{
    timer->wait_from_ms = device_host_clock_ms();
    timer_phase(timer, PHASE_TRANSFER);
}

/* Moves what the communicator did since the last time into the record; of more operations than it
 * holds, the rest is dropped. Returns the ms for which they waited for the last rank since
 * `from_ms`, on the host's clock. */
static double take_talk(Timer *timer, double from_ms)
{
    StepRecord *record = current_record(timer);
    CommSpan span;
    double late_ms = 0;
    while (comm_take_spans(timer->comm, &span, 1) == 1) {
        if (record->talks == STEP_TALKS)
            continue;
        record->talk[record->talks++] = (TalkRecord){
            .start_ms = (float)(span.start_ms - record->start_ms),
            .arrived_ms = (float)(span.arrived_ms - record->start_ms),
            .done_ms = (float)(span.done_ms - record->start_ms),
        };
        /* what of [start, arrived] lies inside this wait */
        double from = span.start_ms > from_ms ? span.start_ms : from_ms;
        if (span.arrived_ms > from)
            late_ms += span.arrived_ms - from;
    }
    return late_ms;
}

void timer_take_talk(Timer *timer)
{
    take_talk(timer, INFINITY);
}

void timer_wait_end(Timer *timer)
{
    double late_ms = take_talk(timer, timer->wait_from_ms);
    if (late_ms > 0 && device_kind(timer->device) == DEVICE_CPU) {
        struct StepMarks *step = &timer->step[timer->pending - 1];
        Event wait_began = step->mark[step->marks - 1].event;
        step->mark[step->marks - 1].phase = PHASE_LATE_COLLEAGUE;
        mark(timer, PHASE_TRANSFER, (Event){.time_ms = wait_began.time_ms + late_ms});
    }
    timer_phase(timer, PHASE_NONE);
}

/* --- records ------------------------------------------------------------------------------ */

void timer_end(Timer *timer)
{
    timer_phase(timer, PHASE_NONE);
    StepRecord *record = current_record(timer);
    const Counters *now = device_counters(timer->device);
    for (int kind = 0; kind < BYTES_KINDS; kind++) {
        record->sent[kind] = now->sent[kind] - timer->before.sent[kind];
        record->received[kind] = now->received[kind] - timer->before.received[kind];
    }
    const BytesKind gradients = BYTES_PARAMETER_GRADIENTS;
    record->collectives = now->collectives[gradients] - timer->before.collectives[gradients];
    record->communication_steps = now->steps[gradients] - timer->before.steps[gradients];
}

void timer_collect(Timer *timer)
{
    for (int i = 0; i < timer->pending; i++) {
        StepRecord *record = &timer->records[timer->steps - timer->pending + i];
        const struct StepMarks *step = &timer->step[i];
        const Event *start = &step->mark[0].event;
        for (int m = 0; m + 1 < step->marks; m++) {
            Phase phase = step->mark[m].phase;
            if (phase == PHASE_NONE)
                continue;
            const Event *from = &step->mark[m].event;
            float phase_ms =
                (float)device_elapsed_ms(timer->device, from, &step->mark[m + 1].event);
            if (record->phase_ms[phase] == 0)
                record->begin_ms[phase] = (float)device_elapsed_ms(timer->device, start, from);
            record->phase_ms[phase] += phase_ms;
        }
        record->step_ms =
            (float)device_elapsed_ms(timer->device, start, &step->mark[step->marks - 1].event);
    }
    timer->pending = 0;
}
