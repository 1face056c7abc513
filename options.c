/* options.c: the command line (see options.h). Parsed by argp; the table below is all there is to
 * it.
 *
 * Names are checked before argp sees them, so that a slip gets a suggestion and not a guess: argp
 * would take --device=2 for the valid --device and --dev for a short form of it.
 */
#include "options.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef TRAINER_REVISION
#define TRAINER_REVISION "unknown"
#endif

const char *argp_program_bug_address = NULL;

/* The options, as --help shows them. Keys are no characters: there are no short forms. */
enum {
    KEY_MODE = 256,
    KEY_DEVICES,
    KEY_DEVICE,
    KEY_COMM,
    KEY_REPLICATE,
    KEY_OVERSUBSCRIBE,
    KEY_PRECISION,
    KEY_LAYERS,
    KEY_BATCH,
    KEY_EPOCHS,
    KEY_STEPS,
    KEY_WARMUP,
    KEY_OPTIMIZER,
    KEY_LR,
    KEY_MOMENTUM,
    KEY_WEIGHT_DECAY,
    KEY_SEED,
    KEY_DATA,
    KEY_SAMPLES,
    KEY_BUCKET_MB,
    KEY_OVERLAP,
    KEY_TIMEOUT,
    KEY_DEPTH,
    KEY_JSON,
    KEY_REPLAY,
    KEY_LOG_LOSSES,
    KEY_QUIET,
    KEY_HELP,
    KEY_VERSION,
};

static const struct argp_option table[] = {
    {0, 0, 0, 0, "What to run:", 1},
    {"mode", KEY_MODE, "MODE", 0,
     "compare (default): one device, DP, DDP and the machine's limit, taking turns; single, dp or "
     "ddp: train one way",
     0},
    {"devices", KEY_DEVICES, "N[,N...]", 0,
     "devices to train on (2); for compare a list (1,2,4,... up to the cores)", 0},
    {"device", KEY_DEVICE, "KIND", 0, "auto (default), cpu or cuda", 0},
    {"oversubscribe", KEY_OVERSUBSCRIBE, 0, 0, "allow more devices than GPUs: they share", 0},
    {"comm", KEY_COMM, "KIND", 0, "how DDP's ranks talk: auto (default), shm or nccl", 0},
    {"replicate", KEY_REPLICATE, "KIND", 0,
     "how DP sends its model to GPUs: auto (default), star (copies) or nccl", 0},

    {0, 0, 0, 0, "What to train:", 2},
    {"layers", KEY_LAYERS, "W,W,...", 0, "widths from the pixels to the classes (784,512,512,10)",
     0},
    {"batch", KEY_BATCH, "N", 0, "images per update, over all devices (256)", 0},
    {"data", KEY_DATA, "NAME", 0, "fashion-mnist (default), synthetic, or a directory of IDX files",
     0},
    {"samples", KEY_SAMPLES, "N", 0, "synthetic training images (60000)", 0},
    {"seed", KEY_SEED, "N", 0, "of weights and order, the same as PyTorch's (0)", 0},
    {"precision", KEY_PRECISION, "KIND", 0, "of products on GPUs: fp32 (default) or tf32", 0},

    {0, 0, 0, 0, "How long:", 3},
    {"epochs", KEY_EPOCHS, "N", 0,
     "passes over the training images (3 for single, dp and ddp), each followed by the test "
     "images",
     0},
    {"steps", KEY_STEPS, "N", 0, "measured updates instead of epochs (60 for compare)", 0},
    {"warmup", KEY_WARMUP, "N", 0, "updates before the measured ones (5)", 0},

    {0, 0, 0, 0, "How to learn:", 4},
    {"optimizer", KEY_OPTIMIZER, "KIND", 0, "sgd, adam or adamw (default)", 0},
    {"lr", KEY_LR, "X", 0, "learning rate (0.1 for sgd, 0.001 for adam and adamw)", 0},
    {"momentum", KEY_MOMENTUM, "X", 0, "of sgd (0.9)", 0},
    {"weight-decay", KEY_WEIGHT_DECAY, "X", 0, "as PyTorch defines it (0; 0.01 for adamw)", 0},

    {0, 0, 0, 0, "How DDP talks:", 5},
    {"bucket-mb", KEY_BUCKET_MB, "X", 0,
     "size in MiB at which a bucket of gradients closes (25, the first at 1)", 0},
    {"overlap", KEY_OVERLAP, "on|off", 0, "start a bucket while backward goes on (on)", 0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "how long a rank waits for the others (30)", 0},

    {0, 0, 0, 0, "What to print:", 6},
    {"depth", KEY_DEPTH, "WHO", 0, "beginner (default), developer or researcher", 0},
    {"json", KEY_JSON, "FILE", 0,
     "write everything as one JSON object; - is standard output, and the tables go to standard "
     "error",
     0},
    {"replay", KEY_REPLAY, "FILE", 0, "print the tables of such a file again; runs nothing", 0},
    {"log-losses", KEY_LOG_LOSSES, 0, 0, "every step's loss in the JSON", 0},
    {"quiet", KEY_QUIET, 0, 0, "no progress on standard error", 0},
    {"help", KEY_HELP, 0, 0, "print this", -1},
    {"version", KEY_VERSION, 0, 0, "print the version", -1},
    {0},
};

