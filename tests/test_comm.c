/* test_comm.c: collectives in shared memory, with the ranks as threads of one process (which
 * ThreadSanitizer can see into) and as forked processes (which is how the trainer uses them). */
#include "comm/comm.h"

#include "base/futex.h"
#include "comm/seat.h" /* where the heaps lie, for planting faults */

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- ranks as threads --------------------------------------------------------------------- */

typedef struct Rank Rank;
typedef Error (*RankBody)(Rank *rank);

struct Rank {
    int number, world;
    Device *device;
    Comm *comm;
    const void *argument;
    RankBody body;
    bool background;
    double timeout_s;
    Group *group;
    char error[1024];
};

static void *rank_main(void *argument)
{
    Rank *rank = argument;
    Error error = NULL;
    rank->device = device_open(DEVICE_CPU, rank->number, false, &error);
    if (!error)
        rank->comm = comm_open(rank->group, rank->number, rank->device, rank->timeout_s,
                               rank->background, &error);
    if (!error)
        error = rank->body(rank);
    snprintf(rank->error, sizeof rank->error, "%s", error ? error : "");
    comm_close(rank->comm);
    device_close(rank->device);
    return NULL;
}

/* Runs `body` on every rank; `ranks` [world] keep what became of them. */
static void run_ranks(Rank *ranks, int world, size_t bytes, bool background, double timeout_s,
                      RankBody body, const void *argument)
{
    Error error = NULL;
    Group *group = comm_group(COMM_SHM, world, bytes, &error);
    assert_null(error);
    pthread_t thread[16];
    for (int i = 0; i < world; i++) {
        ranks[i] = (Rank){.number = i,
                          .world = world,
                          .group = group,
                          .background = background,
                          .timeout_s = timeout_s,
                          .body = body,
                          .argument = argument};
        assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < world; i++)
        pthread_join(thread[i], NULL);
    comm_group_free(group);
}

static void run_ranks_ok(int world, size_t bytes, bool background, RankBody body,
                         const void *argument)
{
    Rank ranks[16];
    run_ranks(ranks, world, bytes, background, 60, body, argument);
    for (int i = 0; i < world; i++)
        assert_string_equal(ranks[i].error, "");
}

/* What rank r holds at element i: small numbers, so that sums and products are exact in any type.
 */
static double value_of(int rank, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 3) % 5 + 1);
}

static double expected(int world, size_t i, CommOp op)
{
    double result = value_of(0, i);
    for (int rank = 1; rank < world; rank++) {
        double value = value_of(rank, i);
        switch (op) {
        case COMM_SUM:
        case COMM_AVG:
            result += value;
            break;
        case COMM_MIN:
            result = value < result ? value : result;
            break;
        case COMM_MAX:
            result = value > result ? value : result;
            break;
        case COMM_PROD:
            result *= value;
            break;
        }
    }
    return op == COMM_AVG ? result / world : result;
}

static void put(void *buffer, size_t i, CommType type, double value)
{
    switch (type) {
    case COMM_FLOAT:
        ((float *)buffer)[i] = (float)value;
        break;
    case COMM_DOUBLE:
        ((double *)buffer)[i] = value;
        break;
    case COMM_INT32:
        ((int32_t *)buffer)[i] = (int32_t)value;
        break;
    case COMM_UINT64:
        ((uint64_t *)buffer)[i] = (uint64_t)value;
        break;
    }
}

/* Element i is `value`, as the type holds it. */
static bool holds(const void *buffer, size_t i, CommType type, double value)
{
    double there = 0, wanted = value;
    switch (type) {
    case COMM_FLOAT:
        there = (double)((const float *)buffer)[i];
        wanted = (double)(float)value;
        break;
    case COMM_DOUBLE:
        there = ((const double *)buffer)[i];
        break;
    case COMM_INT32:
        there = ((const int32_t *)buffer)[i];
        wanted = (int32_t)value;
        break;
    case COMM_UINT64:
        there = (double)((const uint64_t *)buffer)[i];
        wanted = (double)(uint64_t)value;
        break;
    }
    return there == wanted;
}

/* --- right results ------------------------------------------------------------------------ */

