/* test_kernels.c: a CUDA device does what the CPU device does.
 *
 * Every operation of device.h runs on both, on the same random numbers, with shapes that are tiny,
 * odd, or do not fit the kernels' tiles, and with pointers that rule out vector loads. Where the
 * arithmetic is prescribed number by number the results must agree to the last bit; where sums are
 * taken in another order, within rounding. Memory around the results must be left alone.
 *
 * Needs a GPU, real or software (tests/softcuda); is skipped, with the reason, where there is none.
 */
#include "device/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int gpus;
static Device *cpu, *gpu;

static void need_gpu(void)
{
    if (!gpu)
        skip();
}

/* --- random numbers ----------------------------------------------------------------------- */

static uint64_t generator = 1;

static uint32_t next32(void)
{
    generator = generator * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(generator >> 33);
}

/* In [-1, 1), with zeros among them, as activations have. */
static float next_value(void)
{
    uint32_t number = next32();
    return number % 8 == 0 ? 0 : (float)(number & 0xffff) / 32768.0f - 1;
}

static int next_int(int low, int high)
{
    return low + (int)(next32() % (uint32_t)(high - low + 1));
}

/* --- the same memory on both devices ------------------------------------------------------ */

/* Bytes before and after that nobody may touch. */
#define MARGIN 64

typedef struct Twin {
    unsigned char *on_cpu, *on_gpu; /* the margin in front included */
    size_t before, bytes;
} Twin;

/* `before` (at most MARGIN) decides how the memory is aligned. `from` [bytes] is host memory. */
static Twin twin_of(const void *from, size_t bytes, size_t before)
{
    Twin twin = {.before = before, .bytes = bytes};
    unsigned char *image = malloc(before + bytes + MARGIN);
    assert_non_null(image);
    memset(image, 0xa5, before + bytes + MARGIN);
    if (bytes > 0)
        memcpy(image + before, from, bytes);
    assert_null(device_alloc(cpu, before + bytes + MARGIN, (void **)&twin.on_cpu));
    assert_null(device_alloc(gpu, before + bytes + MARGIN, (void **)&twin.on_gpu));
    device_upload(cpu, twin.on_cpu, image, before + bytes + MARGIN);
    device_upload(gpu, twin.on_gpu, image, before + bytes + MARGIN);
    free(image);
    return twin;
}

/* Random floats, `shift` of them in front. */
static Twin random_twin(size_t count, size_t shift)
{
    float *values = malloc(sizeof *values * (count + 1));
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = next_value();
    Twin twin = twin_of(values, sizeof *values * count, sizeof *values * shift);
    free(values);
    return twin;
}

static void *at_cpu(const Twin *twin)
{
    return twin->on_cpu + twin->before;
}

static void *at_gpu(const Twin *twin)
{
    return twin->on_gpu + twin->before;
}

static void twin_free(Twin *twin)
{
    device_free(cpu, twin->on_cpu);
    device_free(gpu, twin->on_gpu);
}

/* Both devices hold the same bits, margins included. */
static void assert_same_bits(const Twin *twin)
{
    size_t all = twin->before + twin->bytes + MARGIN;
    unsigned char *from_cpu = malloc(all), *from_gpu = malloc(all);
    assert_non_null(from_cpu);
    assert_non_null(from_gpu);
    assert_null(device_download(cpu, from_cpu, twin->on_cpu, all));
    Error error = device_download(gpu, from_gpu, twin->on_gpu, all);
    if (error)
        fail_msg("%s", error);
    for (size_t i = 0; i < all; i++)
        if (from_cpu[i] != from_gpu[i])
            fail_msg("byte %zd of %zu is %d on the GPU and %d on the CPU",
                     (ptrdiff_t)i - (ptrdiff_t)twin->before, twin->bytes, from_gpu[i], from_cpu[i]);
    free(from_cpu);
    free(from_gpu);
}