/* --- values ------------------------------------------------------------------------------- */

static Error parse_integer(const char *name, const char *text, int64_t least, int64_t most,
                           int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    bool plain = *text == '-' || (*text >= '0' && *text <= '9');
    if (!plain || *end || end == text)
        return error_make("--%s=%s: not a whole number", name, text);
    if (errno == ERANGE || number < least || number > most)
        return error_make("--%s=%s: must lie between %lld and %lld", name, text, (long long)least,
                          (long long)most);
    *value = number;
    return NULL;
}

static Error parse_int(const char *name, const char *text, int least, int most, int *value)
{
    int64_t number = 0;
    TRY(parse_integer(name, text, least, most, &number));
    *value = (int)number;
    return NULL;
}

static Error parse_real(const char *name, const char *text, double least, double most,
                        double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (*end || end == text || strspn(text, " \t\n") > 0 || !isfinite(number))
        return error_make("--%s=%s: not a number", name, text);
    if (number < least || number > most)
        return error_make("--%s=%s: must lie between %g and %g", name, text, least, most);
    *value = number;
    return NULL;
}

/* Letters to change, add, drop or swap until `a` is `b` (Damerau-Levenshtein, adjacent swaps). */
static int distance(const char *a, const char *b)
{
    enum { MOST = 24 };
    int table_of[MOST + 1][MOST + 1];
    int m = (int)strlen(a), n = (int)strlen(b);
    if (m > MOST || n > MOST)
        return MOST;
    for (int i = 0; i <= m; i++)
        for (int j = 0; j <= n; j++) {
            if (i == 0 || j == 0) {
                table_of[i][j] = i + j;
                continue;
            }
            int best = table_of[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (best > table_of[i - 1][j] + 1)
                best = table_of[i - 1][j] + 1;
            if (best > table_of[i][j - 1] + 1)
                best = table_of[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                best > table_of[i - 2][j - 2] + 1)
                best = table_of[i - 2][j - 2] + 1;
            table_of[i][j] = best;
        }
    return table_of[m][n];
}

/* Index of `text` among `names` (NULL at the end), or an error that lists them. */
static Error parse_choice(const char *name, const char *text, const char *const *names, int *value)
{
    char list[200] = "";
    const char *near = NULL;
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value = i;
            return NULL;
        }
        if (distance(text, names[i]) <= 1)
            near = names[i];
        size_t used = strlen(list);
        const char *before = i == 0 ? "" : names[i + 1] ? ", " : " or ";
        snprintf(list + used, sizeof list - used, "%s%s", before, names[i]);
    }
    if (near)
        return error_make("--%s=%s: did you mean --%s=%s? (choose %s)", name, text, name, near,
                          list);
    return error_make("--%s=%s: choose %s", name, text, list);
}

/* Numbers with commas between them. */
static Error parse_list(const char *name, const char *text, int least, int most, int *values,
                        int room, int *count)
{
    *count = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long number = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || (*end != ',' && *end != '\0'))
            return error_make("--%s=%s: whole numbers with commas between them, such as 1,2,4",
                              name, text);
        if (errno == ERANGE || number < least || number > most) {
            if (at == text && !*end)
                return error_make("--%s=%s: must lie between %d and %d", name, text, least, most);
            return error_make("--%s=%s: %.*s must lie between %d and %d", name, text,
                              (int)(end - at), at, least, most);
        }
        if (*count == room)
            return error_make("--%s=%s: at most %d numbers", name, text, room);
        values[(*count)++] = (int)number;
        at = end;
        if (!*at)
            return NULL;
    }
}

/* --- options ------------------------------------------------------------------------------ */

