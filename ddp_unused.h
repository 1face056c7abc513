/* ddp_unused.h: parameters that get no gradient. A bucket waits for all of its gradients, so DDP
 * has to know of every one that will not come.
 *
 * Without --find-unused-parameters it takes for granted that all come, and a parameter without one
 * is an error at the end of that backward pass, by name. With it, every step the ranks tell each
 * other what they used, which is what the option costs (torch/csrc/distributed/c10d/reducer.cpp:
 * prepare_for_backward, all_reduce_local_used_map, finalize_bucket_dense).
 */
#ifndef TRAINER_DDP_UNUSED_H
#define TRAINER_DDP_UNUSED_H

#include "train.h"

/* Without the option. Between backward and the end of its last all-reduce: puts what got no
 * gradient on this rank on the page that all ranks see. */
void unused_note(Job *job);

/* After the last all-reduce, which nobody passes before everyone has noted what is missing: an
 * Error, the same on every rank, if a parameter got no gradient on some rank. Over NCCL only the
 * ranks that miss something wait for that; the others may be ended first. */
Error unused_check(const Job *job);

/* What the ranks tell each other with the option: an int32 per parameter. */
typedef struct UsedMap {
    Comm *comm;
    int32_t *used; /* [parameters], the communicator's memory */
} UsedMap;

size_t used_map_bytes(const Layout *layout);
Error used_map_open(UsedMap *map, Comm *comm, const Layout *layout);

/* After the buckets: adds up over all ranks how many used each parameter. One that nobody used has
 * no gradient, and the update leaves it alone; one that some rank used has the sum over all ranks,
 * to which those that did not use it have added zeros. Collective. */
Error used_map_exchange(UsedMap *map, Worker *worker);

#endif
