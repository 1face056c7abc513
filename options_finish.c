/* options_finish.c: what goes with what: defaults that depend on other options, and options that
 * contradict each other (see options_table.h).
 */
#include "options_table.h"

#include "option_values.h"

#include <stdlib.h>
#include <string.h>

/* What each optimizer starts from: PyTorch's defaults, but for SGD's learning rate, where PyTorch
 * has 0.001 and small networks learn best with much more. */
static const struct {
    double lr, weight_decay;
} optimizer_defaults[] = {
    [OPTIMIZER_SGD] = {0.1, 0},
    [OPTIMIZER_ADAM] = {0.001, 0},
    [OPTIMIZER_ADAMW] = {0.001, 0.01},
};

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static Error finish_devices(Options *o)
{
    qsort(o->devices, (size_t)o->device_counts, sizeof *o->devices, ascending);
    for (int i = 1; i < o->device_counts; i++)
        if (o->devices[i] == o->devices[i - 1])
            return error_make("--devices: %d is there twice", o->devices[i]);
    if (o->device_counts > 1 && o->mode != MODE_COMPARE)
        return error_make("--devices: a list is for --mode=compare; --mode=%s takes one number",
                          mode_name(o->mode));
    if (o->mode == MODE_SINGLE && o->device_counts == 1 && o->devices[0] != 1)
        return error_make("--mode=single is training on one device; --devices=%d needs "
                          "--mode=dp or --mode=ddp",
                          o->devices[0]);
    if (o->mode == MODE_COMPARE && o->device_counts == 1 && o->devices[0] == 1)
        return error_make("--devices=1: comparing needs two devices or more; to train on one: "
                          "--mode=single");
    return NULL;
}

/* Options that only GPUs can follow also choose them: ignoring such an option would mislead. */
static Error finish_gpus(Options *o)
{
    const char *option = o->comm == COMM_CHOICE_NCCL      ? "--comm=nccl"
                         : o->replicate == REPLICATE_NCCL ? "--replicate=nccl"
                         : o->tf32                        ? "--precision=tf32"
                         : o->device == CHOICE_CUDA       ? "--device=cuda"
                                                          : NULL;
    if (!option)
        return NULL;
    if (o->device == CHOICE_CPU)
        return error_make("%s needs GPUs: leave out --device=cpu", option);
    o->device = CHOICE_CUDA;
    const char *missing = NULL;
#ifndef TRAINER_NCCL
    if (o->comm == COMM_CHOICE_NCCL || o->replicate == REPLICATE_NCCL)
        missing = "NCCL";
#endif
#ifndef TRAINER_CUDA
    missing = "CUDA";
#endif
    if (missing)
        return error_make("%s: this trainer was built without %s; `make` says what it needs",
                          option, missing);
    return NULL;
}

/* One of --mode=single, dp and ddp. */
static bool trains_one_way(const Options *o)
{
    return o->mode == MODE_SINGLE || o->mode == MODE_DP || o->mode == MODE_DDP;
}

static Error finish_checkpoints(const Parse *parse)
{
    Options *o = parse->options;
    bool loads = o->load || o->resume;
    if (o->load && o->resume)
        return error_make("--load begins a new run with a file's weights, --resume goes on with "
                          "the run that was saved: give one of them");
    if ((o->save || loads) && !trains_one_way(o))
        return error_make("--%s is for one way of training: give --mode=single, dp or ddp",
                          o->save   ? "save"
                          : o->load ? "load"
                                    : "resume");
    if ((o->save || loads) && (o->describe || o->show_sampler))
        return error_make("--%s trains nothing: leave out --save, --load and --resume",
                          o->describe ? "describe" : "show-sampler");
    if (o->weights_only && !o->save)
        return error_make("--weights-only is about what is saved: give --save=FILE, too");
    if (o->strict && !loads)
        return error_make("--strict is about what is loaded: give --load=FILE, too");
    if (o->wrapped_keys && !o->save && !o->strict)
        return error_make("--wrapped-keys is about what is saved, or loaded with --strict: give "
                          "--save=FILE, too");
    o->typed.layers = given(parse, KEY_LAYERS);
    o->typed.batch = given(parse, KEY_BATCH);
    o->typed.seed = given(parse, KEY_SEED);
    o->typed.optimizer = given(parse, KEY_OPTIMIZER);
    o->typed.lr = given(parse, KEY_LR);
    o->typed.momentum = given(parse, KEY_MOMENTUM);
    o->typed.weight_decay = given(parse, KEY_WEIGHT_DECAY);
    o->typed.data = given(parse, KEY_DATA);
    o->typed.unused = given(parse, KEY_UNUSED);
    return NULL;
}

