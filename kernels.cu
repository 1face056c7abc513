/* kernels.cu: every CUDA kernel of the program. Matrix products are cuBLAS's (device/cuda.c); what
 * is here does a few operations on each number that it reads.
 *
 * Why the kernels look as they do:
 *
 * - A GPU adds a hundred times faster than it fetches. All of these kernels take as long as their
 *   memory traffic, so each reads what it needs once and writes its result once.
 * - Memory answers in lines of 128 bytes, best asked for by 32 neighbouring threads (a warp) at
 *   once. Where it can, a thread moves a float4, 16 bytes: a quarter of the instructions, and more
 *   bytes under way at any time. A pointer that is not a multiple of 16, or what remains after the
 *   last whole float4, goes one float at a time in the same kernel.
 * - A grid-stride loop: thread t takes items t, t + threads, t + 2 threads, ... Any number of
 *   threads does the work, so one kernel serves ten numbers and ten million.
 * - No floating-point atomics. Sums are taken in an order that follows from the shapes alone, so a
 *   run repeated gives the same bits.
 * - Compiled with -fmad=false: a product and a sum are rounded one after the other, as the CPU
 *   device does it, instead of fused. Element by element the two devices then agree to the last
 *   bit, at no cost: the arithmetic hides behind the memory traffic.
 *
 * The launchers are at the end, seen by nvcc alone: the tests also compile the kernels for the CPU
 * with an ordinary C++ compiler (tests/softcuda).
 */
#include "kernels.h"

#include <math.h>

#define WARP      32u
#define ALL_LANES 0xffffffffu

/* Threads per block where nothing speaks for another number: eight warps, enough to hide one
 * another's waits, few enough that eight such blocks fit on a multiprocessor. */
#define THREADS 256u

/* --- one number after another ------------------------------------------------------------- */

/* This thread's first item, and the step to its next. */
__device__ static size_t first_item()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static size_t stride()
{
    return (size_t)gridDim.x * blockDim.x;
}

__device__ static bool aligned(const void *pointer, size_t bytes)
{
    return (size_t)pointer % bytes == 0;
}

/* A true division: times 1/255 would be off by one rounding for some bytes. A thread turns four
 * bytes into four floats: a warp reads one line of 128 bytes and writes four. */
__global__ void bytes_to_float(float *floats, const uint8_t *bytes, size_t count)
{
    size_t vectors = aligned(floats, 16) && aligned(bytes, 4) ? count / 4 : 0;
    for (size_t i = first_item(); i < vectors; i += stride()) {
        uchar4 b = ((const uchar4 *)bytes)[i];
        ((float4 *)floats)[i] = make_float4((float)b.x / 255.0f, (float)b.y / 255.0f,
                                            (float)b.z / 255.0f, (float)b.w / 255.0f);
    }
    for (size_t i = 4 * vectors + first_item(); i < count; i += stride())
        floats[i] = (float)bytes[i] / 255.0f;
}

__device__ static float masked(float gradient, float activation)
{
    return activation > 0 ? gradient : 0;
}

/* ReLU's derivative is 1 where its output is positive and 0 elsewhere. */
__global__ void relu_backward(float *gradient, const float *activation, size_t count)
{
    size_t vectors = aligned(gradient, 16) && aligned(activation, 16) ? count / 4 : 0;
    for (size_t i = first_item(); i < vectors; i += stride()) {
        float4 g = ((const float4 *)gradient)[i];
        float4 a = ((const float4 *)activation)[i];
        ((float4 *)gradient)[i] =
            make_float4(masked(g.x, a.x), masked(g.y, a.y), masked(g.z, a.z), masked(g.w, a.w));
    }
    for (size_t i = 4 * vectors + first_item(); i < count; i += stride())
        gradient[i] = masked(gradient[i], activation[i]);
}

__global__ void add(float *into, const float *addend, size_t count)
{
    size_t vectors = aligned(into, 16) && aligned(addend, 16) ? count / 4 : 0;
    for (size_t i = first_item(); i < vectors; i += stride()) {
        float4 sum = ((const float4 *)into)[i];
        float4 a = ((const float4 *)addend)[i];
        ((float4 *)into)[i] = make_float4(sum.x + a.x, sum.y + a.y, sum.z + a.z, sum.w + a.w);
    }
    for (size_t i = 4 * vectors + first_item(); i < count; i += stride())
        into[i] += addend[i];
}

/* --- optimizers --------------------------------------------------------------------------- *
 * One launch updates a whole model, since its parameters lie in one arena. One pass does what a
 * formula written operation by operation would do in five: read weight, gradient and state once,
 * write weight and state once. */

typedef struct SgdFactors {
    float lr, momentum, weight_decay;
} SgdFactors;

__device__ static void sgd_plain(float &weight, float gradient, const SgdFactors &f)
{
    weight -= f.lr * (gradient + f.weight_decay * weight);
}

