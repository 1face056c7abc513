/* nccl_error.h: how comm/nccl.c and comm/nccl_peers.c report a failed NCCL call. Included where
 * TRAINER_NCCL is defined.
 */
#ifndef TRAINER_COMM_NCCL_ERROR_H
#define TRAINER_COMM_NCCL_ERROR_H

#include "base/error.h"

#include <nccl.h>

/* The sentence for what NCCL answered: what was asked (a printf format), NCCL's words, what usually
 * helps, file and line. `nccl` may be NULL. (nccl_peers.c) */
Error nccl_error(ncclComm_t nccl, ncclResult_t status, const char *file, int line,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