static const char *const mode_names[] = {"compare", "single", "dp", "ddp", NULL};
static const char *const device_names[] = {"auto", "cpu", "cuda", NULL};
static const char *const comm_names[] = {"auto", "shm", "nccl", NULL};
static const char *const replicate_names[] = {"auto", "star", "nccl", NULL};
static const char *const precision_names[] = {"fp32", "tf32", NULL};
static const char *const optimizer_names[] = {"sgd", "adam", "adamw", NULL};
static const char *const overlap_names[] = {"on", "off", NULL};
static const char *const depth_names[] = {"beginner", "developer", "researcher", NULL};

const char *mode_name(Mode mode)
{
    return mode_names[mode];
}

/* What argp's callback works on. */
typedef struct Parse {
    Options *options;
    Error error;
    bool lr_given, weight_decay_given, epochs_given, steps_given;
    bool replay_only; /* nothing but --replay and --depth so far */
} Parse;

static Error parse_option(Parse *parse, int key, const char *text)
{
    Options *o = parse->options;
    int choice = 0;
    switch (key) {
    case KEY_MODE:
        TRY(parse_choice("mode", text, mode_names, &choice));
        o->mode = (Mode)choice;
        return NULL;
    case KEY_DEVICES:
        return parse_list("devices", text, 1, OPTIONS_MOST_DEVICES, o->devices, OPTIONS_MOST_COUNTS,
                          &o->device_counts);
    case KEY_DEVICE:
        if (*text >= '0' && *text <= '9')
            return error_make("--device=%s: did you mean --devices=%s? (--device is auto, cpu or "
                              "cuda)",
                              text, text);
        TRY(parse_choice("device", text, device_names, &choice));
        o->device = (DeviceChoice)choice;
        return NULL;
    case KEY_COMM:
        TRY(parse_choice("comm", text, comm_names, &choice));
        o->comm = (CommChoice)choice;
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
                              text);
        o->layers = widths - 1;
        o->widths_given = true;
        return NULL;
    }
    case KEY_BATCH:
        return parse_int("batch", text, 1, 1 << 20, &o->batch);
    case KEY_EPOCHS:
        parse->epochs_given = true;
        return parse_integer("epochs", text, 1, 100000, &o->epochs);
    case KEY_STEPS:
        parse->steps_given = true;
        return parse_integer("steps", text, 1, 10000000, &o->steps);
    case KEY_WARMUP:
        return parse_integer("warmup", text, 0, 1000000, &o->warmup);
    case KEY_OPTIMIZER:
        TRY(parse_choice("optimizer", text, optimizer_names, &choice));
        o->optimizer.kind = (OptimizerKind)choice;
        return NULL;
    case KEY_LR:
        parse->lr_given = true;
        return parse_real("lr", text, 0, 1000, &o->optimizer.lr);
    case KEY_MOMENTUM:
        o->momentum_given = true;
        TRY(parse_real("momentum", text, 0, 1, &o->optimizer.momentum));
        if (o->optimizer.momentum == 1)
            return error_make("--momentum=%s: must be less than 1, or nothing is ever forgotten",
                              text);
        return NULL;
    case KEY_WEIGHT_DECAY:
        parse->weight_decay_given = true;
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
        o->data_given = true;
        return NULL;
    case KEY_SAMPLES:
        o->samples_given = true;
        return parse_integer("samples", text, 1, 100000000, &o->samples);
    case KEY_BUCKET_MB:
        o->bucket_given = true;
        return parse_real("bucket-mb", text, 0, 100000, &o->bucket_mb);
    case KEY_OVERLAP:
        TRY(parse_choice("overlap", text, overlap_names, &choice));
        o->overlap = choice == 0;
        return NULL;
    case KEY_TIMEOUT:
        TRY(parse_real("timeout", text, 0, 1e6, &o->timeout_s));
        if (o->timeout_s < 0.1)
            return error_make("--timeout=%s: at least 0.1 seconds", text);
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
    if (!parse->error) {
        if (key != KEY_REPLAY && key != KEY_DEPTH)
            parse->replay_only = false;
        parse->error = parse_option(parse, key, argument);
    }
    return 0;
}

static const char about[] =
    "Trains a small network on several devices, as DataParallel (DP) or as DistributedDataParallel "
    "(DDP), and shows which is faster and why.\v"
    "Examples:\n"
    "  ./trainer                               compare, on this machine's cores\n"
    "  ./trainer --depth=developer             the same, every phase\n"
    "  ./trainer --mode=ddp --devices=4        train with DDP on four devices\n"
    "  ./trainer --layers=784,128,10           a tiny model: who wins now?\n"
    "  ./trainer --json=run.json               keep the results\n"
    "  ./trainer --replay=run.json             and look at them again\n"
    "\n"
    "Exit status: 0 done, 1 the run failed, 2 wrong usage, 130 interrupted.";

