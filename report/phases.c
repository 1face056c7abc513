/* phases.c: a stopwatch that notes points in a device's queue and reads them later (see phases.h).
 */
#include "report/phases.h"

#include "device/range.h"

#include <math.h>
#include <stdlib.h>

int timer_most_marks(int micro_batches)
{
    /* A micro-batch of DP has nine phases. Whatever comes once has more room than it needs. */
    return 24 + 9 * (micro_batches - 1);
}

Error timer_open(Timer *timer, Device *device, Comm *comm, int micro_batches, StepRecord *records,
                 StepPart *parts, Whereabouts *whereabouts)
{
    *timer = (Timer){
        .device = device,
        .comm = comm,
        .records = records,
        .parts = parts,
        .whereabouts = whereabouts,
        .most_marks = timer_most_marks(micro_batches),
    };
    timer->mark = calloc((size_t)timer->most_marks * TIMER_STEPS, sizeof *timer->mark);
    return timer->mark ? NULL : error_make("no memory");
}

void timer_close(Timer *timer)
{
    free(timer->mark);
    timer->mark = NULL;
}

static StepRecord *current_record(Timer *timer)
{
    return &timer->records[timer->steps - 1];
}

static struct Mark *marks_of(const Timer *timer, int pending)
{
    return timer->mark + (size_t)pending * (size_t)timer->most_marks;
}

static void mark(Timer *timer, Phase phase, Event event)
{
    int step = timer->pending - 1;
    if (timer->marks[step] < timer->most_marks)
        marks_of(timer, step)[timer->marks[step]++] = (struct Mark){phase, event};
}

void timer_begin(Timer *timer)
{
    CommSpan before; /* operations between steps are no step's */
    while (timer->comm && comm_take_spans(timer->comm, &before, 1) == 1) {
    }
    timer->steps++;
    timer->pending++;
    timer->marks[timer->pending - 1] = 0;
    device_begin_step(timer->device, timer->steps);
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
    if (timer->phase_changes && timer->pending > 0)
        timer->phase_changes(timer->phase_changes_context, timer->phase, phase);
    timer->phase = phase;
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
    timer_phase(timer, PHASE_TRANSFER);
    int step = timer->pending - 1;
    timer->wait_from_ms = marks_of(timer, step)[timer->marks[step] - 1].event.time_ms;
}

/* Moves what the communicator did since the last time into the record; of more operations than it
 * holds, the rest only counts in talk_ms. Returns the ms for which they waited for the last rank
 * since `from_ms`, on the host's clock. */
static double take_talk(Timer *timer, double from_ms)
{
    StepRecord *record = current_record(timer);
    CommSpan span;
    double late_ms = 0;
    while (comm_take_spans(timer->comm, &span, 1) == 1) {
        record->talk_ms += (float)(span.done_ms - span.arrived_ms);
        if (record->talks < STEP_TALKS)
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
    if (late_ms > 0 && device_kind(timer->device) != DEVICE_CUDA) {
        int step = timer->pending - 1;
        struct Mark *wait = &marks_of(timer, step)[timer->marks[step] - 1];
        wait->phase = PHASE_LATE_COLLEAGUE;
        mark(timer, PHASE_TRANSFER, (Event){.time_ms = wait->event.time_ms + late_ms});
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

/* What lies between two marks of a step, added to its record. */
static void collect_part(const Timer *timer, StepRecord *record, const struct Mark *start,
                         const struct Mark *from, StepPart *part)
{
    Phase phase = from->phase;
    float start_ms = (float)device_elapsed_ms(timer->device, &start->event, &from->event);
    float phase_ms = (float)device_elapsed_ms(timer->device, &from->event, &from[1].event);
    if (record->phase_ms[phase] == 0)
        record->begin_ms[phase] = start_ms;
    record->phase_ms[phase] += phase_ms;
    if (part)
        *part = (StepPart){phase, start_ms, start_ms + phase_ms};
}

void timer_collect(Timer *timer)
{
    for (int i = 0; i < timer->pending; i++) {
        int64_t step = timer->steps - timer->pending + i;
        StepRecord *record = &timer->records[step];
        StepPart *parts = timer->parts ? timer->parts + step * timer->most_marks : NULL;
        const struct Mark *marks = marks_of(timer, i);
        int last = timer->marks[i] - 1;
        for (int m = 0; m < last; m++)
            if (marks[m].phase != PHASE_NONE)
                collect_part(timer, record, &marks[0], &marks[m], parts ? &parts[m] : NULL);
            else if (parts)
                parts[m].phase = PHASE_NONE;
        record->parts = last;
        record->step_ms =
            (float)device_elapsed_ms(timer->device, &marks[0].event, &marks[last].event);
    }
    timer->pending = 0;
}
