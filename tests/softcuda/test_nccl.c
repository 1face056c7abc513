/* test_nccl.c: the software NCCL, with ranks as processes, as the trainer has them: right results
 * for any number of ranks and elements, progress while a host is busy, and what it must refuse.
 *
 * Linked with the software libraries; needs no CUDA compiler. SOFTCUDA_GPUS is set here.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>

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

#define MOST_RANKS 5

/* --- ranks --------------------------------------------------------------------------------- */

/* What the ranks of a test share: one mapping, made before the fork. */
typedef struct Meeting {
    ncclUniqueId id;
    volatile int id_made;
} Meeting;

typedef struct Rank {
    int number, world, gpu;
    Meeting *meeting;
    ncclComm_t comm;
    cudaStream_t stream;
} Rank;

/* A rank's life: its result is the process's exit status, 0 if all is well. */
typedef int (*RankBody)(Rank *rank);

static int join(Rank *rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (cudaSetDevice(rank->gpu) != cudaSuccess ||
        cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking) != cudaSuccess)
        return 100;
    if (rank->number == 0) {
        ncclGetUniqueId(&rank->meeting->id);
        rank->meeting->id_made = 1;
    }
    while (!rank->meeting->id_made)
        usleep(200);
    ncclResult_t status =
        ncclCommInitRankConfig(&rank->comm, rank->world, rank->meeting->id, rank->number, &config);
    while (status == ncclInProgress) {
        usleep(200);
        if (ncclCommGetAsyncError(rank->comm, &status) != ncclSuccess)
            return 101;
    }
    return (int)status;
}

/* Waits until the last call is done, as a nonblocking communicator asks. */
static ncclResult_t settled(Rank *rank, ncclResult_t status)
{
    while (status == ncclInProgress)
        if (ncclCommGetAsyncError(rank->comm, &status) != ncclSuccess)
            return ncclInternalError;
    return status;
}

/* Forks `world` ranks; statuses[] are waitpid's, texts[] what each wrote to stderr. Without `gpus`
 * rank r gets GPU r. */
static void run_ranks(int world, const int *gpus, RankBody body, int *statuses, char (*texts)[512])
{
    Meeting *meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(meeting != MAP_FAILED);
    pid_t pids[MOST_RANKS];
    int pipes[MOST_RANKS];
    for (int i = 0; i < world; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            dup2(ends[1], STDERR_FILENO);
            Rank rank = {i, world, gpus ? gpus[i] : i, meeting, NULL, NULL};
            int status = join(&rank);
            _exit(status ? status : body(&rank));
        }
        close(ends[1]);
        pipes[i] = ends[0];
    }
    for (int i = 0; i < world; i++) {
        waitpid(pids[i], &statuses[i], 0);
        ssize_t length = read(pipes[i], texts[i], sizeof texts[i] - 1);
        texts[i][length > 0 ? length : 0] = '\0';
        close(pipes[i]);
    }
    munmap(meeting, sizeof *meeting);
}

static void run_ranks_ok(int world, RankBody body)
{
    int statuses[MOST_RANKS];
    char texts[MOST_RANKS][512];
    run_ranks(world, NULL, body, statuses, texts);
    for (int i = 0; i < world; i++)
        if (statuses[i] != 0)
            fail_msg("rank %d of %d: status 0x%x: %s", i, world, (unsigned)statuses[i], texts[i]);
}

/* --- results ------------------------------------------------------------------------------- */

/* Small whole numbers, different for each rank and place. */
static double value_of(int rank, size_t i)
{
    return (double)((i * 5 + (size_t)rank * 3) % 7 + 1);
}

static double reduced(int world, size_t i, ncclRedOp_t op)
{
    double result = value_of(0, i);
    for (int rank = 1; rank < world; rank++) {
        double value = value_of(rank, i);
        if (op == ncclProd)
            result *= value;
        else if (op == ncclMax)
            result = value > result ? value : result;
        else if (op == ncclMin)
            result = value < result ? value : result;
        else
            result += value;
    }
    return op == ncclAvg ? result / world : result;
}

static size_t type_bytes(ncclDataType_t type)
{
    return type == ncclFloat32 || type == ncclInt32 ? 4 : 8;
}

static void store(void *memory, size_t i, ncclDataType_t type, double value)
{
    if (type == ncclFloat32)
        ((float *)memory)[i] = (float)value;
    else if (type == ncclFloat64)
        ((double *)memory)[i] = value;
    else if (type == ncclInt32)
        ((int32_t *)memory)[i] = (int32_t)value;
    else
        ((uint64_t *)memory)[i] = (uint64_t)value;
}

