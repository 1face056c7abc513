/* peers.c: the model to every device of a process, gradients back to the first (see comm.h).
 *
 * By copies, device 0 is one end of every one of them: that is why it is called a star, and why it
 * takes longer the more devices there are. NCCL, where it can be used, arranges the devices in a
 * ring.
 */
#include "comm/transport.h"

#include <stdlib.h>

struct Peers {
    Device *const *devices;
    int count;
    void *nccl;     /* nccl_peers' state; NULL: copies */
    float *scratch; /* on device 0: gradients that have just arrived */
    size_t scratch_count;
};

Peers *peers_open(Device *const *devices, int count, bool star, Error *error)
{
    *error = NULL;
    Peers *peers = calloc(1, sizeof *peers);
    if (!peers) {
        *error = error_make("no memory");
        return NULL;
    }
    peers->devices = devices;
    peers->count = count;
    if (!star && count > 1 && device_kind(devices[0]) == DEVICE_CUDA && nccl_peers.open)
        peers->nccl = nccl_peers.open(devices, count, error);
    if (*error) {
        free(peers);
        return NULL;
    }
    return peers;
}

void peers_close(Peers *peers)
{
    if (!peers)
        return;
    if (peers->nccl)
        nccl_peers.close(peers->nccl);
    if (peers->scratch)
        device_free(peers->devices[0], peers->scratch);
    free(peers);
}

const char *peers_transport(const Peers *peers)
{
    if (peers->nccl)
        return "NCCL";
    for (int i = 1; i < peers->count; i++)
        if (!device_copies_directly(peers->devices[i], peers->devices[0]))
            return "copies through the host: no peer access";
    return "copies";
}

Error peers_broadcast(Peers *peers, float *const *buffers, int devices, size_t count,
                      BytesKind kind)
{
    if (peers->nccl && devices == peers->count)
        return nccl_peers.broadcast(peers->nccl, buffers, devices, count, kind);
    for (int i = 1; i < devices; i++)
        device_copy(peers->devices[i], buffers[i], peers->devices[0], buffers[0],
                    sizeof(float) * count, kind);
    return NULL;
}

Error peers_reduce(Peers *peers, float *const *buffers, int devices, size_t count)
{
    if (peers->nccl && devices == peers->count)
        return nccl_peers.reduce(peers->nccl, buffers, devices, count);
    Device *boss = peers->devices[0];
    if (devices > 1 && peers->scratch_count < count) {
        if (peers->scratch)
            device_free(boss, peers->scratch);
        peers->scratch_count = 0;
        TRY(device_alloc(boss, sizeof(float) * count, (void **)&peers->scratch));
        peers->scratch_count = count;
    }
    for (int i = 1; i < devices; i++) {
        device_copy(boss, peers->scratch, peers->devices[i], buffers[i], sizeof(float) * count,
                    BYTES_PARAMETER_GRADIENTS);
        device_add(boss, buffers[0], peers->scratch, count);
    }
    return NULL;
}