/* Floats differ by at most `tolerance`, margins not at all. */
static void assert_close(const Twin *twin, double tolerance)
{
    size_t all = twin->before + twin->bytes + MARGIN;
    unsigned char *from_cpu = malloc(all), *from_gpu = malloc(all);
    assert_non_null(from_cpu);
    assert_non_null(from_gpu);
    assert_null(device_download(cpu, from_cpu, twin->on_cpu, all));
    Error error = device_download(gpu, from_gpu, twin->on_gpu, all);
    if (error)
        fail_msg("%s", error);
    const float *a = (const float *)(const void *)(from_cpu + twin->before);
    const float *b = (const float *)(const void *)(from_gpu + twin->before);
    for (size_t i = 0; i < twin->bytes / sizeof *a; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= tolerance))
            fail_msg("number %zu of %zu is %.9g on the GPU and %.9g on the CPU", i,
                     twin->bytes / sizeof *a, (double)b[i], (double)a[i]);
    assert_memory_equal(from_cpu, from_gpu, twin->before);
    assert_memory_equal(from_cpu + twin->before + twin->bytes,
                        from_gpu + twin->before + twin->bytes, MARGIN);
    free(from_cpu);
    free(from_gpu);
}

/* Counts around the borders of warps, blocks and vectors. */
static const size_t counts[] = {0, 1, 2, 3, 4, 5, 7, 31, 32, 33, 127, 255, 256, 1023, 1025, 4099};
#define COUNTS (sizeof counts / sizeof *counts)

/* --- number by number --------------------------------------------------------------------- */

static void test_bytes_to_float(void **state)
{
    (void)state;
    need_gpu();
    uint8_t bytes[4099];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t shift = 0; shift < 3; shift++) {
            Twin from = twin_of(bytes, counts[c], shift);
            Twin to = random_twin(counts[c], c % 2);
            device_bytes_to_float(cpu, at_cpu(&to), at_cpu(&from), counts[c]);
            device_bytes_to_float(gpu, at_gpu(&to), at_gpu(&from), counts[c]);
            assert_same_bits(&to);
            twin_free(&from);
            twin_free(&to);
        }
}

static void test_add(void **state)
{
    (void)state;
    need_gpu();
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t shift = 0; shift < 2; shift++) {
            Twin into = random_twin(counts[c], shift), addend = random_twin(counts[c], 0);
            device_add(cpu, at_cpu(&into), at_cpu(&addend), counts[c]);
            device_add(gpu, at_gpu(&into), at_gpu(&addend), counts[c]);
            assert_same_bits(&into);
            twin_free(&into);
            twin_free(&addend);
        }
}

static void test_sgd(void **state)
{
    (void)state;
    need_gpu();
    static const float momenta[] = {0, 0.9f};
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t m = 0; m < 2; m++) {
            size_t count = counts[c], shift = c % 3 == 2;
            Twin weight = random_twin(count, shift), gradient = random_twin(count, 0);
            Twin velocity = random_twin(count, 0);
            for (int step = 0; step < 3; step++) {
                device_sgd_step(cpu, at_cpu(&weight), at_cpu(&gradient),
                                m ? at_cpu(&velocity) : NULL, count, 0.1f, momenta[m], 0.01f);
                device_sgd_step(gpu, at_gpu(&weight), at_gpu(&gradient),
                                m ? at_gpu(&velocity) : NULL, count, 0.1f, momenta[m], 0.01f);
            }
            assert_same_bits(&weight);
            assert_same_bits(&velocity);
            twin_free(&weight);
            twin_free(&gradient);
            twin_free(&velocity);
        }
}

static void test_adam(void **state)
{
    (void)state;
    need_gpu();
    for (size_t c = 0; c < COUNTS; c++)
        for (int decoupled = 0; decoupled < 2; decoupled++) {
            size_t count = counts[c], shift = c % 3 == 2;
            Twin weight = random_twin(count, 0), gradient = random_twin(count, shift);
            float zeros[4099] = {0};
            Twin mean = twin_of(zeros, sizeof *zeros * count, 0);
            Twin square = twin_of(zeros, sizeof *zeros * count, 0);
            for (int64_t step = 1; step <= 3; step++) {
                AdamStep adam = {.lr = 0.001f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .epsilon = 1e-8f,
                                 .weight_decay = 0.01f,
                                 .decoupled = decoupled,
                                 .step = step};
                device_adam_step(cpu, at_cpu(&weight), at_cpu(&gradient), at_cpu(&mean),
                                 at_cpu(&square), count, &adam);
                device_adam_step(gpu, at_gpu(&weight), at_gpu(&gradient), at_gpu(&mean),
                                 at_gpu(&square), count, &adam);
            }
            assert_same_bits(&weight);
            assert_same_bits(&mean);
            assert_same_bits(&square);
            twin_free(&weight);
            twin_free(&gradient);
            twin_free(&mean);
            twin_free(&square);
        }
}

