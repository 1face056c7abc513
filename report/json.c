/* json.c: from the step records in shared memory to one JSON object (see json.h). */
#include "report/json.h"

#include "bucket.h"
#include "report/communication.h"
#include "report/environment.h"
#include "report/ladder.h"
#include "report/measured.h"
#include "report/statistics.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- phases ------------------------------------------------------------------------------- */

static cJSON *phases_json(const Plan *plan, const Run *run, const Measured *measured)
{
    cJSON *object = cJSON_CreateObject();
    const StepRecord *records = run_records(plan, run, 0);
    for (size_t i = 0; i < measured->count; i++)
        measured->scratch[i] = records[measured->step[i]].step_ms;
    double other =
        statistics_mean_within(measured->scratch, measured->ms, measured->count, measured->middle);
    for (int phase = 0; phase < PHASES; phase++) {
        double mean = measured_phase_ms(plan, run, measured, 0, (Phase)phase);
        json_add_number(object, phase_name((Phase)phase), mean);
        other -= mean;
    }
    json_add_number(object, "other", other);
    return object;
}

/* The least and the most of each phase over the ranks. */
static cJSON *phases_over_ranks_json(const Plan *plan, const Run *run, const Measured *measured)
{
    cJSON *object = cJSON_CreateObject();
    for (int phase = 0; phase < PHASES; phase++) {
        double least = INFINITY, most = -INFINITY;
        for (int device = 0; device < run->recorded; device++) {
            double mean = measured_phase_ms(plan, run, measured, device, (Phase)phase);
            least = fmin(least, mean);
            most = fmax(most, mean);
        }
        cJSON *pair = cJSON_AddObjectToObject(object, phase_name((Phase)phase));
        json_add_number(pair, "least", least);
        json_add_number(pair, "most", most);
    }
    return object;
}

/* The share of a step in which a device works: computes, or copies for others. */
static double busy_share(const Plan *plan, const Run *run, const Measured *measured, int device)
{
    double busy_ms = 0;
    for (int phase = 0; phase < PHASES; phase++)
        if (phase != PHASE_LATE_COLLEAGUE && phase != PHASE_TRANSFER && phase != PHASE_USED_MAP)
            busy_ms += measured_phase_ms(plan, run, measured, device, (Phase)phase);
    double step_ms =
        statistics_mean_within(measured->ms, measured->ms, measured->count, measured->middle);
    return busy_ms / step_ms;
}

/* --- traffic ------------------------------------------------------------------------------ */

/* What travelled for the gradients of an update's micro-batches, over all links, and what no_sync
 * has kept from travelling: DDP's all-reduce has the same size, however many micro-batches it is
 * for. */
static cJSON *accumulation_json(const Config *config, const Run *run, double gradient_bytes)
{
    int exchanges = run->group ? 1 : config->accumulate; /* DP reduces every micro-batch's */
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "micro_batches", config->accumulate);
    cJSON_AddNumberToObject(object, "gradient_exchanges", exchanges);
    cJSON_AddNumberToObject(object, "gradient_bytes", gradient_bytes);
    cJSON_AddNumberToObject(object, "saved_bytes",
                            (config->accumulate - exchanges) * gradient_bytes / exchanges);
    return object;
}

