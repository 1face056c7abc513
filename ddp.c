/* ddp.c: DistributedDataParallel: every device has a full worker, and only gradients travel.
 *
 * Each rank is a process of its own with its device, its copy of the model, its optimizer and its
 * share of every batch. At the start rank 0's weights go to everyone, once. After that a step is
 * the step of a single device with one addition: before the update, the gradients of all ranks are
 * summed (all-reduce). So all ranks make the same update, and their models stay equal without ever
 * being sent again.
 *
 * The sending is hidden behind the computing. Backward finishes the last layer's gradients first.
 * Gradients are grouped into buckets, and as soon as a bucket is full its all-reduce starts, while
 * backward goes on to the earlier layers. What is left to wait for at the end is the last bucket.
 *
 * With --accumulate every rank splits its share into micro-batches and adds their gradients up on
 * its own device. Gradients then travel during the last one's backward only, once per update as
 * before: what PyTorch calls no_sync.
 */
#include "bucket.h"
#include "ddp_uneven.h"
#include "ddp_unused.h"
#include "replicas.h"
#include "train.h"

#include <stdlib.h>

typedef struct Ddp {
    Comm *comm; /* this rank's seat in the group */
    Worker *worker;
    bool overlap;
    uint64_t *scratch; /* for comparing replicas; the communicator's memory */

    int buckets;
    Bucket bucket[MODEL_MOST_PARAMETERS]; /* slices of the gradient arena */
    int bucket_of[MODEL_MOST_PARAMETERS]; /* parameter -> bucket */
    int missing[MODEL_MOST_PARAMETERS];   /* gradients that a bucket still waits for */
    int started;                          /* buckets whose all-reduce has started */
    Event reduced[MODEL_MOST_PARAMETERS]; /* the end of each */
    Error failure;                        /* of starting one during backward */

    bool find_unused;
    UsedMap used_map; /* only then */
} Ddp;

/* --- setting up --------------------------------------------------------------------------- */

size_t ddp_heap_bytes(const Layout *layout, int world)
{
    return 2 * comm_heap_bytes(sizeof(float) * layout->arena_count) +
           comm_heap_bytes(replicas_bytes(world)) + comm_heap_bytes(used_map_bytes(layout));
}

/* Rank 0's weights to everyone: the only time that a model travels. */
static Error send_model_once(Ddp *ddp, const Job *job)
{
    Device *device = ddp->worker->device;
    float *weights = ddp->worker->model.weights;
    size_t count = job->layout->arena_count;
    if (job->rank == 0)
        device_upload(device, weights, job->plan->initial_weights, sizeof(float) * count);
    Event done;
    comm_count_as(ddp->comm, BYTES_MODEL);
    TRY(comm_broadcast(ddp->comm, weights, count, COMM_FLOAT, 0, device_record(device), &done));
    TRY(device_wait(device, &done));
    comm_count_as(ddp->comm, BYTES_PARAMETER_GRADIENTS);
    return NULL;
}

static Error ddp_open(Job *job)
{
    Ddp *ddp = calloc(1, sizeof *ddp);
    if (!ddp)
        return error_make("no memory");
    job->state = ddp;
    ddp->worker = &job->worker[0];
    ddp->overlap = job->run->kind == RUN_DDP;
    ddp->find_unused = job->config->find_unused;

    Error error = NULL;
    Device *device = ddp->worker->device;
    ddp->comm =
        comm_open(job->run->group, job->rank, device, job->config->timeout_s, ddp->overlap, &error);
    TRY(error);
    comm_use(ddp->comm, job->config->algorithm);

    int world = comm_world(ddp->comm);
    TRY(comm_alloc(ddp->comm, replicas_bytes(world), (void **)&ddp->scratch));
    TRY(replicas_check_shapes(ddp->comm, device, job->layout, ddp->scratch));
    TRY(uneven_agree(job, ddp->comm, ddp->scratch));

    /* The arenas lie in the communicator's memory: a bucket is reduced where backward wrote it. */
    const Layout *layout = job->layout;
    size_t arena_bytes = sizeof(float) * layout->arena_count;
    float *weights, *gradients;
    TRY(comm_alloc(ddp->comm, arena_bytes, (void **)&weights));
    TRY(comm_alloc(ddp->comm, arena_bytes, (void **)&gradients));

    if (ddp->find_unused)
        TRY(used_map_open(&ddp->used_map, ddp->comm, layout));

    int most_rows = batch_micro_rows(job->config->batch, job->config->accumulate, world);
    TRY(worker_open(job, 0, weights, gradients, most_rows, most_rows, ddp->comm));
    worker_set_transport(job, comm_transport(ddp->comm));
    ddp->buckets = bucket_plan(layout, job->run->bucket_mb, job->run->bucket_explicit, ddp->bucket,
                               ddp->bucket_of);
    TRY(worker_open_optimizer(job, 0));
    return send_model_once(ddp, job);
}