typedef struct Case {
    size_t count;
    CommType type;
    CommOp op;
    int root;
} Case;

static Error all_collectives(Rank *rank)
{
    const Case *c = rank->argument;
    size_t world = (size_t)rank->world;
    Comm *comm = rank->comm;
    Event now = device_record(rank->device), done;
    void *buffer, *wide, *wide2;
    TRY(comm_alloc(comm, c->count * 8, &buffer));
    TRY(comm_alloc(comm, c->count * 8 * world, &wide));
    TRY(comm_alloc(comm, c->count * 8 * world, &wide2));

    for (size_t i = 0; i < c->count; i++)
        put(buffer, i, c->type, value_of(rank->number, i));
    TRY(comm_all_reduce(comm, buffer, c->count, c->type, c->op, now, &done));
    comm_in_background(comm);
    TRY(device_wait(rank->device, &done));
    for (size_t i = 0; i < c->count; i++)
        if (!holds(buffer, i, c->type, expected(rank->world, i, c->op)))
            return error_make("all_reduce: element %zu", i);

    for (size_t i = 0; i < c->count; i++)
        put(buffer, i, c->type, value_of(rank->number, i));
    TRY(comm_broadcast(comm, buffer, c->count, c->type, c->root, now, &done));
    TRY(device_wait(rank->device, &done));
    for (size_t i = 0; i < c->count; i++)
        if (!holds(buffer, i, c->type, value_of(c->root, i)))
            return error_make("broadcast: element %zu", i);

    for (size_t i = 0; i < c->count; i++)
        put(buffer, i, c->type, value_of(rank->number, i));
    TRY(comm_all_gather(comm, wide, buffer, c->count, c->type, now, &done));
    TRY(device_wait(rank->device, &done));
    for (size_t i = 0; i < c->count * world; i++)
        if (!holds(wide, i, c->type, value_of((int)(i / c->count), i % c->count)))
            return error_make("all_gather: element %zu", i);

    for (size_t i = 0; i < c->count * world; i++)
        put(wide2, i, c->type, value_of(rank->number, i));
    TRY(comm_reduce_scatter(comm, buffer, wide2, c->count, c->type, c->op, now, &done));
    TRY(device_wait(rank->device, &done));
    size_t own = (size_t)rank->number * c->count;
    for (size_t i = 0; i < c->count; i++)
        if (!holds(buffer, i, c->type, expected(rank->world, own + i, c->op)))
            return error_make("reduce_scatter: element %zu", i);
    return comm_barrier(comm);
}

static void test_every_type_and_operation(void **state)
{
    (void)state;
    for (CommType type = COMM_FLOAT; type <= COMM_UINT64; type++)
        for (CommOp op = COMM_SUM; op <= COMM_PROD; op++) {
            Case c = {.count = 1003, .type = type, .op = op, .root = 2};
            run_ranks_ok(3, 100000, true, all_collectives, &c);
        }
}

static void test_every_rank_count_and_odd_sizes(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 15, 16, 17, 33, 4099};
    for (int world = 1; world <= 8; world++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            Case c = {.count = counts[i], .type = COMM_FLOAT, .op = COMM_SUM, .root = world - 1};
            run_ranks_ok(world, 600000, world % 2 == 0, all_collectives, &c);
        }
}

/* Sums of numbers whose order of summation shows: all ranks must have the same bits, and they must
 * be those of summing in rank order. */
static Error sum_in_rank_order(Rank *rank)
{
    enum { COUNT = 5000 };
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, COUNT * sizeof *buffer, (void **)&buffer));
    for (size_t i = 0; i < COUNT; i++)
        buffer[i] = 1.0f / (float)(i + 1 + 7 * (size_t)rank->number);
    TRY(comm_all_reduce(rank->comm, buffer, COUNT, COMM_FLOAT, COMM_SUM,
                        device_record(rank->device), &done));
    TRY(device_wait(rank->device, &done));
    for (size_t i = 0; i < COUNT; i++) {
        float sum = 1.0f / (float)(i + 1);
        for (int r = 1; r < rank->world; r++)
            sum += 1.0f / (float)(i + 1 + 7 * (size_t)r);
        if (memcmp(&sum, &buffer[i], sizeof sum) != 0)
            return error_make("element %zu is %a, not %a", i, (double)buffer[i], (double)sum);
    }
    return NULL;
}

