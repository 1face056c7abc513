/* shm.c: collectives through shared memory: every rank sees every rank's heap.
 *
 * An operation has three stages on each rank:
 *
 *     arrive   "my buffer is ready": the rank says so and waits until everyone has
 *     work     the rank does its share, reading and writing the others' heaps directly
 *     finish   "I touch nobody's buffer any more": says so and waits until everyone has
 *
 * What a rank's share is, algorithms.c knows. It may have several rounds, and a rank may have to
 * wait for another's round before it begins its own: so each rank says also how many rounds it has
 * finished. Without the third stage a fast rank could start its next backward pass in a buffer that
 * a slow neighbour still reads.
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
#include "comm/algorithms.h"
#include "comm/seat.h"

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

    pthread_mutex_t lock;   /* guards what follows, and the work on the oldest operation */
    Stage stage;            /* that the oldest operation is to enter or to pass */
    int round;              /* that it is to begin, in STAGE_WORK */
    uint32_t rounds_before; /* rounds of all operations before it */
    CommSpan spans[QUEUE];  /* of operation n: spans[n % QUEUE] */
    uint32_t spans_taken;
    char failure[1024];

    _Atomic uint64_t collectives[BYTES_KINDS]; /* completed */
    _Atomic uint64_t steps[BYTES_KINDS];       /* times that this rank had to wait for another */
    uint64_t collectives_counted[BYTES_KINDS],
        steps_counted[BYTES_KINDS]; /* by the caller, as are the next two */
    uint64_t sent_counted[BYTES_KINDS], received_counted[BYTES_KINDS];
    pthread_t thread;
    bool thread_runs;
    atomic_bool closing;
} Shm;

size_t shm_seats_bytes(int world)
{
    return (size_t)world * sizeof(Seat);
}

/* --- failure ------------------------------------------------------------------------------ */

static void fail(Shm *shm, Error error)
{
    if (!shm->failure[0])
        snprintf(shm->failure, sizeof shm->failure, "%s", error);
}

/* The rank that keeps `rank` from its next round of the operation under way, or -1. */
static int kept_waiting_by(const Comm *comm, const Algorithm *algorithm, int rank)
{
    const Shm *shm = comm->state;
    int world = comm->group->world;
    uint32_t finished = atomic_load(&seat_of(comm, rank)->rounds.value);
    int round = (int)(finished - shm->rounds_before);
    if (!algorithm->waits_for || round < 1 || round >= algorithm->rounds(world))
        return -1;
    int other = algorithm->waits_for(rank, world, round);
    return other >= 0 && !word_reached(&seat_of(comm, other)->rounds, finished) ? other : -1;
}

/* Says who kept operation `number` waiting: of the ranks that have not arrived or not finished
 * those that wait for nobody themselves. */
static void fail_timed_out(Comm *comm, uint32_t number)
{
    Shm *shm = comm->state;
    const Operation *operation = &shm->queue[number % QUEUE];
    const Algorithm *algorithm = algorithm_of(operation);
    int rounds = algorithm->rounds(comm->group->world);
    bool arriving = shm->stage == STAGE_WORK && shm->round == 0;
    char who[256] = "", where[64] = "";
    size_t used = 0;
    for (int rank = 0; rank < comm->group->world; rank++) {
        Seat *seat = seat_of(comm, rank);
        if (word_reached(arriving ? &seat->arrived : &seat->done, number) ||
            (!arriving && kept_waiting_by(comm, algorithm, rank) >= 0))
            continue;
        int length = snprintf(who + used, sizeof who - used, "%s%d", used ? ", " : "", rank);
        if (length < 0 || (used += (size_t)length) >= sizeof who)
            break;
    }
    if (!arriving && rounds > 1 && shm->round < rounds)
        snprintf(where, sizeof where, " (%s, step %d of %d)", algorithm->name, shm->round + 1,
                 rounds);
    fail(shm, error_make("rank %d: %s #%u%s waited %g s for rank %s, which did not %s", comm->rank,
                         collective_name(operation->collective), number, where, comm->timeout_s,
                         who, arriving ? "arrive" : "finish"));
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
            theirs->algorithm == mine->algorithm && theirs->op == mine->op &&
            theirs->root == mine->root && theirs->count == mine->count && theirs->to == mine->to &&
            same_from)
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
        .algorithm = operation->algorithm,
        .type = operation->type,
        .op = operation->op,
        .root = operation->root,
        .count = operation->count,
        .to = operation->to ? (size_t)((unsigned char *)operation->to - heap) : 0,
        .from = operation->from ? (size_t)((const unsigned char *)operation->from - heap) : 0,
    };
    shm->spans[number % QUEUE].start_ms = clock_ms();
    shm->rounds_before = atomic_load(&seat->rounds.value); /* the same on every rank by now */
    shm->round = 0;
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

/* Counts one more. Only who holds the lock writes, so this needs no costly atomic addition. */
static void count_one(_Atomic uint64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
}

