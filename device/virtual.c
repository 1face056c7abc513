/* virtual.c: a device with a clock of its own (see virtual.h). The arithmetic is the CPU's, in the
 * same order, so that results equal a CPU's to the last bit; only time is invented.
 */
#include "device/virtual.h"

#include "base/clock.h"
#include "device/engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* With timing only, larger pieces of memory are addresses without anything behind them. What steers
 * the program (counts, shapes, agreements of the ranks) is far smaller, and is there. */
#define REAL_MEMORY_BYTES ((size_t)64 << 10)

typedef struct Virtual {
    const Hardware *hardware;
    VirtualPlace place;
    double queue_ms; /* when all that is queued is done */
    int64_t step;
    double factor;  /* that computing takes longer by in this step */
    double slowest; /* the largest of all devices' factors in this step; 0: not looked for yet */
} Virtual;

/* The calling thread's clock and, since only a boss copies, those of the links in its reach. */
static _Thread_local struct {
    const Hardware *hardware; /* NULL: a thread with a real clock */
    double now_ms;
    int threads;                       /* that share the interpreter just now */
    double host_link_ms, peer_link_ms; /* when the link is free */
} host;

static Virtual *virtual_of(const Device *device)
{
    return device->state;
}

static const Profile *profile_of(const Device *device)
{
    return &virtual_of(device)->hardware->profile;
}

static bool timing_only(const Device *device)
{
    return virtual_of(device)->hardware->timing_only;
}

/* --- clocks ------------------------------------------------------------------------------- */

double device_host_clock_ms(void)
{
    return host.hardware ? host.now_ms : clock_ms();
}

HostClock device_hand_over(int threads)
{
    host.threads = threads;
    return (HostClock){.hardware = host.hardware, .ms = host.now_ms, .threads = threads};
}

void device_take_over(const HostClock *clock)
{
    if (!clock->hardware)
        return;
    host.hardware = clock->hardware;
    host.threads = clock->threads;
    host.now_ms = fmax(host.now_ms, clock->ms + clock->hardware->profile.hand_over_ms);
}

