/* train.c: the loop that all ways of training share: turns, epochs, steps, evaluation.
 *
 * The processes of all runs exist from the start, and runs take turns of a few steps, so that
 * whatever else the machine is doing disturbs all of them alike. Odd rounds go through the runs
 * backwards: if the machine slowly becomes faster or slower, no run profits. A run whose turn it is
 * not sleeps.
 */
#include "train.h"

#include "base/place.h"
#include "sampler.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- workers ------------------------------------------------------------------------------ */

/* The device of the run that a worker of this process is. */
static int device_of(const Job *job, int worker)
{
    return job->rank + worker;
}

void worker_pin(Job *job, int worker)
{
    const Plan *plan = job->plan;
    int device = device_of(job, worker);
    job->run->lanes[device].cpu = place_pin(plan->cpus, plan->cores, device, job->run->devices);
}

Error worker_alloc_arena(Job *job, int worker, float **arena)
{
    return device_alloc(job->worker[worker].device, sizeof(float) * job->layout->arena_count,
                        (void **)arena);
}

Error worker_open(Job *job, int worker, float *weights, float *gradients, int most_rows,
                  int most_outer_rows, Comm *comm)
{
    Worker *self = &job->worker[worker];
    int device = device_of(job, worker);
    LaneShared *lane = &job->run->lanes[device];
    TRY(model_open(&self->model, job->layout, self->device, weights, gradients, most_rows,
                   most_outer_rows));
    Unused unused = job->config->unused;
    self->model.skips_branch = unused == UNUSED_ALWAYS || (unused == UNUSED_RANK0 && device == 0);
    for (int i = 0; i < job->layout->parameters; i++)
        self->model.no_gradient[i] = model_skips(&self->model, i);
    TRY(feed_open(&self->feed, self->device, most_outer_rows, (size_t)job->layout->widths[0]));
    TRY(device_alloc(self->device, sizeof *self->stats * TIMER_STEPS, (void **)&self->stats));
    return timer_open(&self->timer, self->device, comm, job->config->accumulate,
                      run_records(job->plan, job->run, device),
                      run_parts(job->plan, job->run, device), &lane->whereabouts);
}

Error worker_open_optimizer(Job *job, int worker)
{
    Worker *self = &job->worker[worker];
    const OptimizerSettings *settings = &job->config->optimizer;
    TRY(optimizer_open(&self->optimizer, settings, self->device, job->layout->arena_count));
    self->optimizer.steps = job->config->first_step;
    for (int i = 0; i < 2; i++)
        if (job->plan->initial_state[i])
            device_upload(self->device, self->optimizer.state[i], job->plan->initial_state[i],
                          sizeof(float) * job->layout->arena_count);
    return NULL;
}

void worker_set_transport(Job *job, const char *transport)
{
    LaneShared *lane = &job->run->lanes[device_of(job, 0)];
    snprintf(lane->transport, sizeof lane->transport, "%s", transport);
}

void worker_loss(Worker *worker, const Batch *batch, int rows)
{
    const Layout *layout = worker->model.layout;
    if (layout->workload) { /* its loss is one of its layers, but for the boss's part in it */
        device_work(worker->device, 0, sizeof(float) * (double)layout->gradient_width * rows, 1);
        return;
    }
    device_softmax_cross_entropy(worker->device, worker->model.logit_gradient,
                                 &worker->stats[batch->slot], model_logits(&worker->model),
                                 worker->feed.labels, rows, layout->widths[layout->layers],
                                 1.0f / (float)batch->update_count);
}