static void test_sums_are_taken_in_rank_order(void **state)
{
    (void)state;
    run_ranks_ok(5, 65536, true, sum_in_rank_order, NULL);
}

/* --- algorithms --------------------------------------------------------------------------- */

/* Every algorithm, type and operation on buffers of every odd size, one after another in one group.
 */
static Error every_all_reduce(Rank *rank)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 15, 16, 17, 33, 100, 1003};
    void *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, 1003 * 8, &buffer));
    for (CommAlgorithm algorithm = COMM_DIRECT; algorithm <= COMM_NAIVE; algorithm++)
        for (CommType type = COMM_FLOAT; type <= COMM_UINT64; type++)
            for (CommOp op = COMM_SUM; op <= COMM_PROD; op++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                    comm_use(rank->comm, algorithm);
                    for (size_t i = 0; i < counts[c]; i++)
                        put(buffer, i, type, value_of(rank->number, i));
                    TRY(comm_all_reduce(rank->comm, buffer, counts[c], type, op,
                                        device_record(rank->device), &done));
                    TRY(device_wait(rank->device, &done));
                    for (size_t i = 0; i < counts[c]; i++)
                        if (!holds(buffer, i, type, expected(rank->world, i, op)))
                            return error_make("%s, type %d, op %d, %zu elements: element %zu",
                                              comm_algorithm_name(algorithm), (int)type, (int)op,
                                              counts[c], i);
                }
    return NULL;
}

static void test_every_algorithm(void **state)
{
    (void)state;
    for (int world = 1; world <= 8; world++)
        run_ranks_ok(world, 16384, world % 2 == 0, every_all_reduce, NULL);
    run_ranks_ok(13, 16384, false, every_all_reduce, NULL);
    run_ranks_ok(16, 16384, false, every_all_reduce, NULL);
}

enum { ROUNDING_COUNT = 1000 };

typedef struct Rounding {
    CommAlgorithm algorithm;
    float (*sums)[ROUNDING_COUNT]; /* [ranks] */
} Rounding;

/* Sums whose order shows in their last bits. */
static Error sum_fractions(Rank *rank)
{
    const Rounding *rounding = rank->argument;
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, ROUNDING_COUNT * sizeof *buffer, (void **)&buffer));
    comm_use(rank->comm, rounding->algorithm);
    for (size_t i = 0; i < ROUNDING_COUNT; i++)
        buffer[i] = 1.0f / (float)(i + 1 + 7 * (size_t)rank->number);
    TRY(comm_all_reduce(rank->comm, buffer, ROUNDING_COUNT, COMM_FLOAT, COMM_SUM,
                        device_record(rank->device), &done));
    TRY(device_wait(rank->device, &done));
    memcpy(rounding->sums[rank->number], buffer, sizeof rounding->sums[0]);
    return NULL;
}

static void test_all_ranks_have_the_same_bits_every_time(void **state)
{
    (void)state;
    enum { WORLD = 5 };
    static float first[WORLD][ROUNDING_COUNT], again[WORLD][ROUNDING_COUNT];
    float in_rank_order[ROUNDING_COUNT];
    for (CommAlgorithm algorithm = COMM_DIRECT; algorithm <= COMM_NAIVE; algorithm++) {
        Rounding rounding = {algorithm, first};
        run_ranks_ok(WORLD, 65536, true, sum_fractions, &rounding);
        rounding.sums = again;
        run_ranks_ok(WORLD, 65536, false, sum_fractions, &rounding);
        for (int rank = 0; rank < WORLD; rank++) {
            assert_memory_equal(first[rank], first[0], sizeof first[0]);
            assert_memory_equal(again[rank], first[0], sizeof first[0]);
        }
        if (algorithm == COMM_DIRECT)
            memcpy(in_rank_order, first[0], sizeof in_rank_order);
        /* another order shows, or this test would not see one */
        bool same = memcmp(in_rank_order, first[0], sizeof in_rank_order) == 0;
        assert_int_equal(same, algorithm == COMM_DIRECT || algorithm == COMM_NAIVE);
    }
}

