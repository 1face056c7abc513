/* supervisor.c: watching over the processes of all runs (see supervisor.h). */
#include "supervisor.h"

#include "base/clock.h"
#include "base/place.h"
#include "comm/launch.h"
#include "report/progress.h"
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

typedef struct Supervisor {
    Plan *plan;
    const Supervision *supervision;
    Launch launch;
    Progress progress;
    int epochs_shown[PLAN_MOST_RUNS]; /* of each run */
    double rate_from_ms;              /* host clock; 0: no step has been seen */
    int64_t rate_from_steps;
} Supervisor;

/* --- the children ------------------------------------------------------------------------- */

/* Which run and which of its processes is process `number` of all. */
static Run *locate(Plan *plan, int number, int *rank)
{
    Run *run = plan->run;
    for (; number >= run->processes; run++)
        number -= run->processes;
    *rank = number;
    return run;
}

static int child(void *context, int number)
{
    Supervisor *supervisor = context;
    int rank;
    Run *run = locate(supervisor->plan, number, &rank);
    switch (run->kind) {
    case RUN_SINGLE:
        place_name("trainer: single");
        break;
    case RUN_DP:
        place_name("boss");
        break;
    case RUN_LIMIT:
        place_name("trainer: alone%d", rank);
        break;
    case RUN_DDP:
    case RUN_DDP_NO_OVERLAP:
        place_name("trainer: rank %d", rank);
        break;
    }
    Error error = train(supervisor->plan, run, rank);
    if (!error)
        return 0;
    LaneShared *lane = &run->lanes[rank];
    snprintf(lane->error, sizeof lane->error, "%s", error);
    atomic_store(&lane->failed, true);
    return 1;
}

/* --- what is shown while they work -------------------------------------------------------- */

const char *run_title(const Run *run, char *title, size_t size)
{
    static const char *const names[] = {
        [RUN_SINGLE] = "single",
        [RUN_DP] = "DP",
        [RUN_DDP] = "DDP",
        [RUN_DDP_NO_OVERLAP] = "DDP without overlap",
        [RUN_LIMIT] = "machine limit",
    };
    if (run->kind == RUN_SINGLE)
        snprintf(title, size, "one device");
    else if (run->rung != RUNG_NONE)
        snprintf(title, size, "rung %d of the ladder, %d devices", run->rung, run->devices);
    else if (run->sweep)
        snprintf(title, size, "DDP with --bucket-mb=%g, %d devices", run->bucket_mb, run->devices);
    else
        snprintf(title, size, "%s, %d device%s", names[run->kind], run->devices,
                 run->devices == 1 ? "" : "s");
    return title;
}

/* "boss", "rank 2": what a process is called. */
static const char *process_title(const Run *run, int rank, char *title, size_t size)
{
    if (run->kind == RUN_DP)
        snprintf(title, size, "the boss");
    else if (run->processes == 1)
        snprintf(title, size, "the process");
    else
        snprintf(title, size, "rank %d", rank);
    return title;
}

static void show_processes(void *context)
{
    Supervisor *supervisor = context;
    if (!supervisor->supervision->show_pids || supervisor->supervision->quiet)
        return;
    for (int number = 0; number < supervisor->launch.count; number++) {
        int rank;
        const Run *run = locate(supervisor->plan, number, &rank);
        int pid = (int)supervisor->launch.process[number].pid;
        if (run->kind == RUN_DP)
            fprintf(stderr, "DP: pid %d, %d devices, a thread each\n", pid, run->devices);
        else
            fprintf(stderr, "rank %d: pid %d\n", rank, pid);
    }
}

/* The mean loss of the last step whose records are complete, or NAN. */
static double last_loss(const Plan *plan, const Run *run)
{
    int64_t steps = atomic_load(&run->shared->steps_collected);
    if (steps == 0)
        return NAN;
    double sum = 0;
    for (int device = 0; device < run->recorded; device++)
        sum += run_records(plan, run, device)[steps - 1].loss_sum;
    return sum / run_records(plan, run, 0)[steps - 1].rows;
}