void worker_update(Worker *worker)
{
    const Model *model = &worker->model;
    const Layout *layout = model->layout;
    Slice slice[MODEL_MOST_PARAMETERS];
    int slices = 0;
    bool grows = false; /* the last slice reaches up to the next parameter */
    for (int i = 0; i < layout->parameters; i++) {
        size_t offset = layout->parameter[i].offset;
        size_t end =
            i + 1 < layout->parameters ? layout->parameter[i + 1].offset : layout->arena_count;
        if (grows && !model->no_gradient[i])
            slice[slices - 1].count += end - offset;
        else if (!model->no_gradient[i])
            slice[slices++] = (Slice){.offset = offset, .count = end - offset};
        grows = !model->no_gradient[i];
    }
    optimizer_step_slices(&worker->optimizer, model->weights, model->gradients, slice, slices);
}

static Error open_devices(Job *job)
{
    for (int i = 0; i < job->workers; i++) {
        int device = device_of(job, i);
        int index = job->config->gpus > 0 ? device % job->config->gpus : device;
        Error error = NULL;
        job->worker[i].device =
            job->config->hardware
                ? device_open_virtual(job->config->hardware,
                                      (VirtualPlace){.index = device,
                                                     .devices = job->run->devices,
                                                     .workers = job->workers},
                                      &error)
                : device_open(job->config->device_kind, index, job->config->tf32, &error);
        TRY(error);
        LaneShared *lane = &job->run->lanes[device];
        snprintf(lane->device_name, sizeof lane->device_name, "%s",
                 device_name(job->worker[i].device));
    }
    return NULL;
}

static void close_workers(Job *job)
{
    for (int i = 0; i < job->workers; i++) {
        LaneShared *lane = &job->run->lanes[device_of(job, i)];
        lane->peak_bytes = device_counters(job->worker[i].device)->peak_bytes;
        feed_close(&job->worker[i].feed);
        timer_close(&job->worker[i].timer);
        device_close(job->worker[i].device);
    }
}

/* --- turns -------------------------------------------------------------------------------- */

/* Which turn of all runs' turns is this run's n-th. */
static uint32_t turn_number(const Plan *plan, const Run *run, uint32_t n)
{
    uint32_t runs = (uint32_t)plan->runs;
    uint32_t place = (uint32_t)(run - plan->run);
    return n * runs + (n % 2 == 0 ? place : runs - 1 - place);
}

static void await_turn(const Job *job, uint32_t n)
{
    if (job->plan->runs > 1)
        word_wait(job->plan->turn, turn_number(job->plan, job->run, n), 0, 0);
}

/* The run's last process to get here hands the turn on. */
static void end_turn(const Job *job, uint32_t n)
{
    if (job->plan->runs == 1)
        return;
    uint32_t processes = (uint32_t)job->run->processes;
    if (word_add(&job->run->shared->turns_ended) % processes == 0)
        word_set(job->plan->turn, turn_number(job->plan, job->run, n) + 1);
}

/* --- steps -------------------------------------------------------------------------------- */

/* Rows of an update, without the share of a rank that has run out of batches. */
static int rows_of(const Job *job, const Batch *batch, int64_t step)
{
    int ranks = job->run->processes, last = ranks - 1;
    bool whole = config_has_batch(job->config, ranks, last, step);
    return (int)batch->count - (whole ? 0 : batch_share(batch, last, ranks));
}

static Error take_step(Job *job, const Strategy *strategy, const Sampler *sampler, int64_t step,
                       int slot)
{
    const Config *config = job->config;
    for (int i = 0; i < job->workers; i++) {
        timer_begin(&job->worker[i].timer);
        fault_arm(job, i, step);
    }

    size_t batch_size = (size_t)config->batch;
    size_t begin = (size_t)((config->first_step + step) % config->steps_per_epoch) * batch_size;
    size_t left = job->plan->data->train.count - begin;
    Batch batch = {
        .images = &job->plan->data->train,
        .order = sampler->order,
        .begin = begin,
        .count = left < batch_size ? left : batch_size,
        .learn = true,
        .slot = slot,
    };
    batch.update_count = batch.count;
    bool has_batch = config_has_batch(config, job->run->processes, job->rank, step);
    TRY(has_batch ? strategy->step(job, &batch) : strategy->step_without_batch(job, &batch));
    int rows = rows_of(job, &batch, step);

    for (int i = 0; i < job->workers; i++) {
        Timer *timer = &job->worker[i].timer;
        timer_end(timer);
        StepRecord *record = &timer->records[step];
        record->rows = rows;
        record->measured = step >= config->warmup_steps && (size_t)rows == batch_size &&
                           !(config->skip_turn_start && slot == 0);
    }
    if (job->rank == 0) {
        if (step == 0)
            job->run->shared->first_step_ms = device_host_clock_ms();
        atomic_store_explicit(&job->run->shared->steps_done, step + 1, memory_order_relaxed);
    }
    return NULL;
}

