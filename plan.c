/* plan.c: from options to runs: on which devices, how many steps, which processes (see plan.h). */
#include "plan.h"

#include "option_values.h" /* shown */
#include "train.h"

#include <stdio.h>
#include <string.h>

Error plan_devices(const Options *options, Config *config)
{
    config->device_kind = DEVICE_CPU;
    config->comm_kind = COMM_SHM;
    config->algorithm = options->algorithm;
    config->star = true;
    if (options->profile && !options->beside) {
        config->device_kind = DEVICE_VIRTUAL;
        config->comm_kind = COMM_VIRTUAL;
        return NULL;
    }
    if (options->device == CHOICE_CPU)
        return NULL;
    const char *reason = NULL;
    int gpus = device_cuda_count(&reason);
    if (gpus == 0) {
        if (options->device == CHOICE_CUDA)
            return error_make("--device=cuda: %s", reason);
#ifdef TRAINER_CUDA
        if (!options->quiet)
            fprintf(stderr, "Using the CPU: %.*s\n", (int)strcspn(reason, ":;"), reason);
#endif
        return NULL;
    }
    int most = options->devices[options->device_counts - 1];
    if (most > gpus && !options->oversubscribe)
        return error_make("--devices=%d: there %s %d GPU%s; --oversubscribe lets devices share, "
                          "--device=cpu uses the cores",
                          most, gpus == 1 ? "is" : "are", gpus, gpus == 1 ? "" : "s");
    config->device_kind = DEVICE_CUDA;
    config->gpus = gpus;
    bool shared = most > gpus; /* NCCL refuses two ranks on one GPU */
    if (shared && options->comm == COMM_CHOICE_NCCL)
        return error_make("--comm=nccl: NCCL needs a GPU for every rank; %d share %d here", most,
                          gpus);
#ifdef TRAINER_NCCL
    config->comm_kind = shared || options->comm == COMM_CHOICE_SHM ? COMM_SHM : COMM_NCCL;
    if (config->comm_kind == COMM_NCCL && options->algorithm_given && options->mode != MODE_BENCH)
        return error_make("--algorithm=%s: NCCL chooses its algorithms by itself; add --comm=shm "
                          "for one of ours",
                          comm_algorithm_name(options->algorithm));
    config->star = options->replicate == REPLICATE_STAR;
#endif
    if (shared && !options->quiet)
        fprintf(stderr, "%d devices share %d GPU%s%s\n", most, gpus, gpus == 1 ? "" : "s",
                options->mode == MODE_DP || options->mode == MODE_BENCH
                    ? ""
                    : ": DDP's gradients go through the host's memory");
    config->tf32 = options->tf32;
    return NULL;
}

static Error plan_schedule(const Options *options, const Dataset *data, Config *config)
{
    bool take_turns = options->mode == MODE_COMPARE || options->mode == MODE_LADDER;
    int64_t samples = (int64_t)data->train.count;
    config->steps_per_epoch = (samples + options->batch - 1) / options->batch;
    config->evaluations = options->epochs > 0 ? (int)options->epochs : 1;
    config->warmup_steps = options->warmup;
    config->turn_steps = take_turns ? 6 : TIMER_STEPS;
    config->skip_turn_start = take_turns;
    if (options->epochs > 0) {
        config->total_steps = options->epochs * config->steps_per_epoch;
    } else if (take_turns) {
        int counted = config->turn_steps - 1;
        int64_t turns = (options->steps + counted - 1) / counted;
        config->total_steps = options->warmup + options->steps + turns;
    } else {
        config->total_steps = options->warmup + options->steps;
    }
    if (config->first_step >= config->total_steps)
        return error_make("%s is at step %lld already, after epoch %lld, and this command ends at "
                          "step %lld: give more --epochs or --steps",
                          shown(options->resume).text, (long long)config->first_step,
                          (long long)(config->first_step / config->steps_per_epoch),
                          (long long)config->total_steps);
    config->total_steps -= config->first_step;
    if (options->epochs > 0)
        config->evaluations -= (int)(config->first_step / config->steps_per_epoch);
    if (config->warmup_steps >= config->total_steps)
        config->warmup_steps = 0; /* a run so short is measured from its first step */
    return NULL;
}

