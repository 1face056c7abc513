/* cuda.h: what the files that speak CUDA share (device/cuda*.c, comm/nccl.c, comm/staged.c): a
 * device's GPU and stream, and how a failed call is reported. Included where TRAINER_CUDA is
 * defined.
 */
#ifndef TRAINER_DEVICE_CUDA_H
#define TRAINER_DEVICE_CUDA_H

#include "device/device.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

/* The ordinal of the GPU. Several devices may share one. */
int cuda_gpu(const Device *device);

/* The device's queue. */
cudaStream_t cuda_stream(const Device *device);

/* Makes the device's GPU the calling thread's current one: CUDA keeps that per thread. Cheap where
 * it is so already. */
Error cuda_enter(const Device *device);

/* Whether two GPUs reach each other's memory directly; opens the way in both directions when first
 * asked. Without it copies between them go through the host's memory. (cuda_peers.c) */
Error cuda_peers(int gpu, int other, bool *direct);

/* --- failure (cuda_error.c) --------------------------------------------------------------- */

/* The sentence for a call that failed: which GPU, what was asked (a printf format), the library's
 * words, what usually helps, file and line. */
Error cuda_error(int gpu, cudaError_t status, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
Error cublas_error(int gpu, cublasStatus_t status, const char *file, int line, const char *format,
                   ...) __attribute__((format(printf, 5, 6)));

/* Returns from the calling function, which returns an Error, if `call` fails. The rest is a printf
 * format for what was asked: "allocating %zu bytes". */
#define TRY_CUDA(gpu, call, ...)                                                                   \
    do {                                                                                           \
        cudaError_t cuda_status = (call);                                                          \
        if (cuda_status != cudaSuccess)                                                            \
            return cuda_error(gpu, cuda_status, __FILE__, __LINE__, __VA_ARGS__);                  \
    } while (0)

#define TRY_CUBLAS(gpu, call, ...)                                                                 \
    do {                                                                                           \
        cublasStatus_t cublas_status = (call);                                                     \
        if (cublas_status != CUBLAS_STATUS_SUCCESS)                                                \
            return cublas_error(gpu, cublas_status, __FILE__, __LINE__, __VA_ARGS__);              \
    } while (0)

#endif
