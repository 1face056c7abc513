/* fault.c: ranks that are killed, frozen or slow because somebody asked for it (see fault.h). */
#include "fault.h"

#include "option_values.h"
#include "train.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- the option --------------------------------------------------------------------------- */

/* If `*text` begins with `word`, goes on behind it. */
static bool skip(const char **text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0)
        return false;
    *text += length;
    return true;
}

/* A whole number without sign, of at most nine digits. */
static bool read_number(const char **text, int64_t *number)
{
    size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > 9)
        return false;
    *number = 0;
    for (size_t i = 0; i < digits; i++)
        *number = *number * 10 + (*text)[i] - '0';
    *text += digits;
    return true;
}

static bool read_rank(const char **text, int64_t *rank)
{
    *rank = 0;
    if (skip(text, "boss"))
        return true;
    return (skip(text, "rank") || skip(text, "device") || skip(text, "replica")) &&
           read_number(text, rank);
}

Error fault_parse(const char *option, const char *text, Fault *fault)
{
    static const struct {
        const char *word;
        FaultKind kind;
    } kinds[] = {{"kill=", FAULT_KILL}, {"stop=", FAULT_STOP}, {"slow=", FAULT_SLOW}};
    bool any_kind = strcmp(option, "fail") == 0;
    FaultKind kind = strcmp(option, "stop") == 0   ? FAULT_STOP
                     : strcmp(option, "slow") == 0 ? FAULT_SLOW
                                                   : FAULT_KILL;
    if (fault->kind != FAULT_NONE)
        return error_make("--%s=%s: there is --%s=%s already, and only one thing can go wrong at a "
                          "time: give one of them",
                          option, shown(text).text, fault->option, shown(fault->text).text);
    const char *rest = text;
    for (size_t i = 0; any_kind && rest == text && i < sizeof kinds / sizeof *kinds; i++)
        if (skip(&rest, kinds[i].word))
            kind = kinds[i].kind;
    int64_t rank, step;
    bool read = read_rank(&rest, &rank) && skip(&rest, "@") && read_number(&rest, &step) && !*rest;
    if (!read || rank > INT32_MAX)
        return error_make("--%s=%s: give a rank and a step, such as --%s=rank2@100%s", option,
                          shown(text).text, option,
                          any_kind ? ", which kills it; --fail=stop=rank2@100 freezes it, and "
                                     "--fail=slow=rank2@100 makes it slow"
                                   : "");
    if (step == 0)
        return error_make("--%s=%s: steps count from 1", option, shown(text).text);
    *fault = (Fault){kind, (int)rank, step, option, text};
    return NULL;
}

/* --- striking ----------------------------------------------------------------------------- */

static bool computes(Phase phase)
{
    return phase == PHASE_INPUT || phase == PHASE_FORWARD || phase == PHASE_LOSS ||
           phase == PHASE_BACKWARD || phase == PHASE_UPDATE;
}

/* Called on the device's own thread. In DP that thread is one of a process, and so all of them are
 * killed. */
static void strike(void *context, Phase ended, Phase begins)
{
    FaultStrike *self = context;
    if (self->kind == FAULT_SLOW) {
        atomic_store(self->struck, true);
        /* A GPU is still at work, or waits for a copy, when its thread goes on. What went wrong
         * with it, if anything, is found where it always is. */
        Error error = device_sync(self->timer->device);
        (void)error;
        if (computes(ended))
            device_pause(self->timer->device, device_host_clock_ms() - self->from_ms);
        self->from_ms = device_host_clock_ms();
    } else if (begins == PHASE_BACKWARD && !atomic_load(self->struck)) { /* once: it may go on */
        atomic_store(self->struck, true);
        kill(getpid(), self->kind == FAULT_KILL ? SIGKILL : SIGSTOP);
    }
}

void fault_arm(Job *job, int worker, int64_t step)
{
    const Fault *fault = &job->config->fault;
    const Run *run = job->run;
    int device = job->rank + worker;
    int64_t number = job->config->first_step + step + 1;
    bool reference = job->plan->runs > 1 && (run->kind == RUN_SINGLE || run->kind == RUN_LIMIT);
    if (fault->kind == FAULT_NONE || fault->rank != device || number < fault->step || reference)
        return;
    Worker *self = &job->worker[worker];
    self->strike = (FaultStrike){fault->kind, &self->timer, &run->lanes[device].struck,
                                 device_host_clock_ms()};
    self->timer.phase_changes = strike;
    self->timer.phase_changes_context = &self->strike;
}

/* --- the summary -------------------------------------------------------------------------- */

static bool has_struck(const Fault *fault, const Run *run)
{
    return fault->kind != FAULT_NONE && fault->rank < run->devices &&
           atomic_load(&run->lanes[fault->rank].struck);
}

int fault_device(const Fault *fault, const Run *run, int rank)
{
    bool replica = run->kind == RUN_DP && fault->kind == FAULT_KILL && has_struck(fault, run);
    return replica ? fault->rank : rank;
}

const char *fault_explain(const Fault *fault, const Run *run, char *text, size_t size)
{
    text[0] = '\0';
    if (!has_struck(fault, run))
        return text;
    char what[128] = "this was";
    if (fault->kind == FAULT_STOP)
        snprintf(what, sizeof what, "rank %d was frozen in step %lld, as", fault->rank,
                 (long long)fault->step);
    if (fault->kind == FAULT_SLOW)
        snprintf(what, sizeof what, "rank %d was slow from step %lld on, as", fault->rank,
                 (long long)fault->step);
    bool thread = fault->kind == FAULT_KILL && run->kind == RUN_DP && fault->rank > 0;
    char replica[96] = "";
    if (thread)
        snprintf(replica, sizeof replica,
                 ": replica %d is a thread, and a kill ends the whole process", fault->rank);
    snprintf(text, size, "; %s asked for with --%s=%s%s", what, fault->option,
             shown(fault->text).text, replica);
    return text;
}
