/* shm.c: collectives through shared memory: every rank sees every rank's heap.
 *
 * An operation has three stages on each rank:
 *
 *     arrive   "my buffer is ready": the rank says so and waits until everyone has
 *     work     the rank does its share, reading and writing the others' heaps directly
 *     finish   "I touch nobody's buffer any more": says so and waits until everyone has
 *
 * In an all-reduce a rank's share is one slice of the buffer: it adds up the slice over all heaps,
 * in rank order, and writes the sum back to all of them. All ranks work at once on different
 * slices, and as each element is summed by one rank, all end up with the same bits. Without the
 * third stage a fast rank could start its next backward pass in a buffer that a slow neighbour
 * still reads.
 *
 * Two threads of a rank can carry its operations: the communication thread, while the main thread
 * computes, and the main thread itself once it has nothing left but to wait. Whoever holds the lock
 * takes the oldest operation one stage further; both wait without it.
 */
#include "comm/shm.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/place.h"
#include "base/thread.h"
#include "comm/reduce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operations that may be under way; a caller that starts more waits for the oldest. */
#define QUEUE 256

/* How long a rank with a core of its own looks before it sleeps: about what the slower of two ranks
 * is late by in a small step. */
#define SPIN_US 200.0

/* Elements reduced at a time: so few that the partial sum stays in the first-level cache. */
#define CHUNK_BYTES 8192

/* What an operation must agree on over all ranks. Offsets are into the symmetric heap. */
typedef struct Asked {
    Collective collective;
    CommType type;
    CommOp op;
    int root;
    size_t count, to, from;
} Asked;

/* One rank's place in the shared memory. */
typedef struct Seat {
    Word arrived; /* operations this rank has arrived at */
    Word done;    /* operations this rank has finished its share of */
    Asked asked;  /* the one it arrived at last: written before `arrived`, read after it */
    /* bytes that left and reached this rank's heap; counted by whoever moved them */
    _Atomic uint64_t sent[BYTES_KINDS], received[BYTES_KINDS];
} Seat;

typedef enum { STAGE_ARRIVE, STAGE_WORK, STAGE_FINISH } Stage;

typedef struct Shm {
    unsigned char *heap; /* this rank's */
    size_t heap_used;
    double spin_us;
    const ShmStaging *staging; /* NULL: buffers are in the heap */

    Operation queue[QUEUE]; /* operation n (from 1) lies in queue[n % QUEUE] */
    Word started;           /* by the caller */
    Word permitted;         /* how many the communication thread may take on */
    Word completed;

    pthread_mutex_t lock;  /* guards what follows, and the work on the oldest operation */
    Stage stage;           /* that the oldest operation is to enter or to pass */
    CommSpan spans[QUEUE]; /* of operation n: spans[n % QUEUE] */
    uint32_t spans_taken;
    char failure[1024];
    _Alignas(64) unsigned char partial[CHUNK_BYTES];

    uint64_t sent_counted[BYTES_KINDS], received_counted[BYTES_KINDS]; /* by the caller */
    pthread_t thread;
    bool thread_runs;
    atomic_bool closing;
} Shm;

size_t shm_seats_bytes(int world)
{
    return (size_t)world * sizeof(Seat);
}

static Seat *seat_of(const Comm *comm, int rank)
{
    return (Seat *)comm->group->seats + rank;
}

static unsigned char *heap_of(const Comm *comm, int rank)
{
    return comm->group->heaps + (size_t)rank * comm->group->bytes_per_rank;
}

/* --- work --------------------------------------------------------------------------------- */

/* Counts bytes that this rank has just moved from one rank's heap to another's. */
static void count_bytes(const Comm *comm, BytesKind kind, int from, int to, size_t bytes)
{
    if (from == to)
        return;
    atomic_fetch_add_explicit(&seat_of(comm, from)->sent[kind], bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&seat_of(comm, to)->received[kind], bytes, memory_order_relaxed);
}

