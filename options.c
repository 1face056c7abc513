/* options.c: the command line (see options.h). Parsed by argp; the table below is all there is to
 * it. What can only be checked when the data are known is in options_check.c.
 *
 * Names are checked before argp sees them, so that a slip gets a suggestion and not a guess: argp
 * would take --dev for a short form of --device.
 *
 * A new option is a KEY_, a row of the table, a case in parse_option and, if it has a default, a
 * DEFAULT_ that the row's text and `defaults` share.
 */
#include "options_table.h"

#include "option_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TRAINER_REVISION
#define TRAINER_REVISION "unknown"
#endif

const char *argp_program_bug_address = NULL;

/* --- the table ---------------------------------------------------------------------------- */

/* Defaults, as one would type them. They are parsed like anything that is typed. */
#define DEFAULT_MODE       "compare"
#define DEFAULT_LAYERS     "784,512,512,10"
#define DEFAULT_BATCH      "256"
#define DEFAULT_ACCUMULATE "1"
#define DEFAULT_WARMUP     "5"
#define DEFAULT_OPTIMIZER  "adamw"
#define DEFAULT_MOMENTUM   "0.9"
#define DEFAULT_SEED       "0"
#define DEFAULT_DATA       "fashion-mnist"
#define DEFAULT_SAMPLES    "60000"
#define DEFAULT_BUCKET_MB  "25"
#define DEFAULT_OVERLAP    "on"
#define DEFAULT_TIMEOUT    "30"
#define DEFAULT_DEPTH      "beginner"
#define DEFAULT_SIZES      "4K,64M"

static const struct {
    int key;
    const char *text;
} defaults[] = {
    {KEY_MODE, DEFAULT_MODE},
    {KEY_LAYERS, DEFAULT_LAYERS},
    {KEY_BATCH, DEFAULT_BATCH},
    {KEY_WARMUP, DEFAULT_WARMUP},
    {KEY_OPTIMIZER, DEFAULT_OPTIMIZER},
    {KEY_MOMENTUM, DEFAULT_MOMENTUM},
    {KEY_SEED, DEFAULT_SEED},
    {KEY_DATA, DEFAULT_DATA},
    {KEY_SAMPLES, DEFAULT_SAMPLES},
    {KEY_BUCKET_MB, DEFAULT_BUCKET_MB},
    {KEY_OVERLAP, DEFAULT_OVERLAP},
    {KEY_TIMEOUT, DEFAULT_TIMEOUT},
    {KEY_DEPTH, DEFAULT_DEPTH},
    {KEY_SIZES, DEFAULT_SIZES},
    {KEY_ACCUMULATE, DEFAULT_ACCUMULATE},
};

