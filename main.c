/* main.c: the story from top to bottom: options, data, plan, runs, report.
 *
 * This process is the supervisor. It loads the data, plans the runs and makes the memory that their
 * processes will share; then it forks them and waits. It never computes, so nothing that it draws
 * or writes disturbs what is measured.
 */
#include "advice.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/place.h"
#include "base/replace.h"
#include "bench_mode.h"
#include "calibrate.h"
#include "describe.h"
#include "options.h"
#include "plan.h"
#include "report/json.h"
#include "report/playback.h"
#include "report/table.h"
#include "run.h"
#include "sampler.h"
#include "series.h"
#include "show_sampler.h"
#include "supervisor.h"
#include "train.h"

#include <cblas.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* On one line, also where it names a file whose name is not. */
static int complain(Error error, int status)
{
    char line[1024];
    snprintf(line, sizeof line, "%s", error);
    for (char *c = line; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    fprintf(stderr, "trainer: %s\n", line);
    return status;
}

/* --- replay ------------------------------------------------------------------------------- */

/* The whole of a file as a string that the caller frees. */
static Error read_file(const char *path, char **text)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_make("%s: cannot be opened: %s", path, strerror(errno));
    size_t used = 0, room = 1 << 16;
    *text = malloc(room + 1);
    while (*text) {
        size_t got = fread(*text + used, 1, room - used, file);
        used += got;
        if (used < room)
            break;
        room *= 2;
        char *larger = realloc(*text, room + 1);
        if (!larger)
            free(*text);
        *text = larger;
    }
    bool failed = ferror(file) != 0;
    int number = errno;
    fclose(file);
    if (!*text)
        return error_make("%s: no memory to read it", path);
    if (failed) {
        free(*text);
        *text = NULL;
        return error_make("%s: cannot be read: %s", path, strerror(number));
    }
    (*text)[used] = '\0';
    return NULL;
}

/* Prints an old run again, or plays a step of it, and ends with its exit status: `*status`. */
static Error replay(const Options *options, int *status)
{
    const char *path = options->replay;
    char *text = NULL;
    TRY(read_file(path, &text));
    cJSON *object = cJSON_Parse(text);
    free(text);
    if (!object)
        return error_make("%s: not a JSON file", path);
    Error error = NULL;
    int number = 0;
    if (options->slow_motion > 0)
        error = playback(stdout, object, &(Playback){.slower = options->slow_motion},
                         table_style(stdout), &number);
    else
        error = table_print(stdout, object, (TableDepth)options->depth, table_style(stdout));
    if (!error && report_failure(object))
        *status = complain(report_failure(object), EXIT_FAILED);
    cJSON_Delete(object);
    if (number > 0)
        *status = INTERRUPTED + number;
    return error ? error_make("%s: %s", path, error) : NULL;
}

/* --- what is said first ------------------------------------------------------------------- */

/* What a user should know before the numbers: said once, on standard error. */
static void announce(const Options *options, const Dataset *data, const Plan *plan)
{
    if (data->substitute)
        fprintf(stderr,
                "NOTE: Fashion-MNIST is not installed (package dataset-fashion-mnist): training on "
                "%zu generated images instead\n",
                data->train.count);
    if (options->quiet)
        return;
    for (int i = 0; i < plan->runs; i++) {
        const Run *run = &plan->run[i];
        size_t chunk = sampler_chunk((size_t)options->batch, run->devices, 0);
        int busy = (int)((options->batch + (int)chunk - 1) / (int)chunk);
        if (run->kind == RUN_DP && busy < run->devices)
            fprintf(stderr,
                    "DP: %d images in parts of %zu are enough for %d of %d devices; device%s %d%s "
                    "stay%s idle\n",
                    options->batch, chunk, busy, run->devices, run->devices - busy > 1 ? "s" : "",
                    busy, run->devices - busy > 1 ? " and up" : "",
                    run->devices - busy > 1 ? "" : "s");
    }
}

/* --- the report --------------------------------------------------------------------------- */

/* First what must not be lost, then the step in motion, which the tables explain: they stay on the
 * screen, also when the play was ended by Ctrl-C. */