/* --- a step ------------------------------------------------------------------------------- */

static void expect_all_gradients(Ddp *ddp)
{
    for (int i = 0; i < ddp->buckets; i++)
        ddp->missing[i] = ddp->bucket[i].parameters;
    ddp->started = 0;
}

/* Starts the all-reduce of the next bucket, for the gradients that backward has queued so far. */
static Error start_next_bucket(Ddp *ddp)
{
    const Bucket *bucket = &ddp->bucket[ddp->started];
    float *slice = ddp->worker->model.gradients + bucket->offset;
    comm_name_bucket(ddp->comm, ddp->started);
    Event *reduced = &ddp->reduced[ddp->started++];
    return comm_all_reduce(ddp->comm, slice, bucket->count, COMM_FLOAT, COMM_SUM,
                           device_record(ddp->worker->device), reduced);
}

/* Backward announces a finished gradient. Buckets start strictly in order, since every rank must
 * make the same calls in the same order: a full bucket waits for an earlier one. */
static void gradient_ready(void *context, int parameter)
{
    Ddp *ddp = context;
    ddp->missing[ddp->bucket_of[parameter]]--;
    while (!ddp->failure && ddp->started < ddp->buckets && ddp->missing[ddp->started] == 0)
        ddp->failure = start_next_bucket(ddp);
    /* The last bucket has nothing left to hide behind; the ones before go on beside backward. */
    if (ddp->started < ddp->buckets)
        comm_in_background(ddp->comm);
}

/* What the forward pass left out gets no gradient: nobody needs to wait for it. It adds zeros to
 * the sum over the ranks. */
static void mark_unused_ready(Ddp *ddp)
{
    Model *model = &ddp->worker->model;
    model_zero_skipped(model);
    for (int i = 0; i < model->layout->parameters; i++)
        if (model_skips(model, i) && ddp->overlap)
            gradient_ready(ddp, i);
}

/* Waits for what backward has not covered. */
static Error finish_buckets(Ddp *ddp)
{
    TRY(ddp->failure);
    timer_wait_begin(&ddp->worker->timer);
    while (ddp->started < ddp->buckets) /* all of them, if nothing was to overlap */
        TRY(start_next_bucket(ddp));
    for (int i = 0; i < ddp->buckets; i++)
        TRY(device_wait(ddp->worker->device, &ddp->reduced[i]));
    timer_wait_end(&ddp->worker->timer);
    return NULL;
}

/* After backward: the gradients of all ranks become one sum, and everyone makes the same update. */
static Error sum_and_update(Job *job)
{
    Ddp *ddp = job->state;
    TRY(finish_buckets(ddp));
    TRY(ddp->find_unused ? used_map_exchange(&ddp->used_map, ddp->worker) : unused_check(job));
    timer_phase(&ddp->worker->timer, PHASE_UPDATE);
    worker_update(ddp->worker);
    return device_failure(ddp->worker->device);
}

