/* calibrate.c: what this machine's cores, memory and shared memory can do (see calibrate.h).
 *
 * A process on every core, as in DDP. First the first one measures alone, then all measure at once:
 * cores share caches, memory and power. Everything is measured through the same calls that training
 * makes, several times over, and the median counts.
 */
#include "calibrate.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/interrupt.h"
#include "base/place.h"
#include "comm/comm.h"
#include "comm/launch.h"
#include "data.h"
#include "device/device.h"
#include "device/layer_table.h"
#include "ranks.h"
#include "report/json.h"
#include "report/statistics.h"
#include "team.h"

#include <cblas.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LAYER_SIZES = 5, /* rows, inputs and outputs of 8, 32, ... 2048 */
    LAYER_SHAPES = LAYER_SIZES * LAYER_SIZES * LAYER_SIZES,
    ROW_SIZES = 5,     /* of images: 8, 32, ... 2048 */
    MEMORY_SIZES = 10, /* 1 KiB to 256 MiB */
    TALK_SIZES = 8,    /* 4 KiB to 64 MiB */
    SAMPLES = 6000,
    BATCH = 128,
    REPEATS = 7,
    PIXELS = 784,
    CLASSES = 10,
};

#define LEAST_MS    2.0 /* that a repeat takes */
#define COPY_BYTES  (4 << 20)
#define MOST_FLOATS ((size_t)256 << 20 >> 2) /* of one of the four arrays of the largest update */

/* What one process has found. Shared. */
typedef struct Found {
    double layer_flop_per_s[LAYER_WORKS][LAYER_SHAPES]; /* [rows, inputs, outputs] */
    double memory_bytes_per_s[MEMORY_SIZES];
    double talk_ms[TALK_SIZES];
    double convert_bytes_per_s[ROW_SIZES], loss_bytes_per_s[ROW_SIZES];
    double shortest_ms, hand_over_ms, sample_ms, copy_ms, spread;
    RankError error;
} Found;

typedef struct Shared {
    const int *cpus;
    int cores;
    Group *group;
    Word *alone_done; /* shared: the first process has measured alone */
    Word *met;        /* shared: processes that have come to where all begin at once */
    Found *alone;     /* shared: one */
    Found *together;  /* shared: [cores] */
} Shared;

static int layer_size(int i)
{
    return 8 << (2 * i);
}

/* Bytes that making floats of the images, and the loss of their outputs, touch. */
static double convert_bytes(int i)
{
    return 5.0 * layer_size(i) * PIXELS;
}

static double loss_bytes(int i)
{
    return 8.0 * layer_size(i) * CLASSES;
}

/* Bytes that an update of so many parameters touches: it reads four arrays and writes three. */
static double memory_bytes(int i)
{
    return 28.0 * (64 << (2 * i > 18 ? 18 : 2 * i));
}

static size_t talk_bytes(int i)
{
    return (size_t)4096 << (2 * i);
}

/* --- measuring ---------------------------------------------------------------------------- */

typedef struct Bench {
    Device *device;
    float *a, *b, *c, *d; /* on the device */
    int rows, in, out;
    size_t count;
    AdamStep adam;
    Team *team;
    const Images *images;
    uint32_t *samples; /* [SAMPLES], in no order */
    int from;          /* the first of the next batch */
    uint8_t *pixels;   /* [2048, PIXELS] */
    uint8_t *labels;   /* [2048] */
    LossStats stats;
    Device *other;
} Bench;

typedef void (*Act)(Bench *bench);

/* The median time of one `act` over repeats of as many as take LEAST_MS; `spread`, if given, gets
 * the repeats' standard deviation as a fraction, from their quartiles. */