static cJSON *traffic_json(const Plan *plan, const Run *run, const Measured *measured)
{
    static const char *const names[BYTES_KINDS] = {
        [BYTES_MODEL] = "model",
        [BYTES_INPUTS] = "inputs",
        [BYTES_OUTPUTS] = "outputs",
        [BYTES_OUTPUT_GRADIENTS] = "output_gradients",
        [BYTES_PARAMETER_GRADIENTS] = "parameter_gradients",
        [BYTES_USED_MAP] = "used_map",
    };
    if (measured->typical < 0)
        return cJSON_CreateNull();
    double by_kind[BYTES_KINDS] = {0};
    double total = 0, busiest_sent = 0, busiest_received = 0;
    for (int device = 0; device < run->recorded; device++) {
        const StepRecord *record = &run_records(plan, run, device)[measured->typical];
        double sent = 0, received = 0;
        for (int kind = 0; kind < BYTES_KINDS; kind++) {
            sent += (double)record->sent[kind];
            received += (double)record->received[kind];
            by_kind[kind] += (double)record->sent[kind];
        }
        total += sent;
        if (sent + received > busiest_sent + busiest_received) {
            busiest_sent = sent;
            busiest_received = received;
        }
    }
    cJSON *object = cJSON_CreateObject();
    cJSON *busiest = cJSON_AddObjectToObject(object, "busiest");
    cJSON_AddNumberToObject(busiest, "sent", busiest_sent);
    cJSON_AddNumberToObject(busiest, "received", busiest_received);
    cJSON_AddNumberToObject(object, "total", total);
    cJSON *kinds = cJSON_AddObjectToObject(object, "by_kind");
    for (int kind = 0; kind < BYTES_KINDS; kind++)
        if (kind != BYTES_USED_MAP || plan->config.find_unused)
            cJSON_AddNumberToObject(kinds, names[kind], by_kind[kind]);
    if (plan->config.accumulate > 1 && run->kind != RUN_SINGLE && run->kind != RUN_LIMIT)
        cJSON_AddItemToObject(
            object, "accumulation",
            accumulation_json(&plan->config, run, by_kind[BYTES_PARAMETER_GRADIENTS]));
    return object;
}

/* What --find-unused-parameters costs in a step: bytes over all links, and the ms by which it is
 * longer. */
static cJSON *find_unused_json(const Plan *plan, const Run *run, const Measured *measured)
{
    double bytes = 0;
    for (int device = 0; device < run->recorded && measured->typical >= 0; device++)
        bytes += (double)run_records(plan, run, device)[measured->typical].sent[BYTES_USED_MAP];
    cJSON *object = cJSON_CreateObject();
    json_add_number(object, "bytes", measured->typical >= 0 ? bytes : NAN);
    json_add_number(object, "ms", measured_phase_ms(plan, run, measured, 0, PHASE_USED_MAP));
    return object;
}

/* --- learning ----------------------------------------------------------------------------- */

/* The mean loss of steps `from` to `to` - 1 over their samples, from all devices' sums. */
static double mean_loss(const Plan *plan, const Run *run, int64_t from, int64_t to)
{
    double sum = 0, rows = 0;
    if (config_timing_only(&plan->config))
        return NAN;
    for (int64_t step = from; step < to; step++) {
        for (int device = 0; device < run->recorded; device++)
            sum += run_records(plan, run, device)[step].loss_sum;
        rows += run_records(plan, run, 0)[step].rows;
    }
    return sum / rows;
}

static double accuracy_of(const Plan *plan, const Run *run, int evaluation)
{
    double correct = 0;
    for (int device = 0; device < run->recorded; device++)
        correct += run_evaluations(plan, run, device)[evaluation].correct;
    return correct / (double)plan->data->test.count;
}

static double test_loss_of(const Plan *plan, const Run *run, int evaluation)
{
    double sum = 0;
    for (int device = 0; device < run->recorded; device++)
        sum += run_evaluations(plan, run, device)[evaluation].loss_sum;
    return sum / (double)plan->data->test.count;
}

static cJSON *epochs_json(const Plan *plan, const Run *run)
{
    cJSON *array = cJSON_CreateArray();
    int64_t from = 0, before = plan->config.first_step / plan->config.steps_per_epoch;
    for (int i = 0; i < plan->config.evaluations; i++) {
        const Evaluation *evaluation = &run_evaluations(plan, run, 0)[i];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "epoch", (double)(before + i + 1));
        json_add_number(object, "loss", mean_loss(plan, run, from, evaluation->steps));
        json_add_number(object, "accuracy", accuracy_of(plan, run, i));
        json_add_number(object, "test_loss", test_loss_of(plan, run, i));
        json_add_number(object, "seconds", evaluation->training_ms / 1e3);
        cJSON_AddItemToArray(array, object);
        from = evaluation->steps;
    }
    return array;
}

