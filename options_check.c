/* options_check.c: what can only be checked once data and machine are known (see options.h).
 */
#include "options.h"

#include "option_values.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Error options_check_writable(const char *option, const char *path, bool replaced)
{
    char place[PATH_MAX];
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return error_make("--%s=%s: is a directory; give a file in it", option, shown(path).text);
    if (exists && replaced && !S_ISREG(status.st_mode))
        return error_make("--%s=%s: is not a file that could be replaced", option,
                          shown(path).text);
    if (exists && access(path, W_OK) != 0)
        return error_make("--%s=%s: cannot be written: %s", option, shown(path).text,
                          strerror(errno));
    if (exists && !replaced)
        return NULL;
    if (!exists && errno != ENOENT) /* a name that is too long, a file in place of a directory */
        return error_make("--%s=%s: cannot be written: %s", option, shown(path).text,
                          strerror(errno));
    if (!exists || !realpath(path, place)) /* a link's file is replaced, not the link */
        snprintf(place, sizeof place, "%s", path);
    char *slash = strrchr(place, '/');
    if (slash)
        slash[slash == place] = '\0';
    else
        snprintf(place, sizeof place, ".");
    if (access(place, W_OK | X_OK) != 0)
        return error_make("--%s=%s: cannot be written: %s: %s", option, shown(path).text,
                          shown(place).text, strerror(errno));
    return NULL;
}

/* --- a resumed run ------------------------------------------------------------------------ */

static Error contradiction(const char *option, const Options *options, const char *saved)
{
    return error_make("--%s contradicts %s, which was saved with --%s=%s: leave it out, or begin a "
                      "new run with --load",
                      option, shown(options->resume).text, option, saved);
}

static Error follow_whole(const Options *options, bool typed, const char *option, int64_t now,
                          int64_t saved)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)saved);
    return typed && now != saved ? contradiction(option, options, text) : NULL;
}

static Error follow_real(const Options *options, bool typed, const char *option, double now,
                         double saved)
{
    char text[32];
    snprintf(text, sizeof text, "%.10g", saved);
    return typed && now != saved ? contradiction(option, options, text) : NULL;
}

static Error follow_layers(Options *options, const Progressed *saved)
{
    bool same = options->layers == saved->layers &&
                memcmp(options->widths, saved->widths,
                       sizeof *saved->widths * ((size_t)saved->layers + 1)) == 0;
    if (options->typed.layers && !same) {
        char text[(MODEL_MOST_LAYERS + 1) * 12] = "";
        checkpoint_widths(saved, text, sizeof text);
        return contradiction("layers", options, shown(text).text);
    }
    options->layers = saved->layers;
    memcpy(options->widths, saved->widths, sizeof saved->widths);
    options->widths_given = true;
    return NULL;
}

/* Who skips the branch is part of what the run was: an optimizer counts its steps. */
static Error follow_unused(Options *options, const Progressed *saved)
{
    if (options->typed.unused && options->unused != saved->unused)
        return saved->unused == UNUSED_NONE
                   ? error_make("--unused adds a branch, and the run saved in %s has none: leave "
                                "it out, or begin a new run with --load",
                                shown(options->resume).text)
                   : contradiction("unused", options, unused_name(saved->unused));
    options->unused = saved->unused;
    return NULL;
}

Error options_resume(Options *options, const Progressed *saved)
{
    OptimizerSettings *optimizer = &options->optimizer;
    if (options->typed.optimizer && optimizer->kind != saved->optimizer.kind)
        return contradiction("optimizer", options, optimizer_name(saved->optimizer.kind));
    TRY(follow_real(options, options->typed.lr, "lr", optimizer->lr, saved->optimizer.lr));
    TRY(follow_real(options, options->typed.momentum, "momentum", optimizer->momentum,
                    saved->optimizer.momentum));
    TRY(follow_real(options, options->typed.weight_decay, "weight-decay", optimizer->weight_decay,
                    saved->optimizer.weight_decay));
    TRY(follow_whole(options, options->typed.batch, "batch", options->batch, saved->batch));
    TRY(follow_whole(options, options->typed.seed, "seed", (int64_t)options->seed,
                     (int64_t)saved->seed));
    TRY(follow_whole(options, options->samples_given, "samples", options->samples, saved->samples));
    TRY(follow_layers(options, saved));
    TRY(follow_unused(options, saved));
    options->optimizer = saved->optimizer;
    options->batch = saved->batch;
    options->seed = saved->seed;
    if (!options->typed.data)
        options->data = saved->data;
    if (strcmp(options->data, "synthetic") == 0)
        options->samples = saved->samples;
    return NULL;
}

/* --- data and machine --------------------------------------------------------------------- */

Error options_check_files(const Options *options)
{
    if (options->json)
        TRY(strcmp(options->json, "-") == 0 ? NULL
                                            : options_check_writable("json", options->json, false));
    return options->save ? options_check_writable("save", options->save, true) : NULL;
}

/* A mistyped width or batch can ask for thousands of gigabytes, and the system would hand them out
 * until it must end a process. What is counted here is the least that will be used at once: every
 * run of the command is there from the start, each of its devices with weights, gradients and the
 * optimizer's state, and the activations of the whole batch, or of a micro-batch. */
