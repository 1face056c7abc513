/* collective.cpp: an operation of the software NCCL: arriving, completing, the arithmetic. */
#include "ranks.h"

#include <algorithm>
#include <cstring>

namespace softcuda
{

namespace
{

std::size_t type_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclInt32:
    case ncclFloat32:
        return 4;
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        violation("NCCL: data type %d is not known here", (int)type);
    }
}

template <class T> T combined(T a, T b, ncclRedOp_t op)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return std::max(a, b);
    case ncclMin:
        return std::min(a, b);
    case ncclSum:
    case ncclAvg:
        return a + b;
    default:
        violation("NCCL: operation %d is not known here", (int)op);
    }
}

/* to[0..count) = the reduction of everyone's contribution from element `first` */
template <class T>
void reduce(const Communicator &c, std::uint64_t number, T *to, std::size_t first,
            std::size_t count, ncclRedOp_t op)
{
    const T *from[MOST_RANKS];
    for (int r = 0; r < c.world; r++)
        from[r] = (const T *)c.mapping->place(r, number) + first;
    for (std::size_t i = 0; i < count; i++) {
        T sum = from[0][i];
        for (int r = 1; r < c.world; r++)
            sum = combined(sum, from[r][i], op);
        to[i] = op == ncclAvg ? (T)(sum / (T)c.world) : sum;
    }
}

void reduce_any(const Communicator &c, std::uint64_t number, void *to, std::size_t first,
                const Request &request)
{
    auto op = (ncclRedOp_t)request.op;
    switch (request.type) {
    case ncclInt32:
        return reduce(c, number, (std::int32_t *)to, first, request.count, op);
    case ncclUint64:
        return reduce(c, number, (std::uint64_t *)to, first, request.count, op);
    case ncclFloat32:
        return reduce(c, number, (float *)to, first, request.count, op);
    default:
        return reduce(c, number, (double *)to, first, request.count, op);
    }
}

} // namespace

/* --- how many bytes ------------------------------------------------------------------------- */

std::size_t Collective::row() const
{
    return request.count * type_bytes((ncclDataType_t)request.type);
}

bool Collective::at_root() const
{
    return comm->rank == request.root;
}

std::size_t Collective::sent() const
{
    if (request.kind == BROADCAST && !at_root())
        return 0;
    return request.kind == REDUCE_SCATTER ? row() * (std::size_t)comm->world : row();
}

std::size_t Collective::received() const
{
    if (request.kind == REDUCE && !at_root())
        return 0;
    return request.kind == ALL_GATHER ? row() * (std::size_t)comm->world : row();
}

/* --- what is done ---------------------------------------------------------------------------- */

std::string Collective::text() const
{
    return std::string(kind_names[request.kind]) + " #" + std::to_string(number) + " on rank " +
           std::to_string(comm->rank);
}

void Collective::check_buffers() const
{
    const char *call = kind_names[request.kind];
    check_memory(call, "send buffer", comm->gpu, send, sent());
    check_memory(call, "receive buffer", comm->gpu, receive, received());
    if (sent() > PLACE)
        violation("%s of %zu bytes: at most %zu are possible here", call, sent(), PLACE);
    auto *from = (const char *)send, *to = (const char *)receive;
    bool overlap = from < to + received() && to < from + sent();
    std::size_t own_row = row() * (std::size_t)comm->rank;
    bool in_place = request.kind == ALL_GATHER       ? from == to + own_row
                    : request.kind == REDUCE_SCATTER ? to == from + own_row
                                                     : from == to;
    if (overlap && !in_place)
        violation("%s: its buffers overlap without being in place", call);
}

/* Ranks that ask for different things would hang, or get wrong results. */
void Collective::check_requests() const
{
    for (int r = 0; r < comm->world; r++) {
        const Request &other = comm->seat(r).request[number % 2];
        if (memcmp(&other, &request, sizeof request) != 0)
            violation("NCCL operation #%llu: rank %d calls %s with count %llu, type %d, operation "
                      "%d, root %d, but rank %d %s with %llu, %d, %d, %d",
                      (unsigned long long)number, comm->rank, kind_names[request.kind],
                      (unsigned long long)request.count, request.type, request.op, request.root, r,
                      kind_names[other.kind], (unsigned long long)other.count, other.type, other.op,
                      other.root);
    }
}

void Collective::arrive() const
{
    memcpy(comm->mapping->place(comm->rank, number), send, sent());
    comm->seat(comm->rank).request[number % 2] = request;
    comm->seat(comm->rank).arrived.store(number, std::memory_order_release);
    comm->mapping->ring();
}

void Collective::complete() const
{
    const Mapping &mapping = *comm->mapping;
    switch (request.kind) {
    case ALL_REDUCE:
        return reduce_any(*comm, number, receive, 0, request);
    case REDUCE:
        if (at_root())
            reduce_any(*comm, number, receive, 0, request);
        return;
    case REDUCE_SCATTER:
        return reduce_any(*comm, number, receive, request.count * (std::size_t)comm->rank, request);
    case BROADCAST:
        memcpy(receive, mapping.place(request.root, number), row());
        return;
    case ALL_GATHER:
        for (int r = 0; r < comm->world; r++)
            memcpy((char *)receive + (std::size_t)r * row(), mapping.place(r, number), row());
    }
}

bool Collective::attempt() const
{
    if (comm->completed != number - 1 || stalled) /* an earlier one is on another stream */
        return false;
    if (comm->arrived(comm->rank) < number)
        arrive();
    for (int r = 0; r < comm->world; r++)
        if (comm->arrived(r) < number)
            return false;
    check_requests();
    complete();
    comm->completed = number;
    return true;
}

} // namespace softcuda
