/* cuda.c: a GPU as a device. Matrix products are cuBLAS's, everything else is in kernels.cu. Each
 * device has one stream, on which its work runs in order while the host runs ahead.
 *
 * Several devices may share a GPU; each then has a stream of its own on it. CUDA's calls act on the
 * calling thread's current GPU, so each entry begins by choosing it.
 *
 * All that this file asks of CUDA, so that tests/softcuda can stand in for it:
 *   cudaSetDevice, cudaGetDeviceProperties,
 *   cudaMalloc, cudaFree, cudaMallocHost, cudaFreeHost,
 *   cudaMemcpyAsync, cudaMemcpyPeerAsync, cudaMemsetAsync,
 *   cudaStreamCreateWithFlags, cudaStreamDestroy, cudaStreamSynchronize, cudaStreamWaitEvent,
 *   cudaEventCreate, cudaEventCreateWithFlags, cudaEventDestroy, cudaEventRecord,
 *   cudaEventSynchronize, cudaEventElapsedTime;
 *   cublasCreate, cublasDestroy, cublasSetStream, cublasSetWorkspace, cublasGemmEx;
 *   and kernel launches with cudaGetLastError (kernels.cu).
 * The files beside it: cuda_error.c (sentences for failures), cuda_peers.c (ways between GPUs).
 */
#include "device/engine.h"

#ifdef TRAINER_CUDA

#include "device/cuda.h"
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB(bytes) ((double)(bytes) / (1024 * 1024))

/* Uploads pass through pinned memory, which the GPU reads by itself while the host goes on. The
 * pieces are used in turn; one that comes round again is almost always free. */
#define STAGING_PIECES 8
#define STAGING_BYTES  ((size_t)1 << 20)

typedef struct Staging {
    unsigned char *memory; /* pinned, [STAGING_BYTES] */
    cudaEvent_t read;      /* the GPU has read it */
} Staging;

typedef struct Cuda {
    cudaStream_t stream;
    cublasHandle_t blas;
    void *workspace; /* cuBLAS's, of this stream alone: its results then repeat from run to run */
    cublasComputeType_t precision;
    LossScratch *loss_scratch; /* GPU memory */
    Staging staging[STAGING_PIECES];
    int next_piece;
    cudaEvent_t copy_event; /* orders device_copy's two streams; recorded anew for each copy */

    cudaEvent_t *events; /* the pool: [event_room], of which event_count exist */
    int event_count, event_room;
    int events_used; /* since device_recycle_events */
} Cuda;

static Cuda *cuda_of(const Device *device)
{
    return device->state;
}

int cuda_gpu(const Device *device)
{
    return device->index;
}

cudaStream_t cuda_stream(const Device *device)
{
    return cuda_of(device)->stream;
}

Error cuda_enter(const Device *device)
{
    TRY_CUDA(device->index, cudaSetDevice(device->index), "choosing it");
    return NULL;
}