/* --- layers ------------------------------------------------------------------------------- */

typedef struct Shape {
    int rows, in, out;
} Shape;

static const Shape shapes[] = {
    {0, 5, 3},    {1, 1, 1},    {1, 7, 4},     {3, 4, 10},  {5, 33, 31},
    {33, 16, 10}, {64, 65, 40}, {70, 12, 129}, {2, 3, 260},
};
#define SHAPES        (sizeof shapes / sizeof *shapes)
#define RANDOM_SHAPES 12

/* The listed shapes, then random ones. */
static Shape shape_of(size_t i)
{
    if (i < SHAPES)
        return shapes[i];
    Shape shape = {next_int(0, 70), next_int(1, 70), next_int(1, 140)};
    return shape;
}

/* Factors lie in [-1, 1): a sum of `terms` products is off by a few roundings of its parts. */
static double sum_tolerance(int terms)
{
    return 0x1p-23 * (terms + 4);
}

static size_t area(int rows, int columns)
{
    return (size_t)rows * (size_t)columns;
}

static void test_linear_forward(void **state)
{
    (void)state;
    need_gpu();
    for (size_t i = 0; i < SHAPES + RANDOM_SHAPES; i++)
        for (int relu = 0; relu < 2; relu++) {
            Shape s = shape_of(i);
            Twin input = random_twin(area(s.rows, s.in), 0);
            Twin weight = random_twin(area(s.out, s.in), 0);
            Twin bias = random_twin((size_t)s.out, i % 2);
            Twin output = random_twin(area(s.rows, s.out), 0);
            device_linear_forward(cpu, at_cpu(&output), at_cpu(&input), at_cpu(&weight),
                                  at_cpu(&bias), s.rows, s.in, s.out, relu);
            device_linear_forward(gpu, at_gpu(&output), at_gpu(&input), at_gpu(&weight),
                                  at_gpu(&bias), s.rows, s.in, s.out, relu);
            assert_close(&output, sum_tolerance(s.in));
            twin_free(&input);
            twin_free(&weight);
            twin_free(&bias);
            twin_free(&output);
        }
}

static void test_linear_backward_params(void **state)
{
    (void)state;
    need_gpu();
    for (size_t i = 0; i < SHAPES + RANDOM_SHAPES; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            Shape s = shape_of(i);
            Twin input = random_twin(area(s.rows, s.in), 0);
            Twin output_gradient = random_twin(area(s.rows, s.out), 0);
            Twin weight_gradient = random_twin(area(s.out, s.in), 0);
            Twin bias_gradient = random_twin((size_t)s.out, i % 2);
            device_linear_backward_params(cpu, at_cpu(&weight_gradient), at_cpu(&bias_gradient),
                                          at_cpu(&output_gradient), at_cpu(&input), s.rows, s.in,
                                          s.out, accumulate);
            device_linear_backward_params(gpu, at_gpu(&weight_gradient), at_gpu(&bias_gradient),
                                          at_gpu(&output_gradient), at_gpu(&input), s.rows, s.in,
                                          s.out, accumulate);
            assert_close(&weight_gradient, sum_tolerance(s.rows));
            assert_close(&bias_gradient, sum_tolerance(s.rows));
            twin_free(&input);
            twin_free(&output_gradient);
            twin_free(&weight_gradient);
            twin_free(&bias_gradient);
        }
}

