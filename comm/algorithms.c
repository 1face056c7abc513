/* algorithms.c: four ways to all-reduce, and the other collectives (see algorithms.h).
 *
 * Every way gives every rank the sum (or the least, ...) of all ranks' buffers of P bytes, and over
 * all links each moves 2P(N-1) bytes. They differ in who carries them, and in how often a rank must
 * wait for another (steps):
 *
 *                 steps            a rank sends and receives, each
 *     direct      2                2P(N-1)/N
 *     ring        2(N-1)           2P(N-1)/N, all to and from its two neighbours
 *     tree        2 ceil(log2 N)   rank 0: P ceil(log2 N); most of the others P
 *     naive       2                rank 0: P(N-1); the others P
 *
 * Between machines few steps matter for small buffers, and the even load of a ring for large ones
 * (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * 2009). In one shared memory everyone reaches everyone: direct has the ring's even load in two
 * steps.
 *
 * Whatever the way, an element's final value is computed by one rank and copied by the others, so
 * all ranks end up with the same bits. In what order it was added up depends on the way: direct and
 * naive go in rank order, a ring begins at a different rank for each slice, a tree adds up pairs.
 */
#include "comm/algorithms.h"

#include "comm/reduce.h"
#include "comm/seat.h"

#include <string.h>

/* Bytes reduced at a time: so few that the partial result stays in the first-level cache. */
#define CHUNK_BYTES 8192

/* --- moving bytes ------------------------------------------------------------------------- */

/* Counts bytes that this rank has just moved from one rank's heap to another's. */
static void count_bytes(const Comm *comm, BytesKind kind, int from, int to, size_t bytes)
{
    if (from == to)
        return;
    atomic_fetch_add_explicit(&seat_of(comm, from)->sent[kind], bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&seat_of(comm, to)->received[kind], bytes, memory_order_relaxed);
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

/* Adds `bytes` at offset `at` of a rank's heap to those of this rank's. */
static void pull_and_add(Comm *comm, const Operation *operation, int rank, size_t at, size_t bytes)
{
    reduce_combine(heap_of(comm, comm->rank) + at, heap_of(comm, rank) + at,
                   bytes / comm_type_bytes(operation->type), operation->type, operation->op);
    count_bytes(comm, operation->kind, rank, comm->rank, bytes);
}

/* The sum is complete: for an average it is divided by the number of ranks. */
static void complete(Comm *comm, const Operation *operation, void *sum, size_t bytes)
{
    if (operation->op == COMM_AVG)
        reduce_divide(sum, bytes / comm_type_bytes(operation->type), operation->type,
                      comm->group->world);
}

/* Reduces `bytes` at offset `from` of all heaps, in rank order, and writes the result to offset
 * `to` of rank `only`, or of every rank if that is negative. */
static void reduce(Comm *comm, const Operation *operation, size_t from, size_t to, size_t bytes,
                   int only)
{
    _Alignas(64) unsigned char partial[CHUNK_BYTES];
    int world = comm->group->world;
    size_t element = comm_type_bytes(operation->type);
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        size_t size = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        memcpy(partial, heap_of(comm, 0) + from + at, size);
        for (int rank = 1; rank < world; rank++)
            reduce_combine(partial, heap_of(comm, rank) + from + at, size / element,
                           operation->type, operation->op);
        complete(comm, operation, partial, size);
        for (int rank = 0; rank < world; rank++)
            if (only < 0 || only == rank)
                memcpy(heap_of(comm, rank) + to + at, partial, size);
    }
    for (int rank = 0; rank < world; rank++) {
        count_bytes(comm, operation->kind, rank, comm->rank, bytes);
        if (only < 0)
            count_bytes(comm, operation->kind, comm->rank, rank, bytes);
    }
}

/* --- slices ------------------------------------------------------------------------------- */

size_t slice_begin(size_t count, int rank, int world)
{
    size_t lines = (count + 15) / 16;
    size_t begin = lines * (size_t)rank / (size_t)world * 16;
    return begin < count ? begin : count;
}

