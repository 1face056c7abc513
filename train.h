/* train.h: what the three ways of training have in common: workers, and the loop around a step.
 */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include "batch.h"
#include "run.h"

/* A device and what lives on it. */
typedef struct Worker {
    Device *device;
    Model model;
    Optimizer optimizer; /* on the devices where the update is made */
    Feed feed;
    Timer timer;
    FaultStrike strike;
    LossStats *stats; /* [TIMER_STEPS], one per step of a turn, on the device */
} Worker;

/* What one process of a run works on. */
typedef struct Job {
    const Plan *plan;
    const Config *config; /* the plan's */
    const Layout *layout; /* the plan's */
    Run *run;
    int rank;       /* which of the run's processes this is */
    int workers;    /* devices of this process: all of the run's in DP, else 1 */
    Worker *worker; /* [workers] */
    void *state;    /* the strategy's own */
} Job;

/* A way of training: single.c, dp.c and ddp.c are one each. */
typedef struct Strategy {
    /* Sets up models (worker_open), optimizer and communication. The devices are open. */
    Error (*open)(Job *job);
    /* One update, or only the forward pass and the loss if the batch is not for learning. The loss
     * is added to slot batch->slot of a worker's stats. */
    Error (*step)(Job *job, const Batch *batch);
    /* Instead of it, for a process that has no batch in an update which others make; only where
     * there can be such (--uneven). `batch`: the others'. */
    Error (*step_without_batch)(Job *job, const Batch *batch);
    /* After every epoch; may be NULL. */
    Error (*epoch_end)(Job *job);
    void (*close)(Job *job);
    int source_lines; /* of its file, for the tables: what the way of training costs to write */
} Strategy;

extern const Strategy single_strategy;
extern const Strategy dp_strategy;
extern const Strategy ddp_strategy;

/* Sets up a worker's model, feed and stopwatch for up to `most_rows` rows (`most_outer_rows`: see
 * model_open). The arenas are the caller's. `comm` may be NULL. */
Error worker_open(Job *job, int worker, float *weights, float *gradients, int most_rows,
                  int most_outer_rows, Comm *comm);

/* Opens a worker's optimizer; that of a resumed run goes on from where it was. */
Error worker_open_optimizer(Job *job, int worker);

/* Pins the calling thread to the core of a worker's device, where there are enough cores. */
void worker_pin(Job *job, int worker);

/* An arena of zeros on a worker's device. */
Error worker_alloc_arena(Job *job, int worker, float **arena);

/* Says, for the tables, how the devices of this run talk. */
void worker_set_transport(Job *job, const char *transport);

/* Loss and its gradient from the logits of `rows` rows, added to the batch's slot of the worker's
 * stats. */
void worker_loss(Worker *worker, const Batch *batch, int rows);

/* The optimizer's step with the worker's gradients; parameters that have none (model.h,
 * no_gradient) stay as they are. */
void worker_update(Worker *worker);

/* The whole life of one process of a run. After an error the process is to end: threads of it may
 * be at work still, and nothing has been freed. */
Error train(const Plan *plan, Run *run, int rank);

/* Bytes of communicator memory that each rank of a DDP run needs (ddp.c). */
size_t ddp_heap_bytes(const Layout *layout, int world);

#endif