static double time_ms(Bench *bench, Act act, double *spread)
{
    int64_t times = 1;
    double repeat_ms[REPEATS], from_ms;
    for (;; times *= 2) {
        from_ms = clock_ms();
        for (int64_t i = 0; i < times; i++)
            act(bench);
        if (clock_ms() - from_ms >= LEAST_MS)
            break;
    }
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        from_ms = clock_ms();
        for (int64_t i = 0; i < times; i++)
            act(bench);
        repeat_ms[repeat] = (clock_ms() - from_ms) / (double)times;
    }
    statistics_sort(repeat_ms, REPEATS);
    double median = statistics_median(repeat_ms, REPEATS);
    if (spread) /* of a normal distribution, the quartiles lie 1.349 standard deviations apart */
        *spread = (statistics_quantile(repeat_ms, REPEATS, 0.75) -
                   statistics_quantile(repeat_ms, REPEATS, 0.25)) /
                  1.349 / median;
    return median;
}

static void layer_forward(Bench *bench)
{
    device_linear_forward(bench->device, bench->c, bench->a, bench->b, bench->d, bench->rows,
                          bench->in, bench->out, true);
}

static void layer_backward_params(Bench *bench)
{
    device_linear_backward_params(bench->device, bench->d + bench->out, bench->d, bench->c,
                                  bench->a, bench->rows, bench->in, bench->out, false);
}

static void layer_backward_input(Bench *bench)
{
    device_linear_backward_input(bench->device, bench->d, bench->c, bench->b, bench->a, bench->rows,
                                 bench->in, bench->out);
}

static void convert(Bench *bench)
{
    device_bytes_to_float(bench->device, bench->a, bench->pixels, (size_t)bench->rows * PIXELS);
}

static void loss(Bench *bench)
{
    device_softmax_cross_entropy(bench->device, bench->d, &bench->stats, bench->a, bench->labels,
                                 bench->rows, CLASSES, 1);
}

static void update(Bench *bench)
{
    device_adam_step(bench->device, bench->a, bench->b, bench->c, bench->d, bench->count,
                     &bench->adam);
}

static void tiny_add(Bench *bench)
{
    device_add(bench->device, bench->a, bench->b, 16);
}

static Error nothing(void *context, int member)
{
    (void)context;
    (void)member;
    return NULL;
}

static void hand_over(Bench *bench)
{
    Error error = team_do(bench->team, 2, nothing, NULL);
    (void)error;
}

static void gather(Bench *bench)
{
    data_gather(bench->images, bench->samples + bench->from, BATCH, bench->pixels, bench->labels);
    bench->from = (bench->from + BATCH) % (SAMPLES - BATCH);
}

static void copy(Bench *bench)
{
    device_copy(bench->other, bench->b, bench->device, bench->a, COPY_BYTES, BYTES_MODEL);
}

/* Numbers of a usual size: denormals and zeros could take another time. */
static void fill(float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = 0.01f + (float)(i % 97) / 9700;
}

/* The three operations of a layer, at every shape that the sizes make. */
static void measure_layers(Bench *bench, Found *found)
{
    static const Act acts[LAYER_WORKS] = {layer_forward, layer_backward_params,
                                          layer_backward_input};
    size_t largest = (size_t)layer_size(LAYER_SIZES - 1) * (size_t)layer_size(LAYER_SIZES - 1);
    fill(bench->a, largest);
    fill(bench->b, largest);
    fill(bench->d, largest);
    for (int shape = 0; shape < LAYER_SHAPES; shape++) {
        bench->rows = layer_size(shape / (LAYER_SIZES * LAYER_SIZES));
        bench->in = layer_size(shape / LAYER_SIZES % LAYER_SIZES);
        bench->out = layer_size(shape % LAYER_SIZES);
        double flop = 2.0 * bench->rows * bench->in * bench->out;
        for (int work = 0; work < LAYER_WORKS; work++)
            found->layer_flop_per_s[work][shape] = flop / time_ms(bench, acts[work], NULL) * 1e3;
    }
    bench->rows = bench->in = bench->out = 512;
    time_ms(bench, layer_forward, &found->spread);
}

static void measure_batches(Bench *bench, Found *found)
{
    for (int i = 0; i < ROW_SIZES; i++) {
        bench->rows = layer_size(i);
        fill(bench->a, (size_t)bench->rows * CLASSES);
        found->loss_bytes_per_s[i] = loss_bytes(i) / time_ms(bench, loss, NULL) * 1e3;
        found->convert_bytes_per_s[i] = convert_bytes(i) / time_ms(bench, convert, NULL) * 1e3;
    }
}