static void test_linear_backward_input(void **state)
{
    (void)state;
    need_gpu();
    for (size_t i = 0; i < SHAPES + RANDOM_SHAPES; i++) {
        Shape s = shape_of(i);
        Twin input = random_twin(area(s.rows, s.in), i % 2); /* half of it not positive */
        Twin weight = random_twin(area(s.out, s.in), 0);
        Twin output_gradient = random_twin(area(s.rows, s.out), 0);
        Twin input_gradient = random_twin(area(s.rows, s.in), 0);
        device_linear_backward_input(cpu, at_cpu(&input_gradient), at_cpu(&output_gradient),
                                     at_cpu(&weight), at_cpu(&input), s.rows, s.in, s.out);
        device_linear_backward_input(gpu, at_gpu(&input_gradient), at_gpu(&output_gradient),
                                     at_gpu(&weight), at_gpu(&input), s.rows, s.in, s.out);
        assert_close(&input_gradient, sum_tolerance(s.out));
        twin_free(&input);
        twin_free(&weight);
        twin_free(&output_gradient);
        twin_free(&input_gradient);
    }
}

/* --- the loss ----------------------------------------------------------------------------- */

/* Logits times `spread`: a few values only, so that rows have several largest ones. */
static void check_loss(int rows, int classes, float spread, bool in_place)
{
    float *values = malloc(sizeof *values * (area(rows, classes) + 1));
    uint8_t *label_values = malloc((size_t)rows + 1);
    assert_non_null(values);
    assert_non_null(label_values);
    for (size_t i = 0; i < area(rows, classes); i++)
        values[i] = spread * (float)next_int(-3, 3);
    for (int row = 0; row < rows; row++)
        label_values[row] = (uint8_t)next_int(0, classes - 1);
    LossStats start = {.loss_sum = 2.5, .correct = 3}; /* it is added to */

    Twin logits = twin_of(values, sizeof *values * area(rows, classes), 0);
    Twin gradient = random_twin(area(rows, classes), 0);
    Twin labels = twin_of(label_values, (size_t)rows, 0);
    Twin stats = twin_of(&start, sizeof start, 0);
    const Twin *into = in_place ? &logits : &gradient;
    for (int pass = 0; pass < (in_place ? 1 : 2); pass++) {
        device_softmax_cross_entropy(cpu, at_cpu(into), at_cpu(&stats), at_cpu(&logits),
                                     at_cpu(&labels), rows, classes, 0.25f);
        device_softmax_cross_entropy(gpu, at_gpu(into), at_gpu(&stats), at_gpu(&logits),
                                     at_gpu(&labels), rows, classes, 0.25f);
    }
    assert_close(into, 1e-6);
    LossStats on_cpu, on_gpu;
    assert_null(device_download(cpu, &on_cpu, at_cpu(&stats), sizeof on_cpu));
    assert_null(device_download(gpu, &on_gpu, at_gpu(&stats), sizeof on_gpu));
    if (on_cpu.correct != on_gpu.correct)
        fail_msg("%g correct on the GPU, %g on the CPU", on_gpu.correct, on_cpu.correct);
    if (!(fabs(on_cpu.loss_sum - on_gpu.loss_sum) <= 1e-6 * fabs(on_cpu.loss_sum)))
        fail_msg("loss %.9g on the GPU, %.9g on the CPU", on_gpu.loss_sum, on_cpu.loss_sum);
    twin_free(&logits);
    twin_free(&gradient);
    twin_free(&labels);
    twin_free(&stats);
    free(values);
    free(label_values);
}

static void test_softmax_cross_entropy(void **state)
{
    (void)state;
    need_gpu();
    static const int class_counts[] = {1, 2, 10, 31, 32, 33, 100, 256};
    for (size_t c = 0; c < sizeof class_counts / sizeof *class_counts; c++)
        for (int i = 0; i < 4; i++) {
            static const int row_counts[] = {0, 1, 9, 67};
            check_loss(row_counts[i], class_counts[c], 0.7f, i % 2 == 1);
        }
    check_loss(23, 10, 300, false); /* exp would overflow if the logits were not shifted */
    check_loss(300, 10, 0.5f, true);
}

