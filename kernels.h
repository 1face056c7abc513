/* kernels.h: what device/cuda.c may ask of kernels.cu.
 *
 * Each function queues one kernel on `stream` of the current GPU and returns at once, with what
 * CUDA said of the launch. All pointers are memory of that GPU. The arithmetic is defined in
 * device/device.h; the kernels follow the CPU device operation by operation.
 */
#ifndef TRAINER_KERNELS_H
#define TRAINER_KERNELS_H

#include "device/engine.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* floats[i] = bytes[i] / 255 */
cudaError_t kernel_bytes_to_float(cudaStream_t stream, float *floats, const uint8_t *bytes,
                                  size_t count);

/* output [rows, out] += bias [out], then ReLU if asked */
cudaError_t kernel_add_bias(cudaStream_t stream, float *output, const float *bias, int rows,
                            int out, bool relu);

/* gradient[i] = 0 where activation[i] is 0 */
cudaError_t kernel_relu_backward(cudaStream_t stream, float *gradient, const float *activation,
                                 size_t count);

/* sums [columns] = the sums over the rows of matrix [rows, columns]; added to what is there if
 * `accumulate` */
cudaError_t kernel_column_sums(cudaStream_t stream, float *sums, const float *matrix, int rows,
                               int columns, bool accumulate);

/* Where the blocks of kernel_softmax_cross_entropy leave their shares of the sums. One per stream,
 * zeroed once; a kernel leaves `finished` at zero for the next. */
#define KERNELS_LOSS_BLOCKS 1024
typedef struct LossScratch {
    LossStats partial[KERNELS_LOSS_BLOCKS];
    unsigned finished; /* blocks that have left theirs */
} LossScratch;

/* As device_softmax_cross_entropy. */
cudaError_t kernel_softmax_cross_entropy(cudaStream_t stream, float *gradient, LossStats *stats,
                                         LossScratch *scratch, const float *logits,
                                         const uint8_t *labels, int rows, int classes, float scale);

/* into[i] += addend[i] */
cudaError_t kernel_add(cudaStream_t stream, float *into, const float *addend, size_t count);

/* As device_sgd_step and device_adam_step; the factors are adam_factors(). */
cudaError_t kernel_sgd_step(cudaStream_t stream, float *weight, const float *gradient,
                            float *velocity, size_t count, float lr, float momentum,
                            float weight_decay);
cudaError_t kernel_adam_step(cudaStream_t stream, float *weight, const float *gradient, float *mean,
                             float *square, size_t count, const AdamFactors *factors);

#ifdef __cplusplus
}
#endif

#endif