/* A fault that is asked for has to come while the steps are taken. */
static Error check_fault(const Config *config)
{
    const Fault *fault = &config->fault;
    long long first = (long long)config->first_step + 1, last = first - 1 + config->total_steps;
    if (fault->kind == FAULT_NONE || (fault->step >= first && fault->step <= last))
        return NULL;
    return error_make("--%s=%s: this command takes steps %lld to %lld: give one of them, or other "
                      "--steps or --epochs",
                      fault->option, shown(fault->text).text, first, last);
}

/* A run with the buckets that were asked for. */
static Run *add_run(const Options *options, Plan *plan, RunKind kind, int devices)
{
    bool one_process = kind == RUN_SINGLE || kind == RUN_DP;
    int processes = one_process ? 1 : comm_processes(plan->config.comm_kind, devices);
    Run *run = &plan->run[plan->runs++];
    *run = (Run){
        .kind = kind,
        .devices = devices,
        .processes = processes,
        .recorded = one_process ? devices : processes,
        .bucket_mb = options->bucket_mb,
        .bucket_explicit = options->bucket_given,
        .rung = RUNG_NONE,
    };
    return run;
}

static Run *add_ddp(const Options *options, Plan *plan, RunKind kind, double bucket_mb)
{
    Run *run = add_run(options, plan, kind, options->devices[0]);
    run->bucket_mb = bucket_mb;
    run->bucket_explicit = true;
    return run;
}

/* From the naive way to DDP. In buckets of 0 MiB every tensor closes its own; one of the model's
 * size takes all. */
static void plan_ladder(const Options *options, Plan *plan)
{
    double model_mb = (double)(sizeof(float) * plan->layout.parameter_count) / (1024 * 1024);
    add_run(options, plan, RUN_SINGLE, 1)->rung = RUNG_ONE_DEVICE;
    add_ddp(options, plan, RUN_DDP_NO_OVERLAP, 0)->rung = RUNG_PER_TENSOR;
    add_ddp(options, plan, RUN_DDP_NO_OVERLAP, model_mb)->rung = RUNG_ONE_BUCKET;
    add_ddp(options, plan, RUN_DDP, 0)->rung = RUNG_PER_TENSOR_OVERLAPPED;
    add_run(options, plan, RUN_DDP, options->devices[0])->rung = RUNG_BUCKETS_OVERLAPPED;
    add_run(options, plan, RUN_LIMIT, options->devices[0]);
    for (int i = 0; i < options->sweep_sizes; i++)
        add_ddp(options, plan, RUN_DDP, options->sweep_mb[i])->sweep = true;
}

static void plan_runs(const Options *options, Plan *plan)
{
    switch (options->mode) {
    case MODE_SINGLE:
        add_run(options, plan, RUN_SINGLE, 1);
        return;
    case MODE_DP:
        add_run(options, plan, RUN_DP, options->devices[0]);
        return;
    case MODE_DDP:
        add_run(options, plan, options->overlap ? RUN_DDP : RUN_DDP_NO_OVERLAP,
                options->devices[0]);
        return;
    case MODE_LADDER:
        plan_ladder(options, plan);
        return;
    case MODE_COMPARE:
    case MODE_HELLO:
    case MODE_BENCH:
    case MODE_CALIBRATE: /* never planned */
        break;
    }
    add_run(options, plan, RUN_SINGLE, 1);
    for (int i = 0; i < options->device_counts; i++) {
        int devices = options->devices[i];
        if (devices == 1)
            continue;
        const Hardware *hardware = plan->config.hardware;
        if (!hardware ||
            devices <= hardware->profile.per_node) /* one process cannot span machines */
            add_run(options, plan, RUN_DP, devices);
        add_run(options, plan, RUN_DDP, devices);
        add_run(options, plan, RUN_DDP_NO_OVERLAP, devices);
        add_run(options, plan, RUN_LIMIT, devices);
    }
}