/* argp sorts the options of a group by name. */
const struct argp_option options_table[] = {
    {0, 0, 0, 0, "What to run:", 1},
    {"mode", KEY_MODE, "MODE", 0,
     "compare: one device, DP, DDP and the machine's limit, taking turns; single, dp or ddp: train "
     "in this one way; ladder: from naive to DDP, rung by rung; hello: a first collective; bench: "
     "how fast collectives are (" DEFAULT_MODE ")",
     0},

    {0, 0, 0, 0, "On which devices (a device is a core or a GPU):", 2},
    {"devices", KEY_DEVICES, "N", 0,
     "how many (2); for compare several numbers, as in 1,2,4 (1,2,4,... up to the cores)", 0},
    {"device", KEY_DEVICE, "KIND", 0, "cpu, cuda, or auto: GPUs if there are some (auto)", 0},
    {"oversubscribe", KEY_OVERSUBSCRIBE, 0, 0, "allow more devices than GPUs: they share", 0},
    {"precision", KEY_PRECISION, "KIND", 0, "of a GPU's products: fp32 or tf32 (fp32)", 0},

    {0, 0, 0, 0, "What to train:", 3},
    {"layers", KEY_LAYERS, "W,W,...", 0,
     "widths from the pixels to the classes (" DEFAULT_LAYERS ")", 0},
    {"batch", KEY_BATCH, "N", 0,
     "images per update, shared out among the devices (" DEFAULT_BATCH ")", 0},
    {"accumulate", KEY_ACCUMULATE, "N", 0,
     "micro-batches into which each device splits its share of them; it adds their gradients up "
     "before the update (" DEFAULT_ACCUMULATE ")",
     0},
    {"unused", KEY_UNUSED, "WHO", 0,
     "add a branch beside the last layer that never, always or rank0 (the first device alone) "
     "leaves out",
     0},
    {"data", KEY_DATA, "NAME", 0,
     "fashion-mnist, synthetic, or a directory of IDX files (" DEFAULT_DATA ")", 0},
    {"samples", KEY_SAMPLES, "N", 0, "training images of --data=synthetic (" DEFAULT_SAMPLES ")",
     0},
    {"seed", KEY_SEED, "N", 0,
     "of weights and order; the same as PyTorch's with this seed (" DEFAULT_SEED ")", 0},

    {0, 0, 0, 0, "How long:", 4},
    {"epochs", KEY_EPOCHS, "N", 0,
     "passes over the training images, each followed by a test (" DEFAULT_EPOCHS
     " for single, dp and ddp)",
     0},
    {"steps", KEY_STEPS, "N", 0,
     "measured updates, instead of epochs (" DEFAULT_STEPS " for compare and ladder)", 0},
    {"warmup", KEY_WARMUP, "N", 0, "updates before the measured ones (" DEFAULT_WARMUP ")", 0},

    {0, 0, 0, 0, "How to learn:", 5},
    {"optimizer", KEY_OPTIMIZER, "KIND", 0, "sgd, adam or adamw (" DEFAULT_OPTIMIZER ")", 0},
    {"lr", KEY_LR, "X", 0, "learning rate (0.001; sgd: 0.1)", 0},
    {"momentum", KEY_MOMENTUM, "X", 0, "of sgd (" DEFAULT_MOMENTUM ")", 0},
    {"weight-decay", KEY_WEIGHT_DECAY, "X", 0, "as PyTorch defines it (0; adamw: 0.01)", 0},

    {0, 0, 0, 0, "How devices talk:", 6},
    {"comm", KEY_COMM, "KIND", 0, "DDP's ranks: shm (shared memory), nccl or auto (auto)", 0},
    {"algorithm", KEY_ALGORITHM, "NAME", 0,
     "of all-reduces in shared memory: direct, ring, tree or naive (direct)", 0},
    {"replicate", KEY_REPLICATE, "KIND", 0,
     "DP's model to the other GPUs: star (copies), nccl or auto (auto)", 0},
    {"bucket-mb", KEY_BUCKET_MB, "X", 0,
     "MiB of gradients at which DDP closes a bucket and sends it (" DEFAULT_BUCKET_MB
     ", the first at 1)",
     0},
    {"sweep-buckets", KEY_SWEEP_BUCKETS, "X,X,...", 0,
     "a ladder's curve: DDP once more with each of these for --bucket-mb, such as 0,1,5,25", 0},
    {"overlap", KEY_OVERLAP, "on|off", 0,
     "DDP sends a bucket while backward goes on (" DEFAULT_OVERLAP ")", 0},
    {"find-unused-parameters", KEY_FIND_UNUSED, 0, 0,
     "DDP asks every step which parameters got a gradient: without it, one that got none is an "
     "error",
     0},
    {"uneven", KEY_UNEVEN, "N", 0, "DDP's last rank lacks the last N batches of an epoch", 0},
    {"on-uneven", KEY_ON_UNEVEN, "WHAT", 0,
     "then: error, before the first step; join: it answers the others with zeros; hang: the "
     "mistake, they wait (error)",
     0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "a rank waits this long for the others (" DEFAULT_TIMEOUT ")", 0},
    {"fail", KEY_FAIL, "RANK@STEP", 0,
     "a fault to be seen: rank2@100 is killed where backward of step 100 begins; "
     "stop=rank2@100, slow=rank2@100: the next two",
     0},
    {"stop", KEY_STOP, "RANK@STEP", 0, "it is frozen there, and the others wait (--timeout)", 0},
    {"slow", KEY_SLOW, "RANK@STEP", 0, "it computes at half speed from that step on", 0},

    {0, 0, 0, 0, "What the ranks of --mode=hello and bench do:", 7},
    {"collective", KEY_COLLECTIVE, "NAME", 0,
     "all_reduce, all_gather, broadcast or reduce_scatter (all_reduce; bench: all of them)", 0},
    {"sizes", KEY_SIZES, "FROM,TO", 0,
     "of bench's buffers in bytes, each four times the one before (" DEFAULT_SIZES ")", 0},
    {"op", KEY_OP, "NAME", 0, "how numbers become one: sum, avg, min, max or prod (sum)", 0},
    {"ordered", KEY_ORDERED, 0, 0, "print the ranks in order, not as they finish", 0},
    {"guess", KEY_GUESS, "X", 0,
     "hello: what rank 0 will hold; compare: by how many per cent DDP does more steps per second "
     "than "
     "DP; right or wrong, and why",
     0},

    {0, 0, 0, 0, "On hardware that is not here (profiles/README.md):", 8},
    {"profile", KEY_PROFILE, "NAME", 0,
     "virtual devices, with clocks that follow a file of profiles/, such as 4x-v100-nvlink", 0},
    {"timing-only", KEY_TIMING_ONLY, 0, 0, "keep time, and leave out arithmetic and memory", 0},
    {"workload", KEY_WORKLOAD, "NAME", 0,
     "time another network, a file of workloads/, such as resnet-50", 0},
    {"interpreter", KEY_INTERPRETER, 0, 0,
     "as PyTorch: Python queues the operations, and DP's threads share its interpreter", 0},
    {"link-gbps", KEY_LINK_GBPS, "X,X,...", 0,
     "the links' Gbit/s instead of the profile's; several: one comparison for each", 0},
    {"latency-us", KEY_LATENCY_US, "X,X,...", 0, "their latency, likewise", 0},

    {0, 0, 0, 0, "What to keep (files in the safetensors format, as PyTorch has them):", 9},
    {"save", KEY_SAVE, "FILE", 0, "the run, after every epoch and at the end", 0},
    {"load", KEY_LOAD, "FILE", 0, "begin with the weights of such a file", 0},
    {"resume", KEY_RESUME, "FILE", 0,
     "go on with the run that was saved there, up to --epochs=N in all", 0},
    {"wrapped-keys", KEY_WRAPPED_KEYS, 0, 0,
     "save keys as DP and DDP have them in PyTorch, with \"module.\"", 0},
    {"weights-only", KEY_WEIGHTS_ONLY, 0, 0,
     "save no more than PyTorch's load_state_dict takes; it cannot be resumed", 0},
    {"strict", KEY_STRICT, 0, 0, "load only what has the model's keys, to the letter", 0},

    {0, 0, 0, 0, "What to print:", 10},
    {"show-sampler", KEY_SHOW_SAMPLER, 0, 0,
     "which rank gets which of --samples=N (12) in each of --epochs=N; trains nothing", 0},
    {"no-set-epoch", KEY_NO_SET_EPOCH, 0, 0, "the mistake: every epoch in the first one's order",
     0},
    {"describe", KEY_DESCRIBE, 0, 0,
     "shapes, keys, devices and buckets of --mode=single, dp or ddp; trains nothing", 0},
    {"depth", KEY_DEPTH, "WHO", 0,
     "how much: beginner, developer or researcher (" DEFAULT_DEPTH ")", 0},
    {"json", KEY_JSON, "FILE", 0,
     "keep all results in a file; - is standard output, and the tables go to standard error", 0},
    {"replay", KEY_REPLAY, "FILE", 0, "print the tables of such a file again; runs nothing", 0},
    {"slow-motion", KEY_SLOW_MOTION, "K", 0,
     "play one step in the terminal, K times slower than it was: after a run, or of --replay=FILE",
     0},
    {"log-losses", KEY_LOG_LOSSES, 0, 0, "every step's loss in the JSON, too", 0},
    {"quiet", KEY_QUIET, 0, 0, "no progress", 0},
    {"help", KEY_HELP, 0, 0, "print this", -1},
    {"version", KEY_VERSION, 0, 0, "print the version", -1},
    {0},
};