/* --- memory, order, time ------------------------------------------------------------------ */

static void test_memory_is_zeroed(void **state)
{
    (void)state;
    need_gpu();
    unsigned char *memory, bytes[1000];
    for (int round = 0; round < 2; round++) {
        assert_null(device_alloc(gpu, sizeof bytes, (void **)&memory));
        assert_null(device_download(gpu, bytes, memory, sizeof bytes));
        for (size_t i = 0; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0);
        memset(bytes, 1, sizeof bytes);
        device_upload(gpu, memory, bytes, sizeof bytes);
        device_zero(gpu, memory + 10, 20);
        assert_null(device_download(gpu, bytes, memory, sizeof bytes));
        for (size_t i = 0; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], i < 10 || i >= 30);
        device_free(gpu, memory);
    }
}

/* Larger than the staging memory, more often than it has pieces, and the host's memory is
 * overwritten as soon as the call returns. */
static void test_uploads_own_their_bytes(void **state)
{
    (void)state;
    need_gpu();
    enum { UPLOADS = 5, BYTES = (5 << 20) / 2 + 13 };
    unsigned char *host = malloc(BYTES), *memory[UPLOADS];
    assert_non_null(host);
    for (int i = 0; i < UPLOADS; i++) {
        assert_null(device_alloc(gpu, BYTES, (void **)&memory[i]));
        for (size_t b = 0; b < BYTES; b++)
            host[b] = (unsigned char)(b * 31 + b / 257 + (size_t)i);
        device_upload(gpu, memory[i], host, BYTES);
    }
    memset(host, 0, BYTES);
    for (int i = 0; i < UPLOADS; i++) {
        assert_null(device_download(gpu, host, memory[i], BYTES));
        for (size_t b = 0; b < BYTES; b++)
            if (host[b] != (unsigned char)(b * 31 + b / 257 + (size_t)i))
                fail_msg("upload %d: byte %zu", i, b);
        device_free(gpu, memory[i]);
    }
    free(host);
}

/* Numbers pass from device to device and back, each adding its own. Each reuses its buffers at
 * once: a copy that does not wait for earlier work, or that later work does not wait for, shows.
 * `first` and `second` may be the same GPU. */
static void check_ring(int first, int second)
{
    enum { DEVICES = 2, COUNT = 300, ROUNDS = 8 };
    Device *device[DEVICES];
    float *buffer[DEVICES], *own[DEVICES], host[COUNT];
    for (int i = 0; i < DEVICES; i++) {
        Error error = NULL;
        device[i] = device_open(DEVICE_CUDA, i ? second : first, false, &error);
        if (error)
            fail_msg("%s", error);
        assert_null(device_alloc(device[i], sizeof host, (void **)&buffer[i]));
        assert_null(device_alloc(device[i], sizeof host, (void **)&own[i]));
        for (int j = 0; j < COUNT; j++)
            host[j] = (float)(j % 7 + 10 * i + 1);
        device_upload(device[i], own[i], host, sizeof host);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < DEVICES; i++) {
            int next = (i + 1) % DEVICES;
            device_add(device[i], buffer[i], own[i], COUNT);
            device_copy(device[next], buffer[next], device[i], buffer[i], sizeof host,
                        BYTES_PARAMETER_GRADIENTS);
            device_zero(device[i], buffer[i], sizeof host);
        }
    assert_null(device_download(device[0], host, buffer[0], sizeof host));
    for (int j = 0; j < COUNT; j++)
        if (host[j] != (float)(ROUNDS * (2 * (j % 7) + 12)))
            fail_msg("number %d is %g", j, (double)host[j]);
    Counters *counters = device_counters(device[0]);
    assert_int_equal(counters->sent[BYTES_PARAMETER_GRADIENTS], ROUNDS * sizeof host);
    assert_int_equal(counters->received[BYTES_PARAMETER_GRADIENTS], ROUNDS * sizeof host);
    for (int i = 0; i < DEVICES; i++) {
        assert_null(device_sync(device[i]));
        device_close(device[i]);
    }
}