/* A step is a time that this rank had to wait for what another made. */
static void count_step(Comm *comm, const Operation *operation)
{
    Shm *shm = comm->state;
    if (comm->group->world > 1)
        count_one(&shm->steps[operation->kind]);
}

/* What an operation waits for; a NULL word: nothing. */
typedef struct Awaited {
    Word *word;
    uint32_t target;
} Awaited;

/* Does the rounds of the operation whose ranks have all arrived, as far as it goes. */
static Awaited advance_rounds(Comm *comm, const Operation *operation)
{
    Shm *shm = comm->state;
    const Algorithm *algorithm = algorithm_of(operation);
    int world = comm->group->world, rounds = algorithm->rounds(world);
    for (; shm->round < rounds; shm->round++) {
        uint32_t finished = shm->rounds_before + (uint32_t)shm->round;
        int other = shm->round > 0 ? algorithm->waits_for(comm->rank, world, shm->round) : -1;
        if (other >= 0 && !word_reached(&seat_of(comm, other)->rounds, finished))
            return (Awaited){&seat_of(comm, other)->rounds, finished};
        algorithm->work(comm, operation, shm->round);
        count_step(comm, operation);
        if (rounds > 1)
            word_set(&seat_of(comm, comm->rank)->rounds, finished + 1);
    }
    return (Awaited){0};
}

/* Takes operation `number` as far as it goes without waiting. Returns what it then waits for:
 * nothing when it is complete or has failed. Called with the lock. */
static Awaited advance(Comm *comm, uint32_t number)
{
    Shm *shm = comm->state;
    const Operation *operation = &shm->queue[number % QUEUE];
    CommSpan *span = &shm->spans[number % QUEUE];
    const Awaited nothing = {0};
    if (shm->stage == STAGE_ARRIVE) {
        if (!staged(shm, shm->staging ? shm->staging->fetch : NULL, number))
            return nothing;
        arrive(comm, number);
    }
    if (shm->stage == STAGE_WORK && shm->round == 0) {
        int rank = missing_rank(comm, offsetof(Seat, arrived), number);
        if (rank >= 0)
            return (Awaited){&seat_of(comm, rank)->arrived, number};
        span->arrived_ms = clock_ms();
        check_agreement(comm, number);
        if (shm->failure[0])
            return nothing;
    }
    if (shm->stage == STAGE_WORK) {
        Awaited awaited = advance_rounds(comm, operation);
        if (awaited.word)
            return awaited;
        word_set(&seat_of(comm, comm->rank)->done, number);
        shm->stage = STAGE_FINISH;
    }
    int rank = missing_rank(comm, offsetof(Seat, done), number);
    if (rank >= 0)
        return (Awaited){&seat_of(comm, rank)->done, number};
    if (algorithm_of(operation)->others_bring_result)
        count_step(comm, operation);
    if (!staged(shm, shm->staging ? shm->staging->deliver : NULL, number))
        return nothing;
    span->done_ms = clock_ms();
    count_one(&shm->collectives[operation->kind]);
    shm->stage = STAGE_ARRIVE;
    word_set(&shm->completed, number);
    return nothing;
}

/* Returns when `target` operations are complete or one has failed. */
static Error progress(Comm *comm, uint32_t target, double spin_us)
{
    Shm *shm = comm->state;
    pthread_mutex_lock(&shm->lock);
    while (!shm->failure[0] && !word_reached(&shm->completed, target)) {
        uint32_t number = shm->completed.value + 1;
        Awaited awaited = advance(comm, number);
        if (!awaited.word)
            continue;
        pthread_mutex_unlock(&shm->lock);
        bool in_time = word_wait(awaited.word, awaited.target, spin_us, comm->timeout_s);
        pthread_mutex_lock(&shm->lock);
        /* the other thread may have gone on meanwhile, but not past a word that is still short */
        if (!in_time && !shm->failure[0] && !word_reached(awaited.word, awaited.target))
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

/* Adds to one of the device's counters by how much `now` has grown since the last call. */
static void take_count(uint64_t *counter, const _Atomic uint64_t *now, uint64_t *counted)
{
    uint64_t value = atomic_load_explicit(now, memory_order_relaxed);
    *counter += value - *counted;
    *counted = value;
}

/* Adds to the device's counters what has reached and left this rank's heap, and how. */
static void take_counts(Comm *comm)
{
    if (!comm->device)
        return;
    Shm *shm = comm->state;
    Seat *seat = seat_of(comm, comm->rank);
    Counters *counters = device_counters(comm->device);
    for (int kind = 0; kind < BYTES_KINDS; kind++) {
        take_count(&counters->sent[kind], &seat->sent[kind], &shm->sent_counted[kind]);
        take_count(&counters->received[kind], &seat->received[kind], &shm->received_counted[kind]);
        take_count(&counters->collectives[kind], &shm->collectives[kind],
                   &shm->collectives_counted[kind]);
        take_count(&counters->steps[kind], &shm->steps[kind], &shm->steps_counted[kind]);
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
    if (!comm->untouched)
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