static void measure_arithmetic(Bench *bench, Found *found)
{
    measure_layers(bench, found);
    measure_batches(bench, found);
    for (int i = 0; i < MEMORY_SIZES; i++) {
        bench->count = (size_t)(memory_bytes(i) / 28);
        fill(bench->a, bench->count);
        fill(bench->b, bench->count);
        found->memory_bytes_per_s[i] = memory_bytes(i) / time_ms(bench, update, NULL) * 1e3;
    }
    found->shortest_ms = time_ms(bench, tiny_add, NULL);
    found->copy_ms = time_ms(bench, copy, NULL);
}

static Error pin(void *context, int member)
{
    const Shared *shared = context;
    place_pin(shared->cpus, shared->cores, member, 2);
    return NULL;
}

/* What one process has to do with threads, and with images. */
static Error measure_host(Bench *bench, const Shared *shared, Found *found)
{
    static Dataset data;
    TRY(data_load("synthetic", SAMPLES, 0, &data));
    static uint32_t samples[SAMPLES];
    for (uint32_t i = 0; i < SAMPLES; i++)
        samples[i] = i * 2654435761u % SAMPLES;
    bench->images = &data.train;
    bench->samples = samples;
    found->sample_ms = time_ms(bench, gather, NULL) / BATCH;
    data_free(&data);

    Error error = NULL;
    bench->team = team_open(2, shared->cores > 1, pin, (void *)(uintptr_t)shared, &error);
    TRY(error);
    found->hand_over_ms = time_ms(bench, hand_over, NULL) / 2;
    team_close(bench->team);
    return NULL;
}

static Error measure_talk(Comm *comm, Device *device, float *buffer, Found *found)
{
    for (int i = 0; i < TALK_SIZES; i++) {
        size_t count = talk_bytes(i) / sizeof(float);
        double repeat_ms[REPEATS];
        int times = (int)((1 << 20) / talk_bytes(i)) + 1;
        for (int repeat = -1; repeat < REPEATS; repeat++) { /* the first one warms up */
            TRY(comm_barrier(comm));
            double from_ms = clock_ms();
            for (int time = 0; time < times; time++) {
                Event done;
                TRY(comm_all_reduce(comm, buffer, count, COMM_FLOAT, COMM_SUM,
                                    device_record(device), &done));
                TRY(device_wait(device, &done));
            }
            if (repeat >= 0)
                repeat_ms[repeat] = (clock_ms() - from_ms) / times;
        }
        statistics_sort(repeat_ms, REPEATS);
        found->talk_ms[i] = statistics_median(repeat_ms, REPEATS);
    }
    return NULL;
}

/* --- processes ---------------------------------------------------------------------------- */

static Error measure(const Shared *shared, int rank)
{
    Error error = NULL;
    place_pin(shared->cpus, shared->cores, rank, shared->cores);
    Bench bench = {
        .device = device_open(DEVICE_CPU, rank, false, &error),
        .adam = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .step = 1000},
    };
    TRY(error);
    bench.other = device_open(DEVICE_CPU, 0, false, &error);
    TRY(error);
    float **const arrays[] = {&bench.a, &bench.b, &bench.c, &bench.d};
    for (int i = 0; i < 4; i++)
        TRY(device_alloc(bench.device, sizeof(float) * MOST_FLOATS / 4, (void **)arrays[i]));
    size_t images = (size_t)layer_size(ROW_SIZES - 1);
    bench.pixels = calloc(images, PIXELS + 1);
    if (!bench.pixels)
        return error_make("no memory for %zu images", images);
    bench.labels = bench.pixels + images * PIXELS;
    float *buffer = NULL;
    Comm *comm = comm_open(shared->group, rank, bench.device, 60, false, &error);
    TRY(error);
    TRY(comm_alloc(comm, talk_bytes(TALK_SIZES - 1), (void **)&buffer));

    if (rank == 0) {
        measure_arithmetic(&bench, shared->alone);
        word_add(shared->alone_done);
    }
    word_wait(shared->alone_done, 1, 0, 0);
    uint32_t cores = (uint32_t)shared->cores;
    word_add(shared->met);
    word_wait(shared->met, cores, 0, 0);
    measure_arithmetic(&bench, &shared->together[rank]);
    word_add(shared->met); /* until all are done, or the last ones would have measured alone */
    word_wait(shared->met, 2 * cores, 0, 0);
    TRY(measure_talk(comm, bench.device, buffer, &shared->together[rank]));
    comm_close(comm);
    if (rank == 0)
        TRY(measure_host(&bench, shared, shared->alone)); /* makes threads: last */
    free(bench.pixels);
    device_close(bench.other);
    device_close(bench.device);
    return NULL;
}

