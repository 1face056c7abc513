/* dp.c: DataParallel: one process, one thread per device, one boss.
 *
 * The boss (device 0) owns the model, the optimizer and the data. Every step it hands out
 * copies and work and collects what comes back, in nine phases:
 *
 *      1 input         the whole batch goes to device 0
 *      2 replicate     device 0 copies the model to every other device
 *      3 scatter       and gives each its part of the images
 *      4 forward       all devices at once
 *      5 gather        the outputs come back to device 0
 *      6 loss          which computes the loss alone,
 *      7 scatter grad  and gives each device its part of the loss's gradient
 *      8 backward      all devices at once
 *      9 reduce        gradients come back and are summed on device 0
 *
 * and then device 0 updates the model, alone. While the boss copies, the others wait; the more of
 * them there are, the longer it copies. All but phases 4 and 8 is work that a single device would
 * not have, or work that it would do just as fast.
 *
 * With --accumulate the boss does all nine phases for every micro-batch, as PyTorch's does: the
 * replicas, and the gradients on them, last no longer than one forward and backward.
 */
#include "sampler.h"
#include "team.h"
#include "train.h"

#include <stdlib.h>

typedef struct Dp {
    Team *team;   /* a thread per device; the boss's is the calling one */
    Peers *peers; /* the ways between the devices */
    int devices;
    Device **device;   /* [devices] */
    float **weights;   /* [devices] arenas; device 0's are the model, the others' its replicas */
    float **gradients; /* [devices] arenas */

    /* how this step's batch is split: torch.chunk's way */
    int active;     /* devices that get samples */
    int *first_row; /* [devices + 1] */
    bool first;     /* of the update's micro-batches, or the only one */
} Dp;

/* --- setting up --------------------------------------------------------------------------- */

/* Runs once on every device's thread: each sets up its own device, so that its memory is near its
 * core. */
static Error start_replica(void *context, int i)
{
    Job *job = context;
    Dp *dp = job->state;
    worker_pin(job, i);
    TRY(worker_alloc_arena(job, i, &dp->weights[i]));
    TRY(worker_alloc_arena(job, i, &dp->gradients[i]));
    const Config *config = job->config;
    int chunk = batch_micro_rows(config->batch, config->accumulate, dp->devices);
    int all = chunk * dp->devices < config->batch ? chunk * dp->devices : config->batch;
    int outer = i == 0 ? all : chunk; /* the boss keeps all devices' rows */
    return worker_open(job, i, dp->weights[i], dp->gradients[i], chunk, outer, NULL);
}

static Error dp_open(Job *job)
{
    Dp *dp = calloc(1, sizeof *dp);
    if (!dp)
        return error_make("no memory");
    job->state = dp;
    dp->devices = job->workers;
    size_t devices = (size_t)dp->devices;
    dp->device = calloc(devices, sizeof *dp->device);
    dp->weights = calloc(devices, sizeof *dp->weights);
    dp->gradients = calloc(devices, sizeof *dp->gradients);
    dp->first_row = calloc(devices + 1, sizeof *dp->first_row);
    if (!dp->device || !dp->weights || !dp->gradients || !dp->first_row)
        return error_make("no memory");
    for (int i = 0; i < dp->devices; i++)
        dp->device[i] = job->worker[i].device;

    Error error = NULL;
    bool own_cores = dp->devices <= job->plan->cores;
    dp->team = team_open(dp->devices, own_cores, start_replica, job, &error);
    TRY(error);
    dp->peers = peers_open(dp->device, dp->devices, job->config->star, &error);
    TRY(error);
    worker_set_transport(job, peers_transport(dp->peers));
    device_upload(dp->device[0], dp->weights[0], job->plan->initial_weights,
                  sizeof(float) * job->layout->arena_count);
    return worker_open_optimizer(job, 0);
}

/* --- a step ------------------------------------------------------------------------------- */

/* Device i gets rows first_row[i] to first_row[i + 1] - 1 of the batch. */
static void split(Dp *dp, int rows)
{
    dp->active = 0;
    for (int i = 0; i < dp->devices; i++) {
        int chunk = (int)sampler_chunk((size_t)rows, dp->devices, i);
        dp->first_row[i + 1] = dp->first_row[i] + chunk;
        if (chunk > 0)
            dp->active = i + 1;
    }
}

static int rows_of(const Dp *dp, int i)
{
    return dp->first_row[i + 1] - dp->first_row[i];
}

static Error forward(void *context, int i)
{
    Job *job = context;
    Worker *worker = &job->worker[i];
    timer_phase(&worker->timer, PHASE_FORWARD);
    model_forward(&worker->model, rows_of(job->state, i));
    if (i > 0)
        timer_phase(&worker->timer, PHASE_NONE); /* the boss's phase lasts until all are done */
    return device_failure(worker->device);
}

