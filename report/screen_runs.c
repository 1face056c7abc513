/* screen_runs.c: the JSON object read into figures that the tables print (see screen.h). */
#include "report/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --------------------------------------------------------------------------------- */

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

double json_number(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

const char *json_string(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* --- modes and phases ------------------------------------------------------------------------ */

static const struct {
    const char *key, *name;
} modes[MODES] = {
    [MODE_SINGLE] = {"single", "one device"},
    [MODE_DP] = {"dp", "DP"},
    [MODE_DDP] = {"ddp", "DDP"},
    [MODE_DDP_NO_OVERLAP] = {"ddp_no_overlap", "no overlap"},
    [MODE_LIMIT] = {"limit", "limit"},
};

const char *result_mode_name(Mode mode)
{
    return modes[mode].name;
}

Figure result_name(const Result *run)
{
    if (run->rung > 0)
        return figure_text("rung %d", run->rung);
    if (run->sweep)
        return figure_text("%g MiB", json_number(run->json, "bucket_mb"));
    return figure_text("%s", modes[run->mode].name);
}

static const struct {
    const char *name;
    Spent spent, spent_by_dp;
} phases[STEP_PHASES] = {
    [PHASE_INPUT] = {"input", SPENT_COMPUTING, SPENT_BOSS_ALONE},
    [PHASE_REPLICATE] = {"replicate", SPENT_COPYING, SPENT_COPYING},
    [PHASE_SCATTER] = {"scatter", SPENT_COPYING, SPENT_COPYING},
    [PHASE_FORWARD] = {"forward", SPENT_COMPUTING, SPENT_COMPUTING},
    [PHASE_GATHER] = {"gather", SPENT_COPYING, SPENT_COPYING},
    [PHASE_LOSS] = {"loss", SPENT_COMPUTING, SPENT_BOSS_ALONE},
    [PHASE_SCATTER_GRAD] = {"scatter grad", SPENT_COPYING, SPENT_COPYING},
    [PHASE_BACKWARD] = {"backward", SPENT_COMPUTING, SPENT_COMPUTING},
    [PHASE_REDUCE] = {"reduce", SPENT_COPYING, SPENT_COPYING},
    [PHASE_LATE_COLLEAGUE] = {"late colleague", SPENT_WAITING, SPENT_WAITING},
    [PHASE_TRANSFER] = {"transfer", SPENT_WAITING, SPENT_WAITING},
    [PHASE_USED_MAP] = {"used map", SPENT_WAITING, SPENT_WAITING},
    [PHASE_UPDATE] = {"update", SPENT_COMPUTING, SPENT_BOSS_ALONE},
    [STEP_OTHER] = {"other", SPENT_OTHER, SPENT_OTHER},
};

const char *step_phase_name(int phase)
{
    return phases[phase].name;
}

Spent step_phase_spent(int phase, Mode mode)
{
    return mode == MODE_DP ? phases[phase].spent_by_dp : phases[phase].spent;
}

/* --- a run ----------------------------------------------------------------------------------- */

static double sum_of_phases(const Result *run, const bool *wanted_kinds)
{
    double sum = 0;
    bool any = false;
    for (int phase = 0; phase < STEP_PHASES; phase++) {
        if (isnan(run->phase_ms[phase]))
            continue;
        any = true;
        if (!wanted_kinds || wanted_kinds[step_phase_spent(phase, run->mode)])
            sum += run->phase_ms[phase];
    }
    return any ? sum : NAN;
}

double result_spent_ms(const Result *run, Spent spent)
{
    bool wanted[SPENT_KINDS] = {false};
    wanted[spent] = true;
    return sum_of_phases(run, wanted);
}

double result_talk_ms(const Result *run)
{
    const bool wanted[SPENT_KINDS] = {[SPENT_COPYING] = true, [SPENT_WAITING] = true};
    return sum_of_phases(run, wanted);
}

double result_phases_ms(const Result *run)
{
    return sum_of_phases(run, NULL);
}

static void read_phases(Result *run)
{
    for (int phase = 0; phase < STEP_PHASES; phase++)
        run->phase_ms[phase] = NAN;
    const cJSON *item;
    cJSON_ArrayForEach(item, member(run->json, "phases_ms"))
    {
        if (!cJSON_IsNumber(item) || !item->string)
            continue;
        int phase = 0;
        while (phase < STEP_OTHER && strcmp(item->string, phase_name((Phase)phase)) != 0)
            phase++;
        /* Zero: this way of training has no such phase. */
        if (item->valuedouble == 0)
            continue;
        /* A phase that this version does not know still belongs to the step. */
        if (phase == STEP_OTHER && !isnan(run->phase_ms[STEP_OTHER]))
            run->phase_ms[STEP_OTHER] += item->valuedouble;
        else
            run->phase_ms[phase] = item->valuedouble;
    }
}

static void read_traffic(Result *run)
{
    static const char *const kinds[TRAFFIC_KINDS] = {
        "model", "inputs", "outputs", "output_gradients", "parameter_gradients", "used_map",
    };
    const cJSON *traffic = member(run->json, "traffic");
    const cJSON *busiest = member(traffic, "busiest");
    run->sent_bytes = json_number(busiest, "sent");
    run->received_bytes = json_number(busiest, "received");
    run->traffic_bytes = json_number(traffic, "total");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        run->by_kind_bytes[kind] = json_number(member(traffic, "by_kind"), kinds[kind]);
}

/* The rungs of a ladder are 0 to 4; -1 for anything else. */
static int to_rung(double number)
{
    return number >= 0 && number <= 4 ? (int)number : -1;
}

static int to_device_count(double number)
{
    return number >= 1 && number <= 65536 ? (int)number : 0;
}

/* False for an entry that says neither which mode it is nor how many devices it had. */
static bool read_run(Result *run, const cJSON *json)
{
    const char *mode = json_string(json, "mode");
    int known = 0;
    while (mode && known < MODES && strcmp(mode, modes[known].key) != 0)
        known++;
    int devices = to_device_count(json_number(json, "devices"));
    if (!mode || known == MODES)
        return false;
    if (known == MODE_SINGLE)
        devices = 1;
    if (devices == 0)
        return false;
    const cJSON *step = member(json, "step_ms");
    double accuracy = json_number(json, "test_accuracy");
    *run = (Result){
        .mode = (Mode)known,
        .devices = devices,
        .rung = to_rung(json_number(json, "rung")),
        .sweep = cJSON_IsTrue(member(json, "sweep")),
        .oversubscribed = cJSON_IsTrue(member(json, "oversubscribed")),
        .processes = json_number(json, "processes"),
        .threads = json_number(json, "threads"),
        .model_copies = json_number(json, "model_copies"),
        .batch_per_device = json_number(json, "batch_per_device"),
        .step_ms = json_number(step, "median"),
        .p05_ms = json_number(step, "p05"),
        .p95_ms = json_number(step, "p95"),
        .steps = json_number(step, "n"),
        .samples_per_s = json_number(json, "samples_per_s"),
        .speedup = json_number(json, "speedup"),
        .efficiency = json_number(json, "efficiency"),
        .virtual_ms = json_number(json, "virtual_ms"),
        .loss = json_number(json, "loss"),
        .accuracy = isnan(accuracy) ? json_number(json, "accuracy") : accuracy,
        .weight_difference = json_number(json, "max_abs_weight_diff"),
        .json = json,
    };
    read_phases(run);
    read_traffic(run);
    return true;
}

/* --- the report ------------------------------------------------------------------------------ */

Error report_open(Report *report, const cJSON *object)
{
    *report = (Report){.object = object};
    if (!cJSON_IsObject(object))
        return error_make("the text is not a JSON object: expected what --json=FILE wrote");
    const cJSON *schema = member(object, "schema");
    if (!schema)
        return error_make("the JSON object has no \"schema\": expected what --json=FILE wrote");
    if (!cJSON_IsNumber(schema) || schema->valuedouble != 1)
        return error_make("the JSON object has \"schema\": %s, but this program reads schema 1",
                          cJSON_IsNumber(schema)
                              ? figure_number(schema->valuedouble,
                                              schema->valuedouble != floor(schema->valuedouble))
                                    .text
                              : "something that is no number");
    const cJSON *results = member(object, "results");
    if (!cJSON_IsArray(results))
        return error_make("the JSON object has no list \"results\", so there is nothing to print");

    report->config = member(object, "config");
    report->environment = member(object, "environment");
    report->batch = json_number(report->config, "batch");
    report->parameters = json_number(report->config, "parameters");
    report->model_bytes = json_number(report->config, "model_bytes");
    report->results = calloc((size_t)cJSON_GetArraySize(results) + 1, sizeof *report->results);
    if (!report->results)
        return error_make("no memory for the tables");
    const cJSON *entry;
    cJSON_ArrayForEach(entry, results)
    {
        if (read_run(&report->results[report->result_count], entry))
            report->result_count++;
    }
    if (report->result_count == 0)
        return error_make("\"results\" in the JSON object holds no run (an entry with a known "
                          "\"mode\" and its \"devices\"), so there is nothing to print");
    for (int i = 0; i < report->result_count; i++) {
        const Result *run = &report->results[i];
        if (run->mode != MODE_SINGLE && run->devices > report->devices)
            report->devices = run->devices;
    }
    if (report->devices == 0)
        report->devices = 1;

    /* The factors that a table compares follow from the medians where the file leaves them out. */
    const Result *single = report_result(report, MODE_SINGLE, 1);
    for (int i = 0; i < report->result_count; i++) {
        Result *run = &report->results[i];
        if (isnan(run->speedup) && single)
            run->speedup = single->step_ms / run->step_ms;
        if (isnan(run->efficiency))
            run->efficiency = run->speedup / run->devices;
    }
    return NULL;
}

void report_close(Report *report)
{
    free(report->results);
    report->results = NULL;
}

const Result *report_result(const Report *report, Mode mode, int devices)
{
    const Result *found = NULL;
    for (int i = 0; i < report->result_count; i++) {
        const Result *run = &report->results[i];
        bool matches = run->mode == mode && (mode == MODE_SINGLE || run->devices == devices);
        if (matches && !run->sweep && (!found || run->rung > found->rung))
            found = run;
    }
    return found;
}

int report_device_counts(const Report *report, int *counts, int most)
{
    int found = 0;
    for (int last = 0; found < most;) {
        int next = 0;
        for (int i = 0; i < report->result_count; i++) {
            const Result *run = &report->results[i];
            bool counts_here = run->mode == MODE_DP || run->mode == MODE_DDP;
            if (counts_here && run->devices > last && (next == 0 || run->devices < next))
                next = run->devices;
        }
        if (next == 0)
            break;
        counts[found++] = last = next;
    }
    return found;
}

bool report_oversubscribed(const Report *report, int devices)
{
    for (int i = 0; i < report->result_count; i++) {
        if (report->results[i].devices == devices && report->results[i].oversubscribed)
            return true;
    }
    return false;
}

const cJSON *report_comparison(const Report *report, int devices)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, member(report->object, "comparisons"))
    {
        if (json_number(entry, "devices") == devices)
            return entry;
    }
    return NULL;
}