static void add_learning(cJSON *object, const Plan *plan, const ReportContext *context,
                         const Run *run)
{
    int64_t steps = plan->config.total_steps;
    json_add_number(object, "first_loss", mean_loss(plan, run, 0, 1));
    json_add_number(object, "loss", mean_loss(plan, run, steps - 1, steps));
    double accuracy =
        plan->data->test.count ? accuracy_of(plan, run, plan->config.evaluations - 1) : NAN;
    json_add_number(object, "accuracy", accuracy);
    if (context->epochs > 0)
        cJSON_AddItemToObject(object, "epochs", epochs_json(plan, run));
    if (!context->log_losses)
        return;
    cJSON *losses = cJSON_AddArrayToObject(object, "losses");
    for (int64_t step = 0; step < steps; step++)
        cJSON_AddItemToArray(losses, cJSON_CreateNumber(mean_loss(plan, run, step, step + 1)));
}

/* --- timeline ----------------------------------------------------------------------------- */

static void add_span(cJSON *array, const char *lane, const char *phase, double start, double end)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "lane", lane);
    cJSON_AddStringToObject(object, "phase", phase);
    cJSON_AddNumberToObject(object, "start_ms", start);
    cJSON_AddNumberToObject(object, "end_ms", end);
    cJSON_AddItemToArray(array, object);
}

static void lane_name(const Run *run, int device, char *name, size_t size)
{
    if (run->kind == RUN_DP && device == 0)
        snprintf(name, size, "boss");
    else if (run->processes > 1)
        snprintf(name, size, "rank %d", device);
    else
        snprintf(name, size, "device %d", device);
}

/* The phases of a step: each once, or part by part where a step comes to them several times. */
static void add_phases(cJSON *array, const Plan *plan, const Run *run, int device, int64_t step,
                       const char *lane, double start)
{
    const StepRecord *record = &run_records(plan, run, device)[step];
    const StepPart *parts = run_parts(plan, run, device);
    if (parts)
        parts += step * timer_most_marks(plan->config.accumulate);
    for (int i = 0; parts && i < record->parts; i++)
        if (parts[i].phase != PHASE_NONE && parts[i].end_ms > parts[i].start_ms)
            add_span(array, lane, phase_name(parts[i].phase), start + parts[i].start_ms,
                     start + parts[i].end_ms);
    for (int phase = 0; !parts && phase < PHASES; phase++)
        if (record->phase_ms[phase] > 0)
            add_span(array, lane, phase_name((Phase)phase), start + record->begin_ms[phase],
                     start + record->begin_ms[phase] + record->phase_ms[phase]);
}

static cJSON *timeline_json(const Plan *plan, const Run *run, const Measured *measured)
{
    cJSON *array = cJSON_CreateArray();
    if (measured->typical < 0)
        return array;
    double zero_ms = INFINITY;
    for (int device = 0; device < run->recorded; device++)
        zero_ms = fmin(zero_ms, run_records(plan, run, device)[measured->typical].start_ms);
    for (int device = 0; device < run->recorded; device++) {
        const StepRecord *record = &run_records(plan, run, device)[measured->typical];
        double start = record->start_ms - zero_ms;
        char lane[32];
        lane_name(run, device, lane, sizeof lane);
        add_phases(array, plan, run, device, measured->typical, lane, start);
        snprintf(lane + strlen(lane), sizeof lane - strlen(lane), " comm");
        for (int i = 0; i < record->talks; i++) {
            const TalkRecord *talk = &record->talk[i];
            add_span(array, lane, "late_colleague", start + talk->start_ms,
                     start + talk->arrived_ms);
            add_span(array, lane, "all_reduce", start + talk->arrived_ms, start + talk->done_ms);
        }
    }
    return array;
}

/* --- results ------------------------------------------------------------------------------ */

static const char *device_kind_name(DeviceKind kind)
{
    return kind == DEVICE_VIRTUAL ? "virtual" : kind == DEVICE_CUDA ? "cuda" : "cpu";
}

static const Run *find_run(const Plan *plan, RunKind kind, int devices)
{
    for (int i = 0; i < plan->runs; i++)
        if (plan->run[i].kind == kind && plan->run[i].devices == devices)
            return &plan->run[i];
    return NULL;
}

/* Threads that compute or copy, over all processes of a run. */
static int thread_count(const Plan *plan, const Run *run)
{
    if (run->kind == RUN_DP)
        return run->devices;
    bool communication_threads = run->kind == RUN_DDP && plan->config.comm_kind == COMM_SHM;
    return communication_threads ? 2 * run->processes : run->processes;
}

