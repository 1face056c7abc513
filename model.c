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

/* They come first: index 0 is the branch's bias, 1 its weight. */
enum { BRANCH_BIAS, BRANCH_WEIGHT, BRANCH_PARAMETERS };

/* --- layout ------------------------------------------------------------------------------- */

const char *unused_name(Unused unused)
{
    static const char *const names[] = {"none", "never", "always", "rank0"};
    return names[unused];
}

/* The layer whose shape the branch has. */
static int last_layer(const Layout *layout)
{
    return layout->layers - 1;
}

/* Places a parameter at the end of the arena. */
static void place(Layout *layout, Parameter *parameter, size_t count)
{
    parameter->count = count;
    parameter->offset = layout->arena_count;
    layout->parameter_count += count;
    layout->arena_count += (count + 3) / 4 * 4;
}

static void add_parameter(Layout *layout, int layer, bool branch, bool bias)
{
    Parameter *parameter = &layout->parameter[layout->parameters++];
    const char *kind = bias ? "bias" : "weight";
    if (branch)
        snprintf(parameter->name, sizeof parameter->name, "branch.%s", kind);
    else if (layout->layers == 1)
        snprintf(parameter->name, sizeof parameter->name, "%s", kind);
    else
        snprintf(parameter->name, sizeof parameter->name, "%d.%s", 2 * layer, kind);
    parameter->rows = layout->widths[layer + 1];
    parameter->columns = bias ? 0 : layout->widths[layer];
    place(layout, parameter, (size_t)parameter->rows * (bias ? 1 : (size_t)parameter->columns));
}

void layout_init_branched(Layout *layout, const int *widths, int layers, Unused unused)
{
    *layout = (Layout){
        .layers = layers, .branch = unused != UNUSED_NONE, .gradient_width = widths[layers]};
    memcpy(layout->widths, widths, sizeof *widths * ((size_t)layers + 1));
    if (layout->branch) {
        add_parameter(layout, last_layer(layout), true, true);
        add_parameter(layout, last_layer(layout), true, false);
    }
    for (int layer = layers - 1; layer >= 0; layer--) {
        add_parameter(layout, layer, false, true);
        add_parameter(layout, layer, false, false);
    }
}

void layout_init_workload(Layout *layout, const Workload *workload)
{
    const double float_bytes = sizeof(float);
    *layout = (Layout){
        .layers = 1,
        .workload = workload,
        .widths = {(int)(workload->input_bytes / float_bytes),
                   (int)(workload->output_bytes / float_bytes)},
        .gradient_width = (int)(workload->output_gradient_bytes / float_bytes),
    };
    for (int i = workload->layers - 1; i >= 0; i--) {
        const WorkLayer *layer = &workload->layer[i];
        for (int j = layer->parameters - 1; j >= 0; j--) {
            Parameter *parameter = &layout->parameter[layout->parameters++];
            snprintf(parameter->name, sizeof parameter->name, "%s.%d", layer->name, j);
            parameter->rows = 1;
            parameter->columns = (int)layer->count[j];
            place(layout, parameter, layer->count[j]);
        }
    }
}

void layout_init(Layout *layout, const int *widths, int layers)
{
    layout_init_branched(layout, widths, layers, UNUSED_NONE);
}

int layout_bias(const Layout *layout, int layer)
{
    return BRANCH_PARAMETERS * layout->branch + 2 * (layout->layers - 1 - layer);
}

const Parameter *layout_registered(const Layout *layout, int index)
{
    return &layout->parameter[layout->parameters - 1 - index];
}

/* kaiming_uniform_(a = sqrt(5)): gain = sqrt(2 / (1 + a^2)), bound = sqrt(3) * gain / sqrt(fan_in);
 * the bias in +-1 / sqrt(fan_in). Bounds in double, as Python computes them. The weight follows its
 * bias in an arena, and comes first in the random stream. */
static void init_linear(const Parameter *bias, Random *random, float *arena)
{
    const Parameter *weight = bias + 1;
    double fan_in = weight->columns;
    double a = sqrt(5);
    double gain = sqrt(2 / (1 + a * a));
    double weight_bound = sqrt(3) * (gain / sqrt(fan_in));
    double bias_bound = 1 / sqrt(fan_in);
    for (size_t i = 0; i < weight->count; i++)
        arena[weight->offset + i] =
            random_uniform(random, (float)-weight_bound, (float)weight_bound);
    for (size_t i = 0; i < bias->count; i++)
        arena[bias->offset + i] = random_uniform(random, (float)-bias_bound, (float)bias_bound);
}

