/* nccl_peers.c: NCCL between the devices of one process, for DataParallel, and the sentences for
 * NCCL calls that failed.
 *
 * One thread calls for all GPUs, as PyTorch's DataParallel does. NCCL wants such calls grouped: one
 * alone would wait for the others, which this thread has not made yet. They run on the devices'
 * compute streams, so they come after each device's earlier work and before its later work.
 *
 * NCCL calls: ncclCommInitAll, ncclCommDestroy, ncclGroupStart, ncclGroupEnd, ncclBroadcast,
 * ncclReduce, ncclGetErrorString, ncclGetLastError.
 */
#include "comm/transport.h"

#ifdef TRAINER_NCCL

#include "comm/nccl_error.h"
#include "device/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --- failure ------------------------------------------------------------------------------ */

static const char *nccl_hint(ncclResult_t status)
{
    switch (status) {
    case ncclInvalidUsage:
        return "; do two ranks use one GPU? NCCL refuses that, --comm=shm does not";
    case ncclSystemError:
        return "; NCCL_DEBUG=WARN says more; in a container /dev/shm may be too small (docker run "
               "--ipc=host)";
    case ncclRemoteError:
        return "; another rank has ended or lost its connection";
    case ncclUnhandledCudaError:
        return "; NCCL_DEBUG=WARN says more";
    default:
        return "";
    }
}

Error nccl_error(ncclComm_t nccl, ncclResult_t status, const char *file, int line,
                 const char *format, ...)
{
    char asked[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(asked, sizeof asked, format, arguments);
    va_end(arguments);
    const char *detail = ncclGetLastError(nccl);
    bool known = detail && detail[0];
    return error_make_at(file, line, "%s: NCCL: %s%s%s%s", asked, ncclGetErrorString(status),
                         known ? ": " : "", known ? detail : "", nccl_hint(status));
}

#define TRY_NCCL(call, ...)                                                                        \
    do {                                                                                           \
        ncclResult_t nccl_status = (call);                                                         \
        if (nccl_status != ncclSuccess)                                                            \
            return nccl_error(NULL, nccl_status, __FILE__, __LINE__, __VA_ARGS__);                 \
    } while (0)

/* --- the devices of one process ----------------------------------------------------------- */

typedef struct NcclPeers {
    Device *const *devices;
    int count;
    ncclComm_t comms[]; /* [count] */
} NcclPeers;

static Error open_comms(NcclPeers *peers)
{
    int *gpus = calloc((size_t)peers->count, sizeof *gpus);
    if (!gpus)
        return error_make("no memory");
    for (int i = 0; i < peers->count; i++)
        gpus[i] = cuda_gpu(peers->devices[i]);
    ncclResult_t status = ncclCommInitAll(peers->comms, peers->count, gpus);
    free(gpus);
    TRY_NCCL(status, "joining %d GPUs (--replicate=star does without)", peers->count);
    return NULL;
}

static bool distinct_gpus(Device *const *devices, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (cuda_gpu(devices[i]) == cuda_gpu(devices[j]))
                return false;
    return true;
}

static void *nccl_peers_open(Device *const *devices, int count, Error *error)
{
    if (!distinct_gpus(devices, count))
        return NULL;
    NcclPeers *peers = calloc(1, sizeof *peers + (size_t)count * sizeof *peers->comms);
    if (!peers) {
        *error = error_make("no memory");
        return NULL;
    }
    peers->devices = devices;
    peers->count = count;
    *error = open_comms(peers);
    if (!*error)
        return peers;
    free(peers);
    return NULL;
}

static void nccl_peers_close(void *state)
{
    NcclPeers *peers = state;
    for (int i = 0; i < peers->count; i++)
        ncclCommDestroy(peers->comms[i]);
    free(peers);
}

/* As in nccl.c: NCCL moves the bytes, so they are counted as its ring moves them: one device after
 * the other passes the whole buffer on. */
static void count_along(const NcclPeers *peers, int from, int step, uint64_t bytes, BytesKind kind)
{
    for (int i = 1; i < peers->count; i++, from += step) {
        device_counters(peers->devices[from])->sent[kind] += bytes;
        device_counters(peers->devices[from + step])->received[kind] += bytes;
    }
}

/* `devices` is the number of them that NCCL was opened for (see peers.c). */
static Error nccl_peers_broadcast(void *state, float *const *buffers, int devices, size_t count,
                                  BytesKind kind)
{
    NcclPeers *peers = state;
    TRY_NCCL(ncclGroupStart(), "beginning a group of calls");
    for (int i = 0; i < devices; i++)
        TRY_NCCL(ncclBroadcast(buffers[i], buffers[i], count, ncclFloat32, 0, peers->comms[i],
                               cuda_stream(peers->devices[i])),
                 "sending the model (%zu floats) to device %d", count, i);
    TRY_NCCL(ncclGroupEnd(), "sending the model (%zu floats) to %d devices", count, devices - 1);
    count_along(peers, 0, 1, count * sizeof(float), kind);
    return NULL;
}

static Error nccl_peers_reduce(void *state, float *const *buffers, int devices, size_t count)
{
    NcclPeers *peers = state;
    TRY_NCCL(ncclGroupStart(), "beginning a group of calls");
    for (int i = 0; i < devices; i++)
        TRY_NCCL(ncclReduce(buffers[i], buffers[i], count, ncclFloat32, ncclSum, 0, peers->comms[i],
                            cuda_stream(peers->devices[i])),
                 "adding up gradients (%zu floats), device %d", count, i);
    TRY_NCCL(ncclGroupEnd(), "adding up the gradients (%zu floats) of %d devices", count, devices);
    count_along(peers, devices - 1, -1, count * sizeof(float), BYTES_PARAMETER_GRADIENTS);
    return NULL;
}

const PeersTransport nccl_peers = {
    .open = nccl_peers_open,
    .broadcast = nccl_peers_broadcast,
    .reduce = nccl_peers_reduce,
    .close = nccl_peers_close,
};

#else

const PeersTransport nccl_peers = {0};

#endif