static void add_devices(cJSON *object, const Plan *plan, const Run *run, const Measured *measured)
{
    cJSON *memory = cJSON_AddArrayToObject(object, "memory");
    cJSON *busy = cJSON_AddArrayToObject(object, "busy");
    for (int device = 0; device < run->recorded; device++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "device", device);
        cJSON_AddNumberToObject(item, "peak_bytes", (double)run->lanes[device].peak_bytes);
        cJSON_AddItemToArray(memory, item);
        item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "device", device);
        json_add_number(item, "share", busy_share(plan, run, measured, device));
        cJSON_AddItemToArray(busy, item);
    }
}

/* How long rank 0's all-reduces moved and added gradients beside its backward: their time without
 * what the rank waited for. */
static double hidden_ms(const Plan *plan, const Run *run, const Measured *measured)
{
    const StepRecord *records = run_records(plan, run, 0);
    for (size_t i = 0; i < measured->count; i++) {
        const StepRecord *record = &records[measured->step[i]];
        measured->scratch[i] = fmax(0, record->talk_ms - record->phase_ms[PHASE_TRANSFER]);
    }
    return statistics_mean_within(measured->scratch, measured->ms, measured->count,
                                  measured->middle);
}

/* What DDP's ranks say to each other, and in which buckets. */
static void add_communication(cJSON *object, const Plan *plan, const Run *run,
                              const Measured *measured)
{
    Bucket bucket[MODEL_MOST_PARAMETERS];
    int bucket_of[MODEL_MOST_PARAMETERS];
    int buckets =
        bucket_plan(&plan->layout, run->bucket_mb, run->bucket_explicit, bucket, bucket_of);
    cJSON_AddNumberToObject(object, "bucket_mb", run->bucket_mb);
    cJSON_AddNumberToObject(object, "first_bucket_mb",
                            run->bucket_explicit ? run->bucket_mb
                                                 : BUCKET_FIRST_CAP_BYTES / (1024 * 1024));
    cJSON_AddNumberToObject(object, "buckets", buckets);
    if (measured->typical < 0)
        return;
    cJSON *communication = communication_json(plan, run, measured->typical);
    cJSON_AddItemToObject(object, "communication", communication);
    json_add_number(communication, "hidden_ms", hidden_ms(plan, run, measured));
    json_add_number(communication, "exposed_ms",
                    measured_phase_ms(plan, run, measured, 0, PHASE_LATE_COLLEAGUE) +
                        measured_phase_ms(plan, run, measured, 0, PHASE_TRANSFER));
}

static cJSON *result_json(const Plan *plan, const ReportContext *context, const Run *run,
                          const Measured *measured, double single_ms)
{
    const Config *config = &plan->config;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "mode", run_kind_name(run->kind));
    cJSON_AddNumberToObject(object, "devices", run->devices);
    if (run->rung != RUNG_NONE)
        cJSON_AddNumberToObject(object, "rung", run->rung);
    if (run->sweep)
        cJSON_AddBoolToObject(object, "sweep", true);
    cJSON_AddNumberToObject(object, "processes", run->processes);
    cJSON_AddNumberToObject(object, "threads", thread_count(plan, run));
    cJSON_AddNumberToObject(object, "model_copies", run->devices);
    cJSON_AddStringToObject(object, "device_kind", device_kind_name(config->device_kind));
    if (run->lanes[0].transport[0])
        cJSON_AddStringToObject(object, "transport", run->lanes[0].transport);
    else
        cJSON_AddNullToObject(object, "transport");
    cJSON_AddBoolToObject(object, "oversubscribed",
                          !config->hardware &&
                              run->devices > (config->gpus > 0 ? config->gpus : plan->cores));

    cJSON *step = cJSON_AddObjectToObject(object, "step_ms");
    json_add_number(step, "median", measured->median);
    json_add_number(step, "p05", statistics_quantile(measured->sorted, measured->count, 0.05));
    json_add_number(step, "p95", statistics_quantile(measured->sorted, measured->count, 0.95));
    cJSON_AddNumberToObject(step, "n", (double)measured->count);
    json_add_number(object, "samples_per_s", config->batch / measured->median * 1e3);
    json_add_number(object, "speedup", single_ms / measured->median);
    json_add_number(object, "efficiency", single_ms / measured->median / run->devices);
    cJSON_AddNumberToObject(object, "batch_per_device", (double)config->batch / run->devices);

    cJSON_AddItemToObject(object, "phases_ms", phases_json(plan, run, measured));
    if (run->devices > 1 && run->kind != RUN_DP)
        cJSON_AddItemToObject(object, "phases_over_ranks_ms",
                              phases_over_ranks_json(plan, run, measured));
    cJSON_AddItemToObject(object, "traffic", traffic_json(plan, run, measured));
    if (run->group)
        add_communication(object, plan, run, measured);
    if (config->find_unused && run->group)
        cJSON_AddItemToObject(object, "find_unused_parameters",
                              find_unused_json(plan, run, measured));
    add_devices(object, plan, run, measured);
    if (run->kind != RUN_LIMIT) {
        add_learning(object, plan, context, run);
        const Run *single = find_run(plan, RUN_SINGLE, 1);
        json_add_number(object, "max_abs_weight_diff",
                        single ? run_weight_difference(plan, run, single) : NAN);
    }
    cJSON_AddItemToObject(object, "timeline", timeline_json(plan, run, measured));
    return object;
}

