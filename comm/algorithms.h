/* algorithms.h: how a collective is done: what each rank moves and adds up, and for whom it has to
 * wait in between.
 *
 * An operation is done in rounds. Before the first every rank has arrived, so all buffers may be
 * read; after the last nobody goes on before all have finished (shm.c sees to both). In between a
 * rank waits, before a round, for at most one other.
 */
#ifndef TRAINER_COMM_ALGORITHMS_H
#define TRAINER_COMM_ALGORITHMS_H

#include "comm/transport.h"

typedef struct Algorithm {
    const char *name;
    /* Rounds of work of every rank. */
    int (*rounds)(int world);
    /* The rank whose round `round` - 1 must be over before `rank` may begin round `round` > 0; -1:
     * nobody's. NULL where there is one round at most. */
    int (*waits_for)(int rank, int world, int round);
    /* This rank's part of a round. Counts the bytes that it moves, at both ends. */
    void (*work)(Comm *comm, const Operation *operation, int round);
    /* A rank has its result only when others have finished: one more step for which it waits. */
    bool others_bring_result;
} Algorithm;

/* How this operation is done. */
const Algorithm *algorithm_of(const Operation *operation);

/* Where rank r's slice of `count` elements begins: slices differ by at most 16 elements and begin
 * on cache lines, so that two ranks never write to the same line. */
size_t slice_begin(size_t count, int rank, int world);

#endif