/* The buffer of an all-reduce is cut into a slice per rank. Offsets are into the heap. */
typedef struct Slice {
    size_t at, bytes;
} Slice;

static Slice slice_of(const Comm *comm, const Operation *operation, int rank)
{
    int world = comm->group->world;
    size_t element = comm_type_bytes(operation->type);
    size_t begin = slice_begin(operation->count, rank, world) * element;
    size_t end = slice_begin(operation->count, rank + 1, world) * element;
    return (Slice){.at = seat_of(comm, comm->rank)->asked.to + begin, .bytes = end - begin};
}

static Slice whole_of(const Comm *comm, const Operation *operation)
{
    return (Slice){.at = seat_of(comm, comm->rank)->asked.to,
                   .bytes = operation->count * comm_type_bytes(operation->type)};
}

static int one_round(int world)
{
    (void)world;
    return 1;
}

/* --- all-reduce: direct ------------------------------------------------------------------- */

/* Every rank adds up its own slice over all heaps and writes the sum back to all of them. */
static void direct_work(Comm *comm, const Operation *operation, int round)
{
    (void)round;
    Slice slice = slice_of(comm, operation, comm->rank);
    reduce(comm, operation, slice.at, slice.at, slice.bytes, -1);
}

/* --- all-reduce: naive -------------------------------------------------------------------- */

/* Rank 0 fetches every rank's buffer, adds all up and sends the sum back. The others wait. */
static void naive_work(Comm *comm, const Operation *operation, int round)
{
    (void)round;
    Slice whole = whole_of(comm, operation);
    if (comm->rank == 0)
        reduce(comm, operation, whole.at, whole.at, whole.bytes, -1);
}

/* --- all-reduce: ring --------------------------------------------------------------------- */

/* Each rank takes from its left neighbour only. In the first N-1 rounds (reduce-scatter) a slice
 * travels once round the ring and grows into the sum: the rank that takes it adds its own numbers.
 * It begins at rank s+1 and is complete at rank s, for slice s. In the last N-1 rounds (all-gather)
 * the complete slices travel round once more, and are copied. All slices are on their way at once,
 * each at another rank:
 *
 *     N = 4     round 0   1   2 | 3   4   5
 *     rank 0 takes  2   1   0 | 3   2   1
 *     rank 1 takes  3   2   1 | 0   3   2
 *     rank 2 takes  0   3   2 | 1   0   3
 *     rank 3 takes  1   0   3 | 2   1   0
 *
 * What a rank takes in a round, its neighbour took in the round before. Nobody overwrites what a
 * neighbour still reads: before the complete slice comes to a rank it has been at that neighbour.
 */
static int ring_rounds(int world)
{
    return 2 * (world - 1);
}

static int ring_left(int rank, int world)
{
    return (rank + world - 1) % world;
}

static int ring_waits_for(int rank, int world, int round)
{
    (void)round;
    return ring_left(rank, world);
}

static void ring_work(Comm *comm, const Operation *operation, int round)
{
    int world = comm->group->world;
    int left = ring_left(comm->rank, world);
    bool adds = round < world - 1;
    int taken = (comm->rank + 2 * world - 2 - round) % world; /* slices move on by one per round */
    Slice slice = slice_of(comm, operation, taken);
    if (!adds) {
        pull(comm, operation, left, slice.at, slice.at, slice.bytes);
        return;
    }
    pull_and_add(comm, operation, left, slice.at, slice.bytes);
    if (round == world - 2) /* it has been everywhere */
        complete(comm, operation, heap_of(comm, comm->rank) + slice.at, slice.bytes);
}

/* --- all-reduce: tree --------------------------------------------------------------------- */