/* --- comparisons -------------------------------------------------------------------------- */

/* Device r of DP and rank r of DDP do the same arithmetic if all batches split evenly, and take
 * sums in the same order unless NCCL, a ring or a tree takes them, or there are micro-batches: DP
 * adds up over the devices first and DDP over the micro-batches. Then they can only be compared
 * within rounding, which training amplifies: how far they are apart is told, and no failure. */
static bool must_be_equal(const Plan *plan, int devices)
{
    const Config *config = &plan->config;
    int64_t last_batch = (int64_t)plan->data->train.count % config->batch;
    bool reaches_last = config->total_steps >= config->steps_per_epoch;
    return !config_timing_only(config) && config->batch % devices == 0 &&
           (!reaches_last || last_batch % devices == 0) && config->accumulate == 1 &&
           communication_sums_in_order(config, devices);
}

static cJSON *comparison_json(const Plan *plan, const Measured *measured, const Run *dp,
                              const Run *ddp, const Run *no_overlap, double *scratch)
{
    size_t steps = (size_t)plan->config.total_steps;
    double *dp_turns = scratch, *ddp_turns = scratch + steps, *other = scratch + 2 * steps;
    size_t turns = measured_turns(plan, &measured[dp - plan->run], dp_turns);
    measured_turns(plan, &measured[ddp - plan->run], ddp_turns);
    MedianInterval faster = statistics_faster_percent(dp_turns, ddp_turns, turns, other);

    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "devices", dp->devices);
    json_add_interval(object, "ddp_faster_percent", faster, turns);

    if (no_overlap) {
        measured_turns(plan, &measured[no_overlap - plan->run], other);
        for (size_t i = 0; i < turns; i++)
            other[i] -= ddp_turns[i];
        statistics_sort(other, turns);
        MedianInterval saved = statistics_median_interval(other, turns);
        json_add_number(object, "overlap_saved_ms", saved.median);
        cJSON *interval = cJSON_AddObjectToObject(object, "overlap_saved_interval_ms");
        json_add_number(interval, "low", saved.low);
        json_add_number(interval, "high", saved.high);
    } else {
        cJSON_AddNullToObject(object, "overlap_saved_ms");
    }

    if (must_be_equal(plan, dp->devices))
        cJSON_AddBoolToObject(object, "dp_equals_ddp",
                              memcmp(dp->final_weights, ddp->final_weights,
                                     sizeof(float) * plan->layout.arena_count) == 0);
    else
        cJSON_AddNullToObject(object, "dp_equals_ddp");
    json_add_number(object, "dp_ddp_max_abs_weight_diff", run_weight_difference(plan, dp, ddp));
    return object;
}

static cJSON *comparisons_json(const Plan *plan, const Measured *measured, double *scratch)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < plan->runs; i++) {
        const Run *dp = &plan->run[i];
        const Run *ddp = dp->kind == RUN_DP ? find_run(plan, RUN_DDP, dp->devices) : NULL;
        if (ddp)
            cJSON_AddItemToArray(
                array, comparison_json(plan, measured, dp, ddp,
                                       find_run(plan, RUN_DDP_NO_OVERLAP, dp->devices), scratch));
    }
    return array;
}