/* --- many at once ------------------------------------------------------------------------- */

/* Several buckets are under way while the rank "computes"; the buffers are used again at once, so a
 * missing wait for slow neighbours shows as a wrong sum. */
static Error many_rounds(Rank *rank)
{
    enum { BUCKETS = 4, COUNT = 700, ROUNDS = 200 };
    float *buffer[BUCKETS];
    Event done[BUCKETS];
    comm_use(rank->comm, *(const CommAlgorithm *)rank->argument);
    for (int b = 0; b < BUCKETS; b++)
        TRY(comm_alloc(rank->comm, COUNT * sizeof(float), (void **)&buffer[b]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int b = 0; b < BUCKETS; b++) {
            for (int i = 0; i < COUNT; i++)
                buffer[b][i] = (float)(round + b + i % 3 + rank->number);
            TRY(comm_all_reduce(rank->comm, buffer[b], COUNT, COMM_FLOAT, COMM_SUM,
                                device_record(rank->device), &done[b]));
            if (b < BUCKETS - 1)
                comm_in_background(rank->comm);
        }
        for (int b = 0; b < BUCKETS; b++)
            TRY(device_wait(rank->device, &done[b]));
        for (int b = 0; b < BUCKETS; b++)
            for (int i = 0; i < COUNT; i++) {
                int sum = 0;
                for (int r = 0; r < rank->world; r++)
                    sum += round + b + i % 3 + r;
                if (buffer[b][i] != (float)sum)
                    return error_make("round %d, bucket %d", round, b);
            }
    }
    CommSpan spans[BUCKETS * ROUNDS];
    int count = comm_take_spans(rank->comm, spans, BUCKETS * ROUNDS);
    for (int i = 0; i < count; i++)
        if (spans[i].start_ms > spans[i].arrived_ms || spans[i].arrived_ms > spans[i].done_ms)
            return error_make("span %d runs backwards", i);
    return count > 0 ? NULL : error_make("no spans");
}

static void test_buckets_in_the_background(void **state)
{
    (void)state;
    for (CommAlgorithm algorithm = COMM_DIRECT; algorithm <= COMM_NAIVE; algorithm++) {
        run_ranks_ok(2, 65536, true, many_rounds, &algorithm);
        run_ranks_ok(3, 65536, true, many_rounds, &algorithm);
        run_ranks_ok(3, 65536, false, many_rounds, &algorithm);
    }
}

/* More operations than the queue holds. */
static Error flood(Rank *rank)
{
    enum { OPERATIONS = 1000 };
    int32_t *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, sizeof *buffer, (void **)&buffer));
    *buffer = 1;
    for (int i = 0; i < OPERATIONS; i++)
        TRY(comm_all_reduce(rank->comm, buffer, 1, COMM_INT32, COMM_MAX,
                            device_record(rank->device), &done));
    TRY(device_wait(rank->device, &done));
    return *buffer == 1 ? NULL : error_make("%d", (int)*buffer);
}

static void test_more_operations_than_the_queue_holds(void **state)
{
    (void)state;
    run_ranks_ok(2, 4096, true, flood, NULL);
    run_ranks_ok(2, 4096, false, flood, NULL);
}

/* --- bytes -------------------------------------------------------------------------------- */

/* An all-reduce of P bytes over N ranks moves 2P(N-1)/N to and from each; a broadcast P to each but
 * the root. */