/* --accumulate */
static Error finish_accumulate(const Parse *parse)
{
    const Options *o = parse->options;
    bool trains = o->mode == MODE_COMPARE || trains_one_way(o);
    if (given(parse, KEY_ACCUMULATE) && (!trains || o->describe || o->show_sampler))
        return error_make("--accumulate splits the batches of a training: it belongs to "
                          "--mode=single, dp, ddp or compare");
    return NULL;
}

/* --unused and --find-unused-parameters */
static Error finish_unused(const Options *o)
{
    bool trains = o->mode != MODE_HELLO && o->mode != MODE_BENCH && !o->show_sampler;
    if (o->unused != UNUSED_NONE && !trains)
        return error_make("--unused adds a branch to the model, and here is none: leave it out");
    bool has_ddp = trains && !o->describe &&
                   (o->mode == MODE_DDP || o->mode == MODE_COMPARE || o->mode == MODE_LADDER);
    if (o->find_unused && !has_ddp)
        return error_make("--find-unused-parameters is DDP's: its buckets wait for every "
                          "gradient; use it with --mode=ddp, compare or ladder");
    return NULL;
}

/* --uneven and --on-uneven */
static Error finish_uneven(const Parse *parse)
{
    const Options *o = parse->options;
    bool trains = o->mode == MODE_DDP && !o->describe && !o->show_sampler;
    if (o->uneven > 0 && !trains)
        return error_make("--uneven is about DDP's ranks, which have a share of the data each: "
                          "give --mode=ddp");
    if (o->uneven > 0 && o->device_counts == 1 && o->devices[0] == 1)
        return error_make("--uneven gives one rank less than the others: give --devices=2 or more");
    if (given(parse, KEY_ON_UNEVEN) && o->uneven == 0)
        return error_make("--on-uneven says what to do about --uneven=N: give that, too");
    return NULL;
}

/* --fail, --stop and --slow */
static Error finish_fault(const Options *o)
{
    const Fault *fault = &o->fault;
    if (fault->kind == FAULT_NONE)
        return NULL;
    Shown text = shown(fault->text);
    bool trains = o->mode == MODE_COMPARE || trains_one_way(o);
    if (!trains || o->describe || o->show_sampler)
        return error_make("--%s=%s strikes in the middle of a training: give --mode=ddp or dp",
                          fault->option, text.text);
    if (o->mode == MODE_COMPARE && fault->kind != FAULT_SLOW)
        return error_make("--%s=%s would end the whole comparison: give --mode=ddp%s (--slow=RANK@"
                          "STEP can be compared)",
                          fault->option, text.text, fault->kind == FAULT_KILL ? " or dp" : "");
    bool alone = o->device_counts == 1 && o->devices[0] == 1;
    if (fault->kind == FAULT_STOP && (o->mode != MODE_DDP || alone))
        return error_make("--%s=%s would freeze the whole process, and nobody would be left to "
                          "notice: give --mode=ddp with two devices or more",
                          fault->option, text.text);
    return NULL;
}

/* --algorithm */
static Error finish_algorithm(const Parse *parse)
{
    Options *o = parse->options;
    o->algorithm_given = given(parse, KEY_ALGORITHM);
    if (!o->algorithm_given)
        return NULL;
    if (o->mode == MODE_SINGLE || o->mode == MODE_DP)
        return error_make("--algorithm is how DDP's ranks add up their gradients: --mode=%s has no "
                          "ranks",
                          mode_name(o->mode));
    if (o->collective != HELLO_ALL_REDUCE)
        return error_make("--algorithm is how an all_reduce is done: --collective=%s has one way",
                          options_collective_names[o->collective]);
    if (o->comm == COMM_CHOICE_NCCL)
        return error_make("--algorithm=%s: NCCL chooses its algorithms by itself; give --comm=shm "
                          "for one of ours",
                          comm_algorithm_name(o->algorithm));
    return NULL;
}

