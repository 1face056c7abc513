/* test_twin.c: the same seed gives what PyTorch gives: weights, buckets, gradients, losses.
 *
 * What PyTorch gives is in tests/golden, beside the scripts that asked it.
 */
#include "bucket.h"
#include "model.h"
#include "optimizer.h"
#include "sampler.h"
#include "tests/golden/golden.h"

#include <math.h>

enum { MOST_LAYERS = 16, MOST_PARAMETERS = 64 };

/* --- weights ------------------------------------------------------------------------------- */

/* The layout's parameter number `index` in PyTorch's registration order. */
static const Parameter *registered(const Layout *layout, int index)
{
    return &layout->parameter[layout->parameters - 1 - index];
}

static void test_initial_weights_equal_bit_for_bit(void **state)
{
    (void)state;
    FILE *file = golden_open("weights");
    char word[64];
    int cases = 0;
    for (; golden_next(file, word); cases++) {
        assert_string_equal(word, "weights");
        uint64_t seed = golden_integer(file);
        int widths[MOST_LAYERS + 1];
        int layers = golden_widths(file, widths, MOST_LAYERS);
        Layout layout;
        layout_init(&layout, widths, layers);
        float *arena = malloc(sizeof *arena * layout.arena_count);
        assert_non_null(arena);
        layout_init_weights(&layout, seed, arena);
        uint64_t hashes[MODEL_MOST_PARAMETERS];
        layout_hash(&layout, arena, hashes);

        for (int i = 0; i < layout.parameters; i++) {
            const Parameter *parameter = registered(&layout, i);
            golden_expect(file, parameter->name);
            assert_int_equal(golden_integer(file), parameter->count);
            uint64_t hash = golden_number(file, 16);
            bool whole = strcmp(golden_word(file), "bits") == 0;
            for (size_t j = 0; whole && j < parameter->count; j++) {
                uint32_t expected = golden_bits(file);
                uint32_t got = bits_of(arena[parameter->offset + j]);
                if (got != expected)
                    fail_msg("seed %ju, %s[%zu]: %08x, PyTorch has %08x", (uintmax_t)seed,
                             parameter->name, j, got, expected);
            }
            if (hashes[layout.parameters - 1 - i] != hash)
                fail_msg("seed %ju: %s is not PyTorch's", (uintmax_t)seed, parameter->name);
        }
        free(arena);
    }
    fclose(file);
    assert_int_equal(cases, 10);
}

/* --- buckets ------------------------------------------------------------------------------- */

static void test_buckets_like_pytorch(void **state)
{
    (void)state;
    const double mib = 1024 * 1024;
    FILE *file = golden_open("buckets");
    char word[64];
    int cases = 0;
    for (; golden_next(file, word); cases++) {
        Layout layout = {.layers = 0};
        if (strcmp(word, "mlp") == 0) {
            int widths[MOST_LAYERS + 1];
            int layers = golden_widths(file, widths, MOST_LAYERS);
            layout_init(&layout, widths, layers);
        } else {
            assert_string_equal(word, "tensors");
        }
        golden_expect(file, "caps");
        double first_cap = golden_real(file);
        double cap = golden_real(file);
        int tensors = (int)golden_integer(file);
        int buckets = (int)golden_integer(file);
        assert_in_range(tensors, 1, MOST_PARAMETERS);
        size_t bytes[MOST_PARAMETERS];
        int expected[MOST_PARAMETERS], bucket_of[MOST_PARAMETERS];
        for (int i = 0; i < tensors; i++) {
            bytes[i] = golden_integer(file);
            expected[i] = (int)golden_integer(file);
        }
        assert_int_equal(bucket_assign(bytes, tensors, first_cap, cap, bucket_of), buckets);
        assert_memory_equal(bucket_of, expected, sizeof *expected * (size_t)tensors);
        if (layout.layers == 0)
            continue;

        /* The same from the layout, and the buckets are slices that cover the arena. */
        assert_int_equal(tensors, layout.parameters);
        for (int i = 0; i < tensors; i++)
            assert_int_equal(bytes[i], sizeof(float) * layout.parameter[i].count);
        Bucket plan[MOST_PARAMETERS];
        assert_int_equal(bucket_plan(&layout, cap / mib, first_cap == cap, plan, bucket_of),
                         buckets);
        assert_memory_equal(bucket_of, expected, sizeof *expected * (size_t)tensors);
        size_t end = 0;
        int parameter = 0;
        for (int i = 0; i < buckets; i++) {
            assert_int_equal(plan[i].offset, end);
            assert_int_equal(plan[i].first_parameter, parameter);
            end += plan[i].count;
            parameter += plan[i].parameters;
        }
        assert_int_equal(end, layout.arena_count);
        assert_int_equal(parameter, layout.parameters);
    }
    fclose(file);
    assert_int_equal(cases, 7 * 5 + 3 + 2);
}

