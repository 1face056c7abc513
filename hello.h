/* hello.h: the first collective: ranks that each hold a number, and what becomes of the numbers.
 */
#ifndef TRAINER_HELLO_H
#define TRAINER_HELLO_H

#include "base/error.h"
#include "comm/comm.h"

#include <stdbool.h>

typedef enum {
    HELLO_ALL_REDUCE,
    HELLO_ALL_GATHER,
    HELLO_BROADCAST,
    HELLO_REDUCE_SCATTER
} HelloCollective;

typedef struct Hello {
    int ranks;
    HelloCollective collective;
    CommOp op;    /* of all_reduce and reduce_scatter */
    bool ordered; /* print the ranks in order; otherwise as they finish, as real ranks do */
    bool guess_given;
    double guess; /* what rank 0 holds afterwards */
    double timeout_s;
    DeviceKind device_kind;
    int gpus;
    CommKind comm_kind;
    CommAlgorithm algorithm; /* of all_reduce */
} Hello;

/* Forks the ranks, lets them make one collective and prints a line for each on standard output.
 * Rank r holds the number r + 1; for reduce_scatter the numbers (r + 1) * 1, (r + 1) * 10, (r + 1)
 * * 100, ..., one for each rank. `*status` is the exit status. */
Error hello(const Hello *hello, int *status);

#endif
