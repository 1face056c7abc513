/* thread.c: making threads that leave signals to the main thread (see thread.h). */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int thread_create(pthread_t *thread, void *(*body)(void *), void *argument)
{
    /* A thread inherits the mask of the one that makes it. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
