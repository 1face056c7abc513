/* bench_mode.c: which collectives on which transports, and the report around them (see
 * bench_mode.h). */
#include "bench_mode.h"

#include "base/place.h"
#include "bench_collectives.h"
#include "plan.h"
#include "report/environment.h"
#include "report/json.h"

#include <cblas.h>
#include <string.h>
#include <unistd.h>

/* What is measured when nothing is said: every line takes about as long, so the whole takes some
 * ten seconds. */
enum { LINE_MS = 200, WARMUP = 2 };

/* --- what to measure ---------------------------------------------------------------------- */

static void add_section(Bench *bench, BenchWhat what, CommKind transport, CommAlgorithm algorithm)
{
    bench->section[bench->sections++] =
        (BenchSection){.what = what, .transport = transport, .algorithm = algorithm};
}

/* All collectives that were asked for, on one transport. A chosen algorithm leaves only what has a
 * choice. */
static void add_transport(Bench *bench, const Options *options, CommKind transport)
{
    static const BenchWhat asked[] = {
        [HELLO_ALL_REDUCE] = BENCH_ALL_REDUCE,
        [HELLO_ALL_GATHER] = BENCH_ALL_GATHER,
        [HELLO_BROADCAST] = BENCH_BROADCAST,
        [HELLO_REDUCE_SCATTER] = BENCH_REDUCE_SCATTER,
    };
    for (BenchWhat what = 0; what < BENCH_WHATS; what++) {
        if (options->collective_given && what != asked[options->collective])
            continue;
        if (what != BENCH_ALL_REDUCE && options->algorithm_given)
            continue;
        bool choice = what == BENCH_ALL_REDUCE && transport == COMM_SHM;
        for (CommAlgorithm algorithm = COMM_DIRECT; algorithm <= COMM_NAIVE; algorithm++)
            if (options->algorithm_given ? algorithm == options->algorithm
                                         : choice || algorithm == COMM_DIRECT)
                add_section(bench, what, transport, algorithm);
    }
}

static Error check_memory(const Bench *bench)
{
    double needs = bench_memory_bytes(bench);
    double has = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (has > 0 && needs > has)
        return error_make("buffers of %zu bytes on %d ranks need %.0f GB; this machine has %.0f "
                          "GB: choose smaller --sizes or fewer --devices",
                          bench->size[bench->sizes - 1], bench->ranks, needs / 1e9, has / 1e9);
    return NULL;
}

static Error choose(Options *options, Config *config, Bench *bench)
{
    if (options->device_counts == 0)
        options->devices[options->device_counts++] = 2;
    TRY(plan_devices(options, config));
    TRY(options_check_files(options));
    *bench = (Bench){
        .ranks = options->devices[0],
        .device_kind = config->device_kind,
        .gpus = config->gpus,
        .timeout_s = options->timeout_s,
        .warmup = options->warmup_given ? options->warmup : WARMUP,
        .steps = options->steps,
        .line_ms = LINE_MS,
    };
    if (bench->warmup == 0 && bench->steps == 0)
        return error_make("--warmup=0: the first operations tell how many can be measured in the "
                          "time there is; give --steps=N, too");
    bench_fill_sizes(bench, options->least_bytes, options->most_bytes);
    if (config->comm_kind == COMM_NCCL && !options->algorithm_given)
        add_transport(bench, options, COMM_NCCL);
    if (options->comm != COMM_CHOICE_NCCL)
        add_transport(bench, options, COMM_SHM);
    return check_memory(bench);
}

/* --- the report --------------------------------------------------------------------------- */

static cJSON *describe_bench(const Options *options, const Plan *plan, const Bench *bench)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "schema", 1);
    cJSON_AddItemToObject(object, "environment", environment_json(plan, options->command_line));
    cJSON *config = cJSON_AddObjectToObject(object, "config");
    cJSON_AddStringToObject(config, "mode", "bench");
    cJSON_AddNumberToObject(config, "devices", bench->ranks);
    cJSON_AddStringToObject(config, "device", bench->device_kind == DEVICE_CUDA ? "cuda" : "cpu");
    cJSON_AddNumberToObject(config, "warmup", (double)bench->warmup);
    cJSON_AddNumberToObject(config, "steps", (double)bench->steps);
    cJSON_AddNumberToObject(config, "seconds_per_line", bench->line_ms / 1e3);
    cJSON_AddNumberToObject(config, "timeout_s", bench->timeout_s);
    cJSON *sizes = cJSON_AddArrayToObject(config, "sizes");
    for (int i = 0; i < bench->sizes; i++)
        cJSON_AddItemToArray(sizes, cJSON_CreateNumber((double)bench->size[i]));
    return object;
}

Error bench_mode(Options *options, int *status)
{
    openblas_set_num_threads(1); /* it computes nothing here, and its threads need not exist */
    static Plan plan;
    plan.cores = place_core_list(plan.cpus, (int)(sizeof plan.cpus / sizeof *plan.cpus));
    Bench bench;
    TRY(choose(options, &plan.config, &bench));
    bench.cpus = plan.cpus;
    bench.cores = plan.cores;

    cJSON *object = describe_bench(options, &plan, &bench);
    bool json_on_stdout = options->json && strcmp(options->json, "-") == 0;
    Error error = bench_collectives(&bench, json_on_stdout ? stderr : stdout, object, status);
    if (!error && options->json && *status <= 1)
        error = report_write(object, options->json);
    cJSON_Delete(object);
    return error;
}
