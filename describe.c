/* describe.c: --describe (see describe.h). The first three lines are what the lesson asks of
 * PyTorch's nn.DataParallel: print(model(x).shape), list(model.state_dict()), model.device_ids.
 */
#include "describe.h"

#include "batch.h"
#include "bucket.h"
#include "sampler.h"

/* Both wrappers keep the model as their member `module`, which shows in every key. */
static const char *key_prefix(const Options *options)
{
    return options->mode == MODE_SINGLE ? "" : "module.";
}

static void print_keys(FILE *out, const Options *options, const Layout *layout)
{
    fprintf(out, "state_dict keys: [");
    for (int i = 0; i < layout->parameters; i++)
        fprintf(out, "%s'%s%s'", i ? ", " : "", key_prefix(options),
                layout_registered(layout, i)->name);
    fprintf(out, "]\n");
}

static void print_devices(FILE *out, const Options *options, bool gpus)
{
    int devices = options->mode == MODE_SINGLE ? 1 : options->devices[0];
    fprintf(out, "%s it will split across: [", gpus ? "GPUs" : "devices");
    for (int i = 0; i < devices; i++)
        fprintf(out, "%s%d", i ? ", " : "", i);
    fprintf(out, "]\n");
}

/* How many images each device gets of a batch. */
static void print_split(FILE *out, const Options *options)
{
    int devices = options->mode == MODE_SINGLE ? 1 : options->devices[0];
    Batch batch = {.count = (size_t)options->batch};
    fprintf(out, "images per device:");
    for (int i = 0; i < devices; i++)
        fprintf(out, "%s %d", i ? "," : "",
                options->mode == MODE_DDP ? batch_share(&batch, i, devices)
                                          : (int)sampler_chunk((size_t)options->batch, devices, i));
    fprintf(out, "\n");
}

static void print_parameters(FILE *out, const Options *options, const Layout *layout)
{
    fprintf(out, "\n%-24s %-16s %12s %14s\n", "parameter", "shape", "numbers", "bytes");
    for (int i = 0; i < layout->parameters; i++) {
        const Parameter *parameter = layout_registered(layout, i);
        char key[64], shape[64];
        snprintf(key, sizeof key, "%s%s", key_prefix(options), parameter->name);
        if (parameter->columns > 0)
            snprintf(shape, sizeof shape, "(%d, %d)", parameter->rows, parameter->columns);
        else
            snprintf(shape, sizeof shape, "(%d,)", parameter->rows);
        fprintf(out, "%-24s %-16s %12zu %14zu\n", key, shape, parameter->count,
                sizeof(float) * parameter->count);
    }
    fprintf(out, "%-24s %-16s %12zu %14zu\n", "all", "", layout->parameter_count,
            sizeof(float) * layout->parameter_count);
}

static void print_buckets(FILE *out, const Options *options, const Layout *layout)
{
    Bucket buckets[MODEL_MOST_PARAMETERS];
    int bucket_of[MODEL_MOST_PARAMETERS];
    int count = bucket_plan(layout, options->bucket_mb, options->bucket_given, buckets, bucket_of);
    fprintf(out, "\nBuckets, in the order in which backward fills them:\n");
    for (int b = 0; b < count; b++) {
        size_t bytes = 0;
        fprintf(out, "bucket %d:", b);
        for (int i = 0; i < buckets[b].parameters; i++) {
            const Parameter *parameter = &layout->parameter[buckets[b].first_parameter + i];
            fprintf(out, " %s", parameter->name);
            bytes += sizeof(float) * parameter->count;
        }
        fprintf(out, " (%zu bytes)\n", bytes);
    }
}

void describe(FILE *out, const Options *options, bool gpus)
{
    Layout layout;
    layout_init_branched(&layout, options->widths, options->layers, options->unused);
    fprintf(out, "output shape: (%d, %d)\n", options->batch, options->widths[options->layers]);
    print_keys(out, options, &layout);
    print_devices(out, options, gpus);
    print_split(out, options);
    print_parameters(out, options, &layout);
    if (options->mode == MODE_DDP)
        print_buckets(out, options, &layout);
}
