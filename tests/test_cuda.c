/* test_cuda.c: collectives between CUDA devices: NCCL, and shared memory staged through the host;
 * and the copies and grouped NCCL calls that DataParallel uses.
 *
 * Ranks are forked processes, as in the trainer: this process must not touch CUDA. Needs GPUs, real
 * or software (tests/softcuda); what there are too few of is skipped, with the reason.
 */
#include "comm/comm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST_RANKS 4
#define HEAP_BYTES (1 << 20)

static int gpus;

/* --- ranks as processes ------------------------------------------------------------------- */

typedef struct Rank {
    int number, world;
    Device *device;
    Comm *comm;
    CommKind kind;
} Rank;

typedef Error (*RankBody)(Rank *rank);

/* What is left of a rank's process. */
typedef struct Ending {
    int status;         /* of waitpid */
    char stderr_[2048]; /* what it said */
} Ending;

static void be_rank(Group *group, CommKind kind, int number, int world, double timeout_s,
                    RankBody body)
{
    Rank rank = {.number = number, .world = world, .kind = kind};
    Error error = NULL;
    rank.device = device_open(DEVICE_CUDA, number % gpus, false, &error);
    if (!error)
        rank.comm = comm_open(group, number, rank.device, timeout_s, true, &error);
    if (!error)
        error = body(&rank);
    if (error) {
        fprintf(stderr, "rank %d: %s\n", number, error);
        _exit(3);
    }
    comm_close(rank.comm);
    device_close(rank.device);
    _exit(0);
}

static void run_ranks(CommKind kind, int world, double timeout_s, RankBody body, Ending *endings)
{
    Error error = NULL;
    Group *group = comm_group(kind, world, HEAP_BYTES, &error);
    assert_null(error);
    pid_t pid[MOST_RANKS];
    FILE *said[MOST_RANKS];
    for (int i = 0; i < world; i++) {
        said[i] = tmpfile();
        assert_non_null(said[i]);
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            dup2(fileno(said[i]), STDERR_FILENO);
            be_rank(group, kind, i, world, timeout_s, body);
        }
    }
    for (int i = 0; i < world; i++) {
        waitpid(pid[i], &endings[i].status, 0);
        rewind(said[i]);
        size_t length = fread(endings[i].stderr_, 1, sizeof endings[i].stderr_ - 1, said[i]);
        endings[i].stderr_[length] = '\0';
        fclose(said[i]);
    }
    comm_group_free(group);
}

static void run_ranks_ok(CommKind kind, int world, RankBody body)
{
    Ending endings[MOST_RANKS];
    run_ranks(kind, world, 60, body, endings);
    for (int i = 0; i < world; i++)
        if (!WIFEXITED(endings[i].status) || WEXITSTATUS(endings[i].status) != 0)
            fail_msg("rank %d of %d ended with status 0x%x and said: %s", i, world,
                     endings[i].status, endings[i].stderr_);
}

/* Every transport and number of ranks that the GPUs at hand allow. */
static void run_everywhere(RankBody body)
{
    if (gpus == 0)
        skip();
    for (int world = 1; world <= MOST_RANKS; world++)
        run_ranks_ok(COMM_SHM, world, body);
#ifdef TRAINER_NCCL
    for (int world = 1; world <= MOST_RANKS && world <= gpus; world++)
        run_ranks_ok(COMM_NCCL, world, body);
#endif
}

/* --- right results ------------------------------------------------------------------------ */

/* Small numbers, so that sums are exact in any order. */
static float value_of(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 5 + 1);
}

static float sum_of(int world, size_t i)
{
    float sum = 0;
    for (int rank = 0; rank < world; rank++)
        sum += value_of(rank, i);
    return sum;
}

#define COUNT ((size_t)1003)

/* This rank's values, [rows, COUNT] counted through, onto its device. */
static void put(const Rank *rank, float *on_device, size_t rows)
{
    float *host = malloc(sizeof *host * COUNT * rows);
    for (size_t i = 0; i < COUNT * rows; i++)
        host[i] = value_of(rank->number, i);
    device_upload(rank->device, on_device, host, sizeof *host * COUNT * rows);
    free(host);
}

