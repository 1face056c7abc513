/* nccl.cpp: the calls of libnccl that the program makes, by memory that the ranks share.
 *
 * A communicator's memory is a memfd: a file without a name, gone when the last process that has it
 * open ends. NCCL's unique id says where to find it: /proc/PID/fd/FD of the process that made it.
 *
 * An operation waits on its stream until the communicator's earlier ones are done. Then it arrives:
 * it copies what this rank contributes into the shared memory. When all ranks have arrived it
 * completes: every rank reads what it needs, in rank order, so that all get the same bits. There
 * are two places for contributions, used in turn: a rank arrives at operation n + 2 after
 * completing n + 1, for which every rank arrived, so it had completed n and reads its place no
 * more.
 *
 *     rank 0   arrive #1 | complete #1, arrive #2 |                       | complete #2
 *     rank 1             | arrive #1, complete #1 | arrive #2, complete #2
 *
 * Streams run when the program waits for something (schedule.cpp). A rank that waits for nothing
 * would leave the others waiting for ever, which no GPU does: so each communicator has a thread
 * that sleeps until another rank has arrived where this one has not, and then runs operations until
 * this rank has arrived too. Which rank was late is a matter of time and not of the seed; a failure
 * that takes two ranks may need several runs of its seed to come again.
 *
 * Nonblocking communicators make the most of what the manual allows them: a call comes back "in
 * progress", its operation is put on the stream only when ncclCommGetAsyncError says "success", and
 * no other call is accepted before that.
 */
#include "ranks.h"

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace softcuda;

/* --- the mapping --------------------------------------------------------------------------- */

/* A memfd with room for everything; -1 on failure. Pages that are never touched cost nothing. */
static int make_memfd()
{
    int fd = memfd_create("softcuda-nccl", MFD_CLOEXEC);
    return fd >= 0 && ftruncate(fd, (off_t)SHARED_BYTES) == 0 ? fd : -1;
}