/* --profile and what belongs to it */
static Error finish_profile(const Parse *parse)
{
    Options *o = parse->options;
    for (int key = KEY_WORKLOAD; !o->profile && key <= KEY_LATENCY_US; key++)
        if (given(parse, key))
            return error_make("--workload, --timing-only, --interpreter, --link-gbps and "
                              "--latency-us belong to virtual devices: give --profile=NAME, too");
    if (!o->profile) {
        int most = o->device_counts ? o->devices[o->device_counts - 1] : 0;
        if (most > OPTIONS_MOST_DEVICES)
            return error_make("--devices=%d: at most %d; more only as virtual devices, with "
                              "--profile=NAME",
                              most, OPTIONS_MOST_DEVICES);
        return NULL;
    }
    if (o->mode == MODE_HELLO || o->mode == MODE_BENCH || o->mode == MODE_CALIBRATE ||
        o->describe || o->show_sampler)
        return error_make("--profile is for training: with --mode=compare, single, dp or ddp");
    if (o->device == CHOICE_CUDA || o->comm != COMM_CHOICE_AUTO)
        return error_make("--profile makes virtual devices: leave out --device=cuda and --comm");
    o->beside = o->device == CHOICE_CPU;
    bool only_timing = o->hardware.timing_only;
    if (o->beside &&
        (o->mode != MODE_COMPARE || only_timing || o->link_counts > 1 || o->latency_counts > 1))
        return error_make("--device=cpu with --profile shows virtual times beside measured ones: "
                          "with --mode=compare, without --timing-only and lists");
    if (o->workload_name && !only_timing)
        return error_make("--workload describes a network that is timed, not computed: add "
                          "--timing-only");
    if (o->workload_name && given(parse, KEY_LAYERS))
        return error_make("--workload and --layers both say what network: give one of them");
    if (only_timing && (given(parse, KEY_EPOCHS) || o->log_losses || o->save || o->load ||
                        o->resume || given(parse, KEY_DATA)))
        return error_make("--timing-only learns nothing: leave out --epochs, --log-losses, "
                          "--data, --save, --load and --resume");
    if (o->unused != UNUSED_NONE && o->workload_name)
        return error_make("--unused adds a branch to an MLP: leave out --workload");
    return NULL;
}

/* --mode=bench and --sizes */
static Error finish_bench(const Parse *parse)
{
    Options *o = parse->options;
    o->warmup_given = given(parse, KEY_WARMUP);
    if (o->mode != MODE_BENCH && given(parse, KEY_SIZES))
        return error_make("--sizes belongs to --mode=bench");
    if (o->mode != MODE_BENCH)
        return NULL;
    if (given(parse, KEY_EPOCHS))
        return error_make("--mode=bench has no epochs: --steps=N says how often each size is "
                          "measured");
    if (o->log_losses)
        return error_make("--log-losses is about training: --mode=bench has no losses");
    return NULL;
}

/* --slow-motion */
static Error finish_slow_motion(const Parse *parse)
{
    const Options *o = parse->options;
    if (!given(parse, KEY_SLOW_MOTION))
        return NULL;
    if (o->replay && given(parse, KEY_DEPTH))
        return error_make("--slow-motion with --replay plays a step and prints no tables: leave "
                          "out --depth");
    bool trains = o->mode == MODE_COMPARE || o->mode == MODE_LADDER || trains_one_way(o);
    if (!o->replay && (!trains || o->describe || o->show_sampler))
        return error_make("--slow-motion plays a step of training, and here is none: leave it "
                          "out");
    return NULL;
}

