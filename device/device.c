/* device.c: what all kinds of devices have in common: opening, memory accounts, traffic counters,
 * and the rule that after its first failure a device does nothing more (see device.h).
 */
#include "device/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was allocated, so that frees can be accounted for and device_close can free the rest. */
struct Allocation {
    void *memory;
    size_t bytes;
    struct Allocation *next;
};

/* --- opening ------------------------------------------------------------------------------ */

Device *device_open(DeviceKind kind, int index, bool tf32, Error *error)
{
    Device *device = calloc(1, sizeof *device);
    if (!device) {
        *error = error_make("no memory for a device");
        return NULL;
    }
    device->kind = kind;
    device->index = index;
    *error = kind == DEVICE_CUDA ? cuda_open(device, tf32) : cpu_open(device);
    if (*error) {
        free(device);
        return NULL;
    }
    return device;
}

Device *device_open_virtual(const Hardware *hardware, VirtualPlace place, Error *error)
{
    Device *device = calloc(1, sizeof *device);
    *error = device ? virtual_open(device, hardware, place) : error_make("no memory for a device");
    if (!device || *error) {
        free(device);
        return NULL;
    }
    device->kind = DEVICE_VIRTUAL;
    device->index = place.index;
    return device;
}

void device_close(Device *device)
{
    if (!device)
        return;
    while (device->allocations)
        device_free(device, device->allocations->memory);
    device->engine->close(device);
    free(device);
}

DeviceKind device_kind(const Device *device)
{
    return device->kind;
}

const char *device_name(const Device *device)
{
    return device->name;
}

Counters *device_counters(Device *device)
{
    return &device->counters;
}

/* --- failure ------------------------------------------------------------------------------ */

void device_fail(Device *device, Error error)
{
    if (!device->failure[0])
        snprintf(device->failure, sizeof device->failure, "%s", error);
}

Error device_failure(const Device *device)
{
    return device->failure[0] ? device->failure : NULL;
}

/* Whether an operation is to be queued; counts it. */
static bool launch(Device *device)
{
    if (device->failure[0])
        return false;
    device->counters.launches++;
    return true;
}

/* --- memory ------------------------------------------------------------------------------- */

void device_charge(Device *device, size_t bytes)
{
    Counters *counters = &device->counters;
    counters->allocated_bytes += bytes;
    if (counters->peak_bytes < counters->allocated_bytes)
        counters->peak_bytes = counters->allocated_bytes;
}

Error device_alloc(Device *device, size_t bytes, void **memory)
{
    *memory = NULL;
    struct Allocation *allocation = malloc(sizeof *allocation);
    if (!allocation)
        return error_make("no memory");
    Error error = NULL;
    allocation->memory = device->engine->alloc(device, bytes ? bytes : 1, &error);
    if (error) {
        free(allocation);
        return error;
    }
    allocation->bytes = bytes;
    allocation->next = device->allocations;
    device->allocations = allocation;
    device_charge(device, bytes);
    *memory = allocation->memory;
    return NULL;
}

void device_free(Device *device, void *memory)
{
    for (struct Allocation **link = &device->allocations; *link; link = &(*link)->next) {
        struct Allocation *allocation = *link;
        if (allocation->memory != memory)
            continue;
        *link = allocation->next;
        device->counters.allocated_bytes -= allocation->bytes;
        device->engine->free(device, memory);
        free(allocation);
        return;
    }
}

void device_upload(Device *device, void *to, const void *host_from, size_t bytes)
{
    if (bytes && launch(device))
        device->engine->upload(device, to, host_from, bytes);
}

Error device_download(Device *device, void *host_to, const void *from, size_t bytes)
{
    if (bytes && launch(device))
        device->engine->download(device, host_to, from, bytes);
    return device_failure(device);
}

void device_copy(Device *to, void *to_memory, Device *from, const void *from_memory, size_t bytes,
                 BytesKind kind)
{
    if (!bytes || device_failure(from) || !launch(to))
        return;
    to->engine->copy(to, to_memory, from, from_memory, bytes);
    if (to == from)
        return;
    from->counters.sent[kind] += bytes;
    to->counters.received[kind] += bytes;
}

bool device_copies_directly(Device *to, Device *from)
{
    return !to->engine->copies_directly || to->engine->copies_directly(to, from);
}