/* `wanted(world, row, i)` is what element i of a row must be. */
static Error check(const Rank *rank, const char *what, const float *on_device, size_t rows,
                   float (*wanted)(const Rank *rank, size_t row, size_t i))
{
    float *host = malloc(sizeof *host * COUNT * rows);
    Error error = device_download(rank->device, host, on_device, sizeof *host * COUNT * rows);
    for (size_t i = 0; i < COUNT * rows && !error; i++) {
        float value = wanted(rank, i / COUNT, i % COUNT);
        if (host[i] != value)
            error = error_make("%s: element %zu is %g, not %g", what, i, (double)host[i],
                               (double)value);
    }
    free(host);
    return error;
}

static float wanted_sum(const Rank *rank, size_t row, size_t i)
{
    (void)row;
    return sum_of(rank->world, i);
}

static float wanted_last_ranks(const Rank *rank, size_t row, size_t i)
{
    (void)row;
    return value_of(rank->world - 1, i);
}

static float wanted_rows(const Rank *rank, size_t row, size_t i)
{
    (void)rank;
    return value_of((int)row, i);
}

static float wanted_own_row(const Rank *rank, size_t row, size_t i)
{
    (void)row;
    return sum_of(rank->world, (size_t)rank->number * COUNT + i);
}

static Error all_collectives(Rank *rank)
{
    Device *device = rank->device;
    Comm *comm = rank->comm;
    size_t world = (size_t)rank->world;
    float *buffer, *wide;
    Event done;
    TRY(comm_alloc(comm, sizeof *buffer * COUNT, (void **)&buffer));
    TRY(comm_alloc(comm, sizeof *wide * COUNT * world, (void **)&wide));

    put(rank, buffer, 1);
    TRY(comm_all_reduce(comm, buffer, COUNT, COMM_FLOAT, COMM_SUM, device_record(device), &done));
    comm_in_background(comm);
    TRY(device_wait(device, &done));
    TRY(check(rank, "all_reduce", buffer, 1, wanted_sum));

    put(rank, buffer, 1);
    TRY(comm_broadcast(comm, buffer, COUNT, COMM_FLOAT, rank->world - 1, device_record(device),
                       &done));
    TRY(device_wait(device, &done));
    TRY(check(rank, "broadcast", buffer, 1, wanted_last_ranks));

    put(rank, buffer, 1);
    TRY(comm_all_gather(comm, wide, buffer, COUNT, COMM_FLOAT, device_record(device), &done));
    TRY(device_wait(device, &done));
    TRY(check(rank, "all_gather", wide, world, wanted_rows));

    put(rank, wide, world);
    TRY(comm_reduce_scatter(comm, buffer, wide, COUNT, COMM_FLOAT, COMM_SUM, device_record(device),
                            &done));
    TRY(device_wait(device, &done));
    TRY(check(rank, "reduce_scatter", buffer, 1, wanted_own_row));
    return comm_barrier(comm);
}

static void test_all_collectives(void **state)
{
    (void)state;
    run_everywhere(all_collectives);
}

/* As in a training step: the device fills buckets, each is reduced in the background, and when all
 * are there the device adds them up and fills them anew. Nothing waits on the host, so an event too
 * few lets one of them read or write too early. More operations than either transport keeps. */