/* Micro-batches' gradients add up on the boss alone. */
static Error backward(void *context, int i)
{
    Job *job = context;
    Dp *dp = job->state;
    Worker *worker = &job->worker[i];
    bool accumulate = i == 0 && !dp->first;
    timer_phase(&worker->timer, PHASE_BACKWARD);
    model_backward(&worker->model, rows_of(dp, i), accumulate, NULL, NULL);
    if (!accumulate) /* else the sum of what other replicas found may be there */
        model_zero_skipped(&worker->model);
    if (i > 0)
        timer_phase(&worker->timer, PHASE_NONE);
    return device_failure(worker->device);
}

/* All devices at once. The boss's queue then goes on when every device has finished: on GPUs a
 * thread returns as soon as its work is queued. */
static Error all_do(Job *job, TeamWork work)
{
    Dp *dp = job->state;
    TRY(team_do(dp->team, dp->active, work, job));
    for (int i = 1; i < dp->active; i++) {
        Event finished = device_record(dp->device[i]);
        TRY(device_wait(dp->device[0], &finished));
    }
    return NULL;
}

/* A parameter has a gradient if any replica used it. (With two GPUs or more, PyTorch's DataParallel
 * gives one that none used a gradient of zeros, and weight decay goes on: torch/nn/parallel/
 * _functions.py, Broadcast. Its DistributedDataParallel gives none; here both do that.) */
static void find_used(Job *job)
{
    const Dp *dp = job->state;
    bool *no_gradient = job->worker[0].model.no_gradient;
    for (int i = 1; i < dp->active; i++)
        for (int p = 0; p < job->layout->parameters; p++)
            no_gradient[p] = no_gradient[p] && job->worker[i].model.no_gradient[p];
}

/* Phases 1 to 9. */
static Error run_micro_batch(Job *job, const Batch *batch)
{
    Dp *dp = job->state;
    Worker *boss = &job->worker[0];
    Timer *timer = &boss->timer;
    size_t pixels = boss->feed.pixels;
    size_t classes = (size_t)job->layout->widths[job->layout->layers];

    timer_phase(timer, PHASE_INPUT);
    float *inputs = model_input(&boss->model);
    int rows = feed_load(&boss->feed, batch, 0, dp->devices, dp->devices, inputs);
    split(dp, rows);

    timer_phase(timer, PHASE_REPLICATE);
    TRY(peers_broadcast(dp->peers, dp->weights, dp->active, job->layout->arena_count, BYTES_MODEL));

    timer_phase(timer, PHASE_SCATTER);
    for (int i = 1; i < dp->active; i++)
        device_copy(dp->device[i], model_input(&job->worker[i].model), dp->device[0],
                    inputs + (size_t)dp->first_row[i] * pixels,
                    sizeof(float) * (size_t)rows_of(dp, i) * pixels, BYTES_INPUTS);

    TRY(all_do(job, forward));

    timer_phase(timer, PHASE_GATHER);
    float *logits = model_logits(&boss->model);
    for (int i = 1; i < dp->active; i++)
        device_copy(dp->device[0], logits + (size_t)dp->first_row[i] * classes, dp->device[i],
                    model_logits(&job->worker[i].model),
                    sizeof(float) * (size_t)rows_of(dp, i) * classes, BYTES_OUTPUTS);

    timer_phase(timer, PHASE_LOSS);
    worker_loss(boss, batch, rows);
    if (!batch->learn)
        return device_failure(boss->device);

    timer_phase(timer, PHASE_SCATTER_GRAD);
    /* one for every class, but for some workloads */
    size_t gradients = (size_t)job->layout->gradient_width;
    for (int i = 1; i < dp->active; i++)
        device_copy(dp->device[i], job->worker[i].model.logit_gradient, dp->device[0],
                    boss->model.logit_gradient + (size_t)dp->first_row[i] * gradients,
                    sizeof(float) * (size_t)rows_of(dp, i) * gradients, BYTES_OUTPUT_GRADIENTS);

    TRY(all_do(job, backward));

    timer_phase(timer, PHASE_REDUCE);
    TRY(peers_reduce(dp->peers, dp->gradients, dp->active, job->layout->arena_count));
    find_used(job);
    return device_failure(boss->device);
}

static Error dp_step(Job *job, const Batch *batch)
{
    Dp *dp = job->state;
    Worker *boss = &job->worker[0];
    int micros = job->config->accumulate; /* 1, unless asked for more */
    for (int i = 0; i < micros; i++) {
        Batch micro = batch_micro(batch, i, micros, dp->devices);
        dp->first = i == 0;
        if (micro.count > 0) /* the last batch of an epoch may be too small for all of them */
            TRY(run_micro_batch(job, &micro));
    }
    if (!batch->learn)
        return device_failure(boss->device);

    timer_phase(&boss->timer, PHASE_UPDATE);
    worker_update(boss);
    return device_failure(boss->device);
}

static void dp_close(Job *job)
{
    Dp *dp = job->state;
    if (!dp)
        return;
    team_close(dp->team);
    peers_close(dp->peers);
    free(dp->device);
    free(dp->weights);
    free(dp->gradients);
    free(dp->first_row);
    free(dp);
}

const Strategy dp_strategy = {
    .open = dp_open,
    .step = dp_step,
    .close = dp_close,
    .source_lines = __LINE__ + 1,
};