/* --- options ------------------------------------------------------------------------------ */

const char *const options_mode_names[] = {"compare", "single", "dp",        "ddp", "hello",
                                          "bench",   "ladder", "calibrate", NULL};
static const char *const device_names[] = {"auto", "cpu", "cuda", NULL};
static const char *const comm_names[] = {"auto", "shm", "nccl", NULL};
static const char *const algorithm_names[] = {"direct", "ring", "tree", "naive", NULL};
static const char *const replicate_names[] = {"auto", "star", "nccl", NULL};
static const char *const precision_names[] = {"fp32", "tf32", NULL};
const char *const options_optimizer_names[] = {"sgd", "adam", "adamw", NULL};
const char *const options_collective_names[] = {"all_reduce", "all_gather", "broadcast",
                                                "reduce_scatter", NULL};
static const char *const op_names[] = {"sum", "avg", "min", "max", "prod", NULL};
const char *const options_unused_names[] = {"never", "always", "rank0", NULL};
static const char *const on_uneven_names[] = {"error", "join", "hang", NULL};
static const char *const overlap_names[] = {"on", "off", NULL};
static const char *const depth_names[] = {"beginner", "developer", "researcher", NULL};

const char *mode_name(Mode mode)
{
    return options_mode_names[mode];
}

static Error parse_checkpoint(Options *o, int key, const char *text)
{
    const char *name = key == KEY_SAVE ? "save" : key == KEY_LOAD ? "load" : "resume";
    if (!*text)
        return error_make("--%s=: give a file, such as model.safetensors", name);
    *(key == KEY_SAVE ? &o->save : key == KEY_LOAD ? &o->load : &o->resume) = text;
    return NULL;
}