/* The epochs that a resumed run had behind it when it was saved. */
static int epochs_before(const Plan *plan)
{
    return (int)(plan->config.first_step / plan->config.steps_per_epoch);
}

/* A line for every epoch of a run that has ended since the last call. Where several runs take
 * turns, it says whose it was. */
static void show_epochs(Supervisor *supervisor, int number)
{
    const Plan *plan = supervisor->plan;
    const Run *run = &plan->run[number];
    int *shown = &supervisor->epochs_shown[number];
    int ended = atomic_load(&run->shared->evaluations_done) / run->processes;
    int before = epochs_before(plan);
    char whose[80] = "";
    if (plan->runs > 1) {
        run_title(run, whose, sizeof whose - 2);
        strcat(whose, ": ");
    }
    for (; *shown < ended; (*shown)++) {
        int epoch = *shown;
        double correct = 0, loss = 0, rows = 0;
        int64_t from = epoch ? run_evaluations(plan, run, 0)[epoch - 1].steps : 0;
        int64_t to = run_evaluations(plan, run, 0)[epoch].steps;
        for (int device = 0; device < run->recorded; device++) {
            correct += run_evaluations(plan, run, device)[epoch].correct;
            for (int64_t step = from; step < to; step++)
                loss += run_records(plan, run, device)[step].loss_sum;
        }
        for (int64_t step = from; step < to; step++)
            rows += run_records(plan, run, 0)[step].rows;
        progress_line(&supervisor->progress,
                      "%sepoch %d of %d: loss %.4f, test accuracy %.2f %%, %.1f s", whose,
                      before + epoch + 1, before + plan->config.evaluations, loss / rows,
                      100 * correct / (double)plan->data->test.count,
                      run_evaluations(plan, run, 0)[epoch].training_ms / 1e3);
    }
}

static void show_progress(void *context)
{
    Supervisor *supervisor = context;
    const Plan *plan = supervisor->plan;
    if (supervisor->supervision->quiet)
        return;
    for (int i = 0; supervisor->supervision->epochs && i < plan->runs; i++)
        if (plan->run[i].kind != RUN_LIMIT) /* it trains nothing */
            show_epochs(supervisor, i);

    int64_t done = 0;
    for (int i = 0; i < plan->runs; i++)
        done += atomic_load(&plan->run[i].shared->steps_done);
    ProgressState state = {
        .what = supervisor->supervision->what,
        .done = done,
        .total = plan->config.total_steps * plan->runs,
        .loss = last_loss(plan, &plan->run[0]),
        .samples_per_s = NAN,
        .seconds_left = NAN,
    };
    if (plan->runs == 1 && supervisor->supervision->epochs) {
        int64_t epoch = (plan->config.first_step + done) / plan->config.steps_per_epoch + 1;
        state.epochs = epochs_before(plan) + plan->config.evaluations;
        state.epoch = epoch < state.epochs ? (int)epoch : state.epochs;
    }
    /* the rate since the first step was seen: setting up is not training */
    double now_ms = clock_ms();
    if (done > 0 && supervisor->rate_from_ms == 0) {
        supervisor->rate_from_ms = now_ms;
        supervisor->rate_from_steps = done;
    }
    if (done > supervisor->rate_from_steps) {
        double steps_per_s = (double)(done - supervisor->rate_from_steps) /
                             (now_ms - supervisor->rate_from_ms) * 1e3;
        state.samples_per_s = steps_per_s * plan->config.batch;
        state.seconds_left = (double)(state.total - done) / steps_per_s;
    }
    if (done < state.total)
        progress_show(&supervisor->progress, &state);
}

/* --- when one fails ----------------------------------------------------------------------- */

/* A time-out is felt by every rank that waited; each has something to say. */
static bool others_will_fail(void *context, int number)
{
    const Supervisor *supervisor = context;
    int rank;
    const Run *run = locate(supervisor->plan, number, &rank);
    return run->group && atomic_load(&run->lanes[rank].failed);
}