/* Brings a turn's times and losses from the devices to the records. */
static Error collect(Job *job, int64_t first_step, int64_t end_step)
{
    for (int i = 0; i < job->workers; i++) {
        Worker *worker = &job->worker[i];
        TRY(device_sync(worker->device));
        timer_collect(&worker->timer);
        device_recycle_events(worker->device);
        LossStats stats[TIMER_STEPS];
        TRY(device_download(worker->device, stats, worker->stats, sizeof stats));
        for (int64_t step = first_step; step < end_step; step++)
            worker->timer.records[step].loss_sum = stats[step - first_step].loss_sum;
        device_zero(worker->device, worker->stats, sizeof stats);
    }
    if (job->rank == 0)
        atomic_store(&job->run->shared->steps_collected, end_step);
    return NULL;
}

/* Loss and correct answers on the test set. Each sample is some device's, and only one's. */
static Error evaluate(Job *job, const Strategy *strategy, int evaluation, int64_t steps_done,
                      double training_ms)
{
    const Images *test = &job->plan->data->test;
    size_t batch_size = (size_t)job->config->batch;
    for (size_t begin = 0; begin < test->count; begin += batch_size) {
        size_t left = test->count - begin;
        Batch batch = {
            .images = test, .begin = begin, .count = left < batch_size ? left : batch_size};
        batch.update_count = batch.count;
        TRY(strategy->step(job, &batch));
    }
    for (int i = 0; i < job->workers; i++) {
        Worker *worker = &job->worker[i];
        LossStats sum;
        TRY(device_download(worker->device, &sum, worker->stats, sizeof sum));
        device_zero(worker->device, worker->stats, sizeof sum);
        run_evaluations(job->plan, job->run, device_of(job, i))[evaluation] =
            (Evaluation){.correct = sum.correct,
                         .loss_sum = sum.loss_sum,
                         .steps = steps_done,
                         .training_ms = training_ms};
    }
    return NULL;
}

/* --- checkpoints -------------------------------------------------------------------------- */

/* Weights and optimizer state come from this process's first worker: all of them have the same
 * weights, and where the update is made the same state. */
static Error save_from(Job *job, int64_t steps_done, float *weights, float *const state[2])
{
    const Worker *worker = &job->worker[0];
    const Config *config = job->config;
    const Layout *layout = job->layout;
    size_t bytes = sizeof(float) * layout->arena_count;
    TRY(device_download(worker->device, weights, worker->model.weights, bytes));
    for (int i = 0; i < 2; i++)
        if (worker->optimizer.state[i])
            TRY(device_download(worker->device, state[i], worker->optimizer.state[i], bytes));
    int64_t step = config->first_step + steps_done;
    Progressed progressed = {
        .layers = layout->layers,
        .unused = config->unused,
        .optimizer = config->optimizer,
        .seed = config->seed,
        .batch = config->batch,
        .data = config->save.data,
        .samples = (int64_t)job->plan->data->train.count,
        .step = step,
        .epoch = step / config->steps_per_epoch,
    };
    memcpy(progressed.widths, layout->widths, sizeof progressed.widths);
    return checkpoint_save(&config->save, layout, weights, state, &progressed);
}