__device__ static void sgd_momentum(float &weight, float gradient, float &velocity,
                                    const SgdFactors &f)
{
    float direction = gradient + f.weight_decay * weight;
    velocity = f.momentum * velocity + direction;
    weight -= f.lr * velocity;
}

__global__ void sgd(float *weight, const float *gradient, size_t count, SgdFactors f)
{
    size_t vectors = aligned(weight, 16) && aligned(gradient, 16) ? count / 4 : 0;
    for (size_t i = first_item(); i < vectors; i += stride()) {
        float4 w = ((const float4 *)weight)[i];
        float4 g = ((const float4 *)gradient)[i];
        sgd_plain(w.x, g.x, f);
        sgd_plain(w.y, g.y, f);
        sgd_plain(w.z, g.z, f);
        sgd_plain(w.w, g.w, f);
        ((float4 *)weight)[i] = w;
    }
    for (size_t i = 4 * vectors + first_item(); i < count; i += stride())
        sgd_plain(weight[i], gradient[i], f);
}

__global__ void sgd_with_momentum(float *weight, const float *gradient, float *velocity,
                                  size_t count, SgdFactors f)
{
    size_t vectors =
        aligned(weight, 16) && aligned(gradient, 16) && aligned(velocity, 16) ? count / 4 : 0;
    for (size_t i = first_item(); i < vectors; i += stride()) {
        float4 w = ((const float4 *)weight)[i];
        float4 g = ((const float4 *)gradient)[i];
        float4 v = ((const float4 *)velocity)[i];
        sgd_momentum(w.x, g.x, v.x, f);
        sgd_momentum(w.y, g.y, v.y, f);
        sgd_momentum(w.z, g.z, v.z, f);
        sgd_momentum(w.w, g.w, v.w, f);
        ((float4 *)weight)[i] = w;
        ((float4 *)velocity)[i] = v;
    }
    for (size_t i = 4 * vectors + first_item(); i < count; i += stride())
        sgd_momentum(weight[i], gradient[i], velocity[i], f);
}

__device__ static void adam_one(float &weight, float gradient, float &mean, float &square,
                                const AdamFactors &f)
{
    float g = gradient + f.l2 * weight;
    mean = f.beta1 * mean + f.one_minus_beta1 * g;
    square = f.beta2 * square + f.one_minus_beta2 * g * g;
    float denominator = sqrtf(square) / f.root_correction + f.epsilon;
    weight = f.keep * weight - f.step_size * (mean / denominator);
}

__global__ void adam(float *weight, const float *gradient, float *mean, float *square, size_t count,
                     AdamFactors f)
{
    bool vectorised =
        aligned(weight, 16) && aligned(gradient, 16) && aligned(mean, 16) && aligned(square, 16);
    size_t vectors = vectorised ? count / 4 : 0;
    for (size_t i = first_item(); i < vectors; i += stride()) {
        float4 w = ((const float4 *)weight)[i];
        float4 g = ((const float4 *)gradient)[i];
        float4 m = ((const float4 *)mean)[i];
        float4 s = ((const float4 *)square)[i];
        adam_one(w.x, g.x, m.x, s.x, f);
        adam_one(w.y, g.y, m.y, s.y, f);
        adam_one(w.z, g.z, m.z, s.z, f);
        adam_one(w.w, g.w, m.w, s.w, f);
        ((float4 *)weight)[i] = w;
        ((float4 *)mean)[i] = m;
        ((float4 *)square)[i] = s;
    }
    for (size_t i = 4 * vectors + first_item(); i < count; i += stride())
        adam_one(weight[i], gradient[i], mean[i], square[i], f);
}

/* --- along the columns of a matrix -------------------------------------------------------- */

__device__ static float activated(float sum, bool relu)
{
    return !relu || sum > 0 ? sum : 0;
}

/* A thread owns a column, or four as a float4: it reads their bias once and walks down the rows, so
 * no thread ever divides to find out which column it is in. A block is 32 threads wide, one warp
 * along a row, and 8 rows high; the grid covers the matrix with such tiles. */
#define TILE_ROWS 8u

__global__ void add_bias(float *output, const float *bias, int rows, int out, bool relu)
{
    int row_step = (int)(gridDim.y * blockDim.y);
    int first_row = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    int column_step = (int)stride();
    int first_column = (int)first_item();

    if (out % 4 == 0 && aligned(output, 16) && aligned(bias, 16)) {
        int columns = out / 4;
        for (int column = first_column; column < columns; column += column_step) {
            float4 b = ((const float4 *)bias)[column];
            for (int row = first_row; row < rows; row += row_step) {
                float4 *at = (float4 *)output + (size_t)row * columns + column;
                float4 x = *at;
                *at = make_float4(activated(x.x + b.x, relu), activated(x.y + b.y, relu),
                                  activated(x.z + b.z, relu), activated(x.w + b.w, relu));
            }
        }
        return;
    }
    for (int column = first_column; column < out; column += column_step) {
        float b = bias[column];
        for (int row = first_row; row < rows; row += row_step) {
            float *at = output + (size_t)row * out + column;
            *at = activated(*at + b, relu);
        }
    }
}

