/* series.c: several comparisons on virtual devices in one table (see series.h). */
#include "series.h"

#include "advice.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/place.h"
#include "plan.h"
#include "report/json.h"
#include "report/screen_series.h"
#include "report/table.h"
#include "supervisor.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { STATUS_FAILED = 1 };

/* One row of the table: what differs from the options. */
typedef struct Variant {
    char label[48];
    int layers; /* 0: the options' */
    int widths[8];
    int batch;
    int link, latency; /* indices */
} Variant;

/* Too little arithmetic to share, and enough of it to hide everything else behind: the lesson's two
 * ends. */
static const Variant tiny_and_meaty[] = {
    {.label = "tiny", .layers = 2, .widths = {784, 32, 10}, .batch = 32},
    {.label = "meaty", .layers = 4, .widths = {8192, 8192, 8192, 8192, 8192}, .batch = 8192},
};

/* The meaty model has to fit: weights, gradients, optimizer state and what DataParallel's boss
 * keeps beside them are about six arenas, and the activations of a whole batch eight times its
 * input. */
static bool fits(const Variant *variant, const Profile *profile)
{
    double parameters = 0;
    for (int i = 0; i < variant->layers; i++)
        parameters += (double)variant->widths[i] * variant->widths[i + 1];
    double bytes = sizeof(float) * (6 * parameters + 8.0 * variant->batch * variant->widths[0]);
    return bytes <= profile->memory_bytes;
}

static void shrink_until_it_fits(Variant *variant, const Profile *profile)
{
    while (!fits(variant, profile) && variant->widths[0] > 1) {
        for (int i = 0; i <= variant->layers; i++)
            variant->widths[i] = (variant->widths[i] + 1) / 2;
        variant->batch = (variant->batch + 1) / 2;
    }
}

static bool sweeps(const Options *options)
{
    return options->link_counts > 1 || options->latency_counts > 1;
}

bool series_wanted(const Options *options)
{
    bool nothing_said = !options->widths_given && !options->workload_name &&
                        !options->typed.batch && !options->hardware.timing_only;
    return options->profile && !options->beside && options->mode == MODE_COMPARE &&
           (sweeps(options) || nothing_said);
}

static int list_variants(const Options *options, Variant *variants)
{
    if (!sweeps(options)) {
        memcpy(variants, tiny_and_meaty, sizeof tiny_and_meaty);
        shrink_until_it_fits(&variants[1], &options->hardware.profile);
        return sizeof tiny_and_meaty / sizeof *tiny_and_meaty;
    }
    int count = 0;
    int links = options->link_counts > 0 ? options->link_counts : 1;
    int latencies = options->latency_counts > 0 ? options->latency_counts : 1;
    for (int link = 0; link < links; link++)
        for (int latency = 0; latency < latencies; latency++) {
            Variant *variant = &variants[count++];
            *variant = (Variant){.link = link, .latency = latency};
            size_t used = 0;
            if (links > 1)
                used = (size_t)snprintf(variant->label, sizeof variant->label, "%g Gbit/s",
                                        options->link_gbps[link]);
            if (latencies > 1)
                snprintf(variant->label + used, sizeof variant->label - used, "%s%g us",
                         used ? ", " : "", options->latency_us[latency]);
        }
    return count;
}

cJSON *series_report(Options *options, double start_ms, Error *error, int *status)
{
    static Plan plan;
    Dataset data;
    plan = (Plan){0};
    plan.cores = place_core_list(plan.cpus, (int)(sizeof plan.cpus / sizeof *plan.cpus));
    data_describe((size_t)options->batch, options->widths[0], options->widths[options->layers],
                  &data);
    *error = options_check(options, &data, plan.cores);
    if (!*error)
        *error = plan_make(options, &data, NULL, &plan);
    cJSON *object = NULL;
    if (!*error) {
        Supervision supervision = {.quiet = true, .what = "virtual devices"};
        RunsOutcome outcome;
        int number = 0;
        *error = supervise_runs(&plan, &supervision, &outcome, &number);
        *status = outcome == RUNS_INTERRUPTED ? INTERRUPTED + number
                  : outcome == RUNS_FAILED    ? STATUS_FAILED
                                              : 0;
        ReportContext context = {
            .mode = mode_name(options->mode),
            .command_line = options->command_line,
            .measured_steps = options->steps,
            .bucket_mb = options->bucket_mb,
            .bucket_explicit = options->bucket_given,
            .overlap = options->overlap,
            .program_start_ms = start_ms,
        };
        if (!*error && *status == 0)
            object = report_json(&plan, &context, error);
    }
    plan_free(&plan);
    return object;
}

