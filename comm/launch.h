/* launch.h: forking processes, watching over them, and leaving none behind.
 *
 * The calling process becomes the supervisor of the processes it launches. It does not compute. If
 * one of them fails, the others are ended; if the supervisor itself dies, even by SIGKILL, the
 * kernel ends all of them.
 */
#ifndef TRAINER_COMM_LAUNCH_H
#define TRAINER_COMM_LAUNCH_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct Process {
    pid_t pid;
    bool ended;
    int status; /* of waitpid, once it has ended */
} Process;

typedef struct Launch {
    int count;
    Process *process; /* [count], the caller's */

    /* The life of process `number`, in the child; what it returns is the exit status. */
    int (*body)(void *context, int number);
    /* In the supervisor, once after all forks, and then about ten times a second; may be NULL. */
    void (*launched)(void *context);
    void (*tick)(void *context);
    /* In the supervisor, when a process has failed: may others be about to fail for a reason of
     * their own (which is then worth waiting a second for)? May be NULL. */
    bool (*others_will_fail)(void *context, int number);
    void *context;

    /* the outcome */
    int failed;      /* the first process that failed; -1: none */
    int interrupted; /* the signal that stopped the supervisor; 0: none */
} Launch;

/* Forks all processes, waits until every one has ended. To be called from the main thread of a
 * process without other threads. An Error only when a process could not be made; what became of
 * them is in `launch`. After a failure the others get SIGTERM, and SIGKILL two seconds later; after
 * an interrupt (see base/interrupt.h) SIGKILL at once. */
Error launch_all(Launch *launch);

/* True if the process ended with exit status 0. */
bool process_succeeded(const Process *process);

#endif
