/* bench_collectives.c: the speed of collectives (see bench_collectives.h).
 *
 * Every rank is a process, as in DDP. All ranks go through the same lines: a section (collective,
 * transport, algorithm) at one size. In each
 *
 *     zeros are sent round, first to warm up, then for the clock: sums of zeros stay what they are
 *     numbers are sent round once, and each rank checks all that it has then
 *
 * The supervisor prints a line when every rank has finished it.
 */
#include "bench_collectives.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/interrupt.h"
#include "base/place.h"
#include "comm/launch.h"
#include "ranks.h"
#include "report/screen_bench.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROOT 0

/* Elements that are brought to host memory at a time, to be filled or checked. */
#define SCRATCH 65536

/* With a time to fill instead of a number: no more operations than this, and no fewer. */
enum { LEAST_STEPS = 3, MOST_STEPS = 20000 };

/* A line of the tables. Shared. */
typedef struct Line {
    Word planned;  /* 1 when rank 0 has chosen `steps` */
    Word finished; /* ranks that have measured and checked */
    int64_t steps;
    _Atomic uint64_t wrong;       /* elements, over all ranks */
    _Atomic uint64_t nanoseconds; /* of all its steps, over all ranks */
} Line;

/* What the processes share. */
typedef struct Shared {
    const Bench *bench;
    Group *group[2];        /* by transport; NULL: not used */
    _Atomic int *transport; /* that each rank uses just now: [ranks], shared */
    Line *lines;            /* [sections * sizes], shared */
    RankError *errors;      /* [ranks], shared */

    /* the supervisor's */
    FILE *out;
    cJSON *object, *results;
    int printed; /* lines */
} Shared;

/* --- sizes -------------------------------------------------------------------------------- */

void bench_fill_sizes(Bench *bench, size_t least, size_t most)
{
    bench->sizes = 0;
    for (size_t size = least; size <= most && bench->sizes < BENCH_MOST_SIZES; size *= 4)
        bench->size[bench->sizes++] = size;
}

/* The communicator's memory that a rank needs: one buffer for the whole of the largest size, one
 * for a rank's part of it. */
static size_t wide_bytes(const Bench *bench)
{
    size_t largest = bench->size[bench->sizes - 1], smallest = sizeof(float) * (size_t)bench->ranks;
    return largest > smallest ? largest : smallest;
}

static size_t heap_bytes(const Bench *bench)
{
    return 2 * comm_heap_bytes(wide_bytes(bench));
}

double bench_memory_bytes(const Bench *bench)
{
    return (double)bench->ranks * (double)heap_bytes(bench);
}

static Line *line_of(const Shared *shared, int section, int size)
{
    return &shared->lines[section * shared->bench->sizes + size];
}

/* --- a rank ------------------------------------------------------------------------------- */

typedef struct Rank {
    const Bench *bench;
    Device *device;
    Comm *comm;
    float *wide;    /* [ranks * count] of a part, or the whole buffer */
    float *narrow;  /* [count] of a part */
    float *scratch; /* host, [SCRATCH] */
} Rank;

static float *inputs_of(const Rank *rank, BenchWhat what)
{
    return what == BENCH_ALL_GATHER ? rank->narrow : rank->wide;
}

static float *outputs_of(const Rank *rank, BenchWhat what)
{
    return what == BENCH_REDUCE_SCATTER ? rank->narrow : rank->wide;
}

/* Starts one operation on inputs that were `ready`, and waits for it (on a GPU: lets the device
 * wait). */
static Error operate(Rank *rank, BenchWhat what, size_t count, Event ready)
{
    Event done;
    switch (what) {
    case BENCH_ALL_REDUCE:
        TRY(comm_all_reduce(rank->comm, rank->wide, count, COMM_FLOAT, COMM_SUM, ready, &done));
        break;
    case BENCH_ALL_GATHER:
        TRY(comm_all_gather(rank->comm, rank->wide, rank->narrow, count, COMM_FLOAT, ready, &done));
        break;
    case BENCH_BROADCAST:
        TRY(comm_broadcast(rank->comm, rank->wide, count, COMM_FLOAT, ROOT, ready, &done));
        break;
    case BENCH_REDUCE_SCATTER:
        TRY(comm_reduce_scatter(rank->comm, rank->narrow, rank->wide, count, COMM_FLOAT, COMM_SUM,
                                ready, &done));
        break;
    case BENCH_WHATS:
        break;
    }
    return device_wait(rank->device, &done);
}

