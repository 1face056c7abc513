/* run.c: the memory that a command's processes share (see run.h). */
#include "run.h"

#include <sys/mman.h>

const char *run_kind_name(RunKind kind)
{
    static const char *const names[] = {
        [RUN_SINGLE] = "single", [RUN_DP] = "dp",
        [RUN_DDP] = "ddp",       [RUN_DDP_NO_OVERLAP] = "ddp_no_overlap",
        [RUN_LIMIT] = "limit",
    };
    return names[kind];
}

bool config_timing_only(const Config *config)
{
    return config->hardware && config->hardware->timing_only;
}

/* --- the schedule ------------------------------------------------------------------------- */

int64_t config_turn_end(const Config *config, int64_t step)
{
    int64_t end = step + config->turn_steps;
    if (step < config->warmup_steps && end > config->warmup_steps)
        end = config->warmup_steps;
    if (config->evaluations > 1 || config->save.path) {
        int64_t epoch = (config->first_step + step) / config->steps_per_epoch;
        int64_t epoch_end = (epoch + 1) * config->steps_per_epoch - config->first_step;
        if (end > epoch_end)
            end = epoch_end;
    }
    return end < config->total_steps ? end : config->total_steps;
}

static bool ends_epoch(const Config *config, int64_t steps_done)
{
    return (config->first_step + steps_done) % config->steps_per_epoch == 0;
}

bool config_evaluates_after(const Config *config, int64_t steps_done)
{
    if (steps_done == config->total_steps)
        return true;
    return config->evaluations > 1 && ends_epoch(config, steps_done);
}

bool config_saves_after(const Config *config, int64_t steps_done)
{
    return config->save.path &&
           (steps_done == config->total_steps || ends_epoch(config, steps_done));
}

int64_t config_batches(const Config *config, int ranks, int rank)
{
    return config->steps_per_epoch - (rank == ranks - 1 ? config->uneven : 0);
}

bool config_has_batch(const Config *config, int ranks, int rank, int64_t steps_done)
{
    int64_t step = (config->first_step + steps_done) % config->steps_per_epoch;
    return step < config_batches(config, ranks, rank);
}

/* --- shared memory ------------------------------------------------------------------------ */

/* Hands out pieces of one mapping; with `base` NULL it only adds up their sizes. */
typedef struct Pieces {
    unsigned char *base;
    size_t used;
} Pieces;

static void *take(Pieces *pieces, size_t bytes)
{
    void *piece = pieces->base ? pieces->base + pieces->used : NULL;
    pieces->used += (bytes + 63) / 64 * 64;
    return piece;
}

static void lay_out(Plan *plan, Pieces *pieces)
{
    plan->turn = take(pieces, sizeof *plan->turn);
    plan->ready = take(pieces, sizeof *plan->ready);
    plan->initial_weights = take(pieces, sizeof(float) * plan->layout.arena_count);
    for (int i = 0; plan->config.first_step > 0 && i < optimizer_states(&plan->config.optimizer);
         i++)
        plan->initial_state[i] = take(pieces, sizeof(float) * plan->layout.arena_count);
    size_t steps = (size_t)plan->config.total_steps;
    for (int i = 0; i < plan->runs; i++) {
        Run *run = &plan->run[i];
        size_t devices = (size_t)run->recorded;
        run->shared = take(pieces, sizeof *run->shared);
        run->lanes = take(pieces, sizeof *run->lanes * devices);
        run->records = take(pieces, sizeof *run->records * devices * steps);
        if (plan->config.accumulate > 1) /* else begin and length of each phase say it all */
            run->parts = take(pieces, sizeof *run->parts * devices * steps *
                                          (size_t)timer_most_marks(plan->config.accumulate));
        run->evaluations =
            take(pieces, sizeof *run->evaluations * devices * (size_t)plan->config.evaluations);
        run->final_weights = take(pieces, sizeof(float) * plan->layout.arena_count);
    }
}

Error plan_share(Plan *plan)
{
    Pieces pieces = {0};
    lay_out(plan, &pieces);
    /* Pages cost nothing until they are written to, so room for a long run's records is free. */
    void *memory = mmap(NULL, pieces.used, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TRY_SYSTEM(memory != MAP_FAILED, "%zu bytes of shared memory for the records of %lld steps",
               pieces.used, (long long)plan->config.total_steps);
    plan->memory = memory;
    plan->memory_bytes = pieces.used;
    pieces = (Pieces){.base = memory};
    lay_out(plan, &pieces);
    return NULL;
}

void plan_free(Plan *plan)
{
    for (int i = 0; i < plan->runs; i++)
        comm_group_free(plan->run[i].group);
    if (plan->memory)
        munmap(plan->memory, plan->memory_bytes);
    plan->memory = NULL;
}

StepRecord *run_records(const Plan *plan, const Run *run, int device)
{
    return run->records + device * plan->config.total_steps;
}

StepPart *run_parts(const Plan *plan, const Run *run, int device)
{
    int64_t marks = timer_most_marks(plan->config.accumulate);
    return run->parts ? run->parts + device * plan->config.total_steps * marks : NULL;
}

Evaluation *run_evaluations(const Plan *plan, const Run *run, int device)
{
    return run->evaluations + (size_t)device * (size_t)plan->config.evaluations;
}