/* One process writes. The others wait until it has, without a deadline: a disk may take longer than
 * ranks wait for each other, and if the writer fails, all are ended. */
static Error save(Job *job, int64_t steps_done, uint32_t saves)
{
    Word *done = &job->run->shared->saves;
    if (job->rank > 0) {
        word_wait(done, saves, 0, 0);
        return NULL;
    }
    size_t count = job->layout->arena_count;
    float *memory = malloc(sizeof *memory * 3 * count);
    if (!memory)
        return error_make("no memory to save %s", job->config->save.path);
    Error error =
        save_from(job, steps_done, memory, (float *[]){memory + count, memory + 2 * count});
    free(memory);
    TRY(error);
    word_add(done);
    return NULL;
}

/* --- the loop ----------------------------------------------------------------------------- */

static Error train_steps(Job *job, const Strategy *strategy, Sampler *sampler)
{
    const Config *config = job->config;
    int evaluations = 0;
    double training_ms = 0;
    int64_t epoch = -1;
    uint32_t turn = 0, saves = 0;
    for (int64_t step = 0; step < config->total_steps; turn++) {
        await_turn(job, turn);
        double from_ms = device_host_clock_ms();
        int64_t first = step;
        int64_t end = config_turn_end(config, step);
        for (; step < end; step++) {
            int64_t epoch_now = (config->first_step + step) / config->steps_per_epoch;
            if (epoch_now != epoch) {
                epoch = epoch_now;
                if (!config_timing_only(config)) /* nobody looks at the samples */
                    sampler_set_epoch(sampler, config->set_epoch ? (uint64_t)epoch : 0);
            }
            TRY(take_step(job, strategy, sampler, step, (int)(step - first)));
        }
        TRY(collect(job, first, end));
        training_ms += device_host_clock_ms() - from_ms;

        bool evaluates = config_evaluates_after(config, step);
        bool saves_now = config_saves_after(config, step);
        if (strategy->epoch_end && !config_timing_only(config) && (evaluates || saves_now))
            TRY(strategy->epoch_end(job));
        if (evaluates) {
            if (job->run->kind != RUN_LIMIT)
                TRY(evaluate(job, strategy, evaluations, step, training_ms));
            evaluations++;
            training_ms = 0;
            atomic_fetch_add(&job->run->shared->evaluations_done, 1);
        }
        if (saves_now)
            TRY(save(job, step, ++saves));
        if (step == config->total_steps && job->rank == 0)
            TRY(device_download(job->worker[0].device, job->run->final_weights,
                                job->worker[0].model.weights,
                                sizeof(float) * job->layout->arena_count));
        end_turn(job, turn);
    }
    return NULL;
}

Error train(const Plan *plan, Run *run, int rank)
{
    const Strategy *strategy = run->kind == RUN_DP ? &dp_strategy
                               : run->group        ? &ddp_strategy
                                                   : &single_strategy;
    Job job = {
        .plan = plan,
        .config = &plan->config,
        .layout = &plan->layout,
        .run = run,
        .rank = rank,
        .workers = run->kind == RUN_DP ? run->devices : 1,
    };
    job.worker = calloc((size_t)job.workers, sizeof *job.worker);
    if (!job.worker)
        return error_make("no memory");
    worker_pin(&job, 0);
    TRY(open_devices(&job)); /* NOLINT(clang-analyzer-unix.Malloc): see train.h, "after an error" */
    TRY(strategy->open(&job));

    Sampler sampler;
    TRY(sampler_open(&sampler, plan->data->train.count, plan->config.seed));
    word_add(plan->ready);
    word_wait(plan->ready, (uint32_t)plan->processes, 0, 0);
    TRY(train_steps(&job, strategy, &sampler));

    sampler_close(&sampler);
    strategy->close(&job);
    close_workers(&job);
    free(job.worker);
    return NULL;
}