static int child(void *context, int rank)
{
    const Shared *shared = context;
    place_name("trainer: rank %d", rank);
    Error error = measure(shared, rank);
    if (error)
        fprintf(stderr, "trainer: rank %d: %s\n", rank, error);
    return error != NULL;
}

/* --- the profile -------------------------------------------------------------------------- */

/* Of the double that stands at `offset` in what each core found together with the others. */
static double mean_together(const Shared *shared, size_t offset)
{
    double sum = 0;
    for (int rank = 0; rank < shared->cores; rank++) {
        double found;
        memcpy(&found, (const unsigned char *)&shared->together[rank] + offset, sizeof found);
        sum += found;
    }
    return sum / shared->cores;
}

static void add_pair(cJSON *curve, double x, double y)
{
    cJSON *pair = cJSON_CreateArray();
    cJSON_AddItemToArray(pair, cJSON_CreateNumber(x));
    cJSON_AddItemToArray(pair, cJSON_CreateNumber(y));
    cJSON_AddItemToArray(curve, pair);
}

/* The rates of a layer's operations, found alone or, each process's the same part, together. */
static void add_layers(cJSON *devices, const char *name, const Shared *shared, bool together)
{
    static const char *const works[LAYER_WORKS] = {"forward", "backward_params", "backward_input"};
    cJSON *layers = cJSON_AddObjectToObject(devices, name);
    cJSON *sizes = cJSON_AddArrayToObject(layers, "sizes");
    for (int i = 0; i < LAYER_SIZES; i++)
        cJSON_AddItemToArray(sizes, cJSON_CreateNumber(layer_size(i)));
    for (int work = 0; work < LAYER_WORKS; work++) {
        cJSON *rates = cJSON_AddArrayToObject(layers, works[work]);
        for (int shape = 0; shape < LAYER_SHAPES; shape++) {
            const double *alone = &shared->alone->layer_flop_per_s[work][shape];
            size_t at = (size_t)((const char *)alone - (const char *)shared->alone);
            double rate = together ? mean_together(shared, at) : *alone;
            cJSON_AddItemToArray(rates, cJSON_CreateNumber(round(rate / 1e6) * 1e6));
        }
    }
}