static Error count_traffic(Rank *rank)
{
    const size_t *count = rank->argument;
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, *count * sizeof *buffer, (void **)&buffer));
    TRY(comm_all_reduce(rank->comm, buffer, *count, COMM_FLOAT, COMM_SUM,
                        device_record(rank->device), &done));
    TRY(device_wait(rank->device, &done));
    Counters *counters = device_counters(rank->device);
    size_t bytes = *count * sizeof *buffer, world = (size_t)rank->world;
    size_t formula = 2 * bytes * (world - 1) / world;
    uint64_t sent = counters->sent[BYTES_PARAMETER_GRADIENTS];
    uint64_t received = counters->received[BYTES_PARAMETER_GRADIENTS];
    if (sent != formula || received != formula)
        return error_make("all_reduce: %llu sent, %llu received, %zu by the formula",
                          (unsigned long long)sent, (unsigned long long)received, formula);

    comm_count_as(rank->comm, BYTES_MODEL);
    TRY(comm_broadcast(rank->comm, buffer, *count, COMM_FLOAT, 0, device_record(rank->device),
                       &done));
    TRY(device_wait(rank->device, &done));
    TRY(comm_barrier(rank->comm)); /* rank 0 learns what others took from it when it next waits */
    uint64_t model_sent = counters->sent[BYTES_MODEL],
             model_received = counters->received[BYTES_MODEL];
    size_t sends = rank->number == 0 ? bytes * (world - 1) : 0;
    size_t receives = rank->number == 0 ? 0 : bytes;
    if (model_sent != sends || model_received != receives)
        return error_make("broadcast: %llu sent, %llu received", (unsigned long long)model_sent,
                          (unsigned long long)model_received);
    return NULL;
}

static void test_bytes_follow_the_formulas(void **state)
{
    (void)state;
    for (int world = 1; world <= 6; world++) {
        /* a multiple of 16 elements per rank, so that the slices are equal */
        size_t count = (size_t)world * 16 * 37;
        run_ranks_ok(world, 65536, true, count_traffic, &count);
    }
}

/* ceil(log2(n)) */
static size_t log2_up(size_t n)
{
    size_t log = 0;
    for (size_t reached = 1; reached < n; reached *= 2)
        log++;
    return log;
}

/* How many ranks take from `rank` (or it from them) on a tree's way up: one for each trailing zero
 * bit of its number, as far as there are such ranks. */
static size_t tree_children(size_t rank, size_t world)
{
    size_t children = 0;
    for (size_t apart = 1; apart < world && rank % (2 * apart) == 0; apart *= 2)
        children += rank + apart < world;
    return children;
}

/* Bytes and steps of each rank, after one all-reduce of 37 lines a rank with each algorithm. */
static Error count_algorithms(Rank *rank)
{
    size_t world = (size_t)rank->world, number = (size_t)rank->number;
    size_t count = world * 16 * 37, bytes = count * sizeof(float);
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, bytes, (void **)&buffer));
    const size_t even = 2 * bytes * (world - 1) / world;
    const size_t boss = bytes * (number == 0 ? world - 1 : 1);
    /* one transfer up and one down between a rank and each that is below or above it */
    const size_t links = bytes * (tree_children(number, world) + (number > 0));
    const struct {
        size_t bytes, steps;
    } formula[] = {
        [COMM_DIRECT] = {even, 2},
        [COMM_RING] = {even, 2 * (world - 1)},
        [COMM_TREE] = {links, 2 * log2_up(world)},
        [COMM_NAIVE] = {boss, 2},
    };
    Counters *counters = device_counters(rank->device);
    for (CommAlgorithm algorithm = COMM_DIRECT; algorithm <= COMM_NAIVE; algorithm++) {
        const BytesKind kind = BYTES_MODEL;
        TRY(comm_barrier(rank->comm)); /* learns what others took meanwhile */
        uint64_t sent = counters->sent[kind], received = counters->received[kind];
        uint64_t steps = counters->steps[kind];
        comm_count_as(rank->comm, kind);
        comm_use(rank->comm, algorithm);
        TRY(comm_all_reduce(rank->comm, buffer, count, COMM_FLOAT, COMM_SUM,
                            device_record(rank->device), &done));
        TRY(device_wait(rank->device, &done));
        comm_count_as(rank->comm, BYTES_INPUTS); /* the barrier's */
        sent = counters->sent[kind] - sent;
        received = counters->received[kind] - received;
        steps = counters->steps[kind] - steps;
        size_t expected_bytes = world > 1 ? formula[algorithm].bytes : 0;
        size_t expected_steps = world > 1 ? formula[algorithm].steps : 0;
        if (sent != expected_bytes || received != expected_bytes || steps != expected_steps)
            return error_make("%s, %zu ranks: sent %zu and received %zu in %zu steps, by the "
                              "formula %zu in %zu",
                              comm_algorithm_name(algorithm), world, (size_t)sent, (size_t)received,
                              (size_t)steps, expected_bytes, expected_steps);
    }
    return NULL;
}

