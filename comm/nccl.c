/* nccl.c: collectives by NCCL, NVIDIA's library: one GPU per rank, and the GPUs themselves carry
 * the data over NVLink, PCIe or a network.
 *
 * Each rank has a second stream for communication, of high priority, so that a collective gets its
 * share of the GPU while backward fills the rest. An operation is a wait on that stream for what
 * the compute stream has produced, the collective, and an event:
 *
 *     compute stream   ... backward | after |  ... more backward ...   | waits for done | update
 *     comm stream                   | waits for after | all-reduce | done |
 *
 * The host only queues all this and never waits in a step. So it cannot notice either when a
 * collective gets stuck because a rank has died or called something else: a watchdog thread looks
 * on, and where an operation makes no progress for the time-out, or NCCL reports an error, it says
 * which rank, operation and sequence number, and ends the process. The supervisor ends the others.
 * (ncclCommAbort would let the rank go on, but may itself hang.)
 *
 * Communicators are nonblocking: a call may come back "in progress", and is then polled with a
 * deadline, so that nothing here waits for ever.
 *
 * All that this file asks of NCCL and CUDA, so that tests/softcuda can stand in for them:
 *   ncclGetUniqueId, ncclCommInitRankConfig, ncclCommGetAsyncError, ncclCommFinalize,
 *   ncclCommDestroy, ncclAllReduce, ncclBroadcast, ncclAllGather, ncclReduceScatter,
 *   ncclGetErrorString, ncclGetLastError;
 *   cudaMalloc, cudaFree, cudaMemsetAsync, cudaDeviceGetStreamPriorityRange,
 *   cudaStreamCreateWithPriority, cudaStreamDestroy, cudaStreamSynchronize, cudaStreamWaitEvent,
 *   cudaEventCreateWithFlags, cudaEventDestroy, cudaEventRecord, cudaEventQuery,
 *   cudaEventSynchronize.
 * nccl_peers.c is the other user of NCCL: the devices of one process.
 */
#include "comm/transport.h"

#ifdef TRAINER_NCCL

#include "base/clock.h"
#include "base/place.h"
#include "base/thread.h"
#include "comm/nccl_error.h"
#include "device/cuda.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(COMM_NCCL_ID_BYTES == sizeof(ncclUniqueId), "the group has room for NCCL's id");

/* Operations that may be under way: a caller that starts more waits for the oldest. */
#define FLIGHTS 256

/* How often the watchdog looks. */
#define WATCH_S 0.25

/* An operation under way. */
typedef struct Flight {
    cudaEvent_t done;
    bool queued; /* `done` has been recorded */
    Collective collective;
    uint64_t sequence;
    size_t count; /* elements */
    int bucket;
} Flight;

typedef struct Nccl {
    ncclComm_t nccl;
    cudaStream_t stream;
    void *token;        /* GPU memory: what a barrier reduces */
    void **allocations; /* by comm_alloc: [allocation_count] */
    int allocation_count;
    bool failed;

    pthread_mutex_t lock;        /* guards what follows */
    Flight flights[FLIGHTS];     /* operation n (from 0) is flights[n % FLIGHTS] */
    uint64_t started, completed; /* operations */

    pthread_t watchdog;
    bool watched;
    Word closing;
} Nccl;

static Nccl *nccl_of(const Comm *comm)
{
    return comm->state;
}

/* --- deadlines ---------------------------------------------------------------------------- */

/* Time awake (0: without end): that during which this process or the whole machine was stopped does
 * not count, so that a rank which is stopped and continued does not find its time used up. */
typedef struct Deadline {
    double left_ms, looked_ms;
} Deadline;

static Deadline deadline_after(double timeout_s)
{
    return (Deadline){timeout_s > 0 ? timeout_s * 1e3 : HUGE_VAL, clock_ms()};
}

/* To be asked a few times a second; a longer gap means that the process was stopped. */
static bool deadline_passed(Deadline *deadline)
{
    double now_ms = clock_ms(), gap_ms = now_ms - deadline->looked_ms;
    deadline->looked_ms = now_ms;
    deadline->left_ms -= gap_ms < 4e3 * WATCH_S ? gap_ms : 1e3 * WATCH_S;
    return deadline->left_ms < 0;
}