/* "DDP does p % more" said from DP's side: its rate over DDP's is 1 / (1 + p / 100). */
static double from_the_other_side(double percent)
{
    return -100 * percent / (100 + percent);
}

Verdict report_verdict(const Report *report, int devices)
{
    const cJSON *faster = member(report_comparison(report, devices), "ddp_faster_percent");
    double confidence = json_number(faster, "confidence");
    Verdict verdict = {
        .winner = WINNER_NONE,
        .percent = json_number(faster, "median"),
        .low = json_number(faster, "low"),
        .high = json_number(faster, "high"),
    };
    const Result *dp = report_result(report, MODE_DP, devices);
    const Result *ddp = report_result(report, MODE_DDP, devices);
    if (confidence < 0.95 && member(report->config, "profile") && dp && ddp) {
        /* Calculated, not measured: a few steps tell as much as many. */
        verdict.percent = verdict.low = verdict.high = 100 * (dp->step_ms / ddp->step_ms - 1);
        confidence = 1;
    }
    if (isnan(verdict.percent) || isnan(verdict.low) || isnan(verdict.high) || confidence < 0.95) {
        verdict.winner = WINNER_UNKNOWN;
    } else if (verdict.low > 0) {
        verdict.winner = WINNER_DDP;
    } else if (verdict.high < 0) {
        verdict = (Verdict){
            .winner = WINNER_DP,
            .percent = from_the_other_side(verdict.percent),
            .low = from_the_other_side(verdict.high),
            .high = from_the_other_side(verdict.low),
        };
    }
    return verdict;
}

int report_decimals(const Report *report, int digits)
{
    double longest_ms = 0;
    for (int i = 0; i < report->result_count; i++)
        longest_ms = fmax(longest_ms, report->results[i].step_ms);
    return figure_decimals(longest_ms, digits);
}

double report_cores(const Report *report)
{
    const cJSON *gpus = member(report->environment, "gpus");
    if (strcmp(report_device_noun(report), "GPU") == 0)
        return cJSON_IsArray(gpus) ? (double)cJSON_GetArraySize(gpus) : (double)NAN;
    double cores = json_number(report->environment, "physical_cores");
    return isnan(cores) ? json_number(report->environment, "cores") : cores;
}

const char *report_samples_noun(const Report *report)
{
    return json_string(member(report->config, "profile"), "workload") ? "samples" : "images";
}

const char *report_device_noun(const Report *report)
{
    const char *kind = json_string(report->results[0].json, "device_kind");
    if (kind && strcmp(kind, "cpu") == 0)
        return "core";
    if (kind && strcmp(kind, "cuda") == 0)
        return "GPU";
    const char *noun = json_string(member(report->config, "profile"), "noun");
    if (kind && strcmp(kind, "virtual") == 0 && noun)
        return noun;
    return "device";
}