typedef enum { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, KINDS } Kind;

/* The value of element i of the result; -1: this rank's buffer is left alone. */
static double wanted(const Rank *rank, Kind kind, size_t i, size_t count, ncclRedOp_t op, int root)
{
    switch (kind) {
    case ALL_REDUCE:
        return reduced(rank->world, i, op);
    case BROADCAST:
        return value_of(root, i);
    case REDUCE:
        return rank->number == root ? reduced(rank->world, i, op) : -1;
    case ALL_GATHER:
        return value_of((int)(i / count), i % count);
    default:
        return reduced(rank->world, (size_t)rank->number * count + i, op);
    }
}

/* One collective out of place; 0 if the result is right on this rank. */
static int try_collective(Rank *rank, Kind kind, size_t count, ncclDataType_t type, ncclRedOp_t op,
                          int root)
{
    size_t sends = kind == REDUCE_SCATTER ? count * (size_t)rank->world : count;
    size_t receives = kind == ALL_GATHER ? count * (size_t)rank->world : count;
    size_t send_bytes = sends * type_bytes(type), receive_bytes = receives * type_bytes(type);
    void *send, *receive, *host = malloc(send_bytes + receive_bytes),
                          *right = malloc(receive_bytes);
    cudaMalloc(&send, send_bytes);
    cudaMalloc(&receive, receive_bytes);
    for (size_t i = 0; i < sends; i++)
        store(host, i, type, value_of(rank->number, i));
    cudaMemcpyAsync(send, host, send_bytes, cudaMemcpyHostToDevice, rank->stream);

    ncclResult_t status = ncclInternalError;
    if (kind == ALL_REDUCE)
        status = ncclAllReduce(send, receive, count, type, op, rank->comm, rank->stream);
    else if (kind == BROADCAST)
        status = ncclBroadcast(send, receive, count, type, root, rank->comm, rank->stream);
    else if (kind == REDUCE)
        status = ncclReduce(send, receive, count, type, op, root, rank->comm, rank->stream);
    else if (kind == ALL_GATHER)
        status = ncclAllGather(send, receive, count, type, rank->comm, rank->stream);
    else
        status = ncclReduceScatter(send, receive, count, type, op, rank->comm, rank->stream);
    status = settled(rank, status);
    cudaMemcpyAsync(host, receive, receive_bytes, cudaMemcpyDeviceToHost, rank->stream);
    cudaStreamSynchronize(rank->stream);

    bool left_alone = wanted(rank, kind, 0, count, op, root) < 0;
    for (size_t i = 0; i < receives && !left_alone; i++)
        store(right, i, type, wanted(rank, kind, i, count, op, root));
    int result = status != ncclSuccess || (!left_alone && memcmp(host, right, receive_bytes) != 0);
    if (result)
        fprintf(stderr, "collective %d, %zu of type %d, operation %d, root %d: wrong (%s)\n", kind,
                count, type, op, root, ncclGetErrorString(status));
    cudaFree(send);
    cudaFree(receive);
    free(host);
    free(right);
    return result;
}

static int try_all_collectives(Rank *rank)
{
    static const size_t counts[] = {1, 3, 257};
    static const ncclDataType_t types[] = {ncclFloat32, ncclFloat64, ncclInt32, ncclUint64};
    static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
    for (Kind kind = 0; kind < KINDS; kind++)
        for (size_t t = 0; t < 4; t++)
            for (size_t o = 0; o < 5; o++) {
                int root = (int)(o % (size_t)rank->world);
                if (try_collective(rank, kind, counts[(t + o) % 3], types[t], ops[o], root))
                    return 1;
            }
    if (settled(rank, ncclCommFinalize(rank->comm)) != ncclSuccess)
        return 2;
    return ncclCommDestroy(rank->comm) != ncclSuccess;
}

static void test_all_collectives(void **state)
{
    (void)state;
    for (int world = 1; world <= MOST_RANKS; world++)
        run_ranks_ok(world, try_all_collectives);
}

/* --- order and progress -------------------------------------------------------------------- */

/* One all-reduce of a float, which is 1 on every rank. */
static ncclResult_t reduce_ones(Rank *rank, float **memory)
{
    static const float one = 1;
    cudaMalloc((void **)memory, sizeof one);
    cudaMemcpyAsync(*memory, &one, sizeof one, cudaMemcpyHostToDevice, rank->stream);
    return ncclAllReduce(*memory, *memory, 1, ncclFloat32, ncclSum, rank->comm, rank->stream);
}

