/* seat.h: the shared memory in which ranks meet: a seat and a heap for each. For shm.c (who waits
 * for whom) and algorithms.c (what a rank does meanwhile) only.
 */
#ifndef TRAINER_COMM_SEAT_H
#define TRAINER_COMM_SEAT_H

#include "comm/transport.h"

#include <stdatomic.h>

/* What an operation must agree on over all ranks. Offsets are into the symmetric heap. */
typedef struct Asked {
    Collective collective;
    CommAlgorithm algorithm;
    CommType type;
    CommOp op;
    int root;
    size_t count, to, from;
} Asked;

/* One rank's place in the shared memory. */
typedef struct Seat {
    Word arrived; /* operations this rank has arrived at */
    Word rounds;  /* rounds this rank has finished, over all operations of several rounds */
    Word done;    /* operations this rank has finished its share of */
    Asked asked;  /* the one it arrived at last: written before `arrived`, read after it */
    /* bytes that left and reached this rank's heap; counted by whoever moved them */
    _Atomic uint64_t sent[BYTES_KINDS], received[BYTES_KINDS];
} Seat;

static inline Seat *seat_of(const Comm *comm, int rank)
{
    return (Seat *)comm->group->seats + rank;
}

static inline unsigned char *heap_of(const Comm *comm, int rank)
{
    return comm->group->heaps + (size_t)rank * comm->group->bytes_per_rank;
}

#endif
