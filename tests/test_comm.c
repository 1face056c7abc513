/* test_comm.c: collectives in shared memory, with the ranks as threads of one process (which
 * ThreadSanitizer can see into) and as forked processes (which is how the trainer uses them). */
#include "comm/comm.h"

#include "base/futex.h"

#include <pthread.h>
#include <setjmp.h>
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

/* --- many at once ------------------------------------------------------------------------- */

/* Several buckets are under way while the rank "computes"; the buffers are used again at once, so a
 * missing wait for slow neighbours shows as a wrong sum. */
static Error many_rounds(Rank *rank)
{
    enum { BUCKETS = 4, COUNT = 700, ROUNDS = 200 };
    float *buffer[BUCKETS];
    Event done[BUCKETS];
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
    run_ranks_ok(2, 65536, true, many_rounds, NULL);
    run_ranks_ok(3, 65536, true, many_rounds, NULL);
    run_ranks_ok(3, 65536, false, many_rounds, NULL);
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
        cmocka_unit_test(test_buckets_in_the_background),
        cmocka_unit_test(test_more_operations_than_the_queue_holds),
        cmocka_unit_test(test_bytes_follow_the_formulas),
        cmocka_unit_test(test_a_time_out_names_who_did_not_arrive),
        cmocka_unit_test(test_ranks_that_call_different_things_are_told),
        cmocka_unit_test(test_buffers_must_come_from_the_heap),
        cmocka_unit_test(test_forked_ranks),
        cmocka_unit_test(test_word_wait_gives_up_in_time),
    };
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