/* "exited with status 1", "was killed by signal 9 (Killed)" */
static void describe_end(const Process *process, char *text, size_t size)
{
    if (WIFSIGNALED(process->status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(process->status),
                 strsignal(WTERMSIG(process->status)));
    else
        snprintf(text, size, "exited with status %d", WEXITSTATUS(process->status));
}

/* A time-out knows who did not arrive; this is why. */
static void explain_running_out(const Plan *plan, const Run *run)
{
    for (int rank = 0; run->group && rank < run->processes; rank++)
        if (atomic_load(&run->lanes[rank].ran_out))
            fprintf(stderr,
                    "trainer: rank %d ran out of batches after step %lld of %lld, and the others "
                    "waited for it in vain: give every rank as many, or --on-uneven=join\n",
                    rank, (long long)config_batches(&plan->config, run->processes, rank),
                    (long long)plan->config.steps_per_epoch);
}

/* One sentence about the process that failed first, and before it what the others said. */
static void explain_failure(const Supervisor *supervisor)
{
    Plan *plan = supervisor->plan;
    const Launch *launch = &supervisor->launch;
    int rank;
    const Run *run = locate(plan, launch->failed, &rank);
    const LaneShared *lane = &run->lanes[rank];
    for (int number = 0; number < launch->count; number++) {
        int other_rank;
        const Run *other_run = locate(plan, number, &other_rank);
        const LaneShared *other = &other_run->lanes[other_rank];
        if (number == launch->failed || !atomic_load(&other->failed))
            continue;
        if (strcmp(other->error, lane->error) != 0) /* ranks may agree on what went wrong */
            fprintf(stderr, "trainer: %s\n", other->error);
    }

    const Process *process = &launch->process[launch->failed];
    char title[64], who[64], end[128], operation[64] = "", fault[512];
    if (atomic_load(&lane->failed))
        fprintf(stderr, "trainer: %s\n", lane->error);
    explain_running_out(plan, run);
    describe_end(process, end, sizeof end);
    fprintf(stderr, "trainer: FAILED: %s: %s (pid %d) %s", run_title(run, title, sizeof title),
            process_title(run, rank, who, sizeof who), (int)process->pid, end);
    int device = fault_device(&plan->config.fault, run, rank);
    const Whereabouts *where = &run->lanes[device].whereabouts;
    int64_t step = atomic_load(&where->step);
    if (step == 0)
        fprintf(stderr, " before the first step");
    else
        fprintf(stderr, " in step %lld, phase %s",
                (long long)plan->config.first_step + (long long)step,
                phase_name((Phase)atomic_load(&where->phase)));
    if (run->group) {
        comm_group_last_operation(run->group, rank, operation, sizeof operation);
        fprintf(stderr, "; its last collective: %s", operation);
    }
    fprintf(stderr, "%s\n", fault_explain(&plan->config.fault, run, fault, sizeof fault));
}

/* --- the supervisor ----------------------------------------------------------------------- */

Error supervise_runs(Plan *plan, const Supervision *supervision, RunsOutcome *outcome, int *signal)
{
    Process *process = calloc((size_t)plan->processes, sizeof *process);
    if (!process)
        return error_make("no memory for %d processes", plan->processes);
    Supervisor supervisor = {
        .plan = plan,
        .supervision = supervision,
        .launch =
            {
                .count = plan->processes,
                .process = process,
                .body = child,
                .launched = show_processes,
                .tick = show_progress,
                .others_will_fail = others_will_fail,
            },
    };
    supervisor.launch.context = &supervisor;
    progress_open(&supervisor.progress, stderr);
    Error error = launch_all(&supervisor.launch);
    if (!error && supervisor.launch.failed < 0 && !supervisor.launch.interrupted)
        show_progress(&supervisor); /* what the last tick did not see */
    progress_close(&supervisor.progress);
    *signal = supervisor.launch.interrupted;
    *outcome = supervisor.launch.interrupted   ? RUNS_INTERRUPTED
               : supervisor.launch.failed >= 0 ? RUNS_FAILED
                                               : RUNS_DONE;
    if (!error && *outcome == RUNS_FAILED)
        explain_failure(&supervisor);
    free(process);
    return error;
}