/* --- gradients ----------------------------------------------------------------------------- */

/* A model on a CPU device with its weights, and room for a batch. */
typedef struct Twin {
    Device *device;
    Layout layout;
    Model model;
    LossStats *stats;
    uint8_t *pixels, *labels; /* of the batch */
} Twin;

static Twin *twin_open(const int *widths, int layers, uint64_t seed, int most_rows)
{
    Twin *twin = calloc(1, sizeof *twin);
    assert_non_null(twin);
    Error error = NULL;
    twin->device = device_open(DEVICE_CPU, 0, false, &error);
    if (!twin->device)
        fail_msg("%s", error);
    layout_init(&twin->layout, widths, layers);
    float *arena[2];
    for (int i = 0; i < 2; i++)
        assert_null(device_alloc(twin->device, sizeof(float) * twin->layout.arena_count,
                                 (void **)&arena[i]));
    layout_init_weights(&twin->layout, seed, arena[0]);
    assert_null(model_open(&twin->model, &twin->layout, twin->device, arena[0], arena[1], most_rows,
                           most_rows));
    assert_null(device_alloc(twin->device, sizeof *twin->stats, (void **)&twin->stats));
    twin->pixels = malloc((size_t)most_rows * (size_t)widths[0]);
    twin->labels = malloc((size_t)most_rows);
    assert_true(twin->pixels && twin->labels);
    return twin;
}

static void twin_close(Twin *twin)
{
    free(twin->pixels);
    free(twin->labels);
    device_close(twin->device);
    free(twin);
}

/* Forward and backward of the `rows` samples in twin->pixels and labels, a part of an update of
 * `total` samples; the gradients are added to what is there if `accumulate`. Returns the sum of the
 * rows' losses. */
static double twin_pass(Twin *twin, int rows, int total, bool accumulate)
{
    const Layout *layout = &twin->layout;
    Model *model = &twin->model;
    *twin->stats = (LossStats){0};
    device_bytes_to_float(twin->device, model_input(model), twin->pixels,
                          (size_t)rows * (size_t)layout->widths[0]);
    model_forward(model, rows);
    device_softmax_cross_entropy(twin->device, model->logit_gradient, twin->stats,
                                 model_logits(model), twin->labels, rows,
                                 layout->widths[layout->layers], 1.0f / (float)total);
    model_backward(model, rows, accumulate, NULL, NULL);
    assert_null(device_sync(twin->device));
    return twin->stats->loss_sum;
}

static void test_first_gradients(void **state)
{
    (void)state;
    FILE *file = golden_open("gradients");
    char word[64];
    int cases = 0;
    for (; golden_next(file, word); cases++) {
        assert_string_equal(word, "gradients");
        uint64_t seed = golden_integer(file);
        int rows = (int)golden_integer(file);
        int widths[MOST_LAYERS + 1];
        int layers = golden_widths(file, widths, MOST_LAYERS);
        Twin *twin = twin_open(widths, layers, seed, rows);
        golden_images(twin->pixels, twin->labels, (uint32_t)rows, (uint32_t)widths[0],
                      (uint32_t)widths[layers]);
        double loss = twin_pass(twin, rows, rows, false) / rows;
        golden_expect(file, "loss");
        assert_float_equal(loss, golden_real(file), 1e-6);

        float *expected = calloc(twin->layout.arena_count, sizeof *expected);
        assert_non_null(expected);
        double largest = 0;
        for (int i = 0; i < twin->layout.parameters; i++) {
            const Parameter *parameter = registered(&twin->layout, i);
            golden_expect(file, parameter->name);
            assert_int_equal(golden_integer(file), parameter->count);
            for (size_t j = 0; j < parameter->count; j++) {
                float gradient = float_of(golden_bits(file));
                expected[parameter->offset + j] = gradient;
                largest = fmax(largest, fabs((double)gradient));
            }
        }
        assert_true(largest > 0);
        for (size_t i = 0; i < twin->layout.arena_count; i++) {
            double off = fabs((double)twin->model.gradients[i] - (double)expected[i]);
            if (!(off <= 1e-6 * largest))
                fail_msg("seed %ju, %d rows, element %zu of the arena: %.9g, PyTorch has %.9g; the "
                         "largest is %g",
                         (uintmax_t)seed, rows, i, (double)twin->model.gradients[i],
                         (double)expected[i], largest);
        }
        free(expected);
        twin_close(twin);
    }
    fclose(file);
    assert_int_equal(cases, 12);
}

/* --- losses -------------------------------------------------------------------------------- */

static OptimizerSettings settings_of(const char *kind)
{
    if (strcmp(kind, "sgd") == 0)
        return (OptimizerSettings){.kind = OPTIMIZER_SGD};
    if (strcmp(kind, "adam") == 0)
        return (OptimizerSettings){.kind = OPTIMIZER_ADAM};
    assert_string_equal(kind, "adamw");
    return (OptimizerSettings){.kind = OPTIMIZER_ADAMW};
}