static void test_copies_between_devices(void **state)
{
    (void)state;
    need_gpu();
    check_ring(0, 0);
    if (gpus > 1)
        check_ring(0, 1);
}

/* A device waits for an event of another one. */
static void test_events_order_devices(void **state)
{
    (void)state;
    need_gpu();
    enum { COUNT = 100 };
    Error error = NULL;
    Device *other = device_open(DEVICE_CUDA, 0, false, &error);
    assert_null(error);
    float *sum, *ones, host[COUNT];
    assert_null(device_alloc(gpu, sizeof host, (void **)&sum));
    assert_null(device_alloc(gpu, sizeof host, (void **)&ones));
    for (int i = 0; i < COUNT; i++)
        host[i] = 1;
    device_upload(gpu, ones, host, sizeof host);
    for (int round = 0; round < 10; round++) { /* both devices add to the same memory of one GPU */
        device_add(gpu, sum, ones, COUNT);
        Event mine = device_record(gpu);
        assert_null(device_wait(other, &mine));
        device_add(other, sum, ones, COUNT);
        Event theirs = device_record(other);
        assert_null(device_wait(gpu, &theirs));
    }
    assert_null(device_download(gpu, host, sum, sizeof host));
    for (int i = 0; i < COUNT; i++)
        assert_true(host[i] == 20);
    assert_null(device_sync(other));
    device_close(other);
    device_free(gpu, sum);
    device_free(gpu, ones);
}

static void test_time_between_events(void **state)
{
    (void)state;
    need_gpu();
    enum { EVENTS = 300 };
    Event event[EVENTS];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < EVENTS; i++)
            event[i] = device_record(gpu);
        assert_null(device_sync(gpu));
        for (int i = 1; i < EVENTS; i++)
            assert_true(device_elapsed_ms(gpu, &event[i - 1], &event[i]) >= 0);
        assert_null(device_failure(gpu));
        device_recycle_events(gpu);
    }
}

/* --- failures ----------------------------------------------------------------------------- */

static void assert_says(Error error, const char *words)
{
    if (!error || !strstr(error, words))
        fail_msg("\"%s\" does not say \"%s\"", error ? error : "(no error)", words);
}

static void test_too_much_memory(void **state)
{
    (void)state;
    need_gpu();
    void *memory;
    Error error = device_alloc(gpu, (size_t)1 << 50, &memory);
    assert_says(error, "GPU 0: allocating 1125899906842624 bytes");
    assert_says(error, "MiB are free");
    assert_says(error, "device/cuda.c:");
    assert_null(memory);
    assert_null(device_alloc(gpu, 1000, &memory)); /* the device lives on */
    device_free(gpu, memory);
}

static void test_a_gpu_that_is_not_there(void **state)
{
    (void)state;
    need_gpu();
    Error error = NULL;
    assert_null(device_open(DEVICE_CUDA, gpus, false, &error));
    char gpu_text[32];
    snprintf(gpu_text, sizeof gpu_text, "GPU %d: ", gpus);
    assert_says(error, gpu_text);
}

/* ------------------------------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_to_float),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_linear_forward),
        cmocka_unit_test(test_linear_backward_params),
        cmocka_unit_test(test_linear_backward_input),
        cmocka_unit_test(test_softmax_cross_entropy),
        cmocka_unit_test(test_memory_is_zeroed),
        cmocka_unit_test(test_uploads_own_their_bytes),
        cmocka_unit_test(test_copies_between_devices),
        cmocka_unit_test(test_events_order_devices),
        cmocka_unit_test(test_time_between_events),
        cmocka_unit_test(test_too_much_memory),
        cmocka_unit_test(test_a_gpu_that_is_not_there),
    };
    const char *reason = NULL;
    Error error = NULL;
    gpus = device_cuda_count(&reason);
    cpu = device_open(DEVICE_CPU, 0, false, &error);
    if (gpus > 0)
        gpu = device_open(DEVICE_CUDA, 0, false, &error);
    else
        printf("skipped: %s\n", reason);
    if (error) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(gpu);
    device_close(cpu);
    return failed;
}
