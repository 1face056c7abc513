/* cuda_peers.c: which GPUs reach each other's memory directly, over NVLink or PCIe. CUDA has to be
 * told before it makes use of it; elsewhere copies between GPUs pass through the host's memory.
 *
 * CUDA calls: cudaSetDevice, cudaDeviceCanAccessPeer, cudaDeviceEnablePeerAccess, cudaGetLastError.
 */
#ifdef TRAINER_CUDA

#include "device/cuda.h"

#include <pthread.h>

#define MOST_GPUS 64

/* What is known of each pair. It holds for the whole process, as CUDA's permission does. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { UNKNOWN, DIRECT, THROUGH_HOST } known[MOST_GPUS][MOST_GPUS];

/* Lets kernels and copies of GPU `from` use the memory of GPU `to`. */
static Error open_way(int from, int to, bool *open)
{
    int can = 0;
    *open = false;
    TRY_CUDA(from, cudaDeviceCanAccessPeer(&can, from, to), "asking whether it reaches GPU %d", to);
    if (!can)
        return NULL;
    TRY_CUDA(from, cudaSetDevice(from), "choosing it");
    cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
    if (status == cudaErrorTooManyPeers) { /* some machines allow a GPU eight peers */
        cudaGetLastError();
        return NULL;
    }
    if (status == cudaErrorPeerAccessAlreadyEnabled) /* NCCL does it too */
        cudaGetLastError();
    else
        TRY_CUDA(from, status, "giving it access to GPU %d", to);
    *open = true;
    return NULL;
}

static Error open_both(int gpu, int other, bool *direct)
{
    bool there, back;
    TRY(open_way(gpu, other, &there));
    TRY(open_way(other, gpu, &back));
    *direct = there && back;
    return NULL;
}

Error cuda_peers(int gpu, int other, bool *direct)
{
    *direct = gpu == other;
    if (gpu == other)
        return NULL;
    if (gpu >= MOST_GPUS || other >= MOST_GPUS)
        return error_make("GPU %d and GPU %d: at most %d GPUs can be used", gpu, other, MOST_GPUS);
    Error error = NULL;
    pthread_mutex_lock(&lock);
    if (known[gpu][other] == UNKNOWN) {
        error = open_both(gpu, other, direct);
        if (!error)
            known[gpu][other] = known[other][gpu] = *direct ? DIRECT : THROUGH_HOST;
    }
    *direct = known[gpu][other] == DIRECT;
    pthread_mutex_unlock(&lock);
    return error;
}

#endif
