/* replicas.h: are the ranks' models still equal?
 */
#ifndef TRAINER_REPLICAS_H
#define TRAINER_REPLICAS_H

#include "comm/comm.h"
#include "model.h"

/* Bytes of communicator memory that the checks need. */
size_t replicas_bytes(const Layout *layout, int world);

/* All ranks have the same parameters in number and shape; DDP checks this before it sends the first
 * weights (torch/csrc/distributed/c10d/reducer.cpp, verify_params_across_processes). `scratch` is
 * replicas_bytes from comm_alloc. The error names the first parameter that differs and the ranks.
 */
Error replicas_check_shapes(Comm *comm, Device *device, const Layout *layout, uint64_t *scratch);

/* All ranks have the same bits in every parameter. `weights`: an arena on the device. */
Error replicas_check_weights(Comm *comm, Device *device, const Layout *layout, const float *weights,
                             uint64_t *scratch);

#endif
