/* replicas.h: are the ranks' models equal?
 */
#ifndef TRAINER_REPLICAS_H
#define TRAINER_REPLICAS_H

#include "comm/comm.h"
#include "model.h"

/* Bytes of communicator memory that the checks need, whatever the model. */
size_t replicas_bytes(int world);

/* All ranks have the same parameters in number and shape. DDP asks before anything else, since
 * ranks whose models differ could not even agree on where a gradient lies
 * (torch/csrc/distributed/c10d/reducer.cpp, verify_params_across_processes). `scratch` is
 * replicas_bytes from comm_alloc. The error names the first parameter that differs and the ranks.
 */
Error replicas_check_shapes(Comm *comm, Device *device, const Layout *layout, uint64_t *scratch);

/* All ranks have the same bits in every parameter. `weights`: an arena on the device. */
Error replicas_check_weights(Comm *comm, Device *device, const Layout *layout, const float *weights,
                             uint64_t *scratch);

/* Gathers `count` numbers of every rank: `all` [world][count] in host memory, where this rank's row
 * is filled in. `scratch`: room for as many, from comm_alloc. */
Error replicas_gather(Comm *comm, Device *device, uint64_t *all, size_t count, uint64_t *scratch);

#endif