/* Returns the rows of this rank's share. */
static int forward_and_loss(Job *job, const Batch *batch)
{
    Ddp *ddp = job->state;
    Worker *worker = ddp->worker;
    Model *model = &worker->model;
    Timer *timer = &worker->timer;

    timer_phase(timer, PHASE_INPUT);
    int rows = feed_load(&worker->feed, batch, job->rank, job->rank + 1, comm_world(ddp->comm),
                         model_input(model));

    timer_phase(timer, PHASE_FORWARD);
    model_forward(model, rows);

    timer_phase(timer, PHASE_LOSS);
    worker_loss(worker, batch, rows);
    return rows;
}

/* Backward without communication, as within PyTorch's no_sync: gradients stay on the device, where
 * those of the next micro-batch are added to them. */
static void backward_no_sync(Ddp *ddp, int rows, bool accumulate)
{
    timer_phase(&ddp->worker->timer, PHASE_BACKWARD);
    model_backward(&ddp->worker->model, rows, accumulate, NULL, NULL);
}

/* The update's last backward: what it announces is complete, and its bucket may go. */
static void backward_and_send(Job *job, int rows, bool accumulate)
{
    Ddp *ddp = job->state;
    timer_phase(&ddp->worker->timer, PHASE_BACKWARD);
    expect_all_gradients(ddp);
    if (ddp->find_unused)
        mark_unused_ready(ddp);
    model_backward(&ddp->worker->model, rows, accumulate, ddp->overlap ? gradient_ready : NULL,
                   ddp);
    if (!ddp->find_unused)
        unused_note(job);
}

static Error ddp_step(Job *job, const Batch *batch)
{
    Ddp *ddp = job->state;
    int micros = job->config->accumulate; /* 1, unless asked for more */
    for (int i = 0; i < micros; i++) {
        Batch micro = batch_micro(batch, i, micros, comm_world(ddp->comm));
        int rows = forward_and_loss(job, &micro);
        if (batch->learn && i < micros - 1)
            backward_no_sync(ddp, rows, i > 0);
        else if (batch->learn)
            backward_and_send(job, rows, i > 0);
    }
    return batch->learn ? sum_and_update(job) : device_failure(ddp->worker->device);
}

/* A rank that has run out of batches, as in PyTorch's join (torch/nn/parallel/distributed.py,
 * _DDPJoinHook): it answers the others' collectives, in the same order, with zeros, so that they
 * neither wait for it nor find their sum changed. Each gradient is still divided by what the update
 * would have with everyone's share, where it is made: with equal slices this is PyTorch's
 * divide_by_initial_world_size=True, its default. Asked which parameters it used, it says what all
 * said in the step before, as in PyTorch.
 *
 * In one thing this is not PyTorch's: there such a rank makes no update, and gets the others'
 * weights in the end, but not their optimizers' state; with momentum or Adam its replica then
 * strays in the next epoch. Here it makes the same update as all, and stays equal. */
static Error ddp_shadow(Job *job, const Batch *batch)
{
    (void)batch;
    if (job->config->on_uneven == UNEVEN_HANG)
        uneven_hang(job);
    Ddp *ddp = job->state;
    device_zero(ddp->worker->device, ddp->worker->model.gradients,
                sizeof(float) * job->layout->arena_count);
    expect_all_gradients(ddp);
    return sum_and_update(job);
}

/* Equal gradients and equal updates must have kept the replicas equal. */
static Error ddp_epoch_end(Job *job)
{
    Ddp *ddp = job->state;
    return replicas_check_weights(ddp->comm, ddp->worker->device, job->layout,
                                  ddp->worker->model.weights, ddp->scratch);
}

static void ddp_close(Job *job)
{
    Ddp *ddp = job->state;
    if (!ddp)
        return;
    comm_close(ddp->comm);
    free(ddp);
}

const Strategy ddp_strategy = {
    .open = ddp_open,
    .step = ddp_step,
    .step_without_batch = ddp_shadow,
    .epoch_end = ddp_epoch_end,
    .close = ddp_close,
    .source_lines = __LINE__ + 1,
};
