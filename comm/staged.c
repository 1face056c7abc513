/* staged.c: collectives between GPUs through shared memory of the host. NCCL refuses two ranks on
 * one GPU; this way allows it, and needs no NCCL. It is slower: gradients cross to the host and
 * back.
 *
 * The collectives are shm.c's. Every buffer exists twice, on the GPU and at the same offset in the
 * rank's heap, and shm.c's thread moves it between them on a stream of its own:
 *
 *     fetch     waits for what the compute stream has produced, GPU -> heap
 *     (shm.c)   all ranks arrive, each does its share, all finish
 *     deliver   heap -> GPU, then records the event that the compute stream waits for
 *
 * A wait for an event that has not been recorded yet would be no wait at all (cudaStreamWaitEvent),
 * so device_wait first blocks the host until the thread has recorded it: that is the event's
 * `wait`.
 *
 * CUDA calls: cudaMalloc, cudaFree, cudaMemsetAsync, cudaMemcpyAsync, cudaHostRegister,
 * cudaHostUnregister, cudaGetLastError, cudaStreamCreateWithFlags, cudaStreamDestroy,
 * cudaStreamSynchronize, cudaStreamWaitEvent, cudaEventCreateWithFlags, cudaEventDestroy,
 * cudaEventRecord, cudaEventSynchronize.
 */
#include "comm/shm.h"

#ifdef TRAINER_CUDA

#include "device/cuda.h"

#include <stdlib.h>

/* Events of operations that the compute stream may still have to wait for. */
#define EVENTS 256

typedef struct Staged {
    Comm *comm;
    ShmStaging staging;
    unsigned char *heap;   /* this rank's, host memory */
    unsigned char *mirror; /* the same on the GPU: [bytes_per_rank] */
    bool pinned;           /* the heap is */
    cudaStream_t stream;
    cudaEvent_t fetched;
    cudaEvent_t delivered[EVENTS]; /* of operation n: delivered[n % EVENTS] */
    Transport transport;
} Staged;

/* comm->state is shm.c's, so the way back is through the transport that this seat was given. */
static Staged *staged_of(const Comm *comm)
{
    return (Staged *)((char *)(uintptr_t)comm->transport - offsetof(Staged, transport));
}

/* --- moving ------------------------------------------------------------------------------- */

/* In a broadcast the root only reads and the others only write. */
static bool reads(const Staged *staged, const Operation *operation)
{
    if (operation->collective == COLLECTIVE_BROADCAST)
        return operation->root == staged->comm->rank;
    return operation->collective != COLLECTIVE_BARRIER;
}

static bool writes(const Staged *staged, const Operation *operation)
{
    if (operation->collective == COLLECTIVE_BROADCAST)
        return operation->root != staged->comm->rank;
    return operation->collective != COLLECTIVE_BARRIER;
}

/* Bytes that the operation reads (or writes); `rows` is the collective with a row per rank there.
 */
static size_t bytes_of(const Staged *staged, const Operation *operation, Collective rows)
{
    size_t bytes = operation->count * comm_type_bytes(operation->type);
    return operation->collective == rows ? bytes * (size_t)staged->comm->group->world : bytes;
}

static unsigned char *mirror_of(const Staged *staged, const void *in_heap)
{
    return staged->mirror + ((const unsigned char *)in_heap - staged->heap);
}

static Error fetch(void *context, const Operation *operation, uint64_t number)
{
    const Staged *staged = context;
    int gpu = cuda_gpu(staged->comm->device);
    const Event *after = &operation->after;
    TRY(cuda_enter(staged->comm->device));
    if (after->handle)
        TRY_CUDA(gpu, cudaStreamWaitEvent(staged->stream, after->handle, 0),
                 "letting collective #%llu wait for computation", (unsigned long long)number);
    if (reads(staged, operation)) {
        size_t bytes = bytes_of(staged, operation, COLLECTIVE_REDUCE_SCATTER);
        TRY_CUDA(gpu,
                 cudaMemcpyAsync((void *)operation->from, mirror_of(staged, operation->from), bytes,
                                 cudaMemcpyDeviceToHost, staged->stream),
                 "fetching %zu bytes for collective #%llu", bytes, (unsigned long long)number);
    }
    TRY_CUDA(gpu, cudaEventRecord(staged->fetched, staged->stream), "marking a fetch");
    TRY_CUDA(gpu, cudaEventSynchronize(staged->fetched), "waiting for collective #%llu's data",
             (unsigned long long)number);
    return NULL;
}

/* The host does not wait here: the next fetch comes after this on the same stream, and before it no
 * rank touches the heap again. */
static Error deliver(void *context, const Operation *operation, uint64_t number)
{
    const Staged *staged = context;
    int gpu = cuda_gpu(staged->comm->device);
    TRY(cuda_enter(staged->comm->device));
    if (writes(staged, operation)) {
        size_t bytes = bytes_of(staged, operation, COLLECTIVE_ALL_GATHER);
        TRY_CUDA(gpu,
                 cudaMemcpyAsync(mirror_of(staged, operation->to), operation->to, bytes,
                                 cudaMemcpyHostToDevice, staged->stream),
                 "delivering %zu bytes of collective #%llu", bytes, (unsigned long long)number);
    }
    TRY_CUDA(gpu, cudaEventRecord(staged->delivered[number % EVENTS], staged->stream),
             "marking collective #%llu", (unsigned long long)number);
    return NULL;
}

