/* ranks.h: what the two files of the software NCCL share: the memory that ranks have in common, a
 * communicator (nccl.cpp), and an operation (collective.cpp). nccl.cpp says how they work together.
 */
#ifndef SOFTCUDA_RANKS_H
#define SOFTCUDA_RANKS_H

#include "softcuda.h"

#include <atomic>
#include <memory>
#include <nccl.h>
#include <thread>

namespace softcuda
{

/* --- what the ranks share ------------------------------------------------------------------ */

constexpr int MOST_RANKS = 64;
constexpr std::size_t PLACE = (std::size_t)256 << 20; /* most bytes that a rank contributes */

enum Kind : std::uint32_t { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER };
inline const char *const kind_names[] = {"ncclAllReduce", "ncclBroadcast", "ncclReduce",
                                         "ncclAllGather", "ncclReduceScatter"};

/* What a rank asked for. */
struct Request {
    Kind kind;
    std::int32_t type, op, root;
    std::uint64_t count; /* as the call defines it */
};

struct Seat {
    std::atomic<std::uint32_t> joined;
    std::int32_t gpu;
    std::atomic<std::uint64_t> arrived; /* operations */
    Request request[2];                 /* of operation n: request[n % 2] */
};

struct Shared {
    std::uint64_t nonce;             /* of the id */
    std::atomic<std::uint32_t> bell; /* rung when anything below has changed */
    std::atomic<std::int32_t> world;
    Seat seat[MOST_RANKS];
};

constexpr std::size_t PLACES_AT = (sizeof(Shared) + 4095) / 4096 * 4096;
constexpr std::size_t SHARED_BYTES = PLACES_AT + MOST_RANKS * 2 * PLACE;

/* The mapping; each communicator of this process has its own, or shares it with its clique. */
struct Mapping {
    Shared *shared;

    explicit Mapping(int fd); /* of the memfd, which may be closed afterwards */
    ~Mapping();
    Mapping(const Mapping &) = delete;

    /* Where a rank leaves what it contributes to an operation. */
    char *place(int rank, std::uint64_t number) const;
    void ring() const;
    /* Sleeps until the bell has been rung since it was `heard`, a moment at most. */
    void listen(std::uint32_t heard) const;
};

/* --- communicators ------------------------------------------------------------------------- */

struct Communicator {
    std::shared_ptr<Mapping> mapping;
    int rank, world, gpu;
    bool blocking;
    bool clique; /* made by ncclCommInitAll: all ranks are one thread's */
    enum { JOINING, READY, FINALIZING } stage = JOINING;
    ncclResult_t failure = ncclSuccess;
    std::uint64_t issued = 0, queued = 0, completed = 0; /* operations */
    std::vector<std::function<void()>> in_progress;      /* not yet on their streams */
    std::thread thread;
    bool closing = false;

    Seat &seat(int r) const
    {
        return mapping->shared->seat[r];
    }
    std::uint64_t arrived(int r) const
    {
        return seat(r).arrived.load(std::memory_order_acquire);
    }
};

/* --- an operation ----------------------------------------------------------------------------- */

struct Collective {
    Communicator *comm;
    Request request;
    const void *send;
    void *receive;
    std::uint64_t number; /* from 1 */
    bool stalled;

    std::string text() const; /* "ncclAllReduce #5 on rank 1" */
    /* A violation if the buffers are not this rank's GPU's, too small, or in each other's way. */
    void check_buffers() const;
    /* What its stream does with it: arrives when its turn has come, completes when all have arrived
     * and returns true then. */
    bool attempt() const;

  private:
    std::size_t row() const;
    bool at_root() const;
    std::size_t sent() const;     /* bytes that this rank contributes, */
    std::size_t received() const; /*   and gets */
    void check_requests() const;
    void arrive() const;
    void complete() const;
};

} // namespace softcuda

#endif