static Error check_memory(const Options *options)
{
    double weights = 0, activations = 0;
    for (int i = 0; i < options->layers; i++) {
        weights += (options->widths[i] + 1.0) * options->widths[i + 1];
        activations += (double)options->batch / options->accumulate * options->widths[i + 1];
    }
    int runs = 1, models = options->devices[0];
    if (options->mode == MODE_COMPARE) { /* DP, DDP, DDP without overlap and the limit */
        models = 1;
        for (int i = 0; i < options->device_counts; i++)
            if (options->devices[i] > 1) {
                runs += 4;
                models += 4 * options->devices[i];
            }
    }
    if (options->mode == MODE_LADDER) { /* one device, then four rungs, the limit, the curve */
        runs = 6 + options->sweep_sizes;
        models = 1 + (runs - 1) * options->devices[0];
    }
#ifdef TRAINER_CUDA
    if (options->device != CHOICE_CPU)
        models = runs = 0; /* they may lie on GPUs; the model that all begin with does not */
#endif
    int arenas = options->optimizer.kind == OPTIMIZER_SGD ? 3 : 4;
    double bytes = sizeof(float) * (weights * (1 + (double)models * arenas) + runs * activations);
    double has = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (has > 0 && bytes > has)
        return error_make("%.0f million weights, %d model%s and batches of %d need %.0f GB at "
                          "least; this machine has %.0f GB: choose smaller --layers or --batch%s",
                          weights / 1e6, models + 1, models ? "s" : "", options->batch, bytes / 1e9,
                          has / 1e9, options->mode == MODE_COMPARE ? ", or fewer --devices" : "");
    return NULL;
}

/* 1, 2, 4, ... up to the cores; compare needs two devices at least, also on one core. */
static void default_devices(Options *options, int cores)
{
    if (options->mode == MODE_SINGLE) {
        options->devices[options->device_counts++] = 1;
    } else if (options->mode != MODE_COMPARE) {
        options->devices[options->device_counts++] = 2;
    } else {
        int most = cores < 2 ? 2 : cores > 16 ? 16 : cores;
        for (int devices = 1; devices <= most; devices *= 2)
            if (devices <= 2 || devices <= options->batch)
                options->devices[options->device_counts++] = devices;
    }
}

/* The last rank must have a batch to begin with, and this run must get to where it has none. */
static Error check_uneven(const Options *options, const Dataset *data)
{
    int64_t samples = (int64_t)data->train.count;
    int64_t batches = (samples + options->batch - 1) / options->batch;
    int64_t steps = options->warmup + options->steps;
    if (options->uneven >= batches)
        return error_make("--uneven=%lld: an epoch has %lld batches; the last rank must keep one "
                          "at least",
                          (long long)options->uneven, (long long)batches);
    if (options->uneven > 0 && options->epochs == 0 && steps <= batches - options->uneven)
        return error_make("--uneven=%lld: the last rank would run out after step %lld of %lld, and "
                          "this run ends after %lld: give --epochs, more --steps or fewer images "
                          "(--data=synthetic --samples=N)",
                          (long long)options->uneven, (long long)(batches - options->uneven),
                          (long long)batches, (long long)steps);
    return NULL;
}

Error options_check(Options *options, const Dataset *data, int cores)
{
    if (options->profile && !options->beside)
        cores = options->hardware.profile.per_node * options->hardware.profile.nodes;
    Shown name = shown(data->name);
    if (options->samples_given && strcmp(data->name, "synthetic") != 0)
        return error_make("--samples belongs to --data=synthetic; %s has %zu training images",
                          name.text, data->train.count);
    int pixels = data->train.height * data->train.width;
    int classes =
        data->train.classes > data->test.classes ? data->train.classes : data->test.classes;
    if (options->widths[0] != pixels) {
        if (options->widths_given)
            return error_make(
                "--layers begins with %d, but an image of %s has %d x %d = %d pixels: "
                "begin with %d",
                options->widths[0], name.text, data->train.height, data->train.width, pixels,
                pixels);
        options->widths[0] = pixels;
    }
    int outputs = options->widths[options->layers];
    if (outputs < classes) {
        if (options->widths_given)
            return error_make("--layers ends with %d, but %s has %d classes: end with %d or more",
                              outputs, name.text, classes, classes);
        options->widths[options->layers] = classes;
    }
    bool chosen = options->device_counts > 0;
    if (!chosen)
        default_devices(options, cores);
    int most = options->devices[options->device_counts - 1];
    if (options->batch < most && !chosen)
        return error_make("--batch=%d is less than the %d devices that --mode=%s takes by itself: "
                          "give at least one image each, or --devices",
                          options->batch, most, mode_name(options->mode));
    if (options->batch < most)
        return error_make("--batch=%d is less than --devices=%d: some would have nothing to do; "
                          "give at least one image each",
                          options->batch, most);
    if (options->accumulate > options->batch / most)
        return error_make("--accumulate=%d: of --batch=%d a device gets only %d image%s: give at "
                          "most that many micro-batches",
                          options->accumulate, options->batch, options->batch / most,
                          options->batch / most == 1 ? "" : "s");
    if ((size_t)options->batch > data->train.count)
        return error_make("--batch=%d is more than the %zu training images of %s", options->batch,
                          data->train.count, name.text);
    TRY(check_uneven(options, data));
    const Fault *fault = &options->fault;
    if (fault->kind != FAULT_NONE && fault->rank >= most && most == 1)
        return error_make("--%s=%s: one device alone is rank0", fault->option,
                          shown(fault->text).text);
    if (fault->kind != FAULT_NONE && fault->rank >= most)
        return error_make("--%s=%s: --devices=%d are rank0 to rank%d", fault->option,
                          shown(fault->text).text, most, most - 1);
    TRY(options_check_files(options));
    return options->hardware.timing_only ? NULL : check_memory(options);
}
