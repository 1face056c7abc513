/* advice.c: what bounds a step, and which buckets suit it (see advice.h). */
#include "advice.h"

#include "base/clock.h"
#include "series.h"

#include <math.h>
#include <string.h>

/* So much quicker or cheaper that it no longer counts. */
#define NO_LIMIT 1e9

/* A gain that would not be worth a word. */
#define NOTICED 0.01

/* --- hardware that lacks a cost -------------------------------------------------------------- */

static void speed_up(Curve *curve)
{
    for (int i = 0; i < curve->points; i++)
        curve->y[i] *= NO_LIMIT;
}

static void speed_up_layers(LayerTable *table)
{
    for (int work = 0; work < LAYER_WORKS; work++)
        for (int i = 0; i < LAYER_MOST_RATES; i++)
            table->flop_per_s[work][i] *= NO_LIMIT;
}

static void without_computing(Profile *profile)
{
    speed_up(&profile->flop_per_s);
    speed_up(&profile->busy_flop_per_s);
    speed_up(&profile->memory_bytes_per_s);
    speed_up(&profile->busy_memory_bytes_per_s);
    speed_up(&profile->convert_bytes_per_s);
    speed_up(&profile->loss_bytes_per_s);
    speed_up_layers(&profile->layers);
    speed_up_layers(&profile->busy_layers);
    profile->shortest_ms = 0;
}

static void free_link(Link *link)
{
    link->bytes_per_s *= NO_LIMIT;
    link->latency_ms = 0;
}

static void without_links(Profile *profile)
{
    free_link(&profile->host);
    free_link(&profile->peer);
    free_link(&profile->network);
    profile->base_ms = profile->step_ms = profile->network_step_ms = 0;
    speed_up(&profile->ring_bytes_per_s);
    speed_up(&profile->network_bytes_per_s);
    profile->device_share = 0;
}

static void without_launches(Profile *profile)
{
    profile->launch_ms = profile->interpreter_ms = profile->hand_over_ms = 0;
}

static void without_loading(Profile *profile)
{
    profile->sample_ms = 0;
}

static void without_spread(Profile *profile)
{
    profile->spread = 0;
}

static const struct {
    const char *name;
    void (*remove)(Profile *profile);
} costs[] = {
    {"computing", without_computing},       {"links", without_links},
    {"launches", without_launches},         {"loading", without_loading},
    {"the slowest device", without_spread},
};
enum { COMPUTING = 0, COSTS = sizeof costs / sizeof *costs };

/* --- one run --------------------------------------------------------------------------------- */

/* The step with these options, which are those of one run; NAN if it was interrupted or failed,
 * which is then `status`. */
static Error try_run(Options *options, double *step_ms, int *status)
{
    Error error = NULL;
    *step_ms = NAN;
    if (*status != 0)
        return NULL;
    cJSON *report = series_report(options, clock_ms(), &error, status);
    if (!report)
        return error;
    const cJSON *run = series_result(report, mode_name(options->mode), options->devices[0]);
    const cJSON *step = cJSON_GetObjectItem(run, "step_ms");
    *step_ms = cJSON_GetNumberValue(cJSON_GetObjectItem(step, "median"));
    cJSON_Delete(report);
    return NULL;
}

/* --- what bounds it -------------------------------------------------------------------------- */

static double phase_ms(const cJSON *run, const char *phase)
{
    const cJSON *phases = cJSON_GetObjectItem(run, "phases_ms");
    double ms = cJSON_GetNumberValue(cJSON_GetObjectItem(phases, phase));
    return isnan(ms) ? 0 : ms;
}

/* Of DP's computing the part that only the boss does, while the others are idle. */
static double boss_share(const cJSON *run)
{
    double alone = phase_ms(run, "loss") + phase_ms(run, "update");
    double together = phase_ms(run, "forward") + phase_ms(run, "backward");
    return alone + together > 0 ? alone / (alone + together) : 0;
}

/* `run` is of the options' mode, which are those of one run; adds to `judged`. */
static Error add_bound(const Options *options, const cJSON *run, double step_ms, cJSON *judged,
                       int *status)
{
    cJSON *without = cJSON_CreateObject();
    cJSON_AddItemToObject(judged, "without_ms", without);
    for (int i = 0; i < COSTS; i++) {
        Options changed = *options;
        double ms;
        costs[i].remove(&changed.hardware.profile);
        TRY(try_run(&changed, &ms, status));
        if (i == COMPUTING && options->mode == MODE_DP) {
            double by_boss = (step_ms - ms) * boss_share(run);
            cJSON_AddNumberToObject(without, "the boss", step_ms - by_boss);
            ms += by_boss;
        }
        cJSON_AddNumberToObject(without, costs[i].name, ms);
    }
    const char *bound_by = "nothing";
    double least_ms = (1 - NOTICED) * step_ms;
    const cJSON *ms;
    cJSON_ArrayForEach(ms, without)
    {
        if (ms->valuedouble < least_ms) {
            least_ms = ms->valuedouble;
            bound_by = ms->string;
        }
    }
    cJSON_AddStringToObject(judged, "bound_by", bound_by);
    return NULL;
}

