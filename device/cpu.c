/* cpu.c: a CPU core as a device. Matrix products are OpenBLAS's, on one thread; everything else is
 * a plain loop that the compiler vectorises. Work is done in the call, so there is nothing to wait
 * for.
 *
 * The caller pins the thread to a core and sets OpenBLAS to one thread (see place.h); several
 * devices then compute at once, each in a thread or process of its own.
 */
#include "device/engine.h"

#include "base/hot.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

static void cpu_close(Device *device)
{
    (void)device;
}

static void *cpu_alloc(Device *device, size_t bytes, Error *error)
{
    (void)device;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes) != 0) {
        *error = error_make("no memory: a device asked for %zu bytes", bytes);
        return NULL;
    }
    memset(memory, 0, bytes);
    return memory;
}

static void cpu_free(Device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void cpu_move(Device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
}

static void cpu_copy(Device *to, void *to_memory, Device *from, const void *from_memory,
                     size_t bytes)
{
    (void)to;
    (void)from;
    memcpy(to_memory, from_memory, bytes);
}

static void cpu_zero(Device *device, void *memory, size_t bytes)
{
    (void)device;
    memset(memory, 0, bytes);
}

/* --- arithmetic --------------------------------------------------------------------------- */

HOT static void cpu_bytes_to_float(Device *device, float *floats, const uint8_t *bytes,
                                   size_t count)
{
    (void)device;
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)bytes[i] / 255.0f;
}

/* output [rows, out] += bias [out], then ReLU if asked */
HOT static void add_bias(float *restrict output, const float *restrict bias, int rows, int out,
                         bool relu)
{
    for (int row = 0; row < rows; row++, output += out) {
        if (relu)
            for (int i = 0; i < out; i++) {
                float sum = output[i] + bias[i];
                output[i] = sum > 0 ? sum : 0;
            }
        else
            for (int i = 0; i < out; i++)
                output[i] += bias[i];
    }
}

static void cpu_linear_forward(Device *device, float *output, const float *input,
                               const float *weight, const float *bias, int rows, int in, int out,
                               bool relu)
{
    (void)device;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1, input, in, weight, in, 0,
                output, out);
    add_bias(output, bias, rows, out, relu);
}

/* sums [columns] += the sum over the rows of matrix [rows, columns], row after row */
HOT static void add_column_sums(float *restrict sums, const float *restrict matrix, int rows,
                                int columns)
{
    for (int row = 0; row < rows; row++, matrix += columns)
        for (int i = 0; i < columns; i++)
            sums[i] += matrix[i];
}

static void cpu_linear_backward_params(Device *device, float *weight_gradient, float *bias_gradient,
                                       const float *output_gradient, const float *input, int rows,
                                       int in, int out, bool accumulate)
{
    (void)device;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, rows, 1, output_gradient, out,
                input, in, accumulate ? 1 : 0, weight_gradient, in);
    if (!accumulate)
        memset(bias_gradient, 0, sizeof(float) * (size_t)out);
    add_column_sums(bias_gradient, output_gradient, rows, out);
}

HOT static void zero_where_zero(float *restrict gradient, const float *restrict activation,
                                size_t count)
{
    for (size_t i = 0; i < count; i++)
        gradient[i] = activation[i] > 0 ? gradient[i] : 0;
}

static void cpu_linear_backward_input(Device *device, float *input_gradient,
                                      const float *output_gradient, const float *weight,
                                      const float *input, int rows, int in, int out)
{
    (void)device;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, in, out, 1, output_gradient, out,
                weight, in, 0, input_gradient, in);
    zero_where_zero(input_gradient, input, (size_t)rows * (size_t)in);
}

static void cpu_softmax_cross_entropy(Device *device, float *gradient, LossStats *stats,
                                      const float *logits, const uint8_t *labels, int rows,
                                      int classes, float scale)
{
    (void)device;
    for (int row = 0; row < rows; row++, logits += classes, gradient += classes) {
        int label = labels[row];
        int largest = 0;
        for (int i = 1; i < classes; i++)
            if (logits[i] > logits[largest])
                largest = i;
        /* softmax is unchanged when all logits are shifted; shifted by the largest, no exp
         * overflows */
        float shift = logits[largest];
        float label_logit = logits[label] - shift;
        float sum = 0;
        for (int i = 0; i < classes; i++) {
            gradient[i] = expf(logits[i] - shift);
            sum += gradient[i];
        }
        for (int i = 0; i < classes; i++)
            gradient[i] = (gradient[i] / sum - (i == label ? 1.0f : 0.0f)) * scale;
        stats->loss_sum += (double)(logf(sum) - label_logit);
        stats->correct += largest == label;
    }
}

HOT static void cpu_add(Device *device, float *into, const float *addend, size_t count)
{
    (void)device;
    for (size_t i = 0; i < count; i++)
        into[i] += addend[i];
}

HOT static void cpu_sgd_step(Device *device, float *restrict weight, const float *restrict gradient,
                             float *restrict velocity, size_t count, float lr, float momentum,
                             float weight_decay)
{
    (void)device;
    if (momentum == 0) {
        for (size_t i = 0; i < count; i++)
            weight[i] -= lr * (gradient[i] + weight_decay * weight[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float direction = gradient[i] + weight_decay * weight[i];
        velocity[i] = momentum * velocity[i] + direction;
        weight[i] -= lr * velocity[i];
    }
}

HOT static void adam_loop(float *restrict weight, const float *restrict gradient,
                          float *restrict mean, float *restrict square, size_t count,
                          const AdamFactors *factors)
{
    const AdamFactors f = *factors;
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] + f.l2 * weight[i];
        mean[i] = f.beta1 * mean[i] + f.one_minus_beta1 * g;
        square[i] = f.beta2 * square[i] + f.one_minus_beta2 * g * g;
        float denominator = sqrtf(square[i]) / f.root_correction + f.epsilon;
        weight[i] = f.keep * weight[i] - f.step_size * (mean[i] / denominator);
    }
}

static void cpu_adam_step(Device *device, float *weight, const float *gradient, float *mean,
                          float *square, size_t count, const AdamStep *adam)
{
    (void)device;
    AdamFactors factors = adam_factors(adam);
    adam_loop(weight, gradient, mean, square, count, &factors);
}

/* --- order and time ----------------------------------------------------------------------- */

/* device_record has noted the time, and an event without a handle never comes here. */
static void cpu_record(Device *device, Event *event)
{
    (void)device;
    (void)event;
}

static void cpu_wait(Device *device, const Event *event)
{
    (void)device;
    (void)event;
}

static void cpu_nothing(Device *device)
{
    (void)device;
}

static double cpu_elapsed_ms(Device *device, const Event *from, const Event *to)
{
    (void)device;
    return to->time_ms - from->time_ms;
}

const Engine cpu_engine = {
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_move,
    .download = cpu_move,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .bytes_to_float = cpu_bytes_to_float,
    .linear_forward = cpu_linear_forward,
    .linear_backward_params = cpu_linear_backward_params,
    .linear_backward_input = cpu_linear_backward_input,
    .softmax_cross_entropy = cpu_softmax_cross_entropy,
    .add = cpu_add,
    .sgd_step = cpu_sgd_step,
    .adam_step = cpu_adam_step,
    .record = cpu_record,
    .wait = cpu_wait,
    .sync = cpu_nothing,
    .elapsed_ms = cpu_elapsed_ms,
    .recycle_events = cpu_nothing,
};

Error cpu_open(Device *device)
{
    device->engine = &cpu_engine;
    snprintf(device->name, sizeof device->name, "CPU core");
    return NULL;
}