Mapping::Mapping(int fd)
{
    void *memory =
        mmap(nullptr, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        violation("no memory for a communicator");
    shared = (Shared *)memory;
}

Mapping::~Mapping()
{
    munmap(shared, SHARED_BYTES);
}

char *Mapping::place(int rank, std::uint64_t number) const
{
    return (char *)shared + PLACES_AT + ((std::size_t)rank * 2 + number % 2) * PLACE;
}

void Mapping::ring() const
{
    shared->bell++;
    syscall(SYS_futex, &shared->bell, FUTEX_WAKE, MOST_RANKS * 4, nullptr, nullptr, 0);
}

void Mapping::listen(std::uint32_t heard) const
{
    struct timespec most = {0, 20 * 1000 * 1000};
    syscall(SYS_futex, &shared->bell, FUTEX_WAIT, heard, &most, nullptr, 0);
}

namespace
{

/* ncclUniqueId. */
struct Id {
    char magic[16];
    std::int32_t pid, fd;
    std::uint64_t nonce;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId), "NCCL's id has room");
const char MAGIC[16] = "softcuda nccl";

std::vector<Communicator *> &communicators()
{
    static auto *made = new std::vector<Communicator *>;
    return *made;
}

thread_local int group_depth;
thread_local std::vector<std::pair<Communicator *, std::function<void()>>> grouped;
thread_local char last_text[256];

ncclResult_t fail(ncclResult_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
ncclResult_t fail(ncclResult_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_text, sizeof last_text, format, arguments);
    va_end(arguments);
    return status;
}

Communicator *communicator_of(const char *call, ncclComm_t handle)
{
    auto &all = communicators();
    auto found = std::find(all.begin(), all.end(), (Communicator *)handle);
    if (found == all.end())
        violation("%s gets a communicator that is none, or is destroyed", call);
    return *found;
}

template <class Body> ncclResult_t nccl_call(const char *name, Body body)
{
    Call call(name);
    if (call.refused != cudaSuccess)
        return fail(ncclUnhandledCudaError, "Cuda failure %d '%s'", (int)call.refused,
                    cudaGetErrorString(call.refused));
    if (call.injected || call.any_code)
        return fail(call.any_code ? ncclSystemError : (ncclResult_t)call.injected, "SOFTCUDA_FAIL");
    return body(call.stalled);
}

/* --- joining ------------------------------------------------------------------------------- */

bool all_joined(const Communicator &c)
{
    for (int r = 0; r < c.world; r++)
        if (!c.seat(r).joined.load(std::memory_order_acquire))
            return false;
    return true;
}

/* The stage after JOINING, if all ranks are there. */
void finish_joining(Communicator &c)
{
    if (!all_joined(c))
        return;
    c.stage = Communicator::READY;
    for (int r = 0; r < c.world; r++)
        for (int q = 0; q < r; q++)
            if (c.seat(r).gpu == c.seat(q).gpu)
                c.failure = fail(ncclInvalidUsage,
                                 "Duplicate GPU detected : rank %d and rank %d both on CUDA device "
                                 "%d",
                                 r, q, c.seat(r).gpu);
}

/* Another rank waits where this one could go on. */
bool wanted(const Communicator &c)
{
    std::uint64_t mine = c.arrived(c.rank);
    if (c.queued <= mine)
        return false;
    for (int r = 0; r < c.world; r++)
        if (c.arrived(r) > mine)
            return true;
    return false;
}

void serve_others(Communicator *c)
{
    prctl(PR_SET_NAME, "softcuda");
    for (bool closing = false; !closing;) {
        std::uint32_t heard = c->mapping->shared->bell;
        with_lock([&] {
            while (!c->closing && wanted(*c) && run_one())
                ;
            open_memory(NO_MEMORY);
            closing = c->closing;
        });
        if (!closing)
            c->mapping->listen(heard);
    }
}

void start_thread(Communicator *c)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->thread = std::thread(serve_others, c);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Communicator *make_communicator(std::shared_ptr<Mapping> mapping, int rank, int world, int gpu,
                                bool blocking, bool clique)
{
    auto *c = new Communicator;
    c->mapping = std::move(mapping);
    c->rank = rank;
    c->world = world;
    c->gpu = gpu;
    c->blocking = blocking;
    c->clique = clique;
    communicators().push_back(c);
    return c;
}

void take_seat(const Communicator &c)
{
    std::int32_t nobody = 0;
    if (!c.mapping->shared->world.compare_exchange_strong(nobody, c.world) && nobody != c.world)
        violation("rank %d joins a communicator of %d ranks, another rank one of %d", c.rank,
                  c.world, (int)nobody);
    c.seat(c.rank).gpu = c.gpu;
    if (c.seat(c.rank).joined.exchange(1, std::memory_order_acq_rel))
        violation("two ranks %d join one communicator", c.rank);
    c.mapping->ring();
}

/* --- starting operations -------------------------------------------------------------------- */

void put_on_stream(const Collective &collective, Stream *stream)
{
    collective.comm->queued = collective.number;
    queue(stream, {collective.text(), ALL_MEMORY, [collective] { return collective.attempt(); }});
    collective.comm->mapping->ring();
}

/* Calls made since the group began, or a single one. */
ncclResult_t launch_grouped()
{
    ncclResult_t status = ncclSuccess;
    for (auto &[comm, put] : grouped) {
        if (comm->blocking) {
            put();
        } else {
            comm->in_progress.push_back(put);
            status = ncclInProgress;
        }
    }
    grouped.clear();
    return status;
}

ncclResult_t start(Kind kind, const void *send, void *receive, std::size_t count,
                   ncclDataType_t type, int op, int root, ncclComm_t handle,
                   cudaStream_t stream_handle)
{
    const char *call = kind_names[kind];
    return nccl_call(call, [=](bool stalled) {
        Communicator *comm = communicator_of(call, handle);
        Stream *stream = stream_of(call, stream_handle);
        if (comm->failure != ncclSuccess)
            return comm->failure;
        if (comm->stage != Communicator::READY || !comm->in_progress.empty())
            return fail(ncclInvalidArgument, "Attempt to use communicator before the previous "
                                             "operation returned ncclSuccess");
        if (root < 0 || root >= comm->world)
            return fail(ncclInvalidArgument,
                        "%s : invalid root %d (root should be in the 0..%d "
                        "range)",
                        call, root, comm->world);
        if (stream->gpu != comm->gpu)
            violation("%s: a stream of GPU %d for the communicator of GPU %d", call, stream->gpu,
                      comm->gpu);
        if (comm->clique && comm->world > 1 && group_depth == 0)
            violation("%s for one of the %d GPUs of a thread outside a group: it waits for the "
                      "others, which are not called yet",
                      call, comm->world);
        if (count == 0)
            return ncclSuccess;
        Collective collective = {comm,           {kind, (std::int32_t)type, op, root, count},
                                 send,           receive,
                                 ++comm->issued, stalled};
        collective.check_buffers();
        grouped.push_back({comm, [=] { put_on_stream(collective, stream); }});
        return group_depth > 0 ? ncclSuccess : launch_grouped();
    });
}

/* Whether what was called last is done; moves it on. */
ncclResult_t progress(Communicator *c)
{
    if (c->failure != ncclSuccess)
        return c->failure;
    if (c->stage == Communicator::JOINING) {
        finish_joining(*c);
        return c->stage == Communicator::JOINING ? ncclInProgress : c->failure;
    }
    if (!c->in_progress.empty()) {
        if (random_below(2) == 0)
            return ncclInProgress;
        for (auto &put : c->in_progress)
            put();
        c->in_progress.clear();
    }
    if (c->stage == Communicator::FINALIZING && c->completed < c->queued) {
        run_some();
        return c->completed < c->queued ? ncclInProgress : ncclSuccess;
    }
    return ncclSuccess;
}

} // namespace