/* --- checkpoints -------------------------------------------------------------------------- */

/* Where a resumed run begins. Its options are those of the file by now, see options_resume. */
static Error plan_resume(const Options *options, const Dataset *data, const Checkpoint *checkpoint,
                         Config *config)
{
    Progressed saved;
    TRY(checkpoint_progressed(checkpoint, &saved));
    if (saved.samples != (int64_t)data->train.count)
        return error_make("%s was saved in training on %lld images of %s; %s has %zu: give the "
                          "same --data",
                          shown(options->resume).text, (long long)saved.samples,
                          shown(saved.data).text, shown(data->name).text, data->train.count);
    config->first_step = saved.step;
    return NULL;
}

static Error plan_load(const Options *options, const Checkpoint *checkpoint, Plan *plan)
{
    CheckpointFit fit = {
        .strict = options->strict,
        .wrapped = options->wrapped_keys,
        .complete = options->resume != NULL,
        .class = !options->wrapped_keys      ? plan->layout.branch        ? "Branched"
                                               : plan->layout.layers == 1 ? "Linear"
                                                                          : "Sequential"
                 : options->mode == MODE_DDP ? "DistributedDataParallel"
                                             : "DataParallel",
    };
    char loaded[256];
    TRY(checkpoint_load(checkpoint, &plan->layout, &fit, stderr, plan->initial_weights, loaded));
    if (options->resume)
        TRY(checkpoint_load_state(checkpoint, &plan->layout, &plan->config.optimizer,
                                  plan->initial_state));
    if (options->quiet)
        return NULL;
    if (options->resume)
        fprintf(stderr, "Resuming %s after step %lld (epoch %lld): %s\n",
                shown(options->resume).text, (long long)plan->config.first_step,
                (long long)(plan->config.first_step / plan->config.steps_per_epoch), loaded);
    else
        fprintf(stderr, "Loaded %s: %s\n", shown(options->load).text, loaded);
    return NULL;
}

/* --- all together ------------------------------------------------------------------------- */

Error plan_make(const Options *options, const Dataset *data, const Checkpoint *checkpoint,
                Plan *plan)
{
    Config *config = &plan->config;
    plan->data = data;
    config->optimizer = options->optimizer;
    config->seed = options->seed;
    config->set_epoch = options->set_epoch;
    config->batch = options->batch;
    config->accumulate = options->accumulate;
    config->unused = options->unused;
    config->find_unused = options->find_unused;
    config->uneven = options->uneven;
    config->on_uneven = options->on_uneven;
    config->fault = options->fault;
    config->timeout_s = options->timeout_s;
    config->hardware = options->profile && !options->beside ? &options->hardware : NULL;
    TRY(plan_devices(options, config));
    config->save = (CheckpointSettings){
        .path = options->save,
        .wrapped = options->wrapped_keys,
        .weights_only = options->weights_only,
        .data = options->data,
    };
    if (options->resume)
        TRY(plan_resume(options, data, checkpoint, config));
    TRY(plan_schedule(options, data, config));
    TRY(check_fault(config));
    if (options->workload)
        layout_init_workload(&plan->layout, options->workload);
    else
        layout_init_branched(&plan->layout, options->widths, options->layers, options->unused);
    plan_runs(options, plan);
    for (int i = 0; i < plan->runs; i++) {
        Run *run = &plan->run[i];
        plan->processes += run->processes;
        Error error = NULL;
        if (run->kind == RUN_DDP || run->kind == RUN_DDP_NO_OVERLAP)
            run->group = comm_group(config->comm_kind, run->devices,
                                    ddp_heap_bytes(&plan->layout, run->devices), &error);
        TRY(error);
    }
    TRY(plan_share(plan));
    if (!config_timing_only(config))
        layout_init_weights(&plan->layout, config->seed, plan->initial_weights);
    return checkpoint ? plan_load(options, checkpoint, plan) : NULL;
}
