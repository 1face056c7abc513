/* launch.c: fork, supervise, clean up (see launch.h). */
#include "comm/launch.h"

#include "base/clock.h"
#include "base/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS      100
#define OTHERS_MS    1000 /* for others to fail for their own reasons */
#define TERMINATE_MS 2000 /* between SIGTERM and SIGKILL */

bool process_succeeded(const Process *process)
{
    return process->ended && WIFEXITED(process->status) && WEXITSTATUS(process->status) == 0;
}

/* --- the child ---------------------------------------------------------------------------- */

/* Never returns. `mask`: the signals that were blocked before the supervisor blocked its own. */
static void run_child(const Launch *launch, int number, pid_t supervisor, const sigset_t *mask)
{
    /* When the supervisor's thread ends, for whatever reason, so does this process. If it has ended
     * before that was asked for, somebody else is the parent by now. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(1);
    interrupt_leave();
    /* Ctrl-C reaches every process of the terminal; the supervisor alone answers it. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    sigprocmask(SIG_SETMASK, mask, NULL);
    int status = launch->body(launch->context, number);
    fflush(NULL);
    _exit(status);
}

/* --- the supervisor ----------------------------------------------------------------------- */

static int running(const Launch *launch)
{
    int count = 0;
    for (int i = 0; i < launch->count; i++)
        count += launch->process[i].pid > 0 && !launch->process[i].ended;
    return count;
}

static void signal_running(const Launch *launch, int number)
{
    for (int i = 0; i < launch->count; i++)
        if (launch->process[i].pid > 0 && !launch->process[i].ended)
            kill(launch->process[i].pid, number);
}

/* Notes all processes that have ended. */
static void reap(Launch *launch)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < launch->count; i++) {
            Process *process = &launch->process[i];
            if (process->pid != pid)
                continue;
            process->ended = true;
            process->status = status;
            if (launch->failed < 0 && !launch->interrupted && !process_succeeded(process))
                launch->failed = i;
        }
}

/* Ends what still runs and waits for it. */
static void end_all(Launch *launch)
{
    signal_running(launch, SIGKILL);
    for (int i = 0; i < launch->count; i++) {
        Process *process = &launch->process[i];
        if (process->pid <= 0 || process->ended)
            continue;
        while (waitpid(process->pid, &process->status, 0) < 0 && errno == EINTR) {
        }
        process->ended = true;
    }
}

static void supervise(Launch *launch, const sigset_t *signals)
{
    double terminate_at = 0, kill_at = 0; /* once a process has failed */
    while (running(launch) > 0) {
        const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
        int number = sigtimedwait(signals, NULL, &tick);
        if (number > 0 && number != SIGCHLD) {
            launch->interrupted = number;
            return;
        }
        reap(launch);
        if (launch->tick)
            launch->tick(launch->context);
        if (launch->failed < 0)
            continue;

        double now = clock_ms();
        if (terminate_at == 0) {
            bool wait = launch->others_will_fail &&
                        launch->others_will_fail(launch->context, launch->failed);
            terminate_at = now + (wait ? OTHERS_MS : 0);
        }
        if (kill_at == 0 && now >= terminate_at) {
            signal_running(launch, SIGTERM);
            kill_at = now + TERMINATE_MS;
        }
        if (kill_at > 0 && now >= kill_at)
            return;
    }
}

Error launch_all(Launch *launch)
{
    launch->failed = -1;
    launch->interrupted = 0;
    sigset_t signals, before;
    interrupt_signals(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);

    Error error = NULL;
    pid_t supervisor = getpid();
    fflush(NULL); /* or every child would print what is buffered once more */
    for (int i = 0; i < launch->count && !error; i++) {
        Process *process = &launch->process[i];
        *process = (Process){.pid = fork()};
        if (process->pid == 0)
            run_child(launch, i, supervisor, &before);
        if (process->pid < 0)
            error =
                error_system(__FILE__, __LINE__, "making process %d of %d", i + 1, launch->count);
    }
    if (!error) {
        if (launch->launched)
            launch->launched(launch->context);
        supervise(launch, &signals);
    }
    end_all(launch);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return error;
}