/* The generated data set, whole. */
typedef struct Source {
    uint8_t *pixels, *labels;
    size_t count, size;
} Source;

/* One update by the samples at positions `begin` to `begin` + `batch` - 1 of the order, in the
 * shares that `world` ranks take. Returns the batch's mean loss before it. */
static double twin_update(Twin *twin, Optimizer *optimizer, const Source *source,
                          const uint32_t *order, size_t begin, size_t batch, size_t world)
{
    double loss = 0;
    for (size_t rank = 0; rank < world; rank++) {
        size_t rows = 0;
        for (size_t at = rank; at < batch; at += world, rows++) {
            size_t sample = order[begin + at];
            memcpy(twin->pixels + rows * source->size, source->pixels + sample * source->size,
                   source->size);
            twin->labels[rows] = source->labels[sample];
        }
        loss += twin_pass(twin, (int)rows, (int)batch, rank > 0);
    }
    optimizer_step(optimizer, twin->model.weights, twin->model.gradients);
    return loss / (double)batch;
}

/* The tolerances are DESIGN.md's: 1e-5 for the first ten steps; then what PyTorch strays when it
 * sums in another order. The orders stored are a sample of all orders, and ours is one more: it may
 * lie beyond them by about as much as they lie apart. So the band is widened by the widest that it
 * has been so far, and by ROUNDING: four units in the last place of a float near 2.3, where all
 * losses start, for what no order of PyTorch's can show (another exp and log). With the matrix
 * products of seven processors (OPENBLAS_CORETYPE) and one to eight shares, the losses were outside
 * the band itself at every sixth step, and never used more than 0.37 of the margin. */
static const double ROUNDING = 1e-6;

static void losses_like_pytorch(size_t world)
{
    FILE *file = golden_open("losses");
    golden_expect(file, "data");
    Source source;
    source.count = golden_integer(file);
    source.size = golden_integer(file);
    uint32_t classes = (uint32_t)golden_integer(file);
    source.pixels = malloc(source.count * source.size);
    source.labels = malloc(source.count);
    assert_true(source.pixels && source.labels);
    golden_images(source.pixels, source.labels, (uint32_t)source.count, (uint32_t)source.size,
                  classes);

    char word[64];
    int cases = 0;
    for (; golden_next(file, word); cases++) {
        assert_string_equal(word, "losses");
        char kind[64];
        snprintf(kind, sizeof kind, "%s", golden_word(file));
        OptimizerSettings settings = settings_of(kind);
        uint64_t seed = golden_integer(file);
        settings.lr = golden_real(file);
        settings.momentum = golden_real(file);
        settings.weight_decay = golden_real(file);
        size_t batch = golden_integer(file);
        size_t steps = golden_integer(file);
        int widths[MOST_LAYERS + 1];
        int layers = golden_widths(file, widths, MOST_LAYERS);

        Twin *twin = twin_open(widths, layers, seed, (int)batch);
        Optimizer optimizer;
        assert_null(optimizer_open(&optimizer, &settings, twin->device, twin->layout.arena_count));
        Sampler sampler;
        assert_null(sampler_open(&sampler, source.count, seed));
        size_t begin = 0;
        uint64_t epoch = 0;
        double widest = 0;
        for (size_t step = 0; step < steps; step++) {
            if (begin >= source.count) {
                sampler_set_epoch(&sampler, ++epoch);
                begin = 0;
            }
            size_t rows = source.count - begin < batch ? source.count - begin : batch;
            double loss = twin_update(twin, &optimizer, &source, sampler.order, begin, rows, world);
            begin += rows;

            double expected = golden_real(file);
            double least = golden_real(file);
            double most = golden_real(file);
            widest = fmax(widest, most - least);
            double margin = widest + ROUNDING;
            if ((step < 10 && !(fabs(loss - expected) <= 1e-5)) ||
                !(loss >= least - margin && loss <= most + margin))
                fail_msg("%s, seed %ju, step %zu: loss %.10f, PyTorch has %.10f, in other orders "
                         "%.10f to %.10f",
                         kind, (uintmax_t)seed, step + 1, loss, expected, least, most);
        }
        sampler_close(&sampler);
        twin_close(twin);
    }
    assert_int_equal(cases, 18);
    free(source.pixels);
    free(source.labels);
    fclose(file);
}

static void test_losses_on_one_device(void **state)
{
    (void)state;
    losses_like_pytorch(1);
}

/* Three shares do not divide a batch of 64. */
static void test_losses_in_three_shares(void **state)
{
    (void)state;
    losses_like_pytorch(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_weights_equal_bit_for_bit),
        cmocka_unit_test(test_buckets_like_pytorch),
        cmocka_unit_test(test_first_gradients),
        cmocka_unit_test(test_losses_on_one_device),
        cmocka_unit_test(test_losses_in_three_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
