/* comm.c: what all communicators have in common: the group's memory, the seats, and the public
 * calls, each of which describes an operation and hands it to the transport (see comm.h).
 */
#include "comm/transport.h"

#include "base/place.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 64

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t comm_heap_bytes(size_t bytes)
{
    return round_up(bytes);
}

const char *collective_name(Collective collective)
{
    static const char *const names[] = {
        [COLLECTIVE_ALL_REDUCE] = "all_reduce", [COLLECTIVE_BROADCAST] = "broadcast",
        [COLLECTIVE_ALL_GATHER] = "all_gather", [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
        [COLLECTIVE_BARRIER] = "barrier",
    };
    return names[collective];
}

size_t comm_type_bytes(CommType type)
{
    return type == COMM_FLOAT || type == COMM_INT32 ? 4 : 8;
}

/* --- groups ------------------------------------------------------------------------------- */

int comm_processes(CommKind kind, int world)
{
    return kind == COMM_VIRTUAL && world > COMM_MOST_VIRTUAL_RANKS ? 1 : world;
}

Group *comm_group(CommKind kind, int world, size_t bytes_per_rank, Error *error)
{
    *error = NULL;
    int processes = comm_processes(kind, world);
    size_t seats = round_up(shm_seats_bytes(world));
    size_t arrivals = kind == COMM_VIRTUAL ? round_up(virtual_arrivals_bytes(processes)) : 0;
    size_t last = round_up((size_t)world * sizeof(uint64_t));
    size_t id = round_up(sizeof(Word)) + round_up(COMM_NCCL_ID_BYTES);
    size_t page = 4096;
    size_t heaps_at = (seats + last + id + arrivals + page - 1) / page * page;
    bytes_per_rank = (bytes_per_rank + page - 1) / page * page;
    size_t bytes = heaps_at + (size_t)processes * bytes_per_rank;

    Group *group = calloc(1, sizeof *group);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!group || memory == MAP_FAILED) {
        free(group);
        if (memory != MAP_FAILED)
            munmap(memory, bytes);
        *error = error_make("no memory for a group of %d ranks with %zu bytes each", world,
                            bytes_per_rank);
        return NULL;
    }
    group->kind = kind;
    group->world = world;
    group->processes = processes;
    group->cores = place_cores();
    group->mapped_bytes = bytes;
    group->bytes_per_rank = bytes_per_rank;
    group->memory = memory;
    group->seats = memory;
    group->last = (_Atomic uint64_t *)(group->memory + seats);
    group->nccl_ready = (Word *)(group->memory + seats + last);
    group->nccl_id = group->memory + seats + last + round_up(sizeof(Word));
    group->arrivals = (void *)(group->memory + seats + last + id);
    group->heaps = group->memory + heaps_at;
    return group;
}

void comm_group_free(Group *group)
{
    if (!group)
        return;
    munmap(group->memory, group->mapped_bytes);
    free(group);
}

/* --- seats -------------------------------------------------------------------------------- */

Comm *comm_open(Group *group, int rank, Device *device, double timeout_s, bool background,
                Error *error)
{
    Comm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        *error = error_make("no memory for a communicator");
        return NULL;
    }
    comm->group = group;
    comm->rank = rank;
    comm->device = device;
    comm->timeout_s = timeout_s;
    comm->background = background;
    comm->kind = BYTES_PARAMETER_GRADIENTS;
    comm->bucket = -1;
    if (group->kind == COMM_NCCL)
        *error = nccl_open_seat(comm);
    else if (group->kind == COMM_VIRTUAL)
        *error = virtual_open_seat(comm);
    else if (device && device_kind(device) == DEVICE_CUDA)
        *error = staged_open_seat(comm);
    else
        *error = shm_open_seat(comm);
    if (*error) {
        free(comm);
        return NULL;
    }
    return comm;
}

void comm_close(Comm *comm)
{
    if (!comm)
        return;
    comm->transport->close(comm);
    free(comm);
}

