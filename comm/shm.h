/* shm.h: for a transport that lets shm.c do the collectives but keeps its buffers elsewhere, such
 * as staged.c with its buffers on a GPU.
 */
#ifndef TRAINER_COMM_SHM_H
#define TRAINER_COMM_SHM_H

#include "comm/transport.h"

/* What shm.c does beside an operation's own work; called by whichever thread carries the operation,
 * one call at a time. `operation` has its buffers in the heap; `number` counts from 1. */
typedef struct ShmStaging {
    /* Before this rank arrives: brings what the operation reads into the heap. */
    Error (*fetch)(void *context, const Operation *operation, uint64_t number);
    /* When every rank has finished, before the operation counts as complete: takes what it wrote
     * out of the heap. */
    Error (*deliver)(void *context, const Operation *operation, uint64_t number);
    void *context;
} ShmStaging;

/* Opens the seat with staging (NULL: without). The structure stays the caller's. */
Error shm_open_staged(Comm *comm, const ShmStaging *staging);

/* The functions to build on: they use comm->state, which stays shm.c's. */
extern const Transport shm_transport;

/* The seat's heap, [bytes_per_rank]. */
unsigned char *shm_heap(const Comm *comm);

#endif