/* In the first ceil(log2 N) rounds neighbours pair up, then pairs, then fours, and one of each pair
 * takes the other's sum: rank 0 has the whole one at the end. In as many rounds it comes down the
 * same way (a binomial tree):
 *
 *     N = 6     up 0 <- 1, 2 <- 3, 4 <- 5     0 <- 2     0 <- 4
 *             down 4 <- 0     2 <- 0     1 <- 0, 3 <- 2, 5 <- 4
 */
static int tree_height(int world)
{
    int height = 0;
    while (1 << height < world)
        height++;
    return height;
}

static int tree_rounds(int world)
{
    return 2 * tree_height(world);
}

/* The rank from which `rank` takes in this round; -1: it takes nothing. */
static int tree_source(int rank, int world, int round)
{
    int height = tree_height(world);
    bool up = round < height;
    int apart = up ? 1 << round : 1 << (2 * height - 1 - round);
    if (up && rank % (2 * apart) == 0 && rank + apart < world)
        return rank + apart;
    if (!up && rank % (2 * apart) == apart)
        return rank - apart;
    return -1;
}

static void tree_work(Comm *comm, const Operation *operation, int round)
{
    int world = comm->group->world;
    int height = tree_height(world);
    int source = tree_source(comm->rank, world, round);
    Slice whole = whole_of(comm, operation);
    if (source >= 0 && round < height)
        pull_and_add(comm, operation, source, whole.at, whole.bytes);
    else if (source >= 0)
        pull(comm, operation, source, whole.at, whole.at, whole.bytes);
    if (comm->rank == 0 && round == height - 1)
        complete(comm, operation, heap_of(comm, 0) + whole.at, whole.bytes);
}

/* --- the other collectives ---------------------------------------------------------------- */

static void broadcast_work(Comm *comm, const Operation *operation, int round)
{
    (void)round;
    Slice whole = whole_of(comm, operation);
    pull(comm, operation, operation->root, whole.at, whole.at, whole.bytes);
}

static void all_gather_work(Comm *comm, const Operation *operation, int round)
{
    (void)round;
    Slice row = whole_of(comm, operation);
    for (int rank = 0; rank < comm->group->world; rank++)
        pull(comm, operation, rank, seat_of(comm, rank)->asked.from,
             row.at + (size_t)rank * row.bytes, row.bytes);
}

static void reduce_scatter_work(Comm *comm, const Operation *operation, int round)
{
    (void)round;
    Slice row = whole_of(comm, operation);
    size_t from = seat_of(comm, comm->rank)->asked.from + (size_t)comm->rank * row.bytes;
    reduce(comm, operation, from, row.at, row.bytes, comm->rank);
}

static void barrier_work(Comm *comm, const Operation *operation, int round)
{
    (void)comm;
    (void)operation;
    (void)round;
}

/* --- the table ---------------------------------------------------------------------------- */

static const Algorithm all_reduces[] = {
    [COMM_DIRECT] = {"direct", one_round, NULL, direct_work, true},
    [COMM_RING] = {"ring", ring_rounds, ring_waits_for, ring_work, false},
    [COMM_TREE] = {"tree", tree_rounds, tree_source, tree_work, false},
    [COMM_NAIVE] = {"naive", one_round, NULL, naive_work, true},
};

static const Algorithm others[] = {
    [COLLECTIVE_BROADCAST] = {"broadcast", one_round, NULL, broadcast_work, false},
    [COLLECTIVE_ALL_GATHER] = {"all-gather", one_round, NULL, all_gather_work, false},
    [COLLECTIVE_REDUCE_SCATTER] = {"reduce-scatter", one_round, NULL, reduce_scatter_work, false},
    [COLLECTIVE_BARRIER] = {"barrier", one_round, NULL, barrier_work, false},
};

const char *comm_algorithm_name(CommAlgorithm algorithm)
{
    return all_reduces[algorithm].name;
}

const Algorithm *algorithm_of(const Operation *operation)
{
    return operation->collective == COLLECTIVE_ALL_REDUCE ? &all_reduces[operation->algorithm]
                                                          : &others[operation->collective];
}