static const struct argp parser = {table, argp_callback, 0, about, 0, 0, 0};

/* --- names -------------------------------------------------------------------------------- */

static const struct argp_option *find_option(const char *name)
{
    for (const struct argp_option *option = table; option->name || option->doc; option++)
        if (option->name && strcmp(option->name, name) == 0)
            return option;
    return NULL;
}

static Error unknown_option(const char *name, const char *value)
{
    const char *near = NULL;
    int best = 3; /* more than two letters off is no slip */
    for (const struct argp_option *option = table; option->name || option->doc; option++) {
        if (!option->name)
            continue;
        int letters = distance(name, option->name);
        if (strncmp(option->name, name, strlen(name)) == 0 && letters > 1 && strlen(name) > 1)
            letters = 2; /* the beginning of a name */
        if (letters < best && letters < (int)strlen(name)) {
            best = letters;
            near = option->name;
        }
    }
    if (near)
        return error_make("--%s: no such option; did you mean --%s%s?", name, near, value);
    return error_make("--%s: no such option; --help lists them", name);
}

/* A word that is not an option. */
static Error stray_word(const char *word)
{
    for (int i = 0; mode_names[i]; i++)
        if (strcmp(word, mode_names[i]) == 0)
            return error_make("%s: did you mean --mode=%s?", word, word);
    if (word[0] == '-')
        return error_make("%s: options begin with two dashes; --help lists them", word);
    return error_make("%s: not an option; --help lists them", word);
}

static Error check_names(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || !argv[i][2])
            return stray_word(argv[i]);
        char name[64];
        size_t length = strcspn(argv[i] + 2, "=");
        const char *value = argv[i] + 2 + length;
        snprintf(name, sizeof name, "%.*s", (int)length, argv[i] + 2);
        const struct argp_option *option = find_option(name);
        if (!option)
            return unknown_option(name, value);
        if (!option->arg && *value)
            return error_make("--%s: takes no value", name);
        if (option->arg && !*value) {
            if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)
                return error_make("--%s: needs a value: --%s=%s", name, name, option->arg);
            i++; /* the value is the next word */
        }
    }
    return NULL;
}

/* --- the command line --------------------------------------------------------------------- */

static char *join(int argc, char **argv)
{
    size_t bytes = 1;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    char *line = calloc(1, bytes);
    for (int i = 0; line && i < argc; i++) {
        strcat(line, i ? " " : "");
        strcat(line, argv[i]);
    }
    return line;
}

static void set_defaults(Options *options)
{
    *options = (Options){
        .mode = MODE_COMPARE,
        .layers = 3,
        .widths = {784, 512, 512, 10},
        .batch = 256,
        .warmup = 5,
        .optimizer = {.kind = OPTIMIZER_ADAMW, .momentum = 0.9},
        .data = "fashion-mnist",
        .samples = 60000,
        .bucket_mb = 25,
        .overlap = true,
        .timeout_s = 30,
    };
}

static Error finish(Parse *parse)
{
    Options *o = parse->options;
    OptimizerSettings *optimizer = &o->optimizer;
    if (parse->epochs_given && parse->steps_given)
        return error_make("--epochs and --steps both say how long to train: give one of them");
    if (!parse->epochs_given && !parse->steps_given) {
        if (o->mode == MODE_COMPARE)
            o->steps = 60;
        else
            o->epochs = 3;
    }
    if (!parse->lr_given)
        optimizer->lr = optimizer->kind == OPTIMIZER_SGD ? 0.1 : 0.001;
    if (!parse->weight_decay_given)
        optimizer->weight_decay = optimizer->kind == OPTIMIZER_ADAMW ? 0.01 : 0;
    if (o->momentum_given && optimizer->kind != OPTIMIZER_SGD)
        return error_make("--momentum belongs to --optimizer=sgd; %s has its own (0.9 and 0.999)",
                          optimizer_names[optimizer->kind]);
    if (o->replay && !parse->replay_only)
        return error_make("--replay prints an old run and runs nothing: only --depth goes with it");
    if (o->samples_given && o->data_given && strcmp(o->data, "synthetic") != 0)
        return error_make("--samples belongs to --data=synthetic");
    if (o->mode == MODE_COMPARE && !o->overlap)
        return error_make("--overlap=off belongs to --mode=ddp: compare runs DDP both ways");

    for (int i = 1; i < o->device_counts; i++)
        for (int j = i; j > 0 && o->devices[j - 1] > o->devices[j]; j--) {
            int swap = o->devices[j];
            o->devices[j] = o->devices[j - 1];
            o->devices[j - 1] = swap;
        }
    for (int i = 1; i < o->device_counts; i++)
        if (o->devices[i] == o->devices[i - 1])
            return error_make("--devices: %d is there twice", o->devices[i]);
    if (o->device_counts > 1 && o->mode != MODE_COMPARE)
        return error_make("--devices: a list is for --mode=compare; --mode=%s takes one number",
                          mode_names[o->mode]);
    if (o->mode == MODE_SINGLE && o->device_counts == 1 && o->devices[0] != 1)
        return error_make("--mode=single is training on one device; --devices=%d needs "
                          "--mode=dp or --mode=ddp",
                          o->devices[0]);
#ifndef TRAINER_CUDA
    if (o->device == CHOICE_CUDA)
        return error_make("--device=cuda: this trainer was built without CUDA; `make` says what it "
                          "needs");
#endif
#ifndef TRAINER_NCCL
    if (o->comm == COMM_CHOICE_NCCL)
        return error_make("--comm=nccl: this trainer was built without NCCL; `make` says what it "
                          "needs");
#endif
    if (o->comm == COMM_CHOICE_NCCL && o->device == CHOICE_CPU)
        return error_make("--comm=nccl needs GPUs: --device=cuda");
    return NULL;
}

