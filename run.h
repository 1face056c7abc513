/* run.h: a run, which is a way of training on a number of devices, and what its processes share.
 *
 * The supervisor makes all runs, then forks their processes. A process learns everything it needs
 * from the memory it inherits, and answers through the shared part of its run.
 */
#ifndef TRAINER_RUN_H
#define TRAINER_RUN_H

#include "base/futex.h"
#include "checkpoint.h"
#include "comm/comm.h"
#include "data.h"
#include "device/virtual.h"
#include "fault.h"
#include "model.h"
#include "optimizer.h"
#include "report/phases.h"
#include "sampler.h"

/* The rungs of --mode=ladder: each changes one thing about how gradients travel. */
typedef enum {
    RUNG_NONE = -1, /* a run that is no rung */
    RUNG_ONE_DEVICE,
    RUNG_PER_TENSOR, /* an all-reduce per tensor, after backward: the naive way */
    RUNG_ONE_BUCKET, /* a single all-reduce after backward */
    RUNG_PER_TENSOR_OVERLAPPED,
    RUNG_BUCKETS_OVERLAPPED, /* DDP */
    RUNGS
} Rung;

typedef enum {
    RUN_SINGLE,
    RUN_DP,
    RUN_DDP,
    RUN_DDP_NO_OVERLAP,
    RUN_LIMIT /* as many processes as DDP, each with its share of the batch, that never talk */
} RunKind;

/* "single", "dp", "ddp", "ddp_no_overlap", "limit": the names in the JSON. */
const char *run_kind_name(RunKind kind);

/* What all runs of a command have in common. */
typedef struct Config {
    DeviceKind device_kind;
    int gpus;                 /* that the devices are spread over */
    const Hardware *hardware; /* of virtual devices; else NULL */
    CommKind comm_kind;
    CommAlgorithm algorithm; /* of all-reduces in shared memory */
    bool tf32;
    bool star; /* DP copies from device 0, also where NCCL could */
    OptimizerSettings optimizer;
    uint64_t seed;
    bool set_epoch; /* false: every epoch in the first one's order, a mistake to be seen */
    int batch;      /* samples per update, over all devices */
    int accumulate; /* micro-batches into which every device splits its share of them; 1: none */
    Unused unused;
    bool find_unused; /* DDP asks every step which parameters were used */
    int64_t uneven;   /* batches that DDP's last rank lacks in every epoch: the last ones */
    OnUneven on_uneven;
    double timeout_s;
    Fault fault; /* asked for, to be seen */

    int64_t first_step; /* taken before a resumed run was saved; all other steps count from here */
    int64_t warmup_steps;
    int64_t total_steps;
    int64_t steps_per_epoch;
    int evaluations;      /* after each epoch, or one at the end */
    int turn_steps;       /* steps that a run takes before it is the next one's turn */
    bool skip_turn_start; /* the first step of a turn does not count: caches are cold */

    CheckpointSettings save; /* at the end and after every epoch */
} Config;

/* Whether nothing is computed, so that there are no weights and no loss. */
bool config_timing_only(const Config *config);

/* The step at which the turn that begins at `step` ends, and whether the test set is then run, or
 * the run saved. */
int64_t config_turn_end(const Config *config, int64_t step);
bool config_evaluates_after(const Config *config, int64_t steps_done);
bool config_saves_after(const Config *config, int64_t steps_done);

/* How many batches a rank of `ranks` has in an epoch, and whether it has one for the update after
 * `steps_done`. */
int64_t config_batches(const Config *config, int ranks, int rank);
bool config_has_batch(const Config *config, int ranks, int rank, int64_t steps_done);

/* What one device found on its share of the test set. */
typedef struct Evaluation {
    double correct, loss_sum; /* over the rows whose loss this device computed */
    int64_t steps;            /* taken before it */
    double training_ms;       /* host clock, since the evaluation before; without turns of others */
} Evaluation;

/* What a device leaves behind. Shared. */
typedef struct LaneShared {
    Whereabouts whereabouts;
    int cpu; /* the core it is pinned to; -1: none */
    char device_name[128];
    uint64_t peak_bytes;
    char transport[64];
    char error[1024];    /* why its process failed, if it could say */
    _Atomic bool failed; /* error is there */
    /* Of a rank without --find-unused-parameters whose backward pass left parameters without a
     * gradient: which, written before `misses` is set. The run then fails. */
    bool missing[MODEL_MOST_PARAMETERS];
    _Atomic bool misses;
    _Atomic bool struck;  /* config->fault has been made to happen on this device */
    _Atomic bool ran_out; /* of a rank that has no more batches and tells nobody (--on-uneven) */
} LaneShared;

typedef struct RunShared {
    Word turns_ended;                /* one per process and turn */
    _Atomic int64_t steps_done;      /* by the run's first process, which also sets what follows */
    _Atomic int64_t steps_collected; /* whose records are complete */
    _Atomic int evaluations_done;    /* one per process and evaluation */
    Word saves;                      /* that the first process has done */
    double first_step_ms;            /* host clock */
} RunShared;

typedef struct Run {
    RunKind kind;
    int devices;
    int processes;
    double bucket_mb;     /* DDP: MiB at which a bucket closes, see bucket_plan */
    bool bucket_explicit; /* also the first one */
    Rung rung;            /* of --mode=ladder */
    bool sweep;           /* a point of --sweep-buckets' curve */
    int recorded; /* devices that leave records: all, but where one virtual rank stands for all */
    Group *group; /* DDP; else NULL */
    RunShared *shared;
    LaneShared *lanes;   /* [recorded] */
    StepRecord *records; /* [recorded][total_steps] */
    StepPart *parts;     /* [recorded][total_steps][timer_most_marks]; NULL but for accumulate */
    Evaluation *evaluations; /* [recorded][config->evaluations] */
    float *final_weights;    /* arena of device 0 at the end */
} Run;

/* compare: one device, then four for each of 16 counts; the ladder has fewer */
#define PLAN_MOST_RUNS 65

/* Everything that a command works on. */
typedef struct Plan {
    Config config;
    Layout layout;
    const Dataset *data;
    float *initial_weights;  /* arena */
    float *initial_state[2]; /* the optimizer's arenas of a resumed run; else NULL */
    int cores;
    int cpus[256]; /* a core each, for pinning */
    int runs;
    Run run[PLAN_MOST_RUNS];
    Word *turn;    /* shared: how many turns are over */
    Word *ready;   /* shared: processes that have set up */
    int processes; /* of all runs */
    void *memory;  /* the shared mapping behind all this */
    size_t memory_bytes;
} Plan;

/* Makes the shared memory of all runs: plan->run's kind, devices and everything before `runs` are
 * set. To be called before the fork. */
Error plan_share(Plan *plan);
void plan_free(Plan *plan);

StepRecord *run_records(const Plan *plan, const Run *run, int device);
StepPart *run_parts(const Plan *plan, const Run *run, int device); /* NULL: not kept */
Evaluation *run_evaluations(const Plan *plan, const Run *run, int device);

#endif