/* Rank 0 queues its part and then waits for nothing; the others must be able to go on. */
static int busy_host(Rank *rank)
{
    float *memory;
    if (settled(rank, reduce_ones(rank, &memory)) != ncclSuccess)
        return 1;
    if (rank->number > 0) {
        cudaStreamSynchronize(rank->stream);
        rank->meeting->id_made = 2;
    }
    while (rank->meeting->id_made < 2)
        usleep(200);
    return 0;
}

static void test_a_busy_host_does_not_stop_the_others(void **state)
{
    (void)state;
    run_ranks_ok(2, busy_host);
}

/* Between "in progress" and "success" nothing is on the stream yet, and no other call is taken. */
static int does_not_settle(Rank *rank)
{
    float *memory;
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (reduce_ones(rank, &memory) != ncclInProgress)
        return 1;
    cudaEventRecord(event, rank->stream);
    if (cudaEventSynchronize(event) != cudaSuccess)
        return 2;
    float host = 0;
    cudaMemcpyAsync(&host, memory, sizeof host, cudaMemcpyDeviceToHost, rank->stream);
    cudaStreamSynchronize(rank->stream);
    if (host != 1)
        return 3;
    return reduce_ones(rank, &memory) != ncclInvalidArgument;
}

static void test_in_progress_is_not_yet_queued(void **state)
{
    (void)state;
    run_ranks_ok(2, does_not_settle);
}

/* --- what it refuses ----------------------------------------------------------------------- */

static int nothing(Rank *rank)
{
    (void)rank;
    return 0;
}

static void test_two_ranks_on_one_gpu(void **state)
{
    (void)state;
    static const int gpus[] = {0, 1, 0};
    int statuses[MOST_RANKS];
    char texts[MOST_RANKS][512];
    run_ranks(3, gpus, nothing, statuses, texts);
    for (int i = 0; i < 3; i++)
        assert_int_equal(WEXITSTATUS(statuses[i]), ncclInvalidUsage);
}

static int different_counts(Rank *rank)
{
    float *memory;
    cudaMalloc((void **)&memory, 2 * sizeof *memory);
    settled(rank, ncclAllReduce(memory, memory, rank->number == 0 ? 1 : 2, ncclFloat32, ncclSum,
                                rank->comm, rank->stream));
    cudaStreamSynchronize(rank->stream);
    return 0;
}

static int different_calls(Rank *rank)
{
    float *memory;
    cudaMalloc((void **)&memory, sizeof *memory);
    settled(rank,
            rank->number == 0
                ? ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, rank->comm, rank->stream)
                : ncclBroadcast(memory, memory, 1, ncclFloat32, 0, rank->comm, rank->stream));
    cudaStreamSynchronize(rank->stream);
    return 0;
}

static int buffer_too_small(Rank *rank)
{
    float *memory;
    cudaMalloc((void **)&memory, 7 * sizeof *memory);
    ncclAllReduce(memory, memory, 8, ncclFloat32, ncclSum, rank->comm, rank->stream);
    return 0;
}

static int one_of_a_clique(Rank *rank)
{
    static const int gpus[] = {0, 1};
    ncclComm_t comms[2];
    float *memory;
    if (ncclCommInitAll(comms, 2, gpus) != ncclSuccess)
        return 1;
    cudaMalloc((void **)&memory, sizeof *memory);
    ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comms[0], rank->stream);
    return 0;
}

static void expect_violation(int world, RankBody body, const char *words)
{
    int statuses[MOST_RANKS];
    char texts[MOST_RANKS][512];
    run_ranks(world, NULL, body, statuses, texts);
    bool said = false;
    for (int i = 0; i < world; i++)
        said |= WIFSIGNALED(statuses[i]) && strstr(texts[i], words);
    if (!said)
        fail_msg("no rank said \"%s\", but: %s", words, texts[0]);
}

static void test_mistakes(void **state)
{
    (void)state;
    expect_violation(1, buffer_too_small, "its send buffer of 32 bytes begins 0 bytes into 28");
    expect_violation(1, one_of_a_clique, "outside a group");
    expect_violation(2, different_counts, "ncclAllReduce with count 1");
    expect_violation(2, different_calls, "ncclBroadcast");
}

/* ------------------------------------------------------------------------------------------- */

int main(void)
{
    setenv("SOFTCUDA_GPUS", "5", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_collectives),
        cmocka_unit_test(test_a_busy_host_does_not_stop_the_others),
        cmocka_unit_test(test_in_progress_is_not_yet_queued),
        cmocka_unit_test(test_two_ranks_on_one_gpu),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
