/* model.c: the MLP: where its parameters lie, how they start, and its two passes (see model.h).
 *
 * Backward is a loop over the layers from the last to the first. It announces each gradient as soon
 * as it is there; whoever listens may send it on its way while earlier layers are still at work.
 * That is all that this file knows about DistributedDataParallel.
 */
#include "model.h"

#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- layout ------------------------------------------------------------------------------- */

static void add_parameter(Layout *layout, int layer, bool bias)
{
    Parameter *parameter = &layout->parameter[layout->parameters++];
    const char *kind = bias ? "bias" : "weight";
    if (layout->layers == 1)
        snprintf(parameter->name, sizeof parameter->name, "%s", kind);
    else
        snprintf(parameter->name, sizeof parameter->name, "%d.%s", 2 * layer, kind);
    parameter->rows = layout->widths[layer + 1];
    parameter->columns = bias ? 0 : layout->widths[layer];
    parameter->count = (size_t)parameter->rows * (bias ? 1 : (size_t)parameter->columns);
    parameter->offset = layout->arena_count;
    layout->parameter_count += parameter->count;
    layout->arena_count += (parameter->count + 3) / 4 * 4;
}

void layout_init(Layout *layout, const int *widths, int layers)
{
    *layout = (Layout){.layers = layers};
    memcpy(layout->widths, widths, sizeof *widths * ((size_t)layers + 1));
    for (int layer = layers - 1; layer >= 0; layer--) {
        add_parameter(layout, layer, true);
        add_parameter(layout, layer, false);
    }
}

int layout_bias(const Layout *layout, int layer)
{
    return 2 * (layout->layers - 1 - layer);
}

const Parameter *layout_registered(const Layout *layout, int index)
{
    return &layout->parameter[layout->parameters - 1 - index];
}

void layout_init_weights(const Layout *layout, uint64_t seed, float *arena)
{
    memset(arena, 0, sizeof *arena * layout->arena_count);
    Random random;
    random_seed(&random, seed);
    for (int layer = 0; layer < layout->layers; layer++) {
        /* kaiming_uniform_(a = sqrt(5)): gain = sqrt(2 / (1 + a^2)), bound = sqrt(3) * gain /
         * sqrt(fan_in); the bias in +-1 / sqrt(fan_in). Bounds in double, as Python computes them.
         */
        double fan_in = layout->widths[layer];
        double a = sqrt(5);
        double gain = sqrt(2 / (1 + a * a));
        double weight_bound = sqrt(3) * (gain / sqrt(fan_in));
        double bias_bound = 1 / sqrt(fan_in);
        const Parameter *bias = &layout->parameter[layout_bias(layout, layer)];
        const Parameter *weight = bias + 1;
        for (size_t i = 0; i < weight->count; i++)
            arena[weight->offset + i] =
                random_uniform(&random, (float)-weight_bound, (float)weight_bound);
        for (size_t i = 0; i < bias->count; i++)
            arena[bias->offset + i] =
                random_uniform(&random, (float)-bias_bound, (float)bias_bound);
    }
}

void layout_hash(const Layout *layout, const float *arena, uint64_t *hashes)
{
    for (int i = 0; i < layout->parameters; i++) {
        const Parameter *parameter = &layout->parameter[i];
        uint64_t hash = 14695981039346656037u;
        for (size_t j = 0; j < parameter->count; j++) {
            uint32_t bits;
            memcpy(&bits, &arena[parameter->offset + j], sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
        hashes[i] = hash;
    }
}

/* --- a model on a device ------------------------------------------------------------------ */

static Error alloc_floats(Device *device, int rows, int columns, float **memory)
{
    return device_alloc(device, sizeof(float) * (size_t)rows * (size_t)columns, (void **)memory);
}

Error model_open(Model *model, const Layout *layout, Device *device, float *weights,
                 float *gradients, int most_rows, int most_outer_rows)
{
    *model = (Model){.layout = layout,
                     .device = device,
                     .most_rows = most_rows,
                     .weights = weights,
                     .gradients = gradients};
    int layers = layout->layers;
    int widest = 0;
    for (int i = 0; i <= layers; i++) {
        bool outer = i == 0 || i == layers;
        if (!outer && widest < layout->widths[i])
            widest = layout->widths[i];
        TRY(alloc_floats(device, outer ? most_outer_rows : most_rows, layout->widths[i],
                         &model->activation[i]));
    }
    TRY(alloc_floats(device, most_outer_rows, layout->widths[layers], &model->logit_gradient));
    for (int i = 0; i < 2; i++)
        TRY(alloc_floats(device, most_rows, widest, &model->delta[i]));
    return NULL;
}

float *model_input(const Model *model)
{
    return model->activation[0];
}

float *model_logits(const Model *model)
{
    return model->activation[model->layout->layers];
}

void model_forward(Model *model, int rows)
{
    const Layout *layout = model->layout;
    for (int layer = 0; layer < layout->layers; layer++) {
        const Parameter *bias = &layout->parameter[layout_bias(layout, layer)];
        const Parameter *weight = bias + 1;
        bool last = layer == layout->layers - 1;
        device_linear_forward(model->device, model->activation[layer + 1], model->activation[layer],
                              model->weights + weight->offset, model->weights + bias->offset, rows,
                              layout->widths[layer], layout->widths[layer + 1], !last);
    }
}

void model_backward(Model *model, int rows, bool accumulate, GradientReady ready, void *context)
{
    const Layout *layout = model->layout;
    const float *output_gradient = model->logit_gradient;
    for (int layer = layout->layers - 1; layer >= 0; layer--) {
        int in = layout->widths[layer];
        int out = layout->widths[layer + 1];
        int bias_index = layout_bias(layout, layer);
        const Parameter *bias = &layout->parameter[bias_index];
        const Parameter *weight = bias + 1;

        device_linear_backward_params(model->device, model->gradients + weight->offset,
                                      model->gradients + bias->offset, output_gradient,
                                      model->activation[layer], rows, in, out, accumulate);
        if (ready) {
            ready(context, bias_index);
            ready(context, bias_index + 1);
        }
        if (layer == 0)
            break; /* nobody asks for the gradient of the images */
        float *input_gradient = model->delta[layer % 2];
        device_linear_backward_input(model->device, input_gradient, output_gradient,
                                     model->weights + weight->offset, model->activation[layer],
                                     rows, in, out);
        output_gradient = input_gradient;
    }
}