Error options_parse(int argc, char **argv, Options *options, bool *done)
{
    *done = false;
    set_defaults(options);
    TRY(check_names(argc, argv));
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--version") == 0) {
            printf("trainer %s\n", TRAINER_REVISION);
            *done = true;
            return NULL;
        }
        if (strcmp(argv[i], "--help") == 0) {
            argp_help(&parser, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, (char *)"trainer");
            *done = true;
            return NULL;
        }
    }
    options->command_line = join(argc, argv);
    if (!options->command_line)
        return error_make("no memory");
    Parse parse = {.options = options, .replay_only = true};
    argp_parse(&parser, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP | ARGP_NO_ERRS, NULL, &parse);
    TRY(parse.error);
    return finish(&parse);
}

void options_free(Options *options)
{
    free(options->command_line);
    options->command_line = NULL;
}

/* --- checks ------------------------------------------------------------------------------- */

/* That the JSON can be written, found out now rather than after the run; touches no old file. */
static Error check_json(const char *path)
{
    if (strcmp(path, "-") == 0)
        return NULL;
    struct stat status;
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return error_make("--json=%s: is a directory; give a file in it", path);
        if (access(path, W_OK) != 0)
            return error_make("--json=%s: cannot be written: %s", path, strerror(errno));
        return NULL;
    }
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = '\0';
    else
        snprintf(directory, sizeof directory, ".");
    if (access(directory, W_OK | X_OK) != 0)
        return error_make("--json=%s: cannot be written: %s: %s", path, directory, strerror(errno));
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
        for (int devices = 1; devices <= most && devices <= options->batch; devices *= 2)
            options->devices[options->device_counts++] = devices;
    }
}

Error options_check(Options *options, const Dataset *data, int cores)
{
    if (options->samples_given && strcmp(data->name, "synthetic") != 0)
        return error_make("--samples belongs to --data=synthetic; %s has %zu training images",
                          data->name, data->train.count);
    int pixels = data->train.height * data->train.width;
    int classes =
        data->train.classes > data->test.classes ? data->train.classes : data->test.classes;
    if (options->widths[0] != pixels) {
        if (options->widths_given)
            return error_make(
                "--layers begins with %d, but an image of %s has %d x %d = %d pixels: "
                "begin with %d",
                options->widths[0], data->name, data->train.height, data->train.width, pixels,
                pixels);
        options->widths[0] = pixels;
    }
    int outputs = options->widths[options->layers];
    if (outputs < classes) {
        if (options->widths_given)
            return error_make("--layers ends with %d, but %s has %d classes: end with %d or more",
                              outputs, data->name, classes, classes);
        options->widths[options->layers] = classes;
    }
    if (options->device_counts == 0)
        default_devices(options, cores);
    int most = options->devices[options->device_counts - 1];
    if (options->batch < most)
        return error_make("--batch=%d is less than --devices=%d: some would have nothing to do; "
                          "give at least one image each",
                          options->batch, most);
    if ((size_t)options->batch > data->train.count)
        return error_make("--batch=%d is more than the %zu training images of %s", options->batch,
                          data->train.count, data->name);
    if (options->json)
        TRY(check_json(options->json));
    return NULL;
}