/* --- which buckets suit it ------------------------------------------------------------------- */

/* More buckets than that are too many: each costs a latency. */
#define MOST_BUCKETS 512

/* Up to the first size that holds the whole model. `now_ms`: with the options' own size. */
static Error add_buckets(const Options *options, double model_mb, double now_ms, cJSON *judged,
                         int *status)
{
    static const double sizes_mb[] = {0.25, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000, 4000};
    enum { SIZES = sizeof sizes_mb / sizeof *sizes_mb };
    double step_ms[SIZES] = {0}, least_ms = INFINITY;
    int first = 0;
    while (sizes_mb[first] * MOST_BUCKETS < model_mb && first + 1 < SIZES)
        first++;
    int sizes = first;
    cJSON *buckets = cJSON_AddArrayToObject(judged, "buckets");
    while (sizes < SIZES) {
        Options changed = *options;
        changed.bucket_mb = sizes_mb[sizes];
        changed.bucket_given = true;
        TRY(try_run(&changed, &step_ms[sizes], status));
        least_ms = fmin(least_ms, step_ms[sizes]);
        cJSON *bucket = cJSON_CreateObject();
        cJSON_AddNumberToObject(bucket, "bucket_mb", sizes_mb[sizes]);
        cJSON_AddNumberToObject(bucket, "step_ms", step_ms[sizes]);
        cJSON_AddItemToArray(buckets, bucket);
        if (sizes_mb[sizes++] >= model_mb)
            break;
    }
    double best_mb = options->bucket_mb;
    if (now_ms > (1 + NOTICED) * least_ms) {
        int best = first;
        while (best + 1 < sizes && step_ms[best] > (1 + NOTICED) * least_ms)
            best++;
        best_mb = sizes_mb[best];
    }
    cJSON_AddNumberToObject(judged, "best_bucket_mb", best_mb);
    return NULL;
}

/* --- both ------------------------------------------------------------------------------------ */

/* `options` are those of one run, on `report`'s largest number of devices. */
static Error judge(const Options *options, const cJSON *report, cJSON *advice, int *status)
{
    const char *mode = mode_name(options->mode);
    const cJSON *run = series_result(report, mode, options->devices[0]);
    if (!run)
        return NULL;
    /* Run once more, as those that it is held against are: alone, and timing only. */
    double step_ms;
    Options same = *options;
    TRY(try_run(&same, &step_ms, status));
    cJSON *judged = cJSON_CreateObject();
    cJSON_AddItemToObject(advice, mode, judged);
    cJSON_AddNumberToObject(judged, "step_ms", step_ms);
    TRY(add_bound(options, run, step_ms, judged, status));
    if (options->mode != MODE_DDP)
        return NULL;
    cJSON_AddNumberToObject(judged, "bucket_mb", options->bucket_mb);
    const cJSON *config = cJSON_GetObjectItem(report, "config");
    double bytes = cJSON_GetNumberValue(cJSON_GetObjectItem(config, "model_bytes"));
    return add_buckets(options, bytes / (1 << 20), step_ms, judged, status);
}

Error advice_add(const Options *options, cJSON *report, int *status)
{
    int devices = options->devices[options->device_counts - 1];
    bool of_two =
        options->mode == MODE_COMPARE || options->mode == MODE_DP || options->mode == MODE_DDP;
    if (!options->profile || options->beside || !of_two || devices < 2 ||
        options->fault.kind != FAULT_NONE)
        return NULL;
    /* The same step, and nothing else: nothing is loaded, saved or learned. */
    Options alone = *options;
    alone.device_counts = 1;
    alone.devices[0] = devices;
    alone.hardware.timing_only = true;
    alone.samples_given = false;
    alone.save = alone.load = alone.resume = NULL;
    alone.json = NULL;
    alone.log_losses = alone.guess_given = false;
    if (alone.epochs > 0) {
        alone.epochs = 0;
        alone.steps = 20;
    }
    cJSON *advice = cJSON_CreateObject();
    cJSON_AddNumberToObject(advice, "devices", devices);
    static const Mode modes[] = {MODE_DP, MODE_DDP};
    Error error = NULL;
    for (int i = 0; i < 2 && !error; i++) {
        alone.mode = modes[i];
        error = judge(&alone, report, advice, status);
    }
    if (error || *status != 0)
        cJSON_Delete(advice);
    else
        cJSON_AddItemToObject(report, "advice", advice);
    return error;
}