int comm_rank(const Comm *comm)
{
    return comm->rank;
}

int comm_world(const Comm *comm)
{
    return comm->group->world;
}

const char *comm_transport(const Comm *comm)
{
    return comm->transport->name;
}

Error comm_alloc(Comm *comm, size_t bytes, void **memory)
{
    TRY(comm->transport->alloc(comm, round_up(bytes), memory));
    if (comm->device)
        device_charge(comm->device, bytes);
    return NULL;
}

void comm_count_as(Comm *comm, BytesKind kind)
{
    comm->kind = kind;
}

void comm_use(Comm *comm, CommAlgorithm algorithm)
{
    comm->algorithm = algorithm;
}

void comm_name_bucket(Comm *comm, int bucket)
{
    comm->bucket = bucket;
}

void comm_group_last_operation(const Group *group, int rank, char *text, size_t size)
{
    uint64_t last = atomic_load_explicit(&group->last[rank], memory_order_relaxed);
    if (last == 0)
        snprintf(text, size, "none");
    else
        snprintf(text, size, "%s #%llu", collective_name((Collective)(last % 8)),
                 (unsigned long long)(last / 8));
}

/* --- operations --------------------------------------------------------------------------- */

static Error start(Comm *comm, Operation operation, Event *done)
{
    comm->sequence++;
    snprintf(comm->last_text, sizeof comm->last_text, "%s #%llu",
             collective_name(operation.collective), (unsigned long long)comm->sequence);
    atomic_store_explicit(&comm->group->last[comm->rank],
                          comm->sequence * 8 + (uint64_t)operation.collective,
                          memory_order_relaxed);
    operation.kind = comm->kind;
    operation.bucket = comm->bucket;
    operation.algorithm = comm->algorithm;
    *done = (Event){0};
    return comm->transport->start(comm, &operation, done);
}

Error comm_all_reduce(Comm *comm, void *buffer, size_t count, CommType type, CommOp op, Event after,
                      Event *done)
{
    return start(comm,
                 (Operation){.collective = COLLECTIVE_ALL_REDUCE,
                             .to = buffer,
                             .from = buffer,
                             .count = count,
                             .type = type,
                             .op = op,
                             .after = after},
                 done);
}

Error comm_broadcast(Comm *comm, void *buffer, size_t count, CommType type, int root, Event after,
                     Event *done)
{
    return start(comm,
                 (Operation){.collective = COLLECTIVE_BROADCAST,
                             .to = buffer,
                             .from = buffer,
                             .count = count,
                             .type = type,
                             .root = root,
                             .after = after},
                 done);
}

Error comm_all_gather(Comm *comm, void *to, const void *from, size_t count, CommType type,
                      Event after, Event *done)
{
    return start(comm,
                 (Operation){.collective = COLLECTIVE_ALL_GATHER,
                             .to = to,
                             .from = from,
                             .count = count,
                             .type = type,
                             .after = after},
                 done);
}

Error comm_reduce_scatter(Comm *comm, void *to, const void *from, size_t count, CommType type,
                          CommOp op, Event after, Event *done)
{
    return start(comm,
                 (Operation){.collective = COLLECTIVE_REDUCE_SCATTER,
                             .to = to,
                             .from = from,
                             .count = count,
                             .type = type,
                             .op = op,
                             .after = after},
                 done);
}

Error comm_barrier(Comm *comm)
{
    Event done;
    TRY(start(comm, (Operation){.collective = COLLECTIVE_BARRIER, .type = COMM_INT32}, &done));
    if (comm->device)
        return device_wait(comm->device, &done);
    return done.wait ? done.wait(done.source, done.ticket) : NULL;
}

void comm_in_background(Comm *comm)
{
    if (comm->background && comm->transport->in_background)
        comm->transport->in_background(comm);
}

int comm_take_spans(Comm *comm, CommSpan *spans, int most)
{
    return comm->transport->take_spans ? comm->transport->take_spans(comm, spans, most) : 0;
}