void device_zero(Device *device, void *memory, size_t bytes)
{
    if (bytes && launch(device))
        device->engine->zero(device, memory, bytes);
}

/* --- arithmetic --------------------------------------------------------------------------- */

void device_bytes_to_float(Device *device, float *floats, const uint8_t *bytes, size_t count)
{
    if (count && launch(device))
        device->engine->bytes_to_float(device, floats, bytes, count);
}

void device_linear_forward(Device *device, float *output, const float *input, const float *weight,
                           const float *bias, int rows, int in, int out, bool relu)
{
    if (rows > 0 && launch(device))
        device->engine->linear_forward(device, output, input, weight, bias, rows, in, out, relu);
}

void device_linear_backward_params(Device *device, float *weight_gradient, float *bias_gradient,
                                   const float *output_gradient, const float *input, int rows,
                                   int in, int out, bool accumulate)
{
    if (rows > 0) {
        if (launch(device))
            device->engine->linear_backward_params(device, weight_gradient, bias_gradient,
                                                   output_gradient, input, rows, in, out,
                                                   accumulate);
    } else if (!accumulate) {
        device_zero(device, weight_gradient, sizeof(float) * (size_t)in * (size_t)out);
        device_zero(device, bias_gradient, sizeof(float) * (size_t)out);
    }
}

void device_linear_backward_input(Device *device, float *input_gradient,
                                  const float *output_gradient, const float *weight,
                                  const float *input, int rows, int in, int out)
{
    if (rows > 0 && launch(device))
        device->engine->linear_backward_input(device, input_gradient, output_gradient, weight,
                                              input, rows, in, out);
}

void device_softmax_cross_entropy(Device *device, float *gradient, LossStats *stats,
                                  const float *logits, const uint8_t *labels, int rows, int classes,
                                  float scale)
{
    if (rows > 0 && launch(device))
        device->engine->softmax_cross_entropy(device, gradient, stats, logits, labels, rows,
                                              classes, scale);
}

void device_add(Device *device, float *into, const float *addend, size_t count)
{
    if (count && launch(device))
        device->engine->add(device, into, addend, count);
}

void device_sgd_step(Device *device, float *weight, const float *gradient, float *velocity,
                     size_t count, float lr, float momentum, float weight_decay)
{
    if (count && launch(device))
        device->engine->sgd_step(device, weight, gradient, velocity, count, lr, momentum,
                                 weight_decay);
}

void device_adam_step(Device *device, float *weight, const float *gradient, float *mean,
                      float *square, size_t count, const AdamStep *adam)
{
    if (count && launch(device))
        device->engine->adam_step(device, weight, gradient, mean, square, count, adam);
}

AdamFactors adam_factors(const AdamStep *adam)
{
    double correction1 = 1 - pow(adam->beta1, (double)adam->step);
    double correction2 = 1 - pow(adam->beta2, (double)adam->step);
    return (AdamFactors){
        .beta1 = (float)adam->beta1,
        .one_minus_beta1 = (float)(1 - adam->beta1),
        .beta2 = (float)adam->beta2,
        .one_minus_beta2 = (float)(1 - adam->beta2),
        .l2 = adam->decoupled ? 0 : (float)adam->weight_decay,
        .keep = adam->decoupled ? (float)(1 - adam->lr * adam->weight_decay) : 1,
        .step_size = (float)(adam->lr / correction1),
        .root_correction = (float)sqrt(correction2),
        .epsilon = (float)adam->epsilon,
    };
}

/* --- order and time ----------------------------------------------------------------------- */

Event device_record(Device *device)
{
    Event event = {.time_ms = device_host_clock_ms()};
    if (!device_failure(device))
        device->engine->record(device, &event);
    return event;
}

Error device_wait(Device *device, const Event *event)
{
    TRY(device_failure(device));
    if (event->wait)
        TRY(event->wait(event->source, event->ticket));
    if (event->handle || device->kind == DEVICE_VIRTUAL)
        device->engine->wait(device, event);
    return device_failure(device);
}

Error device_sync(Device *device)
{
    if (!device_failure(device))
        device->engine->sync(device);
    return device_failure(device);
}

double device_elapsed_ms(Device *device, const Event *from, const Event *to)
{
    return device_failure(device) ? 0 : device->engine->elapsed_ms(device, from, to);
}

void device_recycle_events(Device *device)
{
    device->engine->recycle_events(device);
}