static void test_bytes_and_steps_of_every_algorithm(void **state)
{
    (void)state;
    for (int world = 1; world <= 9; world++)
        run_ranks_ok(world, 65536, world % 2 == 0, count_algorithms, NULL);
}

/* --- failures ----------------------------------------------------------------------------- */

static Error one_stays_away(Rank *rank)
{
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, 64, (void **)&buffer));
    if (rank->number == 1)
        return NULL;
    TRY(comm_all_reduce(rank->comm, buffer, 16, COMM_FLOAT, COMM_SUM, device_record(rank->device),
                        &done));
    return device_wait(rank->device, &done);
}

static void test_a_time_out_names_who_did_not_arrive(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        Rank ranks[3];
        run_ranks(ranks, 3, 4096, background, 0.3, one_stays_away, NULL);
        assert_string_equal(ranks[0].error, "rank 0: all_reduce #1 waited 0.3 s for rank 1, which "
                                            "did not arrive");
        assert_string_equal(ranks[1].error, "");
        assert_string_equal(ranks[2].error, "rank 2: all_reduce #1 waited 0.3 s for rank 1, which "
                                            "did not arrive");
    }
}

static Error different_calls(Rank *rank)
{
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, 128, (void **)&buffer));
    TRY(comm_all_reduce(rank->comm, buffer, rank->number == 0 ? 16 : 17, COMM_FLOAT, COMM_SUM,
                        device_record(rank->device), &done));
    return device_wait(rank->device, &done);
}

static void test_ranks_that_call_different_things_are_told(void **state)
{
    (void)state;
    Rank ranks[2];
    run_ranks(ranks, 2, 4096, false, 60, different_calls, NULL);
    for (int i = 0; i < 2; i++) {
        assert_non_null(strstr(ranks[i].error, "of 16"));
        assert_non_null(strstr(ranks[i].error, "of 17"));
    }
}

static Error foreign_buffer(Rank *rank)
{
    float own[4] = {0}, *buffer;
    Event done;
    Error error = comm_all_reduce(rank->comm, own, 4, COMM_FLOAT, COMM_SUM,
                                  device_record(rank->device), &done);
    if (!error)
        return error_make("a buffer from elsewhere was accepted");
    TRY(comm_alloc(rank->comm, 64, (void **)&buffer));
    if (!comm_all_reduce(rank->comm, buffer, 17, COMM_FLOAT, COMM_SUM, device_record(rank->device),
                         &done))
        return error_make("a buffer that is too small was accepted");
    void *more;
    if (!comm_alloc(rank->comm, 1 << 20, &more))
        return error_make("more than the heap was given away");
    return NULL;
}

static void test_buffers_must_come_from_the_heap(void **state)
{
    (void)state;
    run_ranks_ok(1, 4096, false, foreign_buffer, NULL);
}

/* --- ranks as processes ------------------------------------------------------------------- */

static void test_forked_ranks(void **state)
{
    (void)state;
    enum { WORLD = 4 };
    Error error = NULL;
    Group *group = comm_group(COMM_SHM, WORLD, 1 << 20, &error);
    assert_null(error);
    pid_t child[WORLD];
    Case c = {.count = 10007, .type = COMM_FLOAT, .op = COMM_SUM, .root = 3};
    for (int i = 0; i < WORLD; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) {
            Rank rank = {.number = i,
                         .world = WORLD,
                         .group = group,
                         .background = true,
                         .timeout_s = 60,
                         .body = all_collectives,
                         .argument = &c};
            rank_main(&rank);
            _exit(rank.error[0] != 0);
        }
    }
    for (int i = 0; i < WORLD; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    char text[64];
    comm_group_last_operation(group, 2, text, sizeof text);
    assert_string_equal(text, "barrier #5");
    comm_group_free(group);
}

/* Rank 1 may not read one slice of rank 0's buffer: it dies when the ring brings that to it, in the
 * middle of the operation. The others must name it, not the neighbour they wait for. */