static void add_devices(cJSON *profile, const Shared *shared)
{
    cJSON *devices = cJSON_AddObjectToObject(profile, "devices");
    cJSON_AddStringToObject(devices, "noun", "core");
    cJSON_AddNumberToObject(devices, "per_node", shared->cores);
    cJSON_AddNumberToObject(devices, "nodes", 1);
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    cJSON_AddNumberToObject(devices, "memory_gb", round(memory / shared->cores / 1e7) / 100);
    cJSON *curve[4];
    static const char *const names[] = {"memory_gb_per_s", "busy_memory_gb_per_s", "products",
                                        "busy_products"};
    for (int i = 0; i < 4; i++)
        curve[i] = cJSON_AddArrayToObject(devices, names[i]);
    for (int i = 0; i < MEMORY_SIZES; i++) {
        size_t at = offsetof(Found, memory_bytes_per_s) + sizeof(double) * (size_t)i;
        add_pair(curve[0], memory_bytes(i), shared->alone->memory_bytes_per_s[i] / 1e9);
        add_pair(curve[1], memory_bytes(i), mean_together(shared, at) / 1e9);
    }
    for (int i = 0; i < LAYER_SIZES; i++) { /* of square matrices */
        double flop = 2 * pow(layer_size(i), 3);
        int shape = (LAYER_SIZES * LAYER_SIZES + LAYER_SIZES + 1) * i;
        size_t at = offsetof(Found, layer_flop_per_s) + sizeof(double) * (size_t)shape;
        add_pair(curve[2], flop, shared->alone->layer_flop_per_s[LAYER_FORWARD][shape]);
        add_pair(curve[3], flop, mean_together(shared, at));
    }
    add_layers(devices, "layers", shared, false);
    add_layers(devices, "busy_layers", shared, true);
    cJSON *convert = cJSON_AddArrayToObject(devices, "convert_gb_per_s");
    cJSON *loss_rate = cJSON_AddArrayToObject(devices, "loss_gb_per_s");
    for (int i = 0; i < ROW_SIZES; i++) {
        add_pair(convert, convert_bytes(i), shared->alone->convert_bytes_per_s[i] / 1e9);
        add_pair(loss_rate, loss_bytes(i), shared->alone->loss_bytes_per_s[i] / 1e9);
    }
    cJSON_AddNumberToObject(devices, "shortest_us", shared->alone->shortest_ms * 1e3);
    cJSON_AddBoolToObject(devices, "asynchronous", false);
    cJSON_AddNumberToObject(devices, "spread", fmin(0.5, shared->alone->spread));
}

static void add_link(cJSON *links, const char *name, double bytes_per_s)
{
    cJSON *link = cJSON_AddObjectToObject(links, name);
    cJSON_AddNumberToObject(link, "gb_per_s", bytes_per_s / 1e9);
    cJSON_AddNumberToObject(link, "latency_us", 0);
    cJSON_AddBoolToObject(link, "shared", true);
}

/* The formula of profiles/README.md, solved for the bus bandwidth. */
static void add_collectives(cJSON *profile, const Shared *shared)
{
    cJSON *collectives = cJSON_AddObjectToObject(profile, "collectives");
    double n = shared->cores > 1 ? shared->cores : 2;
    double base_ms = mean_together(shared, offsetof(Found, talk_ms));
    cJSON_AddNumberToObject(collectives, "base_us", base_ms * 1e3);
    cJSON_AddNumberToObject(collectives, "step_us", 0);
    cJSON_AddNumberToObject(collectives, "network_step_us", 0);
    cJSON *curve = cJSON_AddArrayToObject(collectives, "ring_gb_per_s");
    for (int i = 1; i < TALK_SIZES; i++) {
        double ms =
            mean_together(shared, offsetof(Found, talk_ms) + sizeof(double) * (size_t)i) - base_ms;
        double bytes = 2 * (n - 1) / n * (double)talk_bytes(i);
        if (ms > 0)
            add_pair(curve, (double)talk_bytes(i), bytes / ms * 1e3 / 1e9);
    }
    if (cJSON_GetArraySize(curve) == 0)
        add_pair(curve, 1, 1);
    cJSON_AddNumberToObject(collectives, "device_share", 1);
}

static void add_notes(cJSON *profile)
{
    static const char *const notes[][2] = {
        {"devices.memory_gb_per_s", "device_adam_step of 64 parameters and more, one core at work"},
        {"devices.busy_memory_gb_per_s", "the same, all cores at work"},
        {"devices.products", "those of devices.layers forward that are square"},
        {"devices.layers", "device_linear_forward, _backward_params and _backward_input, one core"},
        {"devices.busy_layers", "the same, all cores at work"},
        {"devices.convert_gb_per_s", "device_bytes_to_float of 8 to 2048 images of 784 pixels"},
        {"devices.loss_gb_per_s", "device_softmax_cross_entropy of 8 to 2048 rows, 10 classes"},
        {"devices.busy_products", "the same, all cores at work"},
        {"devices.shortest_us", "device_add of 16 numbers"},
        {"devices.spread", "from the quartiles of a repeated layer of 512 rows and widths"},
        {"host.launch_us", "0: an operation is a call, and its time is in shortest_us"},
        {"host.hand_over_us", "half of a team_do of nothing between two threads"},
        {"host.sample_us", "data_gather of 128 of 6,000 images of 784 pixels, others each time"},
        {"links.peer", "device_copy of 4 MiB; the other links are not used by cores"},
        {"collectives.base_us", "an all-reduce of 4 KiB through shared memory, awaited at once"},
        {"collectives.ring_gb_per_s", "16 KiB to 64 MiB, less the base"},
        {"collectives.device_share", "the communication thread shares the core"},
    };
    cJSON *object = cJSON_AddObjectToObject(profile, "notes");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        cJSON_AddStringToObject(object, notes[i][0], notes[i][1]);
}