/* --- configuration ------------------------------------------------------------------------ */

static cJSON *fault_json(const Fault *fault)
{
    static const char *const kinds[] = {NULL, "kill", "stop", "slow"};
    if (fault->kind == FAULT_NONE)
        return cJSON_CreateNull();
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", kinds[fault->kind]);
    cJSON_AddNumberToObject(object, "rank", fault->rank);
    cJSON_AddNumberToObject(object, "step", (double)fault->step);
    return object;
}

/* The hardware that is not here. */
static cJSON *profile_json(const Plan *plan)
{
    const Hardware *hardware = plan->config.hardware;
    const Profile *profile = &hardware->profile;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", profile->name);
    cJSON_AddStringToObject(object, "about", profile->about);
    cJSON_AddStringToObject(object, "noun", profile->noun);
    cJSON_AddNumberToObject(object, "per_node", profile->per_node);
    cJSON_AddBoolToObject(object, "timing_only", hardware->timing_only);
    cJSON_AddBoolToObject(object, "interpreter", hardware->interpreter);
    if (plan->layout.workload) {
        cJSON_AddStringToObject(object, "workload", plan->layout.workload->name);
        cJSON_AddStringToObject(object, "sample", plan->layout.workload->sample);
    }
    return object;
}

static cJSON *config_json(const Plan *plan, const ReportContext *context)
{
    static const char *const comm_names[] = {
        [COMM_SHM] = "shm", [COMM_NCCL] = "nccl", [COMM_VIRTUAL] = "virtual"};
    static const char *const optimizers[] = {"sgd", "adam", "adamw"};
    static const char *const on_uneven_names[] = {"error", "join", "hang"};
    const Config *config = &plan->config;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "mode", context->mode);
    cJSON_AddItemToObject(object, "layers",
                          cJSON_CreateIntArray(plan->layout.widths, plan->layout.layers + 1));
    cJSON_AddNumberToObject(object, "parameters", (double)plan->layout.parameter_count);
    cJSON_AddNumberToObject(object, "model_bytes",
                            (double)(sizeof(float) * plan->layout.arena_count));
    cJSON_AddNumberToObject(object, "batch", config->batch);
    cJSON_AddNumberToObject(object, "accumulate", config->accumulate);
    cJSON_AddNumberToObject(object, "epochs", (double)context->epochs);
    cJSON_AddNumberToObject(object, "steps", (double)context->measured_steps);
    if (config->first_step > 0)
        cJSON_AddNumberToObject(object, "resumed_at_step", (double)config->first_step);
    cJSON_AddNumberToObject(object, "warmup", (double)config->warmup_steps);
    cJSON_AddNumberToObject(object, "total_steps", (double)config->total_steps);
    cJSON_AddStringToObject(object, "optimizer", optimizers[config->optimizer.kind]);
    cJSON_AddNumberToObject(object, "lr", config->optimizer.lr);
    cJSON_AddNumberToObject(object, "momentum", config->optimizer.momentum);
    cJSON_AddNumberToObject(object, "weight_decay", config->optimizer.weight_decay);
    cJSON_AddNumberToObject(object, "seed", (double)config->seed);
    cJSON_AddStringToObject(object, "data", plan->data->name);
    cJSON_AddNumberToObject(object, "train_samples", (double)plan->data->train.count);
    cJSON_AddNumberToObject(object, "test_samples", (double)plan->data->test.count);
    cJSON_AddStringToObject(object, "device", device_kind_name(config->device_kind));
    cJSON_AddStringToObject(object, "comm", comm_names[config->comm_kind]);
    if (config->hardware)
        cJSON_AddItemToObject(object, "profile", profile_json(plan));
    if (config->comm_kind == COMM_SHM)
        cJSON_AddStringToObject(object, "algorithm", comm_algorithm_name(config->algorithm));
    cJSON_AddStringToObject(object, "precision", config->tf32 ? "tf32" : "fp32");
    cJSON_AddNumberToObject(object, "bucket_mb", context->bucket_mb);
    cJSON_AddBoolToObject(object, "bucket_mb_explicit", context->bucket_explicit);
    cJSON_AddBoolToObject(object, "overlap", context->overlap);
    if (context->guess_given)
        cJSON_AddNumberToObject(object, "guess_percent", context->guess);
    if (config->unused == UNUSED_NONE)
        cJSON_AddNullToObject(object, "unused");
    else
        cJSON_AddStringToObject(object, "unused", unused_name(config->unused));
    cJSON_AddBoolToObject(object, "find_unused_parameters", config->find_unused);
    cJSON_AddNumberToObject(object, "steps_per_epoch", (double)config->steps_per_epoch);
    cJSON_AddNumberToObject(object, "uneven", (double)config->uneven);
    if (config->uneven > 0)
        cJSON_AddStringToObject(object, "on_uneven", on_uneven_names[config->on_uneven]);
    else
        cJSON_AddNullToObject(object, "on_uneven");
    cJSON_AddNumberToObject(object, "timeout_s", config->timeout_s);
    cJSON_AddItemToObject(object, "fault", fault_json(&config->fault));
    return object;
}