/* Some operations; `*took_ms` of all of them together, from when all ranks were ready. */
static Error operate_often(Rank *rank, BenchWhat what, size_t count, int64_t times, double *took_ms)
{
    TRY(comm_barrier(rank->comm));
    TRY(device_sync(rank->device));
    Event ready = device_record(rank->device);
    double start_ms = clock_ms();
    for (int64_t i = 0; i < times; i++)
        TRY(operate(rank, what, count, ready));
    TRY(device_sync(rank->device));
    *took_ms = clock_ms() - start_ms;
    device_recycle_events(rank->device);
    return NULL;
}

/* Puts zeros, or numbers to be checked, into the inputs. */
static Error fill(Rank *rank, BenchWhat what, size_t count, bool zeros)
{
    size_t elements = bench_inputs(what, count, rank->bench->ranks);
    float *inputs = inputs_of(rank, what);
    for (size_t first = 0; first < elements; first += SCRATCH) {
        size_t here = elements - first < SCRATCH ? elements - first : SCRATCH;
        if (zeros)
            memset(rank->scratch, 0, sizeof(float) * here);
        else
            bench_fill(rank->scratch, first, here, comm_rank(rank->comm));
        device_upload(rank->device, inputs + first, rank->scratch, sizeof(float) * here);
    }
    return device_sync(rank->device);
}

static Error check(Rank *rank, BenchWhat what, size_t count, uint64_t *wrong)
{
    int ranks = rank->bench->ranks;
    size_t elements = bench_outputs(what, count, ranks);
    const float *outputs = outputs_of(rank, what);
    *wrong = 0;
    for (size_t first = 0; first < elements; first += SCRATCH) {
        size_t here = elements - first < SCRATCH ? elements - first : SCRATCH;
        TRY(device_download(rank->device, rank->scratch, outputs + first, sizeof(float) * here));
        *wrong +=
            bench_wrong(what, rank->scratch, first, here, count, comm_rank(rank->comm), ranks);
    }
    return NULL;
}

/* How many operations are measured: rank 0 decides, from how long one of the warm-up took. */
static Error agree_on_steps(Rank *rank, Line *line, double warmup_ms)
{
    const Bench *bench = rank->bench;
    if (comm_rank(rank->comm) == 0) {
        double fit = warmup_ms > 0 ? bench->line_ms / warmup_ms * (double)bench->warmup : 0;
        int64_t steps = fit < LEAST_STEPS  ? LEAST_STEPS
                        : fit > MOST_STEPS ? MOST_STEPS
                                           : (int64_t)fit;
        line->steps = bench->steps > 0 ? bench->steps : steps;
        word_set(&line->planned, 1);
    }
    if (!word_wait(&line->planned, 1, 0, bench->timeout_s))
        return error_make("rank %d waited %g s for rank 0, which did not say how often to measure",
                          comm_rank(rank->comm), bench->timeout_s);
    return NULL;
}

static Error measure(Rank *rank, BenchWhat what, size_t bytes, Line *line)
{
    size_t count = bench_size(what, bytes, rank->bench->ranks).count;
    double took_ms;
    TRY(fill(rank, what, count, true));
    TRY(operate_often(rank, what, count, rank->bench->warmup, &took_ms));
    TRY(agree_on_steps(rank, line, took_ms));
    TRY(operate_often(rank, what, count, line->steps, &took_ms));

    uint64_t wrong;
    TRY(fill(rank, what, count, false));
    TRY(operate(rank, what, count, device_record(rank->device)));
    TRY(check(rank, what, count, &wrong));
    line->nanoseconds += (uint64_t)(took_ms * 1e6);
    line->wrong += wrong;
    word_add(&line->finished);
    return NULL;
}

