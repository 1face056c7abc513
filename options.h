/* options.h: the command line: one table of options, their defaults, and the checks on them.
 */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include "base/error.h"
#include "checkpoint.h"
#include "data.h"
#include "device/virtual.h"
#include "fault.h"
#include "hello.h"
#include "model.h"
#include "optimizer.h"
#include "sampler.h"

#include <stdbool.h>
#include <stdint.h>

#define OPTIONS_MOST_DEVICES 256   /* that are there */
#define OPTIONS_MOST_VIRTUAL 16384 /* that are not */
#define OPTIONS_MOST_SWEEP   16
#define OPTIONS_MOST_COUNTS  16
#define OPTIONS_MOST_SWEEP   16

typedef enum {
    MODE_COMPARE,
    MODE_SINGLE,
    MODE_DP,
    MODE_DDP,
    MODE_HELLO,
    MODE_BENCH,
    MODE_LADDER,
    MODE_CALIBRATE
} Mode;
typedef enum { CHOICE_AUTO, CHOICE_CPU, CHOICE_CUDA } DeviceChoice;
typedef enum { COMM_CHOICE_AUTO, COMM_CHOICE_SHM, COMM_CHOICE_NCCL } CommChoice;
typedef enum { REPLICATE_AUTO, REPLICATE_STAR, REPLICATE_NCCL } ReplicateChoice;
typedef enum { DEPTH_BEGINNER, DEPTH_DEVELOPER, DEPTH_RESEARCHER } Depth;

typedef struct Options {
    Mode mode;
    int device_counts;                /* entries of devices; 0: the mode's default */
    int devices[OPTIONS_MOST_COUNTS]; /* ascending */
    DeviceChoice device;
    CommChoice comm;
    CommAlgorithm algorithm; /* of DDP's all-reduce in shared memory */
    bool algorithm_given;
    ReplicateChoice replicate; /* how DP sends its model to GPUs */
    bool oversubscribe;        /* more devices than GPUs */
    bool tf32;

    int layers;                        /* of weights */
    int widths[MODEL_MOST_LAYERS + 1]; /* [layers + 1] */
    bool widths_given;
    int batch;      /* samples per update, over all devices */
    int accumulate; /* micro-batches per update and device */
    int64_t epochs; /* 0: by steps */
    int64_t steps;  /* measured ones; 0: by epochs */
    int64_t warmup; /* steps before them */
    bool warmup_given;
    OptimizerSettings optimizer;
    uint64_t seed;

    const char *data; /* "fashion-mnist", "synthetic" or a directory */
    int64_t samples;  /* synthetic training samples; a sixth as many for testing */
    bool samples_given;
    double bucket_mb; /* MiB */
    bool bucket_given;
    int sweep_sizes; /* of --mode=ladder: bucket sizes in MiB, ascending */
    double sweep_mb[OPTIONS_MOST_SWEEP];
    bool overlap;
    Unused unused;
    bool find_unused;
    int64_t uneven; /* batches that DDP's last rank lacks in an epoch */
    OnUneven on_uneven;
    Fault fault;
    double timeout_s;

    HelloCollective collective; /* of --mode=hello and bench; the next three: of hello */
    CommOp op;
    bool ordered;
    bool guess_given;
    double guess;       /* hello: what rank 0 will hold; compare: DDP's lead over DP in per cent */
    bool guess_percent; /* written as 20% */
    bool collective_given;
    size_t least_bytes, most_bytes; /* of --mode=bench */

    const char *profile; /* name or file of the hardware that is not here; NULL: real devices */
    bool beside;         /* with --device=cpu: measured, and virtual beside it */
    const char *workload_name;
    Hardware hardware;  /* with --profile, from options_hardware on; its two flags as typed */
    Workload *workload; /* freed by options_free */
    int link_counts, latency_counts; /* of the next two */
    double link_gbps[OPTIONS_MOST_SWEEP];
    double latency_us[OPTIONS_MOST_SWEEP];

    const char *save; /* file; NULL: none */
    const char *load;
    const char *resume;
    bool wrapped_keys;
    bool weights_only;
    bool strict;
    struct {
        bool layers, batch, seed, optimizer, lr, momentum, weight_decay, data, unused;
    } typed; /* a resumed run must agree with what was typed, and decides what was not */

    bool describe;
    bool show_sampler;
    bool set_epoch; /* false: the mistake of forgetting it */
    Depth depth;
    const char *json;   /* file, "-" for standard output; NULL: none */
    const char *replay; /* file; NULL: none */
    double slow_motion; /* how many times slower a step is played; 0: not at all */
    bool log_losses;
    bool quiet;
    char *command_line; /* as typed; freed by options_free */
} Options;

/* Fills `options` from the command line, defaults where it says nothing. Strings point into argv.
 * An Error is a wrong usage: one sentence, without the program's name. --help and --version print
 * and set `*done`. */
Error options_parse(int argc, char **argv, Options *options, bool *done);
void options_free(Options *options);

/* Reads what --profile and --workload name into options->hardware and options->workload, and checks
 * that the options go with it. To be called before the data are loaded. Does nothing without
 * --profile. */
Error options_hardware(Options *options);

/* Gives options->hardware the link speed and the latency at these indices of --link-gbps and
 * --latency-us, where they were given. */
void options_set_link(Options *options, int link, int latency);

/* That the file of an option ("json") can be written, found out before the work; touches no old
 * file. `replaced`: it will be replaced, not written over. */
Error options_check_writable(const char *option, const char *path, bool replaced);

/* Makes these options those of the run that was saved in options->resume. An Error names the option
 * that was typed and contradicts it. To be called before the data are loaded. */
Error options_resume(Options *options, const Progressed *saved);

/* What can be checked only once data and machine are known, before any work is done: layers against
 * images and classes, batch against devices, what all of it needs against the memory there is, the
 * files to be written (without touching them). `cores`: see place_cores. Also fills in the device
 * counts that the mode takes when none were given. */
Error options_check(Options *options, const Dataset *data, int cores);

/* That the files to be written can be: the part of options_check that needs no data. */
Error options_check_files(const Options *options);

/* "compare", "single", "dp", "ddp", "hello", "bench", "ladder". */
const char *mode_name(Mode mode);

#endif