/* Reduces `bytes` at offset `from` of all heaps, in rank order, and writes the result to offset
 * `to` of rank `only`, or of every rank if that is negative. */
static void reduce(Comm *comm, const Operation *operation, size_t from, size_t to, size_t bytes,
                   int only)
{
    Shm *shm = comm->state;
    int world = comm->group->world;
    size_t element = comm_type_bytes(operation->type);
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        size_t size = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        memcpy(shm->partial, heap_of(comm, 0) + from + at, size);
        for (int rank = 1; rank < world; rank++)
            reduce_combine(shm->partial, heap_of(comm, rank) + from + at, size / element,
                           operation->type, operation->op);
        if (operation->op == COMM_AVG)
            reduce_divide(shm->partial, size / element, operation->type, world);
        for (int rank = 0; rank < world; rank++)
            if (only < 0 || only == rank)
                memcpy(heap_of(comm, rank) + to + at, shm->partial, size);
    }
    for (int rank = 0; rank < world; rank++) {
        count_bytes(comm, operation->kind, rank, comm->rank, bytes);
        if (only < 0)
            count_bytes(comm, operation->kind, comm->rank, rank, bytes);
    }
}

/* Copies `bytes` from a rank's heap to this rank's. */
static void pull(Comm *comm, const Operation *operation, int rank, size_t from, size_t to,
                 size_t bytes)
{
    unsigned char *target = heap_of(comm, comm->rank) + to;
    const unsigned char *source = heap_of(comm, rank) + from;
    if (target == source)
        return;
    memcpy(target, source, bytes);
    count_bytes(comm, operation->kind, rank, comm->rank, bytes);
}

/* Where rank r's slice of `count` elements begins: slices differ by at most 16 elements and begin
 * on cache lines, so that two ranks never write to the same line. */
static size_t slice_begin(size_t count, int rank, int world)
{
    size_t lines = (count + 15) / 16;
    size_t begin = lines * (size_t)rank / (size_t)world * 16;
    return begin < count ? begin : count;
}

/* This rank's share of an operation. */
static void work(Comm *comm, const Operation *operation)
{
    int world = comm->group->world;
    int rank = comm->rank;
    size_t element = comm_type_bytes(operation->type);
    size_t bytes = operation->count * element;
    const Asked *asked = &seat_of(comm, rank)->asked;
    switch (operation->collective) {
    case COLLECTIVE_ALL_REDUCE: {
        size_t begin = slice_begin(operation->count, rank, world) * element;
        size_t end = slice_begin(operation->count, rank + 1, world) * element;
        reduce(comm, operation, asked->from + begin, asked->to + begin, end - begin, -1);
        break;
    }
    case COLLECTIVE_REDUCE_SCATTER:
        reduce(comm, operation, asked->from + (size_t)rank * bytes, asked->to, bytes, rank);
        break;
    case COLLECTIVE_BROADCAST:
        pull(comm, operation, operation->root, asked->from, asked->to, bytes);
        break;
    case COLLECTIVE_ALL_GATHER:
        for (int other = 0; other < world; other++)
            pull(comm, operation, other, seat_of(comm, other)->asked.from,
                 asked->to + (size_t)other * bytes, bytes);
        break;
    case COLLECTIVE_BARRIER:
        break;
    }
}

/* --- failure ------------------------------------------------------------------------------ */

static void fail(Shm *shm, Error error)
{
    if (!shm->failure[0])
        snprintf(shm->failure, sizeof shm->failure, "%s", error);
}