extern "C" {

/* --- making and ending communicators ------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    Id id = {};
    memcpy(id.magic, MAGIC, sizeof MAGIC);
    id.pid = getpid();
    id.fd = make_memfd();
    if (id.fd < 0)
        return fail(ncclSystemError, "no memfd");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    id.nonce =
        (std::uint64_t)now.tv_sec << 32 ^ (std::uint64_t)now.tv_nsec ^ (std::uint64_t)id.fd << 48;
    Mapping(id.fd).shared->nonce = id.nonce;
    memset(out, 0, sizeof *out);
    memcpy(out, &id, sizeof id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int world, ncclUniqueId unique_id, int rank,
                                    ncclConfig_t *config)
{
    return nccl_call("ncclCommInitRankConfig", [=](bool stalled) {
        if (config->size != sizeof *config || config->magic != 0xcafebeef)
            return fail(ncclInvalidArgument, "ncclConfig_t argument not initialized via "
                                             "NCCL_CONFIG_INITIALIZER");
        if (world < 1 || world > MOST_RANKS || rank < 0 || rank >= world)
            return fail(ncclInvalidArgument, "Invalid rank requested : %d/%d", rank, world);
        if (group_depth > 0)
            violation("ncclCommInitRankConfig in a group is not known here");
        Id id;
        memcpy(&id, &unique_id, sizeof id);
        if (memcmp(id.magic, MAGIC, sizeof MAGIC) != 0)
            return fail(ncclInvalidArgument, "an id that ncclGetUniqueId did not make");
        std::string path = "/proc/" + std::to_string(id.pid) + "/fd/" + std::to_string(id.fd);
        int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return fail(ncclSystemError, "the process that made the id is gone");
        auto mapping = std::make_shared<Mapping>(fd);
        close(fd);
        if (mapping->shared->nonce != id.nonce)
            return fail(ncclSystemError, "the process that made the id is gone");

        bool blocking = config->blocking != 0;
        Communicator *c = make_communicator(mapping, rank, world, current_gpu, blocking, false);
        *out = (ncclComm_t)c;
        if (!stalled)
            take_seat(*c);
        start_thread(c);
        if (!blocking)
            return ncclInProgress;
        for (int tries = 0; c->stage == Communicator::JOINING; tries++) {
            finish_joining(*c);
            pause(tries);
        }
        return c->failure;
    });
}

ncclResult_t ncclCommInitAll(ncclComm_t *out, int count, const int *gpus)
{
    return nccl_call("ncclCommInitAll", [=](bool) {
        if (count < 1 || count > MOST_RANKS)
            return fail(ncclInvalidArgument, "Invalid device count requested : %d", count);
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < i; j++)
                if (gpus[i] == gpus[j])
                    return fail(ncclInvalidUsage, "Duplicate GPU %d in the list", gpus[i]);
            if (gpus[i] < 0 || gpus[i] >= settings().gpus)
                return fail(ncclUnhandledCudaError, "no GPU %d", gpus[i]);
        }
        int fd = make_memfd();
        auto mapping = std::make_shared<Mapping>(fd);
        close(fd);
        for (int i = 0; i < count; i++) {
            Communicator *c = make_communicator(mapping, i, count, gpus[i], true, true);
            c->stage = Communicator::READY;
            take_seat(*c);
            out[i] = (ncclComm_t)c;
        }
        return ncclSuccess;
    });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle)
{
    return nccl_call("ncclCommFinalize", [=](bool) {
        Communicator *c = communicator_of("ncclCommFinalize", handle);
        if (c->stage != Communicator::READY || !c->in_progress.empty())
            return fail(ncclInvalidArgument, "Attempt to use communicator before the previous "
                                             "operation returned ncclSuccess");
        c->stage = Communicator::FINALIZING;
        if (!c->blocking)
            return ncclInProgress;
        run_until([=] { return c->completed >= c->queued; });
        return ncclSuccess;
    });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle)
{
    return nccl_call("ncclCommDestroy", [=](bool) {
        Communicator *c = communicator_of("ncclCommDestroy", handle);
        if (c->failure == ncclSuccess && c->stage != Communicator::JOINING)
            run_until([=] { return c->completed >= c->queued; });
        auto &all = communicators();
        all.erase(std::find(all.begin(), all.end(), c));
        c->closing = true;
        c->mapping->ring();
        if (c->thread.joinable())
            without_lock([=] { c->thread.join(); });
        delete c;
        return ncclSuccess;
    });
}

/* A failure that SOFTCUDA_FAIL gives this call is the communicator's, from then on. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *status)
{
    Call call("ncclCommGetAsyncError");
    if (call.refused != cudaSuccess)
        return ncclUnhandledCudaError;
    Communicator *c = communicator_of("ncclCommGetAsyncError", handle);
    if (call.injected || call.any_code)
        c->failure =
            fail(call.any_code ? ncclRemoteError : (ncclResult_t)call.injected, "SOFTCUDA_FAIL");
    *status = progress(c);
    return ncclSuccess;
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_text;
}

const char *ncclGetErrorString(ncclResult_t status)
{
    switch (status) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
        return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
        return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    case ncclInProgress:
        return "NCCL operation in progress";
    default:
        return "unknown result code";
    }
}

/* --- operations ---------------------------------------------------------------------------- */

ncclResult_t ncclGroupStart()
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    return nccl_call("ncclGroupEnd", [](bool) {
        if (group_depth == 0)
            return fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
        return --group_depth > 0 ? ncclSuccess : launch_grouped();
    });
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return start(ALL_REDUCE, send, receive, count, type, op, 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return start(BROADCAST, send, receive, count, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return start(REDUCE, send, receive, count, type, op, root, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return start(ALL_GATHER, send, receive, count, type, ncclSum, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return start(REDUCE_SCATTER, send, receive, count, type, op, 0, comm, stream);
}

} // extern "C"
