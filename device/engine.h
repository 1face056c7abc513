/* engine.h: what a kind of device has to provide. Included by device.c, the engines (cpu.c, cuda.c)
 * and nobody else.
 *
 * device.c keeps the counters and the first failure, and skips calls after a failure; an engine
 * only does the work. An operation that fails calls device_fail.
 */
#ifndef TRAINER_DEVICE_ENGINE_H
#define TRAINER_DEVICE_ENGINE_H

#include "device/virtual.h"

typedef struct Engine {
    void (*close)(Device *device);
    void *(*alloc)(Device *device, size_t bytes, Error *error); /* zeroed */
    void (*free)(Device *device, void *memory);
    void (*upload)(Device *device, void *to, const void *from, size_t bytes);
    void (*download)(Device *device, void *to, const void *from, size_t bytes); /* waits */
    void (*copy)(Device *to, void *to_memory, Device *from, const void *from_memory, size_t bytes);
    bool (*copies_directly)(Device *to, Device *from); /* NULL: always */
    void (*zero)(Device *device, void *memory, size_t bytes);

    void (*bytes_to_float)(Device *device, float *floats, const uint8_t *bytes, size_t count);
    void (*linear_forward)(Device *device, float *output, const float *input, const float *weight,
                           const float *bias, int rows, int in, int out, bool relu);
    void (*linear_backward_params)(Device *device, float *weight_gradient, float *bias_gradient,
                                   const float *output_gradient, const float *input, int rows,
                                   int in, int out, bool accumulate);
    void (*linear_backward_input)(Device *device, float *input_gradient,
                                  const float *output_gradient, const float *weight,
                                  const float *input, int rows, int in, int out);
    void (*softmax_cross_entropy)(Device *device, float *gradient, LossStats *stats,
                                  const float *logits, const uint8_t *labels, int rows, int classes,
                                  float scale);
    void (*add)(Device *device, float *into, const float *addend, size_t count);
    void (*sgd_step)(Device *device, float *weight, const float *gradient, float *velocity,
                     size_t count, float lr, float momentum, float weight_decay);
    void (*adam_step)(Device *device, float *weight, const float *gradient, float *mean,
                      float *square, size_t count, const AdamStep *adam);

    void (*record)(Device *device, Event *event);
    void (*wait)(Device *device,
                 const Event *event); /* the event's handle; the host part is done */
    void (*sync)(Device *device);
    double (*elapsed_ms)(Device *device, const Event *from, const Event *to);
    void (*recycle_events)(Device *device);
} Engine;

struct Device {
    const Engine *engine;
    DeviceKind kind;
    int index;
    char name[128];
    Counters counters;
    char failure[1024]; /* the first one; empty while there is none */
    struct Allocation *allocations;
    void *state; /* the engine's own */
};

/* Keeps `error` as the device's failure unless it has one already. */
void device_fail(Device *device, Error error);

/* What one Adam step multiplies with, rounded to float once for all elements:
 *     g = gradient + l2 weight;  mean = beta1 mean + one_minus_beta1 g
 *     square = beta2 square + one_minus_beta2 g g
 *     weight = keep weight - step_size mean / (sqrt(square) / root_correction + epsilon) */
typedef struct AdamFactors {
    float beta1, one_minus_beta1, beta2, one_minus_beta2;
    float l2, keep, step_size, root_correction, epsilon;
} AdamFactors;

AdamFactors adam_factors(const AdamStep *adam);

/* The CPU's operations, which virtual devices use. */
extern const Engine cpu_engine;

/* The engines. Each sets engine, name and state; device.c has set the rest. */
Error cpu_open(Device *device);
Error virtual_open(Device *device, const Hardware *hardware, VirtualPlace place);
Error cuda_open(Device *device, bool tf32);

#endif
