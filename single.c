/* single.c: training on one device: the step that everything else is compared with.
 *
 * The same code is the machine's limit: several processes that each train on their share of the
 * batch and never talk. No way of training in parallel can be faster than that.
 *
 * With --accumulate the share is split into micro-batches, and their gradients are added up before
 * the update: the device needs room for the activations of one micro-batch only.
 */
#include "train.h"

#include <stdlib.h>

typedef struct Single {
    int share; /* which share of the batch, of how many: 0 of 1 but for the limit */
    int shares;
} Single;

static Error single_open(Job *job)
{
    Single *single = calloc(1, sizeof *single);
    if (!single)
        return error_make("no memory");
    job->state = single;
    single->share = job->rank;
    single->shares = job->run->devices;

    float *weights, *gradients;
    TRY(worker_alloc_arena(job, 0, &weights));
    TRY(worker_alloc_arena(job, 0, &gradients));
    int most_rows = batch_micro_rows(job->config->batch, job->config->accumulate, single->shares);
    TRY(worker_open(job, 0, weights, gradients, most_rows, most_rows, NULL));
    device_upload(job->worker[0].device, weights, job->plan->initial_weights,
                  sizeof(float) * job->layout->arena_count);
    return worker_open_optimizer(job, 0);
}

/* `first`: gradients are written, not added to those of the micro-batches before. */
static void run_micro_batch(Job *job, const Batch *batch, bool first)
{
    Single *single = job->state;
    Worker *worker = &job->worker[0];
    Model *model = &worker->model;
    Timer *timer = &worker->timer;

    timer_phase(timer, PHASE_INPUT);
    int rows = feed_load(&worker->feed, batch, single->share, single->share + 1, single->shares,
                         model_input(model));

    timer_phase(timer, PHASE_FORWARD);
    model_forward(model, rows);

    timer_phase(timer, PHASE_LOSS);
    worker_loss(worker, batch, rows);
    if (!batch->learn)
        return;

    timer_phase(timer, PHASE_BACKWARD);
    model_backward(model, rows, !first, NULL, NULL);
}

static Error single_step(Job *job, const Batch *batch)
{
    Single *single = job->state;
    Worker *worker = &job->worker[0];
    int micros = job->config->accumulate;
    for (int i = 0; i < micros; i++) {
        Batch micro = batch_micro(batch, i, micros, single->shares);
        run_micro_batch(job, &micro, i == 0);
    }
    if (!batch->learn)
        return device_failure(worker->device);

    timer_phase(&worker->timer, PHASE_UPDATE);
    worker_update(worker);
    return device_failure(worker->device);
}

static void single_close(Job *job)
{
    free(job->state);
}

const Strategy single_strategy = {
    .open = single_open,
    .step = single_step,
    .close = single_close,
    .source_lines = __LINE__ + 1,
};