static int report(const Options *options, const ReportContext *context, const Plan *plan)
{
    Error error = NULL;
    cJSON *object = report_json(plan, context, &error);
    if (!object)
        return complain(error, EXIT_FAILED);
    bool json_on_stdout = options->json && strcmp(options->json, "-") == 0;
    FILE *tables = json_on_stdout ? stderr : stdout;
    int status = EXIT_DONE, number = 0;
    if (options->beside)
        error = series_beside(options, object);
    else
        error = advice_add(options, object, &status);
    if (status > INTERRUPTED)
        fprintf(stderr,
                "trainer: interrupted by signal %d (%s) while looking for what bounds the step\n",
                status - INTERRUPTED, strsignal(status - INTERRUPTED));
    if (!error && options->json)
        error = report_write(object, options->json);
    if (error)
        status = complain(error, EXIT_FAILED);
    Playback settings = {.slower = options->slow_motion, .more_follows = true};
    error = settings.slower > 0 ? playback(tables, object, &settings, table_style(tables), &number)
                                : NULL;
    if (error)
        status = complain(error, EXIT_FAILED);
    error = table_print(tables, object, (TableDepth)options->depth, table_style(tables));
    if (error)
        status = complain(error, EXIT_FAILED);
    if (number > 0)
        status = INTERRUPTED + number;
    if (report_failure(object))
        status = complain(report_failure(object), EXIT_FAILED);
    cJSON_Delete(object);
    return status;
}

/* --- main --------------------------------------------------------------------------------- */

/* Whoever was saving may have been killed in the middle of it. */
static void clean_saved(const Options *options)
{
    if (options->save)
        replace_clean(options->save);
}

static int run_all(const Options *options, ReportContext *context, Plan *plan)
{
    char what[64];
    if (options->mode == MODE_COMPARE)
        snprintf(what, sizeof what, "DP and DDP take turns");
    else if (options->mode == MODE_LADDER)
        snprintf(what, sizeof what, "the rungs take turns");
    else
        run_title(&plan->run[0], what, sizeof what);
    Supervision supervision = {
        .quiet = options->quiet,
        .show_pids = options->mode == MODE_DP || options->mode == MODE_DDP,
        .epochs = options->epochs > 0,
        .what = what,
    };
    RunsOutcome outcome;
    int number = 0;
    Error error = supervise_runs(plan, &supervision, &outcome, &number);
    if (error)
        return complain(error, EXIT_FAILED);
    switch (outcome) {
    case RUNS_INTERRUPTED:
        clean_saved(options);
        return interrupt_say(number);
    case RUNS_FAILED:
        clean_saved(options);
        return EXIT_FAILED; /* the supervisor has said why */
    case RUNS_DONE:
        break;
    }
    if (options->save && !options->quiet)
        fprintf(stderr, "Saved %s\n", options->save);
    return report(options, context, plan);
}

/* What needs no data: a first collective, the order of samples, the description of a model. */
static int show_without_data(Options *options)
{
    if (options->device_counts == 0)
        options->devices[options->device_counts++] = options->mode == MODE_SINGLE ? 1 : 2;
    if (options->show_sampler) {
        ShowSampler show = {
            .samples = (size_t)options->samples,
            .ranks = options->devices[0],
            .epochs = (int)options->epochs,
            .seed = options->seed,
            .set_epoch = options->set_epoch,
        };
        Error failed = show_sampler(stdout, &show);
        return failed ? complain(failed, EXIT_FAILED) : EXIT_DONE;
    }
    Config config = {0};
    Error error = plan_devices(options, &config);
    if (error)
        return complain(error, EXIT_USAGE);
    if (options->describe) {
        describe(stdout, options, config.device_kind == DEVICE_CUDA);
        return EXIT_DONE;
    }
    Hello greeting = {
        .ranks = options->devices[0],
        .collective = options->collective,
        .op = options->op,
        .ordered = options->ordered,
        .guess_given = options->guess_given,
        .guess = options->guess,
        .timeout_s = options->timeout_s,
        .device_kind = config.device_kind,
        .gpus = config.gpus,
        .comm_kind = config.comm_kind,
        .algorithm = config.algorithm,
    };
    int status;
    error = hello(&greeting, &status);
    return error ? complain(error, EXIT_FAILED) : status;
}

/* Opens what --load or --resume names, and makes the options a resumed run's. */
static Error open_checkpoint(Options *options, Checkpoint **checkpoint)
{
    const char *path = options->resume ? options->resume : options->load;
    if (!path)
        return NULL;
    Error error = NULL;
    *checkpoint = checkpoint_open(path, &error);
    if (error || !options->resume)
        return error;
    Progressed saved;
    TRY(checkpoint_progressed(*checkpoint, &saved));
    return options_resume(options, &saved);
}