void device_pause(Device *device, double ms)
{
    if (device->kind == DEVICE_VIRTUAL) {
        host.now_ms += ms;
        return;
    }
    struct timespec left = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(fmod(ms, 1e3) * 1e6)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

double virtual_host_ms(void)
{
    return host.now_ms;
}

double virtual_queue_ms(const Device *device)
{
    return virtual_of(device)->queue_ms;
}

const Hardware *virtual_hardware(const Device *device)
{
    return virtual_of(device)->hardware;
}

/* The queue stands at `ms`; the host of a device that works in the call stands there with it. */
static void advance_to(Device *device, double ms)
{
    virtual_of(device)->queue_ms = ms;
    if (!profile_of(device)->asynchronous)
        host.now_ms = fmax(host.now_ms, ms);
}

void virtual_launch(Device *device)
{
    const Hardware *hardware = virtual_of(device)->hardware;
    host.now_ms += hardware->profile.launch_ms;
    if (hardware->interpreter) /* of several threads, each gets it in turn */
        host.now_ms += hardware->profile.interpreter_ms * (host.threads > 1 ? host.threads : 1);
}

void virtual_delay(Device *device, double ms)
{
    Virtual *self = virtual_of(device);
    advance_to(device, fmax(self->queue_ms, host.now_ms) + ms);
}

/* The device works for so long, once it is free. */
static void run_for(Device *device, double ms)
{
    Virtual *self = virtual_of(device);
    ms = fmax(ms, self->hardware->profile.shortest_ms) * self->factor;
    advance_to(device, fmax(host.now_ms, self->queue_ms) + ms);
}

/* Queues an operation of the device's own. */
static void compute(Device *device, double ms)
{
    virtual_launch(device);
    run_for(device, ms);
}

/* Of the machine's devices, those that belong to the run. */
static int devices_beside(const Virtual *self)
{
    int per_node = self->hardware->profile.per_node;
    return self->place.devices < per_node ? self->place.devices : per_node;
}

/* A rate between what the device reaches alone and what it reaches while all devices of the machine
 * are at work. */
static double between(const Virtual *self, double alone, double busy)
{
    int per_node = self->hardware->profile.per_node;
    double share = per_node == 1 ? 0 : (devices_beside(self) - 1.0) / (per_node - 1.0);
    return alone * pow(busy / alone, share);
}

static double shared_rate(const Virtual *self, const Curve *alone, const Curve *busy, double size)
{
    double rate = curve_at(alone, size);
    return busy->points == 0 ? rate : between(self, rate, curve_at(busy, size));
}

static double flop_per_s(const Device *device, double flop)
{
    const Profile *profile = profile_of(device);
    return shared_rate(virtual_of(device), &profile->flop_per_s, &profile->busy_flop_per_s, flop);
}

/* How long an elementwise operation takes that touches `bytes`. */
static double memory_ms(const Device *device, double bytes)
{
    const Profile *profile = profile_of(device);
    double rate = shared_rate(virtual_of(device), &profile->memory_bytes_per_s,
                              &profile->busy_memory_bytes_per_s, bytes);
    return bytes / rate * 1e3;
}

/* Queues one. */
static void touch(Device *device, double bytes)
{
    compute(device, memory_ms(device, bytes));
}

/* Queues one that may have a curve of its own. */
static void touch_at(Device *device, const Curve *bytes_per_s, double bytes)
{
    if (bytes_per_s->points > 0)
        compute(device, bytes / curve_at(bytes_per_s, bytes) * 1e3);
    else
        touch(device, bytes);
}

/* Queues a product: as long as its arithmetic, or its memory, takes. */
static void multiply(Device *device, double flop, double bytes)
{
    double arithmetic_ms = flop / flop_per_s(device, flop) * 1e3;
    compute(device, fmax(arithmetic_ms, memory_ms(device, bytes)));
}

/* --- how long the same work takes, from step to step and device to device ----------------------
 */

/* A number in (0, 1) for every device, step and draw: a hash's bits (splitmix64). */
static double uniform(uint64_t device, uint64_t step, uint64_t draw)
{
    uint64_t x = device * 0x9e3779b97f4a7c15u + step * 0xbf58476d1ce4e5b9u + draw;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return ((double)(x >> 11) + 0.5) / 9007199254740992.0;
}

/* Normal with mean 1 and the profile's spread (Box and Muller's method), and never less than half.
 * The profile's is that of one pass; the mean of n passes spreads 1 / sqrt(n) as much. */
static double factor_of(const Hardware *hardware, int device, int64_t step)
{
    int passes = hardware->micro_batches > 1 ? hardware->micro_batches : 1;
    double spread = hardware->profile.spread / sqrt(passes);
    if (spread == 0)
        return 1;
    double u = uniform((uint64_t)device, (uint64_t)step, 1);
    double v = uniform((uint64_t)device, (uint64_t)step, 2);
    double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
    return fmax(0.5, 1 + spread * normal);
}

void device_begin_step(Device *device, int64_t step)
{
    if (device->kind != DEVICE_VIRTUAL)
        return;
    Virtual *self = virtual_of(device);
    self->step = step;
    self->factor = factor_of(self->hardware, self->place.index, step);
    self->slowest = 0;
}

double virtual_slowest(Device *device)
{
    Virtual *self = virtual_of(device);
    if (self->slowest == 0)
        for (int i = 0; i < self->place.devices; i++)
            self->slowest = fmax(self->slowest, factor_of(self->hardware, i, self->step));
    return self->slowest / self->factor;
}

/* --- memory ------------------------------------------------------------------------------- */

static void virtual_close(Device *device)
{
    free(device->state);
}

static bool is_real(const Device *device, size_t bytes)
{
    return !timing_only(device) || bytes <= REAL_MEMORY_BYTES;
}

/* Where memory has its size, for free. */
#define HEAD_BYTES 4096

static void *virtual_alloc(Device *device, size_t bytes, Error *error)
{
    const Profile *profile = profile_of(device);
    double wanted = (double)device->counters.allocated_bytes + (double)bytes;
    if (wanted > profile->memory_bytes) {
        *error = error_make("out of memory: a %s of %s has %.3g GB, and this needs more: choose a "
                            "smaller --batch or a smaller model",
                            profile->noun, profile->name, profile->memory_bytes / 1e9);
        return NULL;
    }
    unsigned char *memory = mmap(NULL, HEAD_BYTES + bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        *error = error_make("no memory: a device asked for %zu bytes", bytes);
        return NULL;
    }
    memcpy(memory, &bytes, sizeof bytes);
    return memory + HEAD_BYTES;
}

static void virtual_free(Device *device, void *memory)
{
    (void)device;
    unsigned char *start = (unsigned char *)memory - HEAD_BYTES;
    size_t bytes;
    memcpy(&bytes, start, sizeof bytes);
    munmap(start, HEAD_BYTES + bytes);
}

/* Copies bytes if they are there. */
static void move(const Device *device, void *to, const void *from, size_t bytes)
{
    if (is_real(device, bytes))
        memcpy(to, from, bytes);
}

/* --- links -------------------------------------------------------------------------------- */

/* How long `bytes` take between host and device. Where all devices of a machine share the link and
 * every process feeds its own, they do it at the same time. */
static double host_link_ms(const Device *device, double bytes)
{
    const Virtual *self = virtual_of(device);
    const Link *link = &self->hardware->profile.host;
    int sharers = link->shared && self->place.workers == 1 ? devices_beside(self) : 1;
    return link->latency_ms + bytes * sharers / link->bytes_per_s * 1e3;
}

static void upload(Device *device, size_t bytes)
{
    Virtual *self = virtual_of(device);
    virtual_launch(device);
    if (profile_of(device)->asynchronous) {
        double begin = fmax(fmax(host.now_ms, self->queue_ms), host.host_link_ms);
        host.host_link_ms = begin + host_link_ms(device, (double)bytes);
        advance_to(device, host.host_link_ms);
    }
}

static void virtual_upload(Device *device, void *to, const void *from, size_t bytes)
{
    upload(device, bytes);
    move(device, to, from, bytes);
}

static void virtual_download(Device *device, void *to, const void *from, size_t bytes)
{
    upload(device, bytes);
    move(device, to, from, bytes);
    host.now_ms = fmax(host.now_ms, virtual_of(device)->queue_ms);
}

/* Begins when both queues and the link are ready. Without peer access the bytes go up and down
 * again, over the host's link. */
static void virtual_copy(Device *to, void *to_memory, Device *from, const void *from_memory,
                         size_t bytes)
{
    Virtual *receiver = virtual_of(to), *sender = virtual_of(from);
    const Profile *profile = profile_of(to);
    virtual_launch(to);
    double begin = fmax(host.now_ms, fmax(receiver->queue_ms, sender->queue_ms));
    double *link_ms = profile->peer.present ? &host.peer_link_ms : &host.host_link_ms;
    bool shared = profile->peer.present ? profile->peer.shared : profile->host.shared;
    if (shared)
        begin = fmax(begin, *link_ms);
    double end = begin;
    if (to == from)
        end += memory_ms(to, 2 * (double)bytes);
    else if (profile->peer.present)
        end += profile->peer.latency_ms + (double)bytes / profile->peer.bytes_per_s * 1e3;
    else
        end += 2 * host_link_ms(to, (double)bytes);
    *link_ms = end;
    advance_to(to, end);
    advance_to(from, end);
    if (!timing_only(to))
        memcpy(to_memory, from_memory, bytes);
}

static bool virtual_copies_directly(Device *to, Device *from)
{
    (void)from;
    return profile_of(to)->peer.present;
}

static void virtual_zero(Device *device, void *memory, size_t bytes)
{
    touch(device, (double)bytes);
    if (is_real(device, bytes))
        memset(memory, 0, bytes);
}

/* --- arithmetic --------------------------------------------------------------------------- *
 * Bytes that an operation touches: what it reads and what it writes, each once. */

#define FLOAT_BYTES 4.0

static void virtual_bytes_to_float(Device *device, float *floats, const uint8_t *bytes,
                                   size_t count)
{
    touch_at(device, &profile_of(device)->convert_bytes_per_s, (1 + FLOAT_BYTES) * (double)count);
    if (!timing_only(device))
        cpu_engine.bytes_to_float(device, floats, bytes, count);
}

/* What a linear layer does: as measured for its shape, or else a matrix product and then an
 * elementwise operation that touches `bytes`. */
static void layer(Device *device, LayerWork work, double rows, double in, double out, double bytes)
{
    const Profile *profile = profile_of(device);
    double flop = 2 * rows * in * out;
    if (profile->layers.sizes > 0) {
        double rate =
            between(virtual_of(device), layer_table_at(&profile->layers, work, rows, in, out),
                    layer_table_at(&profile->busy_layers, work, rows, in, out));
        compute(device, flop / rate * 1e3);
    } else {
        multiply(device, flop, FLOAT_BYTES * (rows * in + in * out + rows * out));
        touch(device, bytes);
    }
}

static void virtual_linear_forward(Device *device, float *output, const float *input,
                                   const float *weight, const float *bias, int rows, int in,
                                   int out, bool relu)
{
    layer(device, LAYER_FORWARD, rows, in, out, 2 * FLOAT_BYTES * rows * out); /* bias, ReLU */
    if (!timing_only(device))
        cpu_engine.linear_forward(device, output, input, weight, bias, rows, in, out, relu);
}

static void virtual_linear_backward_params(Device *device, float *weight_gradient,
                                           float *bias_gradient, const float *output_gradient,
                                           const float *input, int rows, int in, int out,
                                           bool accumulate)
{
    layer(device, LAYER_BACKWARD_PARAMS, rows, in, out,
          FLOAT_BYTES * rows * out); /* the bias's column sums */
    if (!timing_only(device))
        cpu_engine.linear_backward_params(device, weight_gradient, bias_gradient, output_gradient,
                                          input, rows, in, out, accumulate);
}

static void virtual_linear_backward_input(Device *device, float *input_gradient,
                                          const float *output_gradient, const float *weight,
                                          const float *input, int rows, int in, int out)
{
    layer(device, LAYER_BACKWARD_INPUT, rows, in, out,
          3 * FLOAT_BYTES * rows * in); /* ReLU's mask */
    if (!timing_only(device))
        cpu_engine.linear_backward_input(device, input_gradient, output_gradient, weight, input,
                                         rows, in, out);
}

static void virtual_softmax_cross_entropy(Device *device, float *gradient, LossStats *stats,
                                          const float *logits, const uint8_t *labels, int rows,
                                          int classes, float scale)
{
    touch_at(device, &profile_of(device)->loss_bytes_per_s, 2 * FLOAT_BYTES * rows * classes);
    if (!timing_only(device))
        cpu_engine.softmax_cross_entropy(device, gradient, stats, logits, labels, rows, classes,
                                         scale);
}

static void virtual_add(Device *device, float *into, const float *addend, size_t count)
{
    touch(device, 3 * FLOAT_BYTES * (double)count);
    if (!timing_only(device))
        cpu_engine.add(device, into, addend, count);
}

static void virtual_sgd_step(Device *device, float *weight, const float *gradient, float *velocity,
                             size_t count, float lr, float momentum, float weight_decay)
{
    touch(device, (velocity ? 5 : 3) * FLOAT_BYTES * (double)count);
    if (!timing_only(device))
        cpu_engine.sgd_step(device, weight, gradient, velocity, count, lr, momentum, weight_decay);
}

static void virtual_adam_step(Device *device, float *weight, const float *gradient, float *mean,
                              float *square, size_t count, const AdamStep *adam)
{
    touch(device, 7 * FLOAT_BYTES * (double)count);
    if (!timing_only(device))
        cpu_engine.adam_step(device, weight, gradient, mean, square, count, adam);
}

/* The first elementwise operation after a product rides on its launch, as the epilogue of a kernel.
 */
void device_work(Device *device, double flop, double bytes, int operations)
{
    if (device->kind != DEVICE_VIRTUAL)
        return;
    if (flop > 0)
        compute(device, flop / flop_per_s(device, flop) * 1e3);
    for (int i = 0; i < operations && bytes > 0; i++) {
        double part = bytes / operations;
        double ms = memory_ms(device, part);
        if (flop > 0 && i == 0)
            run_for(device, ms);
        else
            compute(device, ms);
    }
}

/* --- order and time ----------------------------------------------------------------------- */

/* An event of an idle queue happens when the host records it. */
static void virtual_record(Device *device, Event *event)
{
    event->time_ms = fmax(host.now_ms, virtual_of(device)->queue_ms);
}

static void virtual_wait(Device *device, const Event *event)
{
    double happened_ms = event->handle ? *(const double *)event->handle : event->time_ms;
    advance_to(device, fmax(virtual_of(device)->queue_ms, happened_ms));
}

static void virtual_sync(Device *device)
{
    host.now_ms = fmax(host.now_ms, virtual_of(device)->queue_ms);
}

static double virtual_elapsed_ms(Device *device, const Event *from, const Event *to)
{
    (void)device;
    return to->time_ms - from->time_ms;
}

static void virtual_nothing(Device *device)
{
    (void)device;
}

/* --- opening ------------------------------------------------------------------------------ */

int hardware_nodes(const Hardware *hardware, int devices)
{
    return (devices + hardware->profile.per_node - 1) / hardware->profile.per_node;
}

void device_host_gathers(Device *device, int samples)
{
    if (device->kind != DEVICE_VIRTUAL)
        return;
    const Hardware *hardware = virtual_of(device)->hardware;
    if (hardware->interpreter || !hardware->profile.asynchronous)
        host.now_ms += hardware->profile.sample_ms * samples;
}

bool device_is_timing_only(const Device *device)
{
    return device->kind == DEVICE_VIRTUAL && timing_only(device);
}

bool device_shares_host_memory(const Device *device)
{
    return device->kind == DEVICE_CPU ||
           (device->kind == DEVICE_VIRTUAL && !profile_of(device)->asynchronous);
}

Error virtual_open(Device *device, const Hardware *hardware, VirtualPlace place)
{
    static const Engine engine = {
        .close = virtual_close,
        .alloc = virtual_alloc,
        .free = virtual_free,
        .upload = virtual_upload,
        .download = virtual_download,
        .copy = virtual_copy,
        .copies_directly = virtual_copies_directly,
        .zero = virtual_zero,
        .bytes_to_float = virtual_bytes_to_float,
        .linear_forward = virtual_linear_forward,
        .linear_backward_params = virtual_linear_backward_params,
        .linear_backward_input = virtual_linear_backward_input,
        .softmax_cross_entropy = virtual_softmax_cross_entropy,
        .add = virtual_add,
        .sgd_step = virtual_sgd_step,
        .adam_step = virtual_adam_step,
        .record = virtual_record,
        .wait = virtual_wait,
        .sync = virtual_sync,
        .elapsed_ms = virtual_elapsed_ms,
        .recycle_events = virtual_nothing,
    };
    Virtual *self = calloc(1, sizeof *self);
    if (!self)
        return error_make("no memory for a device");
    self->hardware = hardware;
    self->place = place;
    self->factor = 1;
    device->state = self;
    device->engine = &engine;
    snprintf(device->name, sizeof device->name, "%s (virtual)", hardware->profile.name);
    host.hardware = hardware;
    return NULL;
}