/* The engine's functions return nothing: a failure stays with the device. `step` is an Error. */
#define KEEP_FAILURE(device, step)                                                                 \
    do {                                                                                           \
        Error kept = (step);                                                                       \
        if (kept) {                                                                                \
            device_fail(device, kept);                                                             \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* Chooses the GPU and makes one CUDA call; the rest is a printf format for what was asked. */
#define QUEUE(device, call, ...)                                                                   \
    do {                                                                                           \
        KEEP_FAILURE(device, cuda_enter(device));                                                  \
        cudaError_t queue_status = (call);                                                         \
        if (queue_status != cudaSuccess) {                                                         \
            device_fail(device, cuda_error((device)->index, queue_status, __FILE__, __LINE__,      \
                                           __VA_ARGS__));                                          \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* --- opening ------------------------------------------------------------------------------ */

static void cuda_close(Device *device)
{
    Cuda *cuda = cuda_of(device);
    /* Nothing can be done about a call that fails here. */
    cudaSetDevice(device->index);
    if (cuda->stream)
        cudaStreamSynchronize(cuda->stream);
    if (cuda->blas)
        cublasDestroy(cuda->blas);
    cudaFree(cuda->workspace);
    cudaFree(cuda->loss_scratch);
    for (int i = 0; i < STAGING_PIECES; i++) {
        if (cuda->staging[i].read)
            cudaEventDestroy(cuda->staging[i].read);
        cudaFreeHost(cuda->staging[i].memory);
    }
    for (int i = 0; i < cuda->event_count; i++)
        cudaEventDestroy(cuda->events[i]);
    free(cuda->events);
    if (cuda->copy_event)
        cudaEventDestroy(cuda->copy_event);
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    free(cuda);
}

static Error open_stream(Cuda *cuda, int gpu)
{
    TRY_CUDA(gpu, cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking),
             "making a stream");
    TRY_CUDA(gpu, cudaEventCreateWithFlags(&cuda->copy_event, cudaEventDisableTiming),
             "making an event");
    for (int i = 0; i < STAGING_PIECES; i++) {
        Staging *piece = &cuda->staging[i];
        TRY_CUDA(gpu, cudaMallocHost((void **)&piece->memory, STAGING_BYTES),
                 "allocating %.0f MiB of pinned host memory", MIB(STAGING_BYTES));
        TRY_CUDA(gpu, cudaEventCreateWithFlags(&piece->read, cudaEventDisableTiming),
                 "making an event");
    }
    TRY_CUDA(gpu, cudaMalloc((void **)&cuda->loss_scratch, sizeof(LossScratch)),
             "allocating %zu bytes", sizeof(LossScratch));
    TRY_CUDA(gpu, cudaMemsetAsync(cuda->loss_scratch, 0, sizeof(LossScratch), cuda->stream),
             "zeroing %zu bytes", sizeof(LossScratch));
    return NULL;
}

static Error open_blas(Cuda *cuda, int gpu, int major, bool tf32)
{
    /* What cuBLAS's manual recommends (cublasSetWorkspace). Like CUDA's own memory it is not
     * charged to the device's counters, which show what the training takes. */
    size_t workspace_bytes = (size_t)(major >= 9 ? 32 : 4) << 20;

    TRY_CUBLAS(gpu, cublasCreate(&cuda->blas), "opening cuBLAS");
    TRY_CUBLAS(gpu, cublasSetStream(cuda->blas, cuda->stream), "giving cuBLAS its stream");
    TRY_CUDA(gpu, cudaMalloc(&cuda->workspace, workspace_bytes), "allocating %.0f MiB for cuBLAS",
             MIB(workspace_bytes));
    /* After cublasSetStream, which goes back to a workspace that all streams share. */
    TRY_CUBLAS(gpu, cublasSetWorkspace(cuda->blas, cuda->workspace, workspace_bytes),
               "giving cuBLAS its workspace");
    /* 32F is float throughout. TF32 rounds the factors to 10 bits, for the tensor cores. */
    cuda->precision = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    return NULL;
}

static Error open_all(Device *device, bool tf32)
{
    Cuda *cuda = cuda_of(device);
    int gpu = device->index;
    struct cudaDeviceProp properties;
    TRY(cuda_enter(device));
    TRY_CUDA(gpu, cudaGetDeviceProperties(&properties, gpu), "reading its properties");
    snprintf(device->name, sizeof device->name, "%.*s", (int)sizeof device->name - 1,
             properties.name);
    TRY(open_stream(cuda, gpu));
    TRY(open_blas(cuda, gpu, properties.major, tf32));

    /* A kernel without work: a GPU for which kernels.cu was not compiled says so now. */
    TRY_CUDA(gpu, kernel_add(cuda->stream, NULL, NULL, 0), "starting a kernel on %s (sm_%d%d)",
             device->name, properties.major, properties.minor);
    TRY_CUDA(gpu, cudaStreamSynchronize(cuda->stream), "running a kernel on %s (sm_%d%d)",
             device->name, properties.major, properties.minor);
    return NULL;
}

/* --- memory ------------------------------------------------------------------------------- */

static Error allocate(Device *device, size_t bytes, void **memory)
{
    TRY(cuda_enter(device));
    TRY_CUDA(device->index, cudaMalloc(memory, bytes), "allocating %zu bytes (%.1f MiB)", bytes,
             MIB(bytes));
    TRY_CUDA(device->index, cudaMemsetAsync(*memory, 0, bytes, cuda_stream(device)),
             "zeroing %zu bytes", bytes);
    return NULL;
}

/* cudaMalloc aligns to 256 bytes. */
static void *cuda_alloc(Device *device, size_t bytes, Error *error)
{
    void *memory = NULL;
    *error = allocate(device, bytes, &memory);
    return memory;
}

static void cuda_free(Device *device, void *memory)
{
    QUEUE(device, cudaFree(memory), "freeing memory");
}

/* Piece by piece: waits until the GPU has read what the piece held before (it has, unless the host
 * is STAGING_PIECES uploads ahead), fills it and queues its copy. */
static void cuda_upload(Device *device, void *to, const void *from, size_t bytes)
{
    Cuda *cuda = cuda_of(device);
    for (size_t at = 0; at < bytes; at += STAGING_BYTES) {
        size_t part = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        Staging *piece = &cuda->staging[cuda->next_piece];
        cuda->next_piece = (cuda->next_piece + 1) % STAGING_PIECES;
        QUEUE(device, cudaEventSynchronize(piece->read), "waiting for an earlier upload");
        memcpy(piece->memory, (const unsigned char *)from + at, part);
        QUEUE(device,
              cudaMemcpyAsync((unsigned char *)to + at, piece->memory, part, cudaMemcpyHostToDevice,
                              cuda->stream),
              "uploading %zu bytes", part);
        QUEUE(device, cudaEventRecord(piece->read, cuda->stream), "marking an upload");
    }
}

static void cuda_download(Device *device, void *to, const void *from, size_t bytes)
{
    cudaStream_t stream = cuda_stream(device);
    QUEUE(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
          "downloading %zu bytes", bytes);
    QUEUE(device, cudaStreamSynchronize(stream), "waiting for %zu bytes", bytes);
}

static void cuda_zero(Device *device, void *memory, size_t bytes)
{
    QUEUE(device, cudaMemsetAsync(memory, 0, bytes, cuda_stream(device)), "zeroing %zu bytes",
          bytes);
}

/* --- from device to device ---------------------------------------------------------------- */

/* `later` does nothing more until `earlier` has done all that is queued on it now. The event may be
 * recorded anew while a stream still waits for its last recording: the wait has taken note. */
static Error order(Device *earlier, Device *later)
{
    Cuda *cuda = cuda_of(earlier);
    TRY(cuda_enter(earlier));
    TRY_CUDA(earlier->index, cudaEventRecord(cuda->copy_event, cuda->stream), "marking its queue");
    TRY_CUDA(later->index, cudaStreamWaitEvent(cuda_stream(later), cuda->copy_event, 0),
             "letting it wait for GPU %d", earlier->index);
    return NULL;
}

/* The source's stream carries the copy. */
static Error queue_copy(Device *to, void *to_memory, Device *from, const void *from_memory,
                        size_t bytes)
{
    cudaStream_t stream = cuda_stream(from);
    TRY(cuda_enter(from));
    if (to->index == from->index) {
        TRY_CUDA(from->index,
                 cudaMemcpyAsync(to_memory, from_memory, bytes, cudaMemcpyDeviceToDevice, stream),
                 "copying %zu bytes", bytes);
        return NULL;
    }
    TRY_CUDA(from->index,
             cudaMemcpyPeerAsync(to_memory, to->index, from_memory, from->index, bytes, stream),
             "copying %zu bytes to GPU %d", bytes, to->index);
    return NULL;
}

/* Between two waits: for the destination's earlier work before the copy, and of the destination's
 * later work after it. Asking for peer access opens it; the copy finds its way with it or without.
 */
static void cuda_copy(Device *to, void *to_memory, Device *from, const void *from_memory,
                      size_t bytes)
{
    bool direct;
    KEEP_FAILURE(to, cuda_peers(to->index, from->index, &direct));
    if (to != from)
        KEEP_FAILURE(to, order(to, from));
    KEEP_FAILURE(to, queue_copy(to, to_memory, from, from_memory, bytes));
    if (to != from)
        KEEP_FAILURE(to, order(from, to));
}

static bool cuda_copies_directly(Device *to, Device *from)
{
    bool direct = true;
    Error error = cuda_peers(to->index, from->index, &direct);
    if (error)
        device_fail(to, error);
    return direct;
}

/* --- arithmetic --------------------------------------------------------------------------- */

/* One factor of a product, as it lies in memory. */
typedef struct Factor {
    const float *values;
    bool transposed;
} Factor;

/* product [rows, columns] = a [rows, inner] b [inner, columns] + beta product; a transposed factor
 * lies in memory as [inner, rows] or [columns, inner]. All row-major.
 *
 * cuBLAS reads matrices column by column, which makes each of ours its own transpose. So it is
 * asked for product^T = b^T a^T: the factors change places, and nothing is moved. */
static Error multiply(Device *device, float *product, Factor a, Factor b, int rows, int columns,
                      int inner, float beta)
{
    const float alpha = 1;
    Cuda *cuda = cuda_of(device);
    TRY(cuda_enter(device));
    TRY_CUBLAS(device->index,
               cublasGemmEx(cuda->blas, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                            a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows, inner, &alpha,
                            b.values, CUDA_R_32F, b.transposed ? inner : columns, a.values,
                            CUDA_R_32F, a.transposed ? rows : inner, &beta, product, CUDA_R_32F,
                            columns, cuda->precision, CUBLAS_GEMM_DEFAULT),
               "multiplying %d x %d by %d x %d", rows, inner, inner, columns);
    return NULL;
}

static void cuda_bytes_to_float(Device *device, float *floats, const uint8_t *bytes, size_t count)
{
    QUEUE(device, kernel_bytes_to_float(cuda_stream(device), floats, bytes, count),
          "turning %zu bytes into floats", count);
}

static void cuda_linear_forward(Device *device, float *output, const float *input,
                                const float *weight, const float *bias, int rows, int in, int out,
                                bool relu)
{
    KEEP_FAILURE(device, multiply(device, output, (Factor){input, false}, (Factor){weight, true},
                                  rows, out, in, 0));
    QUEUE(device, kernel_add_bias(cuda_stream(device), output, bias, rows, out, relu),
          "adding a bias to %d x %d", rows, out);
}

static void cuda_linear_backward_params(Device *device, float *weight_gradient,
                                        float *bias_gradient, const float *output_gradient,
                                        const float *input, int rows, int in, int out,
                                        bool accumulate)
{
    KEEP_FAILURE(device, multiply(device, weight_gradient, (Factor){output_gradient, true},
                                  (Factor){input, false}, out, in, rows, accumulate ? 1 : 0));
    QUEUE(device,
          kernel_column_sums(cuda_stream(device), bias_gradient, output_gradient, rows, out,
                             accumulate),
          "summing the columns of %d x %d", rows, out);
}

static void cuda_linear_backward_input(Device *device, float *input_gradient,
                                       const float *output_gradient, const float *weight,
                                       const float *input, int rows, int in, int out)
{
    KEEP_FAILURE(device, multiply(device, input_gradient, (Factor){output_gradient, false},
                                  (Factor){weight, false}, rows, in, out, 0));
    QUEUE(
        device,
        kernel_relu_backward(cuda_stream(device), input_gradient, input, (size_t)rows * (size_t)in),
        "masking %d x %d", rows, in);
}

static void cuda_softmax_cross_entropy(Device *device, float *gradient, LossStats *stats,
                                       const float *logits, const uint8_t *labels, int rows,
                                       int classes, float scale)
{
    QUEUE(device,
          kernel_softmax_cross_entropy(cuda_stream(device), gradient, stats,
                                       cuda_of(device)->loss_scratch, logits, labels, rows, classes,
                                       scale),
          "computing the loss of %d rows", rows);
}

static void cuda_add(Device *device, float *into, const float *addend, size_t count)
{
    QUEUE(device, kernel_add(cuda_stream(device), into, addend, count), "adding %zu numbers",
          count);
}

static void cuda_sgd_step(Device *device, float *weight, const float *gradient, float *velocity,
                          size_t count, float lr, float momentum, float weight_decay)
{
    QUEUE(device,
          kernel_sgd_step(cuda_stream(device), weight, gradient, velocity, count, lr, momentum,
                          weight_decay),
          "an SGD step of %zu weights", count);
}

static void cuda_adam_step(Device *device, float *weight, const float *gradient, float *mean,
                           float *square, size_t count, const AdamStep *adam)
{
    AdamFactors factors = adam_factors(adam);
    QUEUE(device,
          kernel_adam_step(cuda_stream(device), weight, gradient, mean, square, count, &factors),
          "an Adam step of %zu weights", count);
}

/* --- order and time ----------------------------------------------------------------------- */

/* Adds an event to the pool. They keep time: phases are read from them. */
static Error add_event(Device *device)
{
    Cuda *cuda = cuda_of(device);
    if (cuda->event_count == cuda->event_room) {
        int room = cuda->event_room ? 2 * cuda->event_room : 64;
        cudaEvent_t *events = realloc(cuda->events, (size_t)room * sizeof *events);
        if (!events)
            return error_make("no memory for %d events", room);
        cuda->events = events;
        cuda->event_room = room;
    }
    TRY(cuda_enter(device));
    TRY_CUDA(device->index, cudaEventCreate(&cuda->events[cuda->event_count]), "making an event");
    cuda->event_count++;
    return NULL;
}

static void cuda_record(Device *device, Event *event)
{
    Cuda *cuda = cuda_of(device);
    if (cuda->events_used == cuda->event_count)
        KEEP_FAILURE(device, add_event(device));
    cudaEvent_t handle = cuda->events[cuda->events_used++];
    QUEUE(device, cudaEventRecord(handle, cuda->stream), "recording an event");
    event->handle = handle;
}

static void cuda_wait(Device *device, const Event *event)
{
    QUEUE(device, cudaStreamWaitEvent(cuda_stream(device), event->handle, 0),
          "waiting for an event");
}

static void cuda_sync(Device *device)
{
    QUEUE(device, cudaStreamSynchronize(cuda_stream(device)), "waiting for queued work");
}

static void read_elapsed(Device *device, const Event *from, const Event *to, float *ms)
{
    QUEUE(device, cudaEventElapsedTime(ms, from->handle, to->handle),
          "reading the time between two events");
}

static double cuda_elapsed_ms(Device *device, const Event *from, const Event *to)
{
    float ms = 0;
    read_elapsed(device, from, to, &ms);
    return (double)ms;
}

static void cuda_recycle_events(Device *device)
{
    cuda_of(device)->events_used = 0;
}

/* ------------------------------------------------------------------------------------------ */

Error cuda_open(Device *device, bool tf32)
{
    static const Engine engine = {
        .close = cuda_close,
        .alloc = cuda_alloc,
        .free = cuda_free,
        .upload = cuda_upload,
        .download = cuda_download,
        .copy = cuda_copy,
        .copies_directly = cuda_copies_directly,
        .zero = cuda_zero,
        .bytes_to_float = cuda_bytes_to_float,
        .linear_forward = cuda_linear_forward,
        .linear_backward_params = cuda_linear_backward_params,
        .linear_backward_input = cuda_linear_backward_input,
        .softmax_cross_entropy = cuda_softmax_cross_entropy,
        .add = cuda_add,
        .sgd_step = cuda_sgd_step,
        .adam_step = cuda_adam_step,
        .record = cuda_record,
        .wait = cuda_wait,
        .sync = cuda_sync,
        .elapsed_ms = cuda_elapsed_ms,
        .recycle_events = cuda_recycle_events,
    };
    device->engine = &engine;
    device->state = calloc(1, sizeof(Cuda));
    if (!device->state)
        return error_make("no memory for a device");
    Error error = open_all(device, tf32);
    if (error)
        cuda_close(device);
    return error;
}

#else

Error cuda_open(Device *device, bool tf32)
{
    (void)device;
    (void)tf32;
    return error_make("this build has no CUDA: install the CUDA toolkit (nvcc, cuBLAS), then run "
                      "make again; or use --device=cpu");
}

#endif