static void apply(Options *options, const Variant *variant)
{
    options->hardware.timing_only = true;
    if (variant->layers > 0) {
        options->layers = variant->layers;
        options->batch = variant->batch;
        memcpy(options->widths, variant->widths, sizeof *options->widths * 8);
    }
    options_set_link(options, variant->link, variant->latency);
}

static Error finish(const Options *options, cJSON *object, int *status)
{
    bool json_on_stdout = options->json && strcmp(options->json, "-") == 0;
    FILE *tables = json_on_stdout ? stderr : stdout;
    Error error = options->json ? report_write(object, options->json) : NULL;
    if (!error)
        error = table_print(tables, object, (TableDepth)options->depth, table_style(tables));
    if (error) {
        fprintf(stderr, "trainer: %s\n", error);
        *status = STATUS_FAILED;
    }
    return NULL;
}

Error series_run(Options *options, double start_ms, int *status)
{
    Variant variants[OPTIONS_MOST_SWEEP * OPTIONS_MOST_SWEEP];
    TRY(options_hardware(options));
    if (sweeps(options) && !options->hardware.timing_only)
        return error_make("--link-gbps and --latency-us with several values compare times: add "
                          "--timing-only");
    int count = list_variants(options, variants);
    cJSON *series = cJSON_CreateObject();
    cJSON_AddNumberToObject(series, "schema", 1);
    cJSON *entries = cJSON_AddArrayToObject(series, "series");
    Error error = NULL;
    for (int i = 0; i < count && !error && *status == 0; i++) {
        apply(options, &variants[i]);
        cJSON *object = series_report(options, start_ms, &error, status);
        if (!object)
            break;
        if (!sweeps(options))
            error = advice_add(options, object, status);
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "label", variants[i].label);
        cJSON_AddItemToObject(entry, "report", object);
        cJSON_AddItemToArray(entries, entry);
    }
    if (*status > INTERRUPTED)
        interrupt_say(*status - INTERRUPTED);
    if (!error && *status == 0)
        error = finish(options, series, status);
    cJSON_Delete(series);
    return error;
}

const cJSON *series_result(const cJSON *report, const char *mode, double devices)
{
    const cJSON *results = cJSON_GetObjectItem(report, "results"), *result;
    cJSON_ArrayForEach(result, results)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(result, "mode"));
        if (name && mode && strcmp(name, mode) == 0 &&
            cJSON_GetNumberValue(cJSON_GetObjectItem(result, "devices")) == devices)
            return result;
    }
    return NULL;
}

Error series_beside(const Options *options, cJSON *object)
{
    Options virtual = *options;
    virtual.beside = false;
    virtual.hardware.timing_only = true;
    virtual.samples_given = false; /* the real ones' */
    int most = virtual.devices[virtual.device_counts - 1];
    const Profile *profile = &virtual.hardware.profile;
    if (most > profile->per_node && !profile->network.present)
        return error_make("--devices=%d: %s has %d", most, profile->name, profile->per_node);
    Error error = NULL;
    int status = 0;
    cJSON *calculated = series_report(&virtual, clock_ms(), &error, &status);
    if (error || status != 0)
        return error ? error : error_make("the virtual devices' runs have not ended well");
    cJSON *result;
    cJSON_ArrayForEach(result, cJSON_GetObjectItem(object, "results"))
    {
        const cJSON *like =
            series_result(calculated, cJSON_GetStringValue(cJSON_GetObjectItem(result, "mode")),
                          cJSON_GetNumberValue(cJSON_GetObjectItem(result, "devices")));
        const cJSON *median = cJSON_GetObjectItem(cJSON_GetObjectItem(like, "step_ms"), "median");
        if (cJSON_IsNumber(median))
            cJSON_AddNumberToObject(result, "virtual_ms", median->valuedouble);
    }
    cJSON_AddStringToObject(cJSON_GetObjectItem(object, "config"), "beside", profile->name);
    cJSON_Delete(calculated);
    return NULL;
}
