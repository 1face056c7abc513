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

void optimizer_step(Optimizer *optimizer, float *weights, const float *gradients)
{
    const OptimizerSettings *settings = &optimizer->settings;
    optimizer->steps++;
    if (settings->kind == OPTIMIZER_SGD) {
        device_sgd_step(optimizer->device, weights, gradients, optimizer->state[0],
                        optimizer->count, (float)settings->lr, (float)settings->momentum,
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
    device_adam_step(optimizer->device, weights, gradients, optimizer->state[0],
                     optimizer->state[1], optimizer->count, &step);
}
