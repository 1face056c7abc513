/* ddp_uneven.h: ranks that do not have equally many batches. Every all-reduce needs every rank, so
 * one rank's last step is the others' first for ever.
 *
 * The ranks agree before the first step that they all have as many, or end there. What PyTorch's
 * join does instead is ddp.c's ddp_shadow; what happens to those who never asked is
 * --on-uneven=hang.
 */
#ifndef TRAINER_DDP_UNEVEN_H
#define TRAINER_DDP_UNEVEN_H

#include "train.h"

/* All ranks have equally many batches in an epoch, or they do not and are to go on all the same
 * (--on-uneven): NULL. Else an Error, the same on every rank, that names a rank with the fewest and
 * both counts. Collective; `scratch` as in replicas.h. */
Error uneven_agree(const Job *job, Comm *comm, uint64_t *scratch);

/* --on-uneven=hang, in a rank without a batch: leaves word of it for the supervisor, makes no more
 * calls and waits to be ended. Does not return. */
void uneven_hang(const Job *job);

#endif