/* A value of every lane of the warp, added up; every lane gets the sum. Five exchanges, between
 * lanes 16, 8, 4, 2 and 1 apart. */
template <typename Number> __device__ static Number warp_sum(Number value)
{
    for (unsigned apart = WARP / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, apart);
    return value;
}

/* A block of 32 x 32 threads sums 32 columns. Thread (x, y) adds up rows y, y + 32, ... of column
 * x: each warp reads 32 neighbouring floats of a row, one whole line. (A float4 per thread would
 * make the blocks four times wider and leave most of the GPU without a block.) Then the 32 partial
 * sums of each column are turned on their side in shared memory, so that they lie in one warp,
 * which adds them up. The 33rd float of each row keeps those reads in 32 different banks. */
__global__ void column_sums(float *sums, const float *matrix, int rows, int columns,
                            bool accumulate)
{
    __shared__ float partial[WARP][WARP + 1];

    int x = (int)threadIdx.x, y = (int)threadIdx.y, first_column = (int)(blockIdx.x * WARP);
    float sum = 0;
    if (first_column + x < columns)
#pragma unroll 4
        for (int row = y; row < rows; row += (int)WARP)
            sum += matrix[(size_t)row * columns + first_column + x];
    partial[y][x] = sum;
    __syncthreads();

    sum = warp_sum(partial[x][y]);
    int column = first_column + y;
    if (x == 0 && column < columns)
        sums[column] = accumulate ? sums[column] + sum : sum;
}

/* --- the loss ----------------------------------------------------------------------------- */

/* The largest of the values that the lanes hold, and the lowest place at which it was found. */
__device__ static void warp_largest(float &largest, int &place)
{
    for (unsigned apart = WARP / 2; apart > 0; apart /= 2) {
        float other = __shfl_xor_sync(ALL_LANES, largest, apart);
        int other_place = __shfl_xor_sync(ALL_LANES, place, apart);
        if (other > largest || (other == largest && other_place < place)) {
            largest = other;
            place = other_place;
        }
    }
}

/* A warp per row: ten classes, or a thousand, are too few for a block and too many for a thread,
 * and within a warp the largest logit and the sum are found without a barrier. A lane writes only
 * where it alone has read, so that gradient may be logits.
 *
 * The batch's sums take no second kernel. Each block leaves its share in `scratch` and draws a
 * ticket; the block with the last one knows that all the others are done and adds up the shares, in
 * the order of the blocks and not of their tickets. (The integer atomic decides who adds, never in
 * which order.) */
#define WARPS (THREADS / WARP)

__global__ void softmax_cross_entropy(float *gradient, LossStats *stats, LossScratch *scratch,
                                      const float *logits, const uint8_t *labels, int rows,
                                      int classes, float scale)
{
    __shared__ LossStats of_warp[WARPS];
    __shared__ bool last;

    unsigned warp = threadIdx.x / WARP;
    int lane = (int)(threadIdx.x % WARP);
    double loss = 0, correct = 0;

    for (int row = (int)(blockIdx.x * WARPS + warp); row < rows; row += (int)(gridDim.x * WARPS)) {
        const float *x = logits + (size_t)row * classes;
        float *dx = gradient + (size_t)row * classes;
        int label = labels[row];

        float largest = -INFINITY;
        int place = classes;
        for (int i = lane; i < classes; i += (int)WARP)
            if (x[i] > largest) {
                largest = x[i];
                place = i;
            }
        warp_largest(largest, place);

        /* softmax is unchanged when all logits are shifted; shifted by the largest, no exp
         * overflows */
        float sum = 0;
        for (int i = lane; i < classes; i += (int)WARP)
            sum += expf(x[i] - largest);
        sum = warp_sum(sum);

        for (int i = lane; i < classes; i += (int)WARP) {
            float shifted = x[i] - largest;
            dx[i] = (expf(shifted) / sum - (i == label ? 1.0f : 0.0f)) * scale;
            if (i == label) {
                loss += (double)(logf(sum) - shifted);
                correct += place == label;
            }
        }
    }

    loss = warp_sum(loss);
    correct = warp_sum(correct);
    if (lane == 0)
        of_warp[warp] = {loss, correct};
    __syncthreads();

    if (threadIdx.x == 0) {
        LossStats of_block = {0, 0};
        for (unsigned i = 0; i < WARPS; i++) {
            of_block.loss_sum += of_warp[i].loss_sum;
            of_block.correct += of_warp[i].correct;
        }
        scratch->partial[blockIdx.x] = of_block;
        __threadfence(); /* the share is there before the ticket is drawn */
        last = atomicAdd(&scratch->finished, 1u) == gridDim.x - 1;
        __threadfence(); /* and the others' are read after it */
    }
    __syncthreads();
    if (!last || warp > 0)
        return;

    loss = correct = 0;
    for (unsigned i = (unsigned)lane; i < gridDim.x; i += WARP) {
        loss += scratch->partial[i].loss_sum;
        correct += scratch->partial[i].correct;
    }
    loss = warp_sum(loss);
    correct = warp_sum(correct);
    if (lane == 0) {
        stats->loss_sum += loss;
        stats->correct += correct;
        scratch->finished = 0;
    }
}