/* Which OpenBLAS is loaded is not ours to choose: LD_LIBRARY_PATH comes before where the program
 * was linked. That with pthreads and the serial one do as they are told (one thread per device).
 * With OpenMP a number of threads holds for the thread that set it; DP's other threads would start
 * a team each, be many times slower, and add up in another order than DDP. `openmp_threads`: what a
 * new thread would take; 1 for the other builds. */
static Error check_blas(const Plan *plan, int openmp_threads)
{
    if (plan->config.device_kind != DEVICE_CPU || openmp_threads == 1)
        return NULL;
    return error_make("the OpenBLAS that was loaded is the build for OpenMP (%s), whose threads "
                      "would multiply in DP's: unset LD_LIBRARY_PATH, install "
                      "libopenblas0-pthread, or set OMP_NUM_THREADS=1",
                      openblas_get_config());
}

/* Data, plan, runs, report. */
static int train_and_report(Options *options, double start_ms)
{
    /* Once, here: a device is one core, and a child must not touch OpenBLAS's thread count. */
    int openmp_threads =
        openblas_get_parallel() == OPENBLAS_OPENMP ? openblas_get_num_threads() : 1;
    openblas_set_num_threads(1);

    static Dataset data;
    Checkpoint *checkpoint = NULL;
    Error error = open_checkpoint(options, &checkpoint);
    if (!error)
        error = options_hardware(options);
    if (!error && options->hardware.timing_only)
        data_describe((size_t)options->batch, options->widths[0], options->widths[options->layers],
                      &data);
    else if (!error)
        error = data_load(options->data, (size_t)options->samples, options->seed, &data);
    if (error) {
        int status = complain(error, EXIT_USAGE);
        checkpoint_close(checkpoint);
        return status;
    }
    ReportContext context = {
        .mode = mode_name(options->mode),
        .command_line = options->command_line,
        .epochs = options->epochs,
        .measured_steps = options->steps,
        .bucket_mb = options->bucket_mb,
        .bucket_explicit = options->bucket_given,
        .overlap = options->overlap,
        .guess_given = options->guess_given,
        .guess = options->guess,
        .log_losses = options->log_losses,
        .program_start_ms = start_ms,
        .data_ms = clock_ms() - start_ms,
    };
    static Plan plan;
    plan.cores = place_core_list(plan.cpus, (int)(sizeof plan.cpus / sizeof *plan.cpus));
    error = options_check(options, &data, plan.cores);
    if (!error)
        error = plan_make(options, &data, checkpoint, &plan);
    if (!error)
        error = check_blas(&plan, openmp_threads);
    int status = EXIT_USAGE;
    if (error) {
        complain(error, status);
    } else {
        announce(options, &data, &plan);
        status = run_all(options, &context, &plan);
    }
    plan_free(&plan);
    data_free(&data);
    checkpoint_close(checkpoint);
    return status;
}

static Error calibrate_this_machine(const Options *options, int *status)
{
    int cpus[256];
    int cores = place_core_list(cpus, (int)(sizeof cpus / sizeof *cpus));
    const char *path = options->json ? options->json : "profiles/this-machine.json";
    if (strcmp(path, "-") != 0)
        TRY(options_check_writable("json", path, false));
    return calibrate(path, cpus, cores, status);
}

int main(int argc, char **argv)
{
    double start_ms = clock_ms();
    interrupt_catch();
    Options options;
    bool done;
    Error error = options_parse(argc, argv, &options, &done);
    int status = EXIT_DONE;
    if (!error && options.replay)
        error = replay(&options, &status);
    else if (!error && !done &&
             (options.mode == MODE_HELLO || options.describe || options.show_sampler))
        status = show_without_data(&options);
    else if (!error && !done && options.mode == MODE_BENCH)
        error = bench_mode(&options, &status);
    else if (!error && !done && options.mode == MODE_CALIBRATE)
        error = calibrate_this_machine(&options, &status);
    else if (!error && !done && series_wanted(&options))
        error = series_run(&options, start_ms, &status);
    else if (!error && !done)
        status = train_and_report(&options, start_ms);
    if (error)
        status = complain(error, EXIT_USAGE);
    options_free(&options);
    return status;
}