static int live_with_a_fault(Group *group, int number, CommAlgorithm algorithm, char *error,
                             size_t size)
{
    enum { PAGE = 4096, COUNT = 4 * PAGE / sizeof(float) };
    Error failure = NULL;
    Device *device = device_open(DEVICE_CPU, number, false, &failure);
    Comm *comm = comm_open(group, number, device, 1, number % 2 == 0, &failure);
    void *filler;
    float *buffer;
    Event done;
    /* a slice for each of the four ranks is a page of its own */
    failure = comm_alloc(comm, COUNT * sizeof(float), (void **)&buffer);
    if (!failure)
        failure = comm_alloc(comm, PAGE, &filler);
    if (failure)
        return 2;
    if (number == 1) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        mprotect(heap_of(comm, 0) + 2 * PAGE, PAGE, PROT_NONE);
    }
    comm_use(comm, algorithm);
    failure =
        comm_all_reduce(comm, buffer, COUNT, COMM_FLOAT, COMM_SUM, device_record(device), &done);
    if (!failure)
        failure = device_wait(device, &done);
    snprintf(error, size, "%s", failure ? failure : "");
    return failure != NULL;
}

static void test_a_death_in_the_middle_names_the_dead(void **state)
{
    (void)state;
    enum { WORLD = 4, TEXT = 512 };
    static const struct {
        CommAlgorithm algorithm;
        const char *error; /* of rank 3 */
    } cases[] = {
        {COMM_RING, "rank 3: all_reduce #1 (ring, step 4 of 6) waited 1 s for rank 1, which did "
                    "not finish"},
        {COMM_TREE, "rank 3: all_reduce #1 waited 1 s for rank 1, which did not finish"},
    };
    char *errors =
        mmap(NULL, WORLD * TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(errors != MAP_FAILED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = NULL;
        Group *group = comm_group(COMM_SHM, WORLD, 1 << 16, &error);
        assert_null(error);
        pid_t child[WORLD];
        for (int rank = 0; rank < WORLD; rank++) {
            child[rank] = fork();
            assert_true(child[rank] >= 0);
            if (child[rank] == 0)
                _exit(
                    live_with_a_fault(group, rank, cases[i].algorithm, errors + rank * TEXT, TEXT));
        }
        for (int rank = 0; rank < WORLD; rank++) {
            int status;
            assert_int_equal(waitpid(child[rank], &status, 0), child[rank]);
            if (rank == 1) {
                assert_true(WIFSIGNALED(status));
                continue;
            }
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
            assert_non_null(strstr(errors + rank * TEXT, "for rank 1, which did not finish"));
        }
        assert_string_equal(errors + 3 * TEXT, cases[i].error);
        comm_group_free(group);
    }
    munmap(errors, WORLD * TEXT);
}

/* --- the word ----------------------------------------------------------------------------- */

static void test_word_wait_gives_up_in_time(void **state)
{
    (void)state;
    Word word = {0};
    assert_false(word_wait(&word, 1, 10, 0.05));
    word_set(&word, 1);
    assert_true(word_wait(&word, 1, 0, 0.05));
    /* numbers wrap around */
    word_set(&word, UINT32_MAX);
    assert_false(word_reached(&word, 1));
    assert_int_equal(word_add(&word), 0);
    assert_true(word_reached(&word, UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_and_operation),
        cmocka_unit_test(test_every_rank_count_and_odd_sizes),
        cmocka_unit_test(test_sums_are_taken_in_rank_order),
        cmocka_unit_test(test_every_algorithm),
        cmocka_unit_test(test_all_ranks_have_the_same_bits_every_time),
        cmocka_unit_test(test_buckets_in_the_background),
        cmocka_unit_test(test_more_operations_than_the_queue_holds),
        cmocka_unit_test(test_bytes_follow_the_formulas),
        cmocka_unit_test(test_bytes_and_steps_of_every_algorithm),
        cmocka_unit_test(test_a_time_out_names_who_did_not_arrive),
        cmocka_unit_test(test_ranks_that_call_different_things_are_told),
        cmocka_unit_test(test_buffers_must_come_from_the_heap),
        cmocka_unit_test(test_forked_ranks),
        cmocka_unit_test(test_a_death_in_the_middle_names_the_dead),
        cmocka_unit_test(test_word_wait_gives_up_in_time),
    };
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