/* The sections on one transport. */
static Error use_transport(Shared *shared, Rank *rank, int number, CommKind transport)
{
    const Bench *bench = shared->bench;
    Error error = NULL;
    atomic_store(&shared->transport[number], (int)transport);
    rank->comm =
        comm_open(shared->group[transport], number, rank->device, bench->timeout_s, false, &error);
    TRY(error);
    TRY(comm_alloc(rank->comm, wide_bytes(bench), (void **)&rank->wide));
    TRY(comm_alloc(rank->comm, wide_bytes(bench), (void **)&rank->narrow));
    for (int i = 0; i < bench->sections; i++) {
        const BenchSection *section = &bench->section[i];
        if (section->transport != transport)
            continue;
        comm_use(rank->comm, section->algorithm);
        for (int size = 0; size < bench->sizes; size++)
            TRY(measure(rank, section->what, bench->size[size], line_of(shared, i, size)));
    }
    TRY(comm_barrier(rank->comm));
    TRY(device_sync(rank->device));
    comm_close(rank->comm);
    return NULL;
}

static Error rank_life(Shared *shared, int number)
{
    const Bench *bench = shared->bench;
    Rank rank = {.bench = bench};
    Error error = NULL;
    place_pin(bench->cpus, bench->cores, number, bench->ranks);
    rank.device =
        device_open(bench->device_kind, bench->gpus ? number % bench->gpus : number, false, &error);
    TRY(error);
    rank.scratch = malloc(sizeof(float) * SCRATCH);
    if (!rank.scratch)
        return error_make("no memory");
    static const CommKind in_order[] = {COMM_NCCL, COMM_SHM};
    for (size_t i = 0; i < sizeof in_order / sizeof *in_order && !error; i++)
        if (shared->group[in_order[i]])
            error = use_transport(shared, &rank, number, in_order[i]);
    free(rank.scratch);
    if (!error)
        device_close(rank.device);
    return error;
}

static int child(void *context, int number)
{
    Shared *shared = context;
    place_name("trainer: rank %d", number);
    Error error = rank_life(shared, number);
    if (!error)
        return 0;
    snprintf(shared->errors[number].text, sizeof shared->errors[number].text, "%s", error);
    return 1;
}

/* --- the supervisor ----------------------------------------------------------------------- */

static cJSON *section_json(const Bench *bench, const BenchSection *section)
{
    bool nccl = section->transport == COMM_NCCL;
    cJSON *result = cJSON_CreateObject();
    cJSON_AddStringToObject(result, "mode", "bench");
    cJSON_AddNumberToObject(result, "devices", bench->ranks);
    cJSON_AddStringToObject(result, "collective", bench_name(section->what));
    cJSON_AddStringToObject(result, "transport",
                            nccl                                ? "NCCL"
                            : bench->device_kind == DEVICE_CUDA ? "shared memory, staged through "
                                                                  "the host"
                                                                : "shared memory");
    if (!nccl && section->what == BENCH_ALL_REDUCE)
        cJSON_AddStringToObject(result, "algorithm", comm_algorithm_name(section->algorithm));
    else
        cJSON_AddNullToObject(result, "algorithm");
    cJSON_AddArrayToObject(result, "rows");
    return result;
}

/* A number that is the same once it has been written to the file and read again, so that a replay
 * rounds it as the screen did. */
static void add_number(cJSON *object, const char *name, double value)
{
    cJSON_AddNumberToObject(object, name, rint(value * 1e6) / 1e6);
}

static cJSON *line_json(const Bench *bench, BenchWhat what, size_t bytes, const Line *line)
{
    BenchSize size = bench_size(what, bytes, bench->ranks);
    double us = (double)line->nanoseconds / 1e3 / (double)line->steps / bench->ranks;
    double gb_s = us > 0 ? (double)size.bytes / us / 1e3 : 0;
    bool sums = what == BENCH_ALL_REDUCE || what == BENCH_REDUCE_SCATTER;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "size_bytes", (double)size.bytes);
    cJSON_AddNumberToObject(row, "count", (double)size.count);
    cJSON_AddStringToObject(row, "type", "float");
    cJSON_AddStringToObject(row, "redop", sums ? "sum" : "none");
    add_number(row, "time_us", us);
    add_number(row, "algbw_gb_s", gb_s);
    add_number(row, "busbw_gb_s", gb_s * bench_bus_factor(what, bench->ranks));
    cJSON_AddNumberToObject(row, "wrong", (double)line->wrong);
    cJSON_AddNumberToObject(row, "operations", (double)line->steps);
    return row;
}