/* A number, or per cent: 20 or 20%. */
static Error parse_guess(const char *text, double *guess, bool *percent)
{
    char number[64];
    size_t length = strlen(text);
    *percent = length > 1 && text[length - 1] == '%';
    if (!*percent || length >= sizeof number)
        return parse_real("guess", text, -1e12, 1e12, guess);
    snprintf(number, sizeof number, "%.*s", (int)length - 1, text);
    return parse_real("guess", number, -1e12, 1e12, guess);
}

Error options_set(Options *o, int key, const char *text)
{
    int choice = 0;
    switch (key) {
    case KEY_MODE:
        TRY(parse_choice("mode", text, options_mode_names, &choice));
        o->mode = (Mode)choice;
        return NULL;
    case KEY_DEVICES:
        return parse_list("devices", text, 1, OPTIONS_MOST_VIRTUAL, o->devices, OPTIONS_MOST_COUNTS,
                          &o->device_counts);
    case KEY_DEVICE:
        if (*text >= '0' && *text <= '9')
            return error_make("--device=%s: did you mean --devices=%s? (--device is auto, cpu or "
                              "cuda)",
                              shown(text).text, shown(text).text);
        TRY(parse_choice("device", text, device_names, &choice));
        o->device = (DeviceChoice)choice;
        return NULL;
    case KEY_COMM:
        TRY(parse_choice("comm", text, comm_names, &choice));
        o->comm = (CommChoice)choice;
        return NULL;
    case KEY_ALGORITHM:
        TRY(parse_choice("algorithm", text, algorithm_names, &choice));
        o->algorithm = (CommAlgorithm)choice;
        return NULL;
    case KEY_REPLICATE:
        TRY(parse_choice("replicate", text, replicate_names, &choice));
        o->replicate = (ReplicateChoice)choice;
        return NULL;
    case KEY_OVERSUBSCRIBE:
        o->oversubscribe = true;
        return NULL;
    case KEY_PRECISION:
        TRY(parse_choice("precision", text, precision_names, &choice));
        o->tf32 = choice == 1;
        return NULL;
    case KEY_LAYERS: { /* a layer of width 0 is refused by the list */
        int widths;
        TRY(parse_list("layers", text, 1, 1 << 20, o->widths, MODEL_MOST_LAYERS + 1, &widths));
        if (widths < 2)
            return error_make("--layers=%s: at least two widths, pixels and classes, such as "
                              "784,10",
                              shown(text).text);
        o->layers = widths - 1;
        return NULL;
    }
    case KEY_BATCH:
        return parse_int("batch", text, 1, 1 << 20, &o->batch);
    case KEY_ACCUMULATE:
        return parse_int("accumulate", text, 1, 1 << 20, &o->accumulate);
    case KEY_EPOCHS:
        return parse_integer("epochs", text, 1, 100000, &o->epochs);
    case KEY_STEPS:
        return parse_integer("steps", text, 1, 10000000, &o->steps);
    case KEY_WARMUP:
        return parse_integer("warmup", text, 0, 1000000, &o->warmup);
    case KEY_OPTIMIZER:
        TRY(parse_choice("optimizer", text, options_optimizer_names, &choice));
        o->optimizer.kind = (OptimizerKind)choice;
        return NULL;
    case KEY_LR:
        return parse_real("lr", text, 0, 1000, &o->optimizer.lr);
    case KEY_MOMENTUM:
        TRY(parse_real("momentum", text, 0, 1, &o->optimizer.momentum));
        if (o->optimizer.momentum == 1)
            return error_make("--momentum=%s: must be less than 1, or nothing is ever forgotten",
                              shown(text).text);
        return NULL;
    case KEY_WEIGHT_DECAY:
        return parse_real("weight-decay", text, 0, 1000, &o->optimizer.weight_decay);
    case KEY_SEED: {
        int64_t seed = 0;
        TRY(parse_integer("seed", text, 0, UINT32_MAX, &seed));
        o->seed = (uint64_t)seed;
        return NULL;
    }
    case KEY_DATA:
        if (!*text)
            return error_make("--data=: give fashion-mnist, synthetic or a directory");
        o->data = text;
        return NULL;
    case KEY_SAMPLES:
        return parse_integer("samples", text, 1, 100000000, &o->samples);
    case KEY_BUCKET_MB:
        return parse_real("bucket-mb", text, 0, 100000, &o->bucket_mb);
    case KEY_SWEEP_BUCKETS:
        return parse_reals("sweep-buckets", text, 0, 100000, o->sweep_mb, OPTIONS_MOST_SWEEP,
                           &o->sweep_sizes);
    case KEY_OVERLAP:
        TRY(parse_choice("overlap", text, overlap_names, &choice));
        o->overlap = choice == 0;
        return NULL;
    case KEY_UNUSED:
        TRY(parse_choice("unused", text, options_unused_names, &choice));
        o->unused = (Unused)(UNUSED_NEVER + choice);
        return NULL;
    case KEY_FIND_UNUSED:
        o->find_unused = true;
        return NULL;
    case KEY_FAIL:
        return fault_parse("fail", text, &o->fault);
    case KEY_STOP:
        return fault_parse("stop", text, &o->fault);
    case KEY_SLOW:
        return fault_parse("slow", text, &o->fault);
    case KEY_UNEVEN:
        return parse_integer("uneven", text, 1, 10000000, &o->uneven);
    case KEY_ON_UNEVEN:
        TRY(parse_choice("on-uneven", text, on_uneven_names, &choice));
        o->on_uneven = (OnUneven)choice;
        return NULL;
    case KEY_TIMEOUT:
        TRY(parse_real("timeout", text, 0, 1e6, &o->timeout_s));
        if (o->timeout_s < 0.1)
            return error_make("--timeout=%s: at least 0.1 seconds", shown(text).text);
        return NULL;
    case KEY_COLLECTIVE:
        TRY(parse_choice("collective", text, options_collective_names, &choice));
        o->collective = (HelloCollective)choice;
        return NULL;
    case KEY_OP:
        TRY(parse_choice("op", text, op_names, &choice));
        o->op = (CommOp)choice;
        return NULL;
    case KEY_ORDERED:
        o->ordered = true;
        return NULL;
    case KEY_GUESS:
        return parse_guess(text, &o->guess, &o->guess_percent);
    case KEY_SIZES:
        return parse_sizes("sizes", text, 4, (size_t)1 << 32, &o->least_bytes, &o->most_bytes);
    case KEY_PROFILE:
        if (!*text)
            return error_make("--profile=: give a name, such as 4x-v100-nvlink, or a file");
        o->profile = text;
        return NULL;
    case KEY_WORKLOAD:
        if (!*text)
            return error_make("--workload=: give a name, such as resnet-50, or a file");
        o->workload_name = text;
        return NULL;
    case KEY_TIMING_ONLY:
        o->hardware.timing_only = true;
        return NULL;
    case KEY_INTERPRETER:
        o->hardware.interpreter = true;
        return NULL;
    case KEY_LINK_GBPS:
        return parse_reals("link-gbps", text, 0.001, 1e6, o->link_gbps, OPTIONS_MOST_SWEEP,
                           &o->link_counts);
    case KEY_LATENCY_US:
        return parse_reals("latency-us", text, 0, 1e7, o->latency_us, OPTIONS_MOST_SWEEP,
                           &o->latency_counts);
    case KEY_SAVE:
    case KEY_LOAD:
    case KEY_RESUME:
        return parse_checkpoint(o, key, text);
    case KEY_WRAPPED_KEYS:
        o->wrapped_keys = true;
        return NULL;
    case KEY_WEIGHTS_ONLY:
        o->weights_only = true;
        return NULL;
    case KEY_STRICT:
        o->strict = true;
        return NULL;
    case KEY_SHOW_SAMPLER:
        o->show_sampler = true;
        return NULL;
    case KEY_NO_SET_EPOCH:
        o->set_epoch = false;
        return NULL;
    case KEY_DESCRIBE:
        o->describe = true;
        return NULL;
    case KEY_DEPTH:
        TRY(parse_choice("depth", text, depth_names, &choice));
        o->depth = (Depth)choice;
        return NULL;
    case KEY_JSON:
        if (!*text)
            return error_make("--json=: give a file, or - for standard output");
        o->json = text;
        return NULL;
    case KEY_REPLAY:
        if (!*text)
            return error_make("--replay=: give a file that --json=FILE has written");
        o->replay = text;
        return NULL;
    case KEY_SLOW_MOTION:
        return parse_real("slow-motion", text, 1, 1e6, &o->slow_motion);
    case KEY_LOG_LOSSES:
        o->log_losses = true;
        return NULL;
    case KEY_QUIET:
        o->quiet = true;
        return NULL;
    default:
        return NULL;
    }
}

