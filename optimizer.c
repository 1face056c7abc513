/* optimizer.c: which state each optimizer keeps; the arithmetic is the device's (see optimizer.h).
 */
#include "optimizer.h"

const char *optimizer_name(OptimizerKind kind)
{
    static const char *const names[] = {"sgd", "adam", "adamw"};
    return names[kind];
}

int optimizer_states(const OptimizerSettings *settings)
{
    return settings->kind != OPTIMIZER_SGD ? 2 : settings->momentum != 0 ? 1 : 0;
}

const char *optimizer_state_name(const OptimizerSettings *settings, int state)
{
    if (settings->kind == OPTIMIZER_SGD)
        return "momentum_buffer";
    return state == 0 ? "exp_avg" : "exp_avg_sq";
}

Error optimizer_open(Optimizer *optimizer, const OptimizerSettings *settings, Device *device,
                     size_t count)
{
    *optimizer = (Optimizer){.settings = *settings, .device = device, .count = count};
    for (int i = 0; i < optimizer_states(settings); i++)
        TRY(device_alloc(device, sizeof(float) * count, (void **)&optimizer->state[i]));
    return NULL;
}

static float *state_at(const Optimizer *optimizer, int index, size_t offset)
{
    float *state = optimizer->state[index];
    return state ? state + offset : NULL;
}

static void update(Optimizer *optimizer, float *weights, const float *gradients, Slice slice)
{
    const OptimizerSettings *settings = &optimizer->settings;
    float *first = state_at(optimizer, 0, slice.offset);
    float *second = state_at(optimizer, 1, slice.offset);
    weights += slice.offset;
    gradients += slice.offset;
    if (settings->kind == OPTIMIZER_SGD) {
        device_sgd_step(optimizer->device, weights, gradients, first, slice.count,
                        (float)settings->lr, (float)settings->momentum,
                        (float)settings->weight_decay);
        return;
    }
    AdamStep step = {
        .lr = settings->lr,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
        .weight_decay = settings->weight_decay,
        .decoupled = settings->kind == OPTIMIZER_ADAMW,
        .step = optimizer->steps,
    };
    device_adam_step(optimizer->device, weights, gradients, first, second, slice.count, &step);
}

void optimizer_step_slices(Optimizer *optimizer, float *weights, const float *gradients,
                           const Slice *slice, int slices)
{
    optimizer->steps++;
    for (int i = 0; i < slices; i++)
        update(optimizer, weights, gradients, slice[i]);
}

void optimizer_step(Optimizer *optimizer, float *weights, const float *gradients)
{
    Slice whole = {.count = optimizer->count};
    optimizer_step_slices(optimizer, weights, gradients, &whole, 1);
}