static Error many_rounds(Rank *rank)
{
    enum { BUCKETS = 4, ROUNDS = 80, SIZE = 64 };
    Device *device = rank->device;
    float *bucket[BUCKETS], *total, *source, host[SIZE];
    Event done[BUCKETS];
    TRY(device_alloc(device, sizeof host, (void **)&total));
    TRY(device_alloc(device, sizeof host, (void **)&source));
    for (int i = 0; i < SIZE; i++)
        host[i] = (float)(rank->number + i % 3 + 1);
    device_upload(device, source, host, sizeof host);
    for (int b = 0; b < BUCKETS; b++)
        TRY(comm_alloc(rank->comm, sizeof host, (void **)&bucket[b]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int b = 0; b < BUCKETS; b++) {
            device_zero(device, bucket[b], sizeof host);
            device_add(device, bucket[b], source, SIZE);
            comm_name_bucket(rank->comm, b);
            TRY(comm_all_reduce(rank->comm, bucket[b], SIZE, COMM_FLOAT, COMM_SUM,
                                device_record(device), &done[b]));
            if (b < BUCKETS - 1)
                comm_in_background(rank->comm);
        }
        for (int b = 0; b < BUCKETS; b++)
            TRY(device_wait(device, &done[b]));
        for (int b = 0; b < BUCKETS; b++)
            device_add(device, total, bucket[b], SIZE);
        if (round % 16 == 15) {
            TRY(device_sync(device));
            device_recycle_events(device);
        }
    }
    TRY(device_download(device, host, total, sizeof host));
    for (int i = 0; i < SIZE; i++) {
        int each = 0;
        for (int r = 0; r < rank->world; r++)
            each += r + i % 3 + 1;
        if (host[i] != (float)(each * BUCKETS * ROUNDS))
            return error_make("element %d is %g, not %d", i, (double)host[i],
                              each * BUCKETS * ROUNDS);
    }
    return NULL;
}

static void test_buckets_in_the_background(void **state)
{
    (void)state;
    run_everywhere(many_rounds);
}

/* --- bytes -------------------------------------------------------------------------------- */

static Error count_traffic(Rank *rank)
{
    size_t world = (size_t)rank->world, count = 16 * 37 * world;
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, sizeof *buffer * count, (void **)&buffer));
    TRY(comm_all_reduce(rank->comm, buffer, count, COMM_FLOAT, COMM_SUM,
                        device_record(rank->device), &done));
    TRY(device_wait(rank->device, &done));
    const Counters *counters = device_counters(rank->device);
    uint64_t formula = 2 * sizeof *buffer * count * (world - 1) / world;
    uint64_t sent = counters->sent[BYTES_PARAMETER_GRADIENTS];
    uint64_t received = counters->received[BYTES_PARAMETER_GRADIENTS];
    if (sent != formula || received != formula)
        return error_make("%llu sent, %llu received, %llu by the formula", (unsigned long long)sent,
                          (unsigned long long)received, (unsigned long long)formula);
    return device_sync(rank->device);
}

static void test_bytes_follow_the_formula(void **state)
{
    (void)state;
    run_everywhere(count_traffic);
}

/* --- failures ----------------------------------------------------------------------------- */

static Error last_rank_stays_away(Rank *rank)
{
    float *buffer;
    Event done;
    TRY(comm_alloc(rank->comm, sizeof *buffer * 16, (void **)&buffer));
    TRY(comm_barrier(rank->comm));
    if (rank->number == rank->world - 1) {
        sleep(rank->kind == COMM_NCCL ? 3600 : 0); /* ended below */
        return NULL;
    }
    comm_name_bucket(rank->comm, 3);
    TRY(comm_all_reduce(rank->comm, buffer, 16, COMM_FLOAT, COMM_SUM, device_record(rank->device),
                        &done));
    TRY(device_wait(rank->device, &done));
    return device_sync(rank->device);
}

static void assert_says(const Ending *ending, const char *words)
{
    if (!strstr(ending->stderr_, words))
        fail_msg("\"%s\" does not say \"%s\"", ending->stderr_, words);
}

static void test_staged_time_out_names_who_stayed_away(void **state)
{
    (void)state;
    if (gpus == 0)
        skip();
    Ending endings[MOST_RANKS];
    run_ranks(COMM_SHM, 2, 1, last_rank_stays_away, endings);
    assert_true(WIFEXITED(endings[0].status) && WEXITSTATUS(endings[0].status) == 3);
    assert_says(&endings[0], "rank 0: all_reduce #2 waited 1 s for rank 1, which did not arrive");
}

#ifdef TRAINER_NCCL