static error_t argp_callback(int key, char *argument, struct argp_state *state)
{
    Parse *parse = state->input;
    if (key < KEY_MODE || key > KEY_VERSION)
        return ARGP_ERR_UNKNOWN; /* one of argp's own events */
    parse->given[key - KEY_MODE] = true;
    if (!parse->error)
        parse->error = options_set(parse->options, key, argument);
    return 0;
}

static const char about[] =
    "Trains a small network on several devices, as DataParallel (DP) or as DistributedDataParallel "
    "(DDP), and shows which is faster and why. In brackets: what is used if you say nothing.\v"
    "Examples:\n"
    "  ./trainer                               compare, on this machine's cores\n"
    "  ./trainer --depth=developer             the same, every phase\n"
    "  ./trainer --layers=784,128,10           a tiny model: who wins now?\n"
    "  ./trainer --mode=ddp --devices=4        train with DDP on four devices\n"
    "  ./trainer --mode=ddp --bucket-mb=0.5    what do small buckets cost?\n"
    "  ./trainer --mode=ladder                 from naive to DDP, rung by rung\n"
    "  ./trainer --mode=hello --devices=4      four ranks add their numbers\n"
    "  ./trainer --mode=bench                  how fast are collectives here?\n"
    "  ./trainer --json=run.json               keep the results\n"
    "  ./trainer --replay=run.json             and look at them again\n"
    "\n"
    "Exit status: 0 done, 1 the run failed, 2 wrong usage, 130 interrupted.";

static const struct argp parser = {options_table, argp_callback, 0, about, 0, 0, 0};

/* --- the command line --------------------------------------------------------------------- */

static Error set_defaults(Options *options)
{
    *options = (Options){.set_epoch = true};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        TRY(options_set(options, defaults[i].key, defaults[i].text));
    return NULL;
}

Error options_parse(int argc, char **argv, Options *options, bool *done)
{
    *done = false;
    TRY(set_defaults(options));
    TRY(options_check_names(argc, argv));
    Parse parse = {.options = options};
    argp_parse(&parser, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP | ARGP_NO_ERRS, NULL, &parse);
    if (given(&parse, KEY_HELP)) {
        argp_help(&parser, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, (char *)"trainer");
        *done = true;
        return NULL;
    }
    if (given(&parse, KEY_VERSION)) {
        printf("trainer %s\n", TRAINER_REVISION);
        *done = true;
        return NULL;
    }
    TRY(parse.error);
    TRY(options_finish(&parse));
    options->command_line = options_join(argc, argv);
    return options->command_line ? NULL : error_make("no memory");
}

void options_free(Options *options)
{
    free(options->command_line);
    free(options->workload);
    options->command_line = NULL;
    options->workload = NULL;
}