static int ascending_sizes(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* --mode=ladder and --sweep-buckets, which alone asks for it */
static Error finish_ladder(const Parse *parse)
{
    Options *o = parse->options;
    if (o->sweep_sizes > 0 && !given(parse, KEY_MODE))
        o->mode = MODE_LADDER;
    if (o->mode != MODE_LADDER)
        return o->sweep_sizes == 0
                   ? NULL
                   : error_make("--sweep-buckets belongs to --mode=ladder; --mode=%s has one "
                                "bucket size: --bucket-mb",
                                mode_name(o->mode));
    if (!o->overlap)
        return error_make(
            "--overlap=off belongs to --mode=ddp: the ladder has rungs of both kinds");
    if (o->device_counts == 1 && o->devices[0] == 1)
        return error_make("--devices=1: on one device nothing is exchanged; the ladder needs two "
                          "or more");
    qsort(o->sweep_mb, (size_t)o->sweep_sizes, sizeof *o->sweep_mb, ascending_sizes);
    for (int i = 1; i < o->sweep_sizes; i++)
        if (o->sweep_mb[i] == o->sweep_mb[i - 1])
            return error_make("--sweep-buckets: %g is there twice", o->sweep_mb[i]);
    return NULL;
}

/* --mode=calibrate measures one thing, whatever else is said. */
static Error finish_calibrate(const Parse *parse)
{
    for (int key = KEY_MODE; parse->options->mode == MODE_CALIBRATE && key < KEY_END; key++)
        if (given(parse, key) && key != KEY_MODE && key != KEY_JSON && key != KEY_QUIET)
            return error_make("--mode=calibrate measures this machine's cores: only --json=FILE, "
                              "where the profile is to go, belongs to it");
    return NULL;
}

Error options_finish(const Parse *parse)
{
    Options *o = parse->options;
    TRY(finish_calibrate(parse));
    for (int key = KEY_MODE; o->replay && key < KEY_END; key++)
        if (given(parse, key) && key != KEY_REPLAY && key != KEY_DEPTH && key != KEY_SLOW_MOTION)
            return error_make("--replay prints an old run and runs nothing: only --depth and "
                              "--slow-motion go with it");
    TRY(finish_ladder(parse));
    TRY(finish_slow_motion(parse));
    if (given(parse, KEY_EPOCHS) && given(parse, KEY_STEPS))
        return error_make("--epochs and --steps both say how long to train: give one of them");
    if (!given(parse, KEY_EPOCHS) && !given(parse, KEY_STEPS))
        TRY(o->mode == MODE_COMPARE || o->mode == MODE_LADDER || o->hardware.timing_only
                ? options_set(o, KEY_STEPS, DEFAULT_STEPS)
                : options_set(o, KEY_EPOCHS, DEFAULT_EPOCHS));

    o->collective_given = given(parse, KEY_COLLECTIVE);
    if (o->collective_given && o->mode != MODE_HELLO && o->mode != MODE_BENCH)
        return error_make("--collective belongs to --mode=hello and --mode=bench");
    for (int key = KEY_OP; o->mode != MODE_HELLO && key <= KEY_ORDERED; key++)
        if (given(parse, key))
            return error_make("--op and --ordered belong to --mode=hello");
    if (given(parse, KEY_GUESS) && o->mode != MODE_HELLO && o->mode != MODE_COMPARE)
        return error_make("--guess belongs to --mode=hello and to compare: what will come out?");
    if (o->mode == MODE_HELLO && o->guess_percent)
        return error_make("--guess: rank 0 will hold a number, no per cent");
    if (given(parse, KEY_GUESS) && o->mode == MODE_COMPARE && (o->guess <= -100 || o->guess > 1e4))
        return error_make(
            "--guess=%g: by how many per cent DDP does more steps per second than DP; "
            "more than -100, at most 10000",
            o->guess);
    bool reduces = o->collective == HELLO_ALL_REDUCE || o->collective == HELLO_REDUCE_SCATTER;
    if (given(parse, KEY_OP) && !reduces)
        return error_make("--op belongs to all_reduce and reduce_scatter: %s only moves numbers",
                          options_collective_names[o->collective]);
    o->guess_given = given(parse, KEY_GUESS);
    if (o->show_sampler && !given(parse, KEY_SAMPLES))
        o->samples = 12;
    if (o->show_sampler && given(parse, KEY_STEPS))
        return error_make("--show-sampler shows whole epochs: give --epochs, not --steps");
    if (o->show_sampler && !given(parse, KEY_EPOCHS))
        TRY(options_set(o, KEY_EPOCHS, DEFAULT_EPOCHS));
    if (o->describe && !trains_one_way(o))
        return error_make("--describe describes one way of training: give --mode=single, dp or "
                          "ddp");

    OptimizerSettings *optimizer = &o->optimizer;
    if (!given(parse, KEY_LR))
        optimizer->lr = optimizer_defaults[optimizer->kind].lr;
    if (!given(parse, KEY_WEIGHT_DECAY))
        optimizer->weight_decay = optimizer_defaults[optimizer->kind].weight_decay;
    if (given(parse, KEY_MOMENTUM) && optimizer->kind != OPTIMIZER_SGD)
        return error_make("--momentum belongs to --optimizer=sgd; %s has its own (0.9 and 0.999)",
                          options_optimizer_names[optimizer->kind]);

    if (given(parse, KEY_SAMPLES) && given(parse, KEY_DATA) && strcmp(o->data, "synthetic") != 0)
        return error_make("--samples belongs to --data=synthetic");
    if (o->mode == MODE_COMPARE && !o->overlap)
        return error_make("--overlap=off belongs to --mode=ddp: compare runs DDP both ways");
    if (o->log_losses && !o->json)
        return error_make("--log-losses writes them into the JSON: give --json=FILE, too");
    TRY(finish_bench(parse));
    o->widths_given = given(parse, KEY_LAYERS);
    o->samples_given = given(parse, KEY_SAMPLES);
    o->bucket_given = given(parse, KEY_BUCKET_MB);
    TRY(finish_checkpoints(parse));
    TRY(finish_accumulate(parse));
    TRY(finish_unused(o));
    TRY(finish_uneven(parse));
    TRY(finish_fault(o));
    TRY(finish_algorithm(parse));
    TRY(finish_devices(o));
    TRY(finish_profile(parse));
    return finish_gpus(o);
}