/* Says who kept operation `number` waiting. */
static void fail_timed_out(Comm *comm, uint32_t number)
{
    Shm *shm = comm->state;
    char who[256] = "";
    size_t used = 0;
    for (int rank = 0; rank < comm->group->world; rank++) {
        Seat *seat = seat_of(comm, rank);
        if (word_reached(shm->stage == STAGE_WORK ? &seat->arrived : &seat->done, number))
            continue;
        int length = snprintf(who + used, sizeof who - used, "%s%d", used ? ", " : "", rank);
        if (length < 0 || (used += (size_t)length) >= sizeof who)
            break;
    }
    fail(shm, error_make("rank %d: %s #%u waited %g s for rank %s, which did not %s", comm->rank,
                         collective_name(shm->queue[number % QUEUE].collective), number,
                         comm->timeout_s, who, shm->stage == STAGE_WORK ? "arrive" : "finish"));
}

/* All ranks have arrived: did they ask for the same? */
static void check_agreement(Comm *comm, uint32_t number)
{
    Shm *shm = comm->state;
    const Asked *mine = &seat_of(comm, comm->rank)->asked;
    for (int rank = 0; rank < comm->group->world; rank++) {
        const Asked *theirs = &seat_of(comm, rank)->asked;
        /* an all-gather's source is the rank's own row, at a different offset on each */
        bool same_from = theirs->from == mine->from || mine->collective == COLLECTIVE_ALL_GATHER;
        if (theirs->collective == mine->collective && theirs->type == mine->type &&
            theirs->op == mine->op && theirs->root == mine->root && theirs->count == mine->count &&
            theirs->to == mine->to && same_from)
            continue;
        fail(shm, error_make(
                      "operation #%u: rank %d calls %s of %zu elements at offset %zu, rank %d "
                      "calls %s of %zu at %zu: every rank must make the same calls in the same "
                      "order",
                      number, comm->rank, collective_name(mine->collective), mine->count, mine->to,
                      rank, collective_name(theirs->collective), theirs->count, theirs->to));
        return;
    }
}

/* --- progress ----------------------------------------------------------------------------- */

/* The first rank whose word has not reached `number`, or -1. `which` says which word. */
static int missing_rank(const Comm *comm, size_t which, uint32_t number)
{
    for (int rank = 0; rank < comm->group->world; rank++) {
        const Word *word = (const Word *)((const unsigned char *)seat_of(comm, rank) + which);
        if (!word_reached(word, number))
            return rank;
    }
    return -1;
}

static void arrive(Comm *comm, uint32_t number)
{
    Shm *shm = comm->state;
    const Operation *operation = &shm->queue[number % QUEUE];
    Seat *seat = seat_of(comm, comm->rank);
    unsigned char *heap = heap_of(comm, comm->rank);
    seat->asked = (Asked){
        .collective = operation->collective,
        .type = operation->type,
        .op = operation->op,
        .root = operation->root,
        .count = operation->count,
        .to = operation->to ? (size_t)((unsigned char *)operation->to - heap) : 0,
        .from = operation->from ? (size_t)((const unsigned char *)operation->from - heap) : 0,
    };
    shm->spans[number % QUEUE].start_ms = clock_ms();
    word_set(&seat->arrived, number);
    shm->stage = STAGE_WORK;
}

/* Carries out one half of the staging, if there is any; false if it failed. */
static bool staged(Shm *shm, Error (*half)(void *, const Operation *, uint64_t), uint32_t number)
{
    Error error = half ? half(shm->staging->context, &shm->queue[number % QUEUE], number) : NULL;
    if (error)
        fail(shm, error);
    return !error;
}

/* Takes operation `number` as far as it goes without waiting. Returns the word that it then waits
 * for, or NULL when it is complete or has failed. Called with the lock. */
