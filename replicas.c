/* replicas.c: each rank hashes its parameters, all ranks gather all hashes, and each compares (see
 * replicas.h).
 */
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>

size_t replicas_bytes(const Layout *layout, int world)
{
    return sizeof(uint64_t) * (size_t)world * (size_t)layout->parameters;
}

/* Names the ranks whose hash of a parameter is not rank 0's. */
static Error report(const Layout *layout, const uint64_t *hashes, int world, int parameter,
                    const char *what)
{
    char ranks[256] = "";
    size_t used = 0;
    int count = 0;
    for (int rank = 1; rank < world && used < sizeof ranks; rank++) {
        if (hashes[rank * layout->parameters + parameter] == hashes[parameter])
            continue;
        int length = snprintf(ranks + used, sizeof ranks - used, "%s%d", count++ ? ", " : "", rank);
        used += length > 0 ? (size_t)length : 0;
    }
    return error_make("the replicas differ: parameter %s has %s on rank%s %s than on rank 0",
                      layout->parameter[parameter].name, what, count > 1 ? "s" : "", ranks);
}

/* `hashes` [world][parameters] in host memory; this rank's row is filled in. */
static Error compare(Comm *comm, Device *device, const Layout *layout, uint64_t *hashes,
                     uint64_t *scratch, const char *what)
{
    int world = comm_world(comm);
    size_t count = (size_t)layout->parameters;
    size_t own = (size_t)comm_rank(comm) * count;
    device_upload(device, scratch + own, hashes + own, sizeof *hashes * count);
    Event gathered;
    TRY(comm_all_gather(comm, scratch, scratch + own, count, COMM_UINT64, device_record(device),
                        &gathered));
    TRY(device_wait(device, &gathered));
    TRY(device_download(device, hashes, scratch, replicas_bytes(layout, world)));

    /* from the last of the arena to the first: that is PyTorch's order */
    for (int parameter = layout->parameters - 1; parameter >= 0; parameter--)
        for (int rank = 1; rank < world; rank++)
            if (hashes[(size_t)rank * count + (size_t)parameter] != hashes[parameter])
                return report(layout, hashes, world, parameter, what);
    return NULL;
}

Error replicas_check_shapes(Comm *comm, Device *device, const Layout *layout, uint64_t *scratch)
{
    uint64_t *hashes = malloc(replicas_bytes(layout, comm_world(comm)));
    if (!hashes)
        return error_make("no memory");
    uint64_t *own = hashes + comm_rank(comm) * layout->parameters;
    for (int i = 0; i < layout->parameters; i++)
        own[i] = (uint64_t)layout->parameter[i].rows << 32 | (uint64_t)layout->parameter[i].columns;
    Error error = compare(comm, device, layout, hashes, scratch, "another shape");
    free(hashes);
    return error;
}

Error replicas_check_weights(Comm *comm, Device *device, const Layout *layout, const float *weights,
                             uint64_t *scratch)
{
    uint64_t *hashes = malloc(replicas_bytes(layout, comm_world(comm)));
    float *arena = malloc(sizeof *arena * layout->arena_count);
    Error error = hashes && arena ? NULL : error_make("no memory");
    if (!error)
        error = device_download(device, arena, weights, sizeof *arena * layout->arena_count);
    if (!error) {
        layout_hash(layout, arena, hashes + comm_rank(comm) * layout->parameters);
        error = compare(comm, device, layout, hashes, scratch, "other weights");
    }
    free(arena);
    free(hashes);
    return error;
}
