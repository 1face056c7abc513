/* replicas.c: each rank says what it has in a few numbers, all ranks gather all numbers, and each
 * compares (see replicas.h).
 */
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_NUMBERS ((size_t)MODEL_MOST_PARAMETERS)

size_t replicas_bytes(int world)
{
    return sizeof(uint64_t) * MOST_NUMBERS * (size_t)world;
}

Error replicas_gather(Comm *comm, Device *device, uint64_t *all, size_t count, uint64_t *scratch)
{
    size_t own = (size_t)comm_rank(comm) * count;
    device_upload(device, scratch + own, all + own, sizeof *all * count);
    Event gathered;
    TRY(comm_all_gather(comm, scratch, scratch + own, count, COMM_UINT64, device_record(device),
                        &gathered));
    TRY(device_wait(device, &gathered));
    return device_download(device, all, scratch, sizeof *all * count * (size_t)comm_world(comm));
}

/* The ranks whose number at `index` is not rank 0's, as "ranks 1, 3"; false if there are none. */
static bool find_others(const uint64_t *all, int world, size_t count, size_t index, char *text,
                        size_t size)
{
    int found = 0;
    size_t used = 0;
    char list[256] = "";
    for (int rank = 1; rank < world && used < sizeof list; rank++) {
        if (all[(size_t)rank * count + index] == all[index])
            continue;
        int length = snprintf(list + used, sizeof list - used, "%s%d", found++ ? ", " : "", rank);
        used += length > 0 ? (size_t)length : 0;
    }
    snprintf(text, size, "rank%s %s", found > 1 ? "s" : "", list);
    return found > 0;
}

/* One number per parameter, compared in PyTorch's order: from the last of the arena to the first.
 */
static Error compare_parameters(Comm *comm, Device *device, const Layout *layout, uint64_t *all,
                                uint64_t *scratch, const char *what)
{
    char others[300];
    size_t count = (size_t)layout->parameters;
    TRY(replicas_gather(comm, device, all, count, scratch));
    for (size_t i = count; i-- > 0;)
        if (find_others(all, comm_world(comm), count, i, others, sizeof others))
            return error_make("the replicas differ: parameter %s has %s on %s than on rank 0",
                              layout->parameter[i].name, what, others);
    return NULL;
}

static Error check_shapes(Comm *comm, Device *device, const Layout *layout, uint64_t *all,
                          uint64_t *scratch)
{
    char others[300];
    all[comm_rank(comm)] = (uint64_t)layout->parameters;
    TRY(replicas_gather(comm, device, all, 1, scratch));
    if (find_others(all, comm_world(comm), 1, 0, others, sizeof others))
        return error_make("the replicas differ: another number of parameters on %s than on rank 0",
                          others);

    uint64_t *own = all + (size_t)comm_rank(comm) * (size_t)layout->parameters;
    for (int i = 0; i < layout->parameters; i++)
        own[i] = (uint64_t)layout->parameter[i].rows << 32 | (uint64_t)layout->parameter[i].columns;
    return compare_parameters(comm, device, layout, all, scratch, "another shape");
}

Error replicas_check_shapes(Comm *comm, Device *device, const Layout *layout, uint64_t *scratch)
{
    if (device_is_timing_only(
            device)) /* one rank may stand for thousands: there is nobody to ask */
        return NULL;
    uint64_t *all = malloc(replicas_bytes(comm_world(comm)));
    if (!all)
        return error_make("no memory");
    Error error = check_shapes(comm, device, layout, all, scratch);
    free(all);
    return error;
}

static Error check_weights(Comm *comm, Device *device, const Layout *layout, const float *weights,
                           uint64_t *all, float *arena, uint64_t *scratch)
{
    TRY(device_download(device, arena, weights, sizeof *arena * layout->arena_count));
    layout_hash(layout, arena, all + (size_t)comm_rank(comm) * (size_t)layout->parameters);
    return compare_parameters(comm, device, layout, all, scratch, "other weights");
}

Error replicas_check_weights(Comm *comm, Device *device, const Layout *layout, const float *weights,
                             uint64_t *scratch)
{
    uint64_t *all = malloc(replicas_bytes(comm_world(comm)));
    float *arena = malloc(sizeof *arena * layout->arena_count);
    Error error = all && arena ? check_weights(comm, device, layout, weights, all, arena, scratch)
                               : error_make("no memory");
    free(arena);
    free(all);
    return error;
}