static Word *advance(Comm *comm, uint32_t number)
{
    Shm *shm = comm->state;
    const Operation *operation = &shm->queue[number % QUEUE];
    CommSpan *span = &shm->spans[number % QUEUE];
    if (shm->stage == STAGE_ARRIVE) {
        if (!staged(shm, shm->staging ? shm->staging->fetch : NULL, number))
            return NULL;
        arrive(comm, number);
    }
    if (shm->stage == STAGE_WORK) {
        int rank = missing_rank(comm, offsetof(Seat, arrived), number);
        if (rank >= 0)
            return &seat_of(comm, rank)->arrived;
        span->arrived_ms = clock_ms();
        check_agreement(comm, number);
        if (shm->failure[0])
            return NULL;
        work(comm, operation);
        word_set(&seat_of(comm, comm->rank)->done, number);
        shm->stage = STAGE_FINISH;
    }
    int rank = missing_rank(comm, offsetof(Seat, done), number);
    if (rank >= 0)
        return &seat_of(comm, rank)->done;
    if (!staged(shm, shm->staging ? shm->staging->deliver : NULL, number))
        return NULL;
    span->done_ms = clock_ms();
    shm->stage = STAGE_ARRIVE;
    word_set(&shm->completed, number);
    return NULL;
}

/* Returns when `target` operations are complete or one has failed. */
static Error progress(Comm *comm, uint32_t target, double spin_us)
{
    Shm *shm = comm->state;
    pthread_mutex_lock(&shm->lock);
    while (!shm->failure[0] && !word_reached(&shm->completed, target)) {
        uint32_t number = shm->completed.value + 1;
        Word *awaited = advance(comm, number);
        if (!awaited)
            continue;
        Stage stage = shm->stage;
        pthread_mutex_unlock(&shm->lock);
        bool in_time = word_wait(awaited, number, spin_us, comm->timeout_s);
        pthread_mutex_lock(&shm->lock);
        /* the other thread may have gone on meanwhile */
        if (!in_time && shm->stage == stage && shm->completed.value + 1 == number &&
            !word_reached(awaited, number))
            fail_timed_out(comm, number);
    }
    Error error = shm->failure[0] ? shm->failure : NULL;
    pthread_mutex_unlock(&shm->lock);
    return error;
}

static void *communication_thread(void *argument)
{
    Comm *comm = argument;
    Shm *shm = comm->state;
    place_name("comm");
    for (uint32_t next = 1;; next++) {
        word_wait(&shm->permitted, next, 0, 0);
        if (atomic_load(&shm->closing))
            return NULL;
        /* A failure is reported by the wait for the operation. */
        progress(comm, next, 0);
    }
}

/* --- the transport ------------------------------------------------------------------------ */

/* Adds to the device's counters what has reached and left this rank's heap. */
static void take_counts(Comm *comm)
{
    if (!comm->device)
        return;
    Shm *shm = comm->state;
    Seat *seat = seat_of(comm, comm->rank);
    Counters *counters = device_counters(comm->device);
    for (int kind = 0; kind < BYTES_KINDS; kind++) {
        uint64_t sent = atomic_load_explicit(&seat->sent[kind], memory_order_relaxed);
        uint64_t received = atomic_load_explicit(&seat->received[kind], memory_order_relaxed);
        counters->sent[kind] += sent - shm->sent_counted[kind];
        counters->received[kind] += received - shm->received_counted[kind];
        shm->sent_counted[kind] = sent;
        shm->received_counted[kind] = received;
    }
}

/* Event.wait: the caller has nothing to do but wait, so it lends a hand. */
static Error shm_wait(void *source, uint64_t ticket)
{
    Comm *comm = source;
    Shm *shm = comm->state;
    TRY(progress(comm, (uint32_t)ticket, shm->spin_us));
    take_counts(comm);
    return NULL;
}

static Error check_buffer(Comm *comm, const void *buffer, size_t bytes)
{
    Shm *shm = comm->state;
    const unsigned char *start = buffer;
    if (start >= shm->heap && bytes <= shm->heap_used &&
        (size_t)(start - shm->heap) <= shm->heap_used - bytes)
        return NULL;
    return error_make("rank %d: %s: the buffer does not come from comm_alloc, or is too small",
                      comm->rank, comm->last_text);
}

