/* thread.h: making threads that leave signals to the main thread. */
#ifndef TRAINER_THREAD_H
#define TRAINER_THREAD_H

#include <pthread.h>

/* pthread_create with all signals blocked in the new thread: they are the main thread's business.
 * Returns pthread_create's error number, 0 when the thread runs. */
int thread_create(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