/* Rank 0's process, whose rank 1 does not come, must end by its watchdog. */
static void test_nccl_watchdog(void **state)
{
    (void)state;
    if (gpus < 2)
        skip();
    Error error = NULL;
    Group *group = comm_group(COMM_NCCL, 2, HEAP_BYTES, &error);
    assert_null(error);
    FILE *said = tmpfile();
    assert_non_null(said);
    pid_t pid[2];
    for (int i = 0; i < 2; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            if (i == 0)
                dup2(fileno(said), STDERR_FILENO);
            be_rank(group, COMM_NCCL, i, 2, 2, last_rank_stays_away);
        }
    }
    Ending ending = {0};
    waitpid(pid[0], &ending.status, 0);
    kill(pid[1], SIGKILL);
    waitpid(pid[1], NULL, 0);
    rewind(said);
    ending.stderr_[fread(ending.stderr_, 1, sizeof ending.stderr_ - 1, said)] = '\0';
    fclose(said);
    comm_group_free(group);
    assert_says(&ending, "trainer: rank 0: all_reduce #2 (bucket 3, 16 elements) has not finished "
                         "after 2 s; rank 1 has only come to #1");
    assert_true(WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == 1);
}

#else

static void test_nccl_watchdog(void **state)
{
    (void)state;
    skip();
}

#endif

/* --- the devices of one process ----------------------------------------------------------- */

/* The model out and the gradients back, twice, with the device reusing its buffers at once. */
static Error peers_round_trip(Device **device, int count, bool star)
{
    enum { SIZE = 501, ROUNDS = 3 };
    float *weights[MOST_RANKS], *gradients[MOST_RANKS], host[SIZE];
    Error error = NULL;
    Peers *peers = peers_open(device, count, star, &error);
    TRY(error);
    for (int i = 0; i < count; i++) {
        TRY(device_alloc(device[i], sizeof host, (void **)&weights[i]));
        TRY(device_alloc(device[i], sizeof host, (void **)&gradients[i]));
    }
    for (int j = 0; j < SIZE; j++)
        host[j] = (float)(j % 5);
    device_upload(device[0], weights[0], host, sizeof host);
    for (int round = 0; round < ROUNDS; round++) { /* device 0's weights grow count-fold */
        TRY(peers_broadcast(peers, weights, count, SIZE, BYTES_MODEL));
        for (int i = 0; i < count; i++) {
            device_zero(device[i], gradients[i], sizeof host);
            device_add(device[i], gradients[i], weights[i], SIZE);
        }
        TRY(peers_reduce(peers, gradients, count, SIZE));
        device_zero(device[0], weights[0], sizeof host);
        device_add(device[0], weights[0], gradients[0], SIZE);
    }
    TRY(device_download(device[0], host, weights[0], sizeof host));
    int factor = 1;
    for (int round = 0; round < ROUNDS; round++)
        factor *= count;
    for (int j = 0; j < SIZE; j++)
        if (host[j] != (float)(j % 5 * factor))
            return error_make("%d devices, %s: element %d is %g, not %d", count,
                              peers_transport(peers), j, (double)host[j], j % 5 * factor);
    for (int i = 0; i < count; i++)
        TRY(device_sync(device[i]));
    peers_close(peers);
    return NULL;
}

static Error peers_everywhere(void)
{
    for (int count = 1; count <= MOST_RANKS; count++)
        for (int star = 0; star < 2; star++) {
            Device *device[MOST_RANKS];
            Error error = NULL;
            for (int i = 0; i < count; i++) {
                device[i] = device_open(DEVICE_CUDA, i % gpus, false, &error);
                TRY(error);
            }
            TRY(peers_round_trip(device, count, star));
            for (int i = 0; i < count; i++)
                device_close(device[i]);
        }
    return NULL;
}

static void test_devices_of_one_process(void **state)
{
    (void)state;
    if (gpus == 0)
        skip();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        Error error = peers_everywhere();
        if (error)
            fprintf(stderr, "%s\n", error);
        _exit(error ? 1 : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* ------------------------------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_collectives),
        cmocka_unit_test(test_buckets_in_the_background),
        cmocka_unit_test(test_bytes_follow_the_formula),
        cmocka_unit_test(test_staged_time_out_names_who_stayed_away),
        cmocka_unit_test(test_nccl_watchdog),
        cmocka_unit_test(test_devices_of_one_process),
    };
    const char *reason = NULL;
    gpus = device_cuda_count(&reason);
    if (gpus == 0)
        printf("skipped: %s\n", reason);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