/* --- launchers ---------------------------------------------------------------------------- */

#ifdef __CUDACC__

/* Some 1000 blocks of THREADS fit on the largest GPUs at once. More than a few times that would
 * only queue; then the threads take further turns of their loops instead. */
#define MOST_BLOCKS 4096u

/* Blocks for a loop over `count` numbers of which a thread takes four at a time. */
static unsigned blocks_for(size_t count)
{
    size_t blocks = (count / 4 + THREADS) / THREADS;
    return blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
}

static unsigned at_most(unsigned value, unsigned most)
{
    return value < most ? value : most;
}

cudaError_t kernel_bytes_to_float(cudaStream_t stream, float *floats, const uint8_t *bytes,
                                  size_t count)
{
    bytes_to_float<<<blocks_for(count), THREADS, 0, stream>>>(floats, bytes, count);
    return cudaGetLastError();
}

cudaError_t kernel_add_bias(cudaStream_t stream, float *output, const float *bias, int rows,
                            int out, bool relu)
{
    unsigned columns = (unsigned)(out % 4 == 0 ? out / 4 : out);
    dim3 tile(WARP, TILE_ROWS);
    /* Four rows to a thread: enough to be worth reading the bias for, and tiles enough for every
     * multiprocessor. CUDA allows 65535 rows of blocks. */
    dim3 tiles((columns + WARP - 1) / WARP,
               at_most(((unsigned)rows + 4 * TILE_ROWS - 1) / (4 * TILE_ROWS), 65535));
    add_bias<<<tiles, tile, 0, stream>>>(output, bias, rows, out, relu);
    return cudaGetLastError();
}

cudaError_t kernel_relu_backward(cudaStream_t stream, float *gradient, const float *activation,
                                 size_t count)
{
    relu_backward<<<blocks_for(count), THREADS, 0, stream>>>(gradient, activation, count);
    return cudaGetLastError();
}

cudaError_t kernel_column_sums(cudaStream_t stream, float *sums, const float *matrix, int rows,
                               int columns, bool accumulate)
{
    unsigned blocks = ((unsigned)columns + WARP - 1) / WARP;
    column_sums<<<blocks, dim3(WARP, WARP), 0, stream>>>(sums, matrix, rows, columns, accumulate);
    return cudaGetLastError();
}

cudaError_t kernel_softmax_cross_entropy(cudaStream_t stream, float *gradient, LossStats *stats,
                                         LossScratch *scratch, const float *logits,
                                         const uint8_t *labels, int rows, int classes, float scale)
{
    unsigned blocks = at_most(((unsigned)rows + WARPS - 1) / WARPS, KERNELS_LOSS_BLOCKS);
    softmax_cross_entropy<<<blocks, THREADS, 0, stream>>>(gradient, stats, scratch, logits, labels,
                                                          rows, classes, scale);
    return cudaGetLastError();
}

cudaError_t kernel_add(cudaStream_t stream, float *into, const float *addend, size_t count)
{
    add<<<blocks_for(count), THREADS, 0, stream>>>(into, addend, count);
    return cudaGetLastError();
}

cudaError_t kernel_sgd_step(cudaStream_t stream, float *weight, const float *gradient,
                            float *velocity, size_t count, float lr, float momentum,
                            float weight_decay)
{
    SgdFactors factors = {lr, momentum, weight_decay};
    if (momentum == 0)
        sgd<<<blocks_for(count), THREADS, 0, stream>>>(weight, gradient, count, factors);
    else
        sgd_with_momentum<<<blocks_for(count), THREADS, 0, stream>>>(weight, gradient, velocity,
                                                                     count, factors);
    return cudaGetLastError();
}

cudaError_t kernel_adam_step(cudaStream_t stream, float *weight, const float *gradient, float *mean,
                             float *square, size_t count, const AdamFactors *factors)
{
    adam<<<blocks_for(count), THREADS, 0, stream>>>(weight, gradient, mean, square, count,
                                                    *factors);
    return cudaGetLastError();
}

#endif