/* Launch.tick: prints and keeps the lines that every rank has finished since. */
static void print_finished(void *context)
{
    Shared *shared = context;
    const Bench *bench = shared->bench;
    for (; shared->printed < bench->sections * bench->sizes; shared->printed++) {
        int number = shared->printed / bench->sizes, size = shared->printed % bench->sizes;
        const BenchSection *section = &bench->section[number];
        const Line *line = line_of(shared, number, size);
        if (!word_reached(&line->finished, (uint32_t)bench->ranks))
            break;
        if (size == 0) {
            cJSON_AddItemToArray(shared->results, section_json(bench, section));
            screen_bench_section(shared->out, cJSON_GetArrayItem(shared->results, number));
        }
        cJSON *result = cJSON_GetArrayItem(shared->results, number);
        cJSON *row = line_json(bench, section->what, bench->size[size], line);
        cJSON_AddItemToArray(cJSON_GetObjectItem(result, "rows"), row);
        screen_bench_row(shared->out, row);
        if (size == bench->sizes - 1) {
            cJSON_AddNumberToObject(result, "mean_busbw_gb_s", screen_bench_mean(result));
            screen_bench_section_end(shared->out, result);
        }
    }
    fflush(shared->out);
}

/* The parts of the memory that all processes see. */
static Error share(Shared *shared, size_t *bytes, void **memory)
{
    const Bench *bench = shared->bench;
    size_t ranks = (size_t)bench->ranks;
    size_t lines = (size_t)bench->sections * (size_t)bench->sizes;
    *bytes = sizeof(Line) * lines + sizeof(RankError) * ranks + sizeof(_Atomic int) * ranks;
    *memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TRY_SYSTEM(*memory != MAP_FAILED, "memory for %zu results", lines);
    shared->lines = *memory;
    shared->errors = (RankError *)(shared->lines + lines);
    shared->transport = (_Atomic int *)(shared->errors + ranks);
    for (int i = 0; i < bench->sections; i++) {
        CommKind kind = bench->section[i].transport;
        Error error = NULL;
        if (!shared->group[kind])
            shared->group[kind] = comm_group(kind, bench->ranks, heap_bytes(bench), &error);
        TRY(error);
    }
    return NULL;
}

static Error supervise(Shared *shared, int *status)
{
    const Bench *bench = shared->bench;
    Process *process = calloc((size_t)bench->ranks, sizeof *process);
    if (!process)
        return error_make("no memory");
    Launch launch = {.count = bench->ranks,
                     .process = process,
                     .body = child,
                     .tick = print_finished,
                     .context = shared};
    Error error = launch_all(&launch);
    print_finished(shared);
    bool complete = !error && !launch.interrupted && launch.failed < 0;
    cJSON_AddBoolToObject(shared->object, "complete", complete);
    if (!error && launch.interrupted)
        *status = interrupt_say(launch.interrupted);
    else
        *status = screen_bench_passed(shared->object) ? 0 : 1;
    if (!error && launch.failed >= 0) {
        int transport = atomic_load(&shared->transport[launch.failed]);
        ranks_explain_failure(&launch, shared->group[transport], shared->errors);
    }
    free(process);
    return error;
}

Error bench_collectives(const Bench *bench, FILE *out, cJSON *object, int *status)
{
    Shared shared = {.bench = bench, .out = out, .object = object};
    size_t bytes = 0;
    void *memory = MAP_FAILED;
    *status = 1;
    shared.results = cJSON_AddArrayToObject(object, "results");
    Error error = share(&shared, &bytes, &memory);
    if (!error) {
        screen_bench_head(out, object);
        fflush(out); /* or every rank would have it in its buffer, too */
        error = supervise(&shared, status);
        screen_bench_end(out, object);
        fflush(out);
    }
    for (int i = 0; i < 2; i++)
        comm_group_free(shared.group[i]);
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    return error;
}