static Error shm_start(Comm *comm, const Operation *operation, Event *done)
{
    Shm *shm = comm->state;
    size_t bytes = operation->count * comm_type_bytes(operation->type);
    size_t all = bytes * (size_t)comm->group->world;
    Collective collective = operation->collective;
    if (collective != COLLECTIVE_BARRIER) {
        TRY(check_buffer(comm, operation->to, collective == COLLECTIVE_ALL_GATHER ? all : bytes));
        TRY(check_buffer(comm, operation->from,
                         collective == COLLECTIVE_REDUCE_SCATTER ? all : bytes));
    }
    uint32_t number = shm->started.value + 1;
    if (number > QUEUE)
        TRY(progress(comm, number - QUEUE, shm->spin_us));
    shm->queue[number % QUEUE] = *operation;
    word_set(&shm->started, number);
    *done = (Event){.wait = shm_wait, .source = comm, .ticket = number};
    return NULL;
}

static void shm_in_background(Comm *comm)
{
    Shm *shm = comm->state;
    if (shm->permitted.value != shm->started.value) /* waking a thread for nothing is not free */
        word_set(&shm->permitted, shm->started.value);
}

static int shm_take_spans(Comm *comm, CommSpan *spans, int most)
{
    Shm *shm = comm->state;
    pthread_mutex_lock(&shm->lock);
    uint32_t completed = shm->completed.value;
    if (completed - shm->spans_taken >= QUEUE) /* the next operation may be writing one of them */
        shm->spans_taken = completed - (QUEUE - 1);
    int count = 0;
    while (count < most && shm->spans_taken != completed)
        spans[count++] = shm->spans[++shm->spans_taken % QUEUE];
    pthread_mutex_unlock(&shm->lock);
    return count;
}

static Error shm_alloc(Comm *comm, size_t bytes, void **memory)
{
    Shm *shm = comm->state;
    size_t left = comm->group->bytes_per_rank - shm->heap_used;
    if (bytes > left)
        return error_make("rank %d: the communicator's heap has %zu bytes left, %zu were asked for",
                          comm->rank, left, bytes);
    *memory = shm->heap + shm->heap_used;
    shm->heap_used += bytes;
    memset(*memory, 0, bytes);
    return NULL;
}

static void shm_close(Comm *comm)
{
    Shm *shm = comm->state;
    if (shm->thread_runs) {
        atomic_store(&shm->closing, true);
        word_set(&shm->permitted, shm->started.value + 1);
        pthread_join(shm->thread, NULL);
    }
    pthread_mutex_destroy(&shm->lock);
    free(shm);
}

const Transport shm_transport = {
    .name = "shared memory",
    .alloc = shm_alloc,
    .start = shm_start,
    .in_background = shm_in_background,
    .take_spans = shm_take_spans,
    .close = shm_close,
};

unsigned char *shm_heap(const Comm *comm)
{
    return heap_of(comm, comm->rank);
}

Error shm_open_seat(Comm *comm)
{
    return shm_open_staged(comm, NULL);
}

Error shm_open_staged(Comm *comm, const ShmStaging *staging)
{
    Shm *shm = aligned_alloc(_Alignof(Shm), sizeof *shm);
    if (!shm)
        return error_make("no memory for a communicator");
    memset(shm, 0, sizeof *shm);
    shm->heap = heap_of(comm, comm->rank);
    shm->spin_us = comm->group->world <= comm->group->cores ? SPIN_US : 0;
    pthread_mutex_init(&shm->lock, NULL);
    comm->state = shm;
    comm->transport = &shm_transport;
    shm->staging = staging;
    if (!comm->background)
        return NULL;

    int failed = thread_create(&shm->thread, communication_thread, comm);
    if (failed) {
        pthread_mutex_destroy(&shm->lock);
        free(shm);
        return error_make("rank %d: cannot make a communication thread: %s", comm->rank,
                          strerror(failed));
    }
    shm->thread_runs = true;
    return NULL;
}