/* --- the object --------------------------------------------------------------------------- */

static double startup_seconds(const Plan *plan, const ReportContext *context)
{
    double first_ms = INFINITY;
    for (int i = 0; i < plan->runs; i++)
        first_ms = fmin(first_ms, plan->run[i].shared->first_step_ms);
    return (first_ms - context->program_start_ms) / 1e3;
}

cJSON *report_json(const Plan *plan, const ReportContext *context, Error *error)
{
    *error = NULL;
    Measured measured[sizeof plan->run / sizeof *plan->run];
    double *scratch = malloc(sizeof *scratch * 3 * (size_t)plan->config.total_steps);
    int ready = 0;
    while (scratch && ready < plan->runs &&
           measured_init(&measured[ready], plan, &plan->run[ready]))
        ready++;
    cJSON *object = NULL;
    if (ready == plan->runs && scratch) {
        const Run *single = find_run(plan, RUN_SINGLE, 1);
        double single_ms = single ? measured[single - plan->run].median : NAN;
        object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "schema", 1);
        cJSON *environment = environment_json(plan, context->command_line);
        json_add_number(environment, "data_seconds", context->data_ms / 1e3);
        json_add_number(environment, "startup_seconds", startup_seconds(plan, context));
        cJSON_AddItemToObject(object, "environment", environment);
        cJSON_AddItemToObject(object, "config", config_json(plan, context));
        cJSON *results = cJSON_AddArrayToObject(object, "results");
        for (int i = 0; i < plan->runs; i++)
            cJSON_AddItemToArray(
                results, result_json(plan, context, &plan->run[i], &measured[i], single_ms));
        cJSON_AddItemToObject(object, "comparisons", comparisons_json(plan, measured, scratch));
        if (plan->run[0].rung != RUNG_NONE)
            cJSON_AddItemToObject(object, "ladder", ladder_json(plan, measured, scratch));
    } else {
        *error = error_make("no memory for the report");
    }
    for (int i = 0; i < ready; i++)
        measured_free(&measured[i]);
    free(scratch);
    return object;
}

Error report_failure(const cJSON *object)
{
    const cJSON *comparison;
    cJSON_ArrayForEach(comparison, cJSON_GetObjectItemCaseSensitive(object, "comparisons"))
    {
        if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(comparison, "dp_equals_ddp")))
            return "FAILED: DP and DDP should have the same weights to the last bit, and have not";
    }
    const cJSON *ladder = cJSON_GetObjectItemCaseSensitive(object, "ladder");
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(ladder, "weights_equal")))
        return "FAILED: all rungs should have the same weights to the last bit, and have not";
    return NULL;
}

Error report_write(const cJSON *object, const char *path)
{
    char *text = cJSON_Print(object);
    if (!text)
        return error_make("no memory for the report");
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdout : fopen(path, "w");
    bool written = file && fprintf(file, "%s\n", text) > 0 && fflush(file) == 0;
    int number = errno;
    if (file && !standard && fclose(file) != 0 && written) {
        written = false;
        number = errno;
    }
    cJSON_free(text);
    if (!written)
        return error_make("%s: cannot write the JSON: %s", standard ? "standard output" : path,
                          strerror(number));
    return NULL;
}