void layout_init_weights(const Layout *layout, uint64_t seed, float *arena)
{
    memset(arena, 0, sizeof *arena * layout->arena_count);
    Random random;
    random_seed(&random, seed);
    for (int layer = 0; layer < layout->layers; layer++)
        init_linear(&layout->parameter[layout_bias(layout, layer)], &random, arena);
    if (layout->branch)
        init_linear(&layout->parameter[BRANCH_BIAS], &random, arena);
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
    if (layout->branch)
        TRY(alloc_floats(device, most_rows, layout->widths[layers], &model->branch_output));
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

bool model_skips(const Model *model, int parameter)
{
    return model->layout->branch && model->skips_branch && parameter < BRANCH_PARAMETERS;
}

/* logits += branch(the activation that the last layer has, too) */
static void branch_forward(Model *model, int rows)
{
    const Layout *layout = model->layout;
    int layer = last_layer(layout);
    int out = layout->widths[layer + 1];
    device_linear_forward(model->device, model->branch_output, model->activation[layer],
                          model->weights + layout->parameter[BRANCH_WEIGHT].offset,
                          model->weights + layout->parameter[BRANCH_BIAS].offset, rows,
                          layout->widths[layer], out, false);
    device_add(model->device, model_logits(model), model->branch_output,
               (size_t)rows * (size_t)out);
}

/* A pass over a network that is only described. Forward writes its activations and reads them once;
 * backward does twice as much of everything. */
static void workload_forward(Model *model, int rows)
{
    const Workload *workload = model->layout->workload;
    for (int i = 0; i < workload->layers; i++) {
        const WorkLayer *layer = &workload->layer[i];
        device_work(model->device, rows * layer->flop, 2 * rows * layer->activation_bytes,
                    layer->operations);
    }
}

static void workload_backward(Model *model, int rows, GradientReady ready, void *context)
{
    const Workload *workload = model->layout->workload;
    int parameter = 0;
    for (int i = workload->layers - 1; i >= 0; i--) {
        const WorkLayer *layer = &workload->layer[i];
        device_work(model->device, 0, 4 * rows * layer->activation_bytes, 2 * layer->operations);
        for (int product = 0; product < 2; product++) /* gradients of input and parameters */
            device_work(model->device, rows * layer->flop, 0, 0);
        for (int j = 0; j < layer->parameters; j++, parameter++)
            if (ready)
                ready(context, parameter);
    }
}

void model_forward(Model *model, int rows)
{
    const Layout *layout = model->layout;
    if (layout->workload) {
        workload_forward(model, rows);
        return;
    }
    for (int layer = 0; layer < layout->layers; layer++) {
        const Parameter *bias = &layout->parameter[layout_bias(layout, layer)];
        const Parameter *weight = bias + 1;
        bool last = layer == layout->layers - 1;
        device_linear_forward(model->device, model->activation[layer + 1], model->activation[layer],
                              model->weights + weight->offset, model->weights + bias->offset, rows,
                              layout->widths[layer], layout->widths[layer + 1], !last);
    }
    if (layout->branch && !model->skips_branch)
        branch_forward(model, rows);
}

static void branch_backward_params(Model *model, int rows, bool accumulate)
{
    const Layout *layout = model->layout;
    int layer = last_layer(layout);
    device_linear_backward_params(model->device,
                                  model->gradients + layout->parameter[BRANCH_WEIGHT].offset,
                                  model->gradients + layout->parameter[BRANCH_BIAS].offset,
                                  model->logit_gradient, model->activation[layer], rows,
                                  layout->widths[layer], layout->widths[layer + 1], accumulate);
}

/* Adds the branch's part to the gradient of the activation that it shares with the last layer. */
static void branch_backward_input(Model *model, int rows, float *input_gradient)
{
    const Layout *layout = model->layout;
    int layer = last_layer(layout);
    float *part = model->delta[(layer + 1) % 2]; /* the last layer uses the other one */
    device_linear_backward_input(model->device, part, model->logit_gradient,
                                 model->weights + layout->parameter[BRANCH_WEIGHT].offset,
                                 model->activation[layer], rows, layout->widths[layer],
                                 layout->widths[layer + 1]);
    device_add(model->device, input_gradient, part, (size_t)rows * (size_t)layout->widths[layer]);
}

void model_zero_skipped(Model *model)
{
    for (int i = 0; i < model->layout->parameters; i++) {
        const Parameter *parameter = &model->layout->parameter[i];
        if (model_skips(model, i))
            device_zero(model->device, model->gradients + parameter->offset,
                        sizeof(float) * parameter->count);
    }
}

void model_backward(Model *model, int rows, bool accumulate, GradientReady ready, void *context)
{
    const Layout *layout = model->layout;
    const float *output_gradient = model->logit_gradient;
    bool branch = layout->branch && !model->skips_branch;
    for (int i = 0; i < layout->parameters; i++)
        model->no_gradient[i] = model_skips(model, i);
    if (layout->workload) {
        workload_backward(model, rows, ready, context);
        return;
    }
    if (branch) {
        branch_backward_params(model, rows, accumulate);
        if (ready) {
            ready(context, BRANCH_BIAS);
            ready(context, BRANCH_WEIGHT);
        }
    }
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
        if (branch && layer == last_layer(layout))
            branch_backward_input(model, rows, input_gradient);
        output_gradient = input_gradient;
    }
}