static void sleep_ms(double ms)
{
    struct timespec time = {.tv_nsec = (long)(ms * 1e6)};
    nanosleep(&time, NULL);
}

/* --- failure ------------------------------------------------------------------------------ */

/* An error unless `status` is, or within the time-out becomes, a success. The rest is a printf
 * format for what was asked. */
static Error settle(ncclComm_t nccl, ncclResult_t status, double timeout_s, int line,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

static Error settle(ncclComm_t nccl, ncclResult_t status, double timeout_s, int line,
                    const char *format, ...)
{
    Deadline deadline = deadline_after(timeout_s);
    for (int looks = 0; status == ncclInProgress; looks++) {
        /* most calls are through within microseconds, the first ones take long */
        if (looks < 100)
            sched_yield();
        else
            sleep_ms(0.2);
        ncclResult_t answer = ncclCommGetAsyncError(nccl, &status);
        if (answer != ncclSuccess)
            status = answer;
        if (deadline_passed(&deadline))
            break;
    }
    if (status == ncclSuccess)
        return NULL;

    char asked[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(asked, sizeof asked, format, arguments);
    va_end(arguments);
    if (status == ncclInProgress)
        return error_make_at(__FILE__, line,
                             "%s: not done after %g s: did every rank come this far?", asked,
                             timeout_s);
    return nccl_error(nccl, status, __FILE__, line, "%s", asked);
}

/* Returns from the calling function, which returns an Error, if `call` fails. */
#define TRY_NCCL(comm, call, ...)                                                                  \
    TRY(settle(nccl_of(comm)->nccl, call, (comm)->timeout_s, __LINE__, __VA_ARGS__))

/* --- the watchdog ------------------------------------------------------------------------- */

static void describe(const Flight *flight, char *text, size_t room)
{
    char bucket[32] = "";
    if (flight->bucket >= 0)
        snprintf(bucket, sizeof bucket, "bucket %d, ", flight->bucket);
    snprintf(text, room, "%s #%llu (%s%zu elements)", collective_name(flight->collective),
             (unsigned long long)flight->sequence, bucket, flight->count);
}

/* Which ranks have not yet called operation `sequence`. */
static void name_late_ranks(const Group *group, uint64_t sequence, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < group->world && used < room; rank++) {
        uint64_t theirs = atomic_load(&group->last[rank]) / 8;
        if (theirs < sequence)
            used += (size_t)snprintf(text + used, room - used, "; rank %d has only come to #%llu",
                                     rank, (unsigned long long)theirs);
    }
}

/* Says what is wrong, where nobody else can any more, and ends this rank. */
static void end_process(const Comm *comm, const char *what)
{
    fprintf(stderr, "trainer: rank %d: %s\n", comm->rank, what);
    _exit(1);
}

/* Notes which operations have finished; true if one is under way, which is then copied. */
static bool oldest_under_way(Nccl *nccl, uint64_t *completed, Flight *oldest)
{
    pthread_mutex_lock(&nccl->lock);
    while (nccl->completed < nccl->started) {
        const Flight *flight = &nccl->flights[nccl->completed % FLIGHTS];
        if (!flight->queued || cudaEventQuery(flight->done) != cudaSuccess)
            break;
        nccl->completed++;
    }
    *completed = nccl->completed;
    bool under_way = nccl->completed < nccl->started;
    if (under_way)
        *oldest = nccl->flights[nccl->completed % FLIGHTS];
    pthread_mutex_unlock(&nccl->lock);
    return under_way;
}

static void *watch(void *argument)
{
    Comm *comm = argument;
    Nccl *nccl = nccl_of(comm);
    bool hurried = comm->timeout_s > 0 && comm->timeout_s < 4 * WATCH_S;
    double look_s = hurried ? comm->timeout_s / 4 : WATCH_S;
    Deadline deadline = deadline_after(comm->timeout_s);
    uint64_t seen = 0, completed = 0;
    Flight oldest = {0};
    char what[128], late[512], text[1024];

    place_name("watchdog");
    if (cuda_enter(comm->device))
        return NULL; /* the main thread meets the same failure */
    while (!word_wait(&nccl->closing, 1, 0, look_s)) {
        bool under_way = oldest_under_way(nccl, &completed, &oldest);
        if (under_way)
            describe(&oldest, what, sizeof what);
        ncclResult_t state = ncclSuccess;
        if (ncclCommGetAsyncError(nccl->nccl, &state) == ncclSuccess && state != ncclSuccess &&
            state != ncclInProgress)
            end_process(comm, nccl_error(nccl->nccl, state, __FILE__, __LINE__, "%s",
                                         under_way ? what : "between operations"));
        if (!under_way || completed != seen)
            deadline = deadline_after(comm->timeout_s);
        else if (deadline_passed(&deadline)) {
            name_late_ranks(comm->group, oldest.sequence, late, sizeof late);
            snprintf(text, sizeof text, "%s has not finished after %g s%s", what, comm->timeout_s,
                     late);
            end_process(comm, text);
        }
        seen = completed;
    }
    return NULL;
}

/* --- operations --------------------------------------------------------------------------- */

static ncclResult_t call_nccl(const Comm *comm, const Operation *operation)
{
    static const ncclDataType_t types[] = {
        [COMM_FLOAT] = ncclFloat32,
        [COMM_DOUBLE] = ncclFloat64,
        [COMM_INT32] = ncclInt32,
        [COMM_UINT64] = ncclUint64,
    };
    static const ncclRedOp_t ops[] = {
        [COMM_SUM] = ncclSum, [COMM_AVG] = ncclAvg,   [COMM_MIN] = ncclMin,
        [COMM_MAX] = ncclMax, [COMM_PROD] = ncclProd,
    };
    const Nccl *nccl = nccl_of(comm);
    ncclDataType_t type = types[operation->type];
    ncclRedOp_t op = ops[operation->op];
    const void *from = operation->from;
    void *to = operation->to;
    size_t count = operation->count;
    switch (operation->collective) {
    case COLLECTIVE_ALL_REDUCE:
        return ncclAllReduce(from, to, count, type, op, nccl->nccl, nccl->stream);
    case COLLECTIVE_BROADCAST:
        return ncclBroadcast(from, to, count, type, operation->root, nccl->nccl, nccl->stream);
    case COLLECTIVE_ALL_GATHER:
        return ncclAllGather(from, to, count, type, nccl->nccl, nccl->stream);
    case COLLECTIVE_REDUCE_SCATTER:
        return ncclReduceScatter(from, to, count, type, op, nccl->nccl, nccl->stream);
    case COLLECTIVE_BARRIER:
        return ncclAllReduce(nccl->token, nccl->token, 1, ncclInt32, ncclSum, nccl->nccl,
                             nccl->stream);
    }
    return ncclInvalidArgument;
}

/* NCCL moves the bytes where nobody can count them. These are the counts of its ring algorithm,
 * which are also the fewest possible: a rank passes on (world - 1) / world of the buffer, once to
 * reduce and once to spread the result (Patarasuk and Yuan, 2009). */
static void count_bytes(const Comm *comm, const Operation *operation)
{
    Counters *counters = device_counters(comm->device);
    uint64_t world = (uint64_t)comm->group->world;
    uint64_t bytes = operation->count * comm_type_bytes(operation->type);
    uint64_t sent = 0, received = 0;
    switch (operation->collective) {
    case COLLECTIVE_ALL_REDUCE:
        sent = received = 2 * bytes * (world - 1) / world;
        break;
    case COLLECTIVE_BROADCAST: /* from the root along the ring, to the rank before it */
        received = comm->rank == operation->root ? 0 : bytes;
        sent = (comm->rank + 1) % (int)world == operation->root ? 0 : bytes;
        break;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER: /* `count` is one rank's row */
        sent = received = bytes * (world - 1);
        break;
    case COLLECTIVE_BARRIER:
        break;
    }
    counters->collectives[operation->kind]++;
    counters->sent[operation->kind] += sent;
    counters->received[operation->kind] += received;
}

/* Takes the place of the operation FLIGHTS before, which is done unless the host is that far ahead.
 */
static Error take_flight(Comm *comm, const Operation *operation, Flight **flight)
{
    Nccl *nccl = nccl_of(comm);
    *flight = &nccl->flights[nccl->started % FLIGHTS];
    if (nccl->started >= FLIGHTS)
        TRY_CUDA(cuda_gpu(comm->device), cudaEventSynchronize((*flight)->done),
                 "waiting for an earlier collective");
    pthread_mutex_lock(&nccl->lock);
    if (nccl->started >= FLIGHTS && nccl->completed <= nccl->started - FLIGHTS)
        nccl->completed = nccl->started - FLIGHTS + 1;
    (*flight)->queued = false;
    (*flight)->collective = operation->collective;
    (*flight)->sequence = comm->sequence;
    (*flight)->count = operation->count;
    (*flight)->bucket = operation->bucket;
    nccl->started++;
    pthread_mutex_unlock(&nccl->lock);
    return NULL;
}

/* Event.wait of a barrier, which alone makes the host wait. The watchdog sees to it that it ends.
 */
static Error wait_for_flight(void *source, uint64_t ticket)
{
    const Comm *comm = source;
    const Flight *flight = &nccl_of(comm)->flights[ticket % FLIGHTS];
    TRY_CUDA(cuda_gpu(comm->device), cudaEventSynchronize(flight->done), "waiting for a barrier");
    return NULL;
}

static Error queue(Comm *comm, const Operation *operation, Event *done)
{
    Nccl *nccl = nccl_of(comm);
    int gpu = cuda_gpu(comm->device);
    const Event *after = &operation->after;
    Flight *flight;
    TRY(cuda_enter(comm->device));
    if (after->wait)
        TRY(after->wait(after->source, after->ticket));
    if (after->handle)
        TRY_CUDA(gpu, cudaStreamWaitEvent(nccl->stream, after->handle, 0),
                 "letting communication wait for computation");
    uint64_t ticket = nccl->started;
    TRY(take_flight(comm, operation, &flight));
    TRY_NCCL(comm, call_nccl(comm, operation), "rank %d: %s #%llu of %zu elements", comm->rank,
             collective_name(operation->collective), (unsigned long long)comm->sequence,
             operation->count);
    TRY_CUDA(gpu, cudaEventRecord(flight->done, nccl->stream), "marking a collective");
    pthread_mutex_lock(&nccl->lock);
    flight->queued = true;
    pthread_mutex_unlock(&nccl->lock);

    *done = (Event){.time_ms = clock_ms(), .handle = flight->done};
    if (operation->collective == COLLECTIVE_BARRIER) {
        done->wait = wait_for_flight;
        done->source = comm;
        done->ticket = ticket;
    }
    count_bytes(comm, operation);
    return NULL;
}

static Error nccl_start(Comm *comm, const Operation *operation, Event *done)
{
    Error error = queue(comm, operation, done);
    if (error)
        nccl_of(comm)->failed = true;
    return error;
}

/* --- memory ------------------------------------------------------------------------------- */

static Error nccl_alloc(Comm *comm, size_t bytes, void **memory)
{
    Nccl *nccl = nccl_of(comm);
    int gpu = cuda_gpu(comm->device);
    void **allocations =
        realloc(nccl->allocations, (size_t)(nccl->allocation_count + 1) * sizeof *allocations);
    if (!allocations)
        return error_make("no memory");
    nccl->allocations = allocations;
    TRY(cuda_enter(comm->device));
    TRY_CUDA(gpu, cudaMalloc(memory, bytes), "allocating %zu bytes for the model of rank %d", bytes,
             comm->rank);
    allocations[nccl->allocation_count++] = *memory;
    TRY_CUDA(gpu, cudaMemsetAsync(*memory, 0, bytes, nccl->stream), "zeroing %zu bytes", bytes);
    TRY_CUDA(gpu, cudaStreamSynchronize(nccl->stream), "zeroing %zu bytes", bytes);
    return NULL;
}

/* --- opening and closing ------------------------------------------------------------------ */

static void stop_watchdog(Nccl *nccl)
{
    if (!nccl->watched)
        return;
    word_set(&nccl->closing, 1);
    pthread_join(nccl->watchdog, NULL);
}

/* In order only where nothing has failed: a collective that hangs would hang this too, and the
 * process is about to end. */
static void close_group(Comm *comm)
{
    Nccl *nccl = nccl_of(comm);
    cudaStreamSynchronize(nccl->stream); /* still under the watchdog's eyes */
    stop_watchdog(nccl);
    if (settle(nccl->nccl, ncclCommFinalize(nccl->nccl), comm->timeout_s, __LINE__,
               "rank %d: leaving NCCL's group", comm->rank))
        return;
    ncclCommDestroy(nccl->nccl);
    for (int i = 0; i < FLIGHTS; i++)
        cudaEventDestroy(nccl->flights[i].done);
    for (int i = 0; i < nccl->allocation_count; i++)
        cudaFree(nccl->allocations[i]);
    cudaStreamDestroy(nccl->stream);
}

static void nccl_close(Comm *comm)
{
    Nccl *nccl = nccl_of(comm);
    if (nccl->failed || device_failure(comm->device) || cuda_enter(comm->device))
        stop_watchdog(nccl);
    else
        close_group(comm);
    pthread_mutex_destroy(&nccl->lock);
    free(nccl->allocations);
    free(nccl);
}

/* Rank 0 makes NCCL's id, by which ranks find each other, and leaves it in the shared memory. Not
 * before the fork: making it starts a thread and opens a socket. */
static Error exchange_id(Comm *comm, ncclUniqueId *id)
{
    Group *group = comm->group;
    if (comm->rank == 0) {
        ncclResult_t status = ncclGetUniqueId(id);
        if (status != ncclSuccess)
            return nccl_error(NULL, status, __FILE__, __LINE__, "rank 0: making NCCL's id");
        memcpy(group->nccl_id, id, sizeof *id);
        word_set(group->nccl_ready, 1);
        return NULL;
    }
    if (!word_wait(group->nccl_ready, 1, 0, comm->timeout_s))
        return error_make("rank %d: waited %g s for rank 0 to begin with NCCL", comm->rank,
                          comm->timeout_s);
    memcpy(id, group->nccl_id, sizeof *id);
    return NULL;
}

static Error join_group(Comm *comm)
{
    Nccl *nccl = nccl_of(comm);
    int gpu = cuda_gpu(comm->device), least, greatest;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclUniqueId id;
    TRY(exchange_id(comm, &id));
    TRY(cuda_enter(comm->device));
    TRY_CUDA(gpu, cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "asking for its stream priorities");
    TRY_CUDA(gpu, cudaStreamCreateWithPriority(&nccl->stream, cudaStreamNonBlocking, greatest),
             "making a stream for communication");
    for (int i = 0; i < FLIGHTS; i++)
        TRY_CUDA(gpu, cudaEventCreateWithFlags(&nccl->flights[i].done, cudaEventDisableTiming),
                 "making an event");
    /* Before TRY_NCCL, which may read nccl->nccl before it makes the call. */
    ncclResult_t joining =
        ncclCommInitRankConfig(&nccl->nccl, comm->group->world, id, comm->rank, &config);
    TRY_NCCL(comm, joining, "rank %d: joining NCCL's group of %d", comm->rank, comm->group->world);
    return nccl_alloc(comm, sizeof(int32_t), &nccl->token);
}

static Error start_watchdog(Comm *comm)
{
    Nccl *nccl = nccl_of(comm);
    int failed = thread_create(&nccl->watchdog, watch, comm);
    if (failed)
        return error_make("rank %d: cannot make a watchdog thread: %s", comm->rank,
                          strerror(failed));
    nccl->watched = true;
    return NULL;
}

Error nccl_open_seat(Comm *comm)
{
    static const Transport transport = {
        .name = "NCCL",
        .alloc = nccl_alloc,
        .start = nccl_start,
        .close = nccl_close,
    };
    if (!comm->device || device_kind(comm->device) != DEVICE_CUDA)
        return error_make("NCCL works between GPUs only: use --device=cuda, or --comm=shm");
    Nccl *nccl = aligned_alloc(_Alignof(Nccl), sizeof *nccl);
    if (!nccl)
        return error_make("no memory for a communicator");
    memset(nccl, 0, sizeof *nccl);
    pthread_mutex_init(&nccl->lock, NULL);
    comm->state = nccl;
    comm->transport = &transport;
    Error error = join_group(comm);
    if (!error)
        error = start_watchdog(comm);
    if (error) {
        nccl->failed = true;
        nccl_close(comm);
    }
    return error;
}

#else

Error nccl_open_seat(Comm *comm)
{
    (void)comm;
    return error_make("this program was built without NCCL: install libnccl-dev, then run make "
                      "again; or use --comm=shm");
}

#endif