/* --- the transport ------------------------------------------------------------------------ */

static Error staged_alloc(Comm *comm, size_t bytes, void **memory)
{
    void *in_heap;
    TRY(shm_transport.alloc(comm, bytes, &in_heap));
    *memory = mirror_of(staged_of(comm), in_heap);
    return NULL;
}

/* A buffer on the GPU -> its twin in the heap. What lies outside is refused by shm.c. */
static unsigned char *heap_twin(const Staged *staged, const void *on_gpu)
{
    return (unsigned char *)((uintptr_t)staged->heap + (uintptr_t)on_gpu -
                             (uintptr_t)staged->mirror);
}

static Error staged_start(Comm *comm, const Operation *operation, Event *done)
{
    const Staged *staged = staged_of(comm);
    Operation twin = *operation;
    if (twin.collective != COLLECTIVE_BARRIER) {
        twin.from = heap_twin(staged, operation->from);
        twin.to = heap_twin(staged, operation->to);
    }
    if (twin.after.wait) /* the thread can wait for handles, not for what the host has to do */
        TRY(twin.after.wait(twin.after.source, twin.after.ticket));
    TRY(shm_transport.start(comm, &twin, done));
    done->handle = staged->delivered[done->ticket % EVENTS];
    return NULL;
}

static void staged_free(Staged *staged)
{
    for (int i = 0; i < EVENTS; i++)
        if (staged->delivered[i])
            cudaEventDestroy(staged->delivered[i]);
    if (staged->fetched)
        cudaEventDestroy(staged->fetched);
    if (staged->stream)
        cudaStreamDestroy(staged->stream);
    if (staged->pinned)
        cudaHostUnregister(staged->heap);
    cudaFree(staged->mirror);
    free(staged);
}

static void staged_close(Comm *comm)
{
    Staged *staged = staged_of(comm);
    shm_transport.close(comm); /* ends the thread */
    if (cuda_enter(comm->device))
        return;
    cudaStreamSynchronize(staged->stream);
    staged_free(staged);
}

static Error open_staging(Comm *comm, Staged *staged)
{
    int gpu = cuda_gpu(comm->device);
    size_t bytes = comm->group->bytes_per_rank;
    TRY(cuda_enter(comm->device));
    TRY_CUDA(gpu, cudaStreamCreateWithFlags(&staged->stream, cudaStreamNonBlocking),
             "making a stream for communication");
    /* Who waits for a fetch sleeps; it does not take a core from the ranks. */
    TRY_CUDA(
        gpu,
        cudaEventCreateWithFlags(&staged->fetched, cudaEventDisableTiming | cudaEventBlockingSync),
        "making an event");
    for (int i = 0; i < EVENTS; i++)
        TRY_CUDA(gpu, cudaEventCreateWithFlags(&staged->delivered[i], cudaEventDisableTiming),
                 "making an event");
    /* One allocation like the heap, so that offsets are the same on both sides. */
    TRY_CUDA(gpu, cudaMalloc((void **)&staged->mirror, bytes ? bytes : 1),
             "allocating %zu bytes for the model of rank %d", bytes, comm->rank);
    TRY_CUDA(gpu, cudaMemsetAsync(staged->mirror, 0, bytes, staged->stream), "zeroing %zu bytes",
             bytes);
    TRY_CUDA(gpu, cudaStreamSynchronize(staged->stream), "zeroing %zu bytes", bytes);
    /* Pinned, the GPU reads and writes the heap by itself. Where that is not allowed the copies go
     * through the driver's own pinned memory: slower, nothing else. */
    staged->pinned =
        bytes > 0 && cudaHostRegister(staged->heap, bytes, cudaHostRegisterDefault) == cudaSuccess;
    if (!staged->pinned)
        cudaGetLastError();
    return NULL;
}

Error staged_open_seat(Comm *comm)
{
    Staged *staged = calloc(1, sizeof *staged);
    if (!staged)
        return error_make("no memory for a communicator");
    staged->comm = comm;
    staged->heap = shm_heap(comm);
    staged->staging = (ShmStaging){.fetch = fetch, .deliver = deliver, .context = staged};
    Error error = open_staging(comm, staged);
    if (!error)
        error = shm_open_staged(comm, &staged->staging);
    if (error) {
        staged_free(staged);
        return error;
    }
    staged->transport = shm_transport;
    staged->transport.name = "shared memory, staged through the host";
    staged->transport.alloc = staged_alloc;
    staged->transport.start = staged_start;
    staged->transport.close = staged_close;
    comm->transport = &staged->transport;
    return NULL;
}

#else

Error staged_open_seat(Comm *comm)
{
    (void)comm;
    return error_make("this program was built without CUDA");
}

#endif