static cJSON *profile_of(const Shared *shared)
{
    cJSON *profile = cJSON_CreateObject();
    cJSON_AddNumberToObject(profile, "schema", 1);
    cJSON_AddStringToObject(profile, "name", "this machine");
    char about[128];
    snprintf(about, sizeof about, "%d core%s of one machine, as --mode=calibrate measured them",
             shared->cores, shared->cores == 1 ? "" : "s");
    cJSON_AddStringToObject(profile, "about", about);
    cJSON *sources = cJSON_AddArrayToObject(profile, "sources");
    cJSON_AddItemToArray(sources, cJSON_CreateString("trainer --mode=calibrate, measured"));
    cJSON_AddArrayToObject(profile, "fitted");
    add_devices(profile, shared);
    cJSON *times = cJSON_AddObjectToObject(profile, "host");
    cJSON_AddNumberToObject(times, "launch_us", 0);
    cJSON_AddNumberToObject(times, "hand_over_us", shared->alone->hand_over_ms * 1e3);
    cJSON_AddNumberToObject(times, "interpreter_us", 0);
    cJSON_AddNumberToObject(times, "sample_us", shared->alone->sample_ms * 1e3);
    cJSON *links = cJSON_AddObjectToObject(profile, "links");
    double rate = COPY_BYTES / shared->alone->copy_ms * 1e3;
    add_link(links, "host", rate);
    add_link(links, "peer", rate);
    cJSON_AddNullToObject(links, "network");
    add_collectives(profile, shared);
    add_notes(profile);
    return profile;
}

/* --- all of it ---------------------------------------------------------------------------- */

static Error share(Shared *shared, int cores)
{
    size_t words = 2 * sizeof(Word), bytes = words + sizeof(Found) * ((size_t)cores + 1);
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TRY_SYSTEM(memory != MAP_FAILED, "%zu bytes of shared memory", bytes);
    shared->alone_done = (Word *)memory;
    shared->met = shared->alone_done + 1;
    shared->alone = (Found *)(memory + words);
    shared->together = shared->alone + 1;
    Error error = NULL;
    shared->group =
        comm_group(COMM_SHM, cores, comm_heap_bytes(talk_bytes(TALK_SIZES - 1)), &error);
    return error;
}

Error calibrate(const char *path, const int *cpus, int cores, int *status)
{
    Shared shared = {.cpus = cpus, .cores = cores};
    TRY(share(&shared, cores));
    Process *process = calloc((size_t)cores, sizeof *process);
    if (!process)
        return error_make("no memory for %d processes", cores);
    fprintf(stderr, "Measuring %d core%s: alone, together, talking; about half a minute\n", cores,
            cores == 1 ? "" : "s");
    openblas_set_num_threads(1);
    Launch launch = {.count = cores, .process = process, .body = child, .context = &shared};
    Error error = launch_all(&launch);
    free(process);
    TRY(error);
    if (launch.interrupted) {
        *status = interrupt_say(launch.interrupted);
    } else if (launch.failed >= 0) {
        fprintf(stderr, "trainer: FAILED: a process that measured has ended before it was done\n");
        *status = 1;
    } else {
        cJSON *profile = profile_of(&shared);
        error = report_write(profile, path);
        cJSON_Delete(profile);
        if (!error && strcmp(path, "-") != 0)
            fprintf(stderr, "Wrote %s: use it with --profile=%s\n", path, path);
    }
    comm_group_free(shared.group);
    return error;
}
