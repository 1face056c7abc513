/* test_gradients.c: the model's gradients against central differences, what backward promises to
 * those who listen, and what the optimizers make of gradients.
 *
 * The reference for gradients is a forward pass in double that shares nothing with the program: the
 * loss at w + h minus the loss at w - h, over 2 h, for one weight after the other. The reference
 * for the optimizers is their papers' formulas in double.
 */
#include "model.h"
#include "optimizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_LAYERS = 6, MOST_WIDTH = 40, MOST_ROWS = 16 };

/* --- the reference ------------------------------------------------------------------------- */

/* Nearest that any hidden unit came to 0, where ReLU has no derivative. */
static double nearest_to_zero;

/* The mean cross-entropy of the rows, weights and inputs in double. */
static double reference_loss(const Layout *layout, const double *weights, const double *input,
                             const int *labels, int rows)
{
    double loss = 0;
    for (int row = 0; row < rows; row++) {
        double from[MOST_WIDTH], to[MOST_WIDTH];
        for (int i = 0; i < layout->widths[0]; i++)
            from[i] = input[row * layout->widths[0] + i];
        for (int layer = 0; layer < layout->layers; layer++) {
            const Parameter *bias = &layout->parameter[layout_bias(layout, layer)];
            const Parameter *weight = bias + 1;
            int in = layout->widths[layer], out = layout->widths[layer + 1];
            for (int o = 0; o < out; o++) {
                to[o] = weights[bias->offset + (size_t)o];
                for (int i = 0; i < in; i++)
                    to[o] += weights[weight->offset + (size_t)(o * in + i)] * from[i];
                if (layer < layout->layers - 1) {
                    nearest_to_zero = fmin(nearest_to_zero, fabs(to[o]));
                    to[o] = fmax(to[o], 0);
                }
            }
            memcpy(from, to, sizeof from);
        }
        int classes = layout->widths[layout->layers];
        double largest = from[0];
        for (int i = 1; i < classes; i++)
            largest = fmax(largest, from[i]);
        double sum = exp(from[0] - largest);
        for (int i = 1; i < classes; i++)
            sum += exp(from[i] - largest);
        loss += log(sum) + largest - from[labels[row]];
    }
    return loss / rows;
}

/* --- a model to be checked ----------------------------------------------------------------- */

typedef struct Fixture {
    Layout layout;
    Device *device;
    Model model;
    LossStats *stats;
    uint8_t *labels; /* on the device; here that is host memory */
    int rows;
} Fixture;

/* Random weights, inputs in 0..1 and labels. */
static void fixture_open(Fixture *fixture, const int *widths, int layers, int rows, unsigned seed)
{
    *fixture = (Fixture){.rows = rows};
    layout_init(&fixture->layout, widths, layers);
    Error error = NULL;
    fixture->device = device_open(DEVICE_CPU, 0, false, &error);
    if (!fixture->device)
        fail_msg("%s", error);
    float *arena[2];
    for (int i = 0; i < 2; i++)
        assert_null(device_alloc(fixture->device, sizeof(float) * fixture->layout.arena_count,
                                 (void **)&arena[i]));
    assert_null(device_alloc(fixture->device, sizeof *fixture->stats, (void **)&fixture->stats));
    assert_null(device_alloc(fixture->device, MOST_ROWS, (void **)&fixture->labels));
    layout_init_weights(&fixture->layout, seed, arena[0]);
    assert_null(model_open(&fixture->model, &fixture->layout, fixture->device, arena[0], arena[1],
                           MOST_ROWS, MOST_ROWS));
    uint32_t random = seed * 2654435761u + 1;
    for (int i = 0; i < rows * widths[0]; i++) {
        random = random * 1664525u + 1013904223u;
        model_input(&fixture->model)[i] = (float)(random >> 24) / 255;
    }
    for (int i = 0; i < rows; i++) {
        random = random * 1664525u + 1013904223u;
        fixture->labels[i] = (uint8_t)((random >> 16) % (uint32_t)widths[layers]);
    }
}

/* Forward and backward of rows `first` to `first` + `rows` - 1, as a part of fixture->rows. */
static void fixture_pass(Fixture *fixture, int first, int rows, bool accumulate,
                         GradientReady ready, void *context)
{
    Model *model = &fixture->model;
    const Layout *layout = &fixture->layout;
    memmove(model_input(model), model_input(model) + first * layout->widths[0],
            sizeof(float) * (size_t)(rows * layout->widths[0]));
    model_forward(model, rows);
    device_softmax_cross_entropy(fixture->device, model->logit_gradient, fixture->stats,
                                 model_logits(model), fixture->labels + first, rows,
                                 layout->widths[layout->layers], 1.0f / (float)fixture->rows);
    model_backward(model, rows, accumulate, ready, context);
    assert_null(device_sync(fixture->device));
}

/* --- tests --------------------------------------------------------------------------------- */

static void check_gradients(const int *widths, int layers, int rows, unsigned seed)
{
    Fixture fixture;
    fixture_open(&fixture, widths, layers, rows, seed);
    const Layout *layout = &fixture.layout;
    double *weights = malloc(sizeof *weights * layout->arena_count);
    double *difference = calloc(layout->arena_count, sizeof *difference);
    assert_true(weights && difference);
    double input[MOST_ROWS * MOST_WIDTH];
    int labels[MOST_ROWS];
    for (size_t i = 0; i < layout->arena_count; i++)
        weights[i] = (double)fixture.model.weights[i];
    for (int i = 0; i < rows * widths[0]; i++)
        input[i] = (double)model_input(&fixture.model)[i];
    for (int i = 0; i < rows; i++)
        labels[i] = fixture.labels[i];

    /* The differences' own error is about 1e-16 / h from rounding and h * h from the curve. */
    const double h = 1e-6;
    nearest_to_zero = INFINITY;
    double largest = 0;
    for (int p = 0; p < layout->parameters; p++) {
        const Parameter *parameter = &layout->parameter[p];
        for (size_t i = parameter->offset; i < parameter->offset + parameter->count; i++) {
            double weight = weights[i];
            weights[i] = weight + h;
            double above = reference_loss(layout, weights, input, labels, rows);
            weights[i] = weight - h;
            double below = reference_loss(layout, weights, input, labels, rows);
            weights[i] = weight;
            difference[i] = (above - below) / (2 * h);
            largest = fmax(largest, fabs(difference[i]));
        }
    }
    /* At a kink neither side would be right: such a case proves nothing, another seed will do. */
    if (nearest_to_zero < 2 * h)
        fail_msg("seed %u puts a hidden unit within %g of ReLU's kink; choose another", seed,
                 nearest_to_zero);

    fixture_pass(&fixture, 0, rows, false, NULL, NULL);
    double loss = reference_loss(layout, weights, input, labels, rows);
    assert_true(fabs(fixture.stats->loss_sum / rows - loss) <= 1e-6);
    for (int p = 0; p < layout->parameters; p++) {
        const Parameter *parameter = &layout->parameter[p];
        for (size_t i = 0; i < parameter->count; i++) {
            double got = (double)fixture.model.gradients[parameter->offset + i];
            double expected = difference[parameter->offset + i];
            /* where all gradients are next to nothing (one class only), rounding is not */
            if (!(fabs(got - expected) <= 1e-6 * fmax(largest, 0.1)))
                fail_msg("%d layers, %d rows, seed %u: %s[%zu] has gradient %.9g, the difference "
                         "is %.9g",
                         layers, rows, seed, parameter->name, i, got, expected);
        }
    }
    free(weights);
    free(difference);
    device_close(fixture.device);
}

static void test_central_differences(void **state)
{
    (void)state;
    static const int shapes[][MOST_LAYERS + 1] = {
        {4, 3},          {1, 1},    {1, 2},
        {5, 7, 3},       {6, 1, 4}, {9, 17, 33, 10},
        {3, 8, 1, 8, 2}, {7, 1},    {11, 5, 6, 7, 8, 9, 4},
    };
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        int layers = 0;
        while (layers < MOST_LAYERS && shapes[shape][layers + 1])
            layers++;
        for (int rows = 1; rows <= MOST_ROWS; rows = rows * 3 + 1)
            for (unsigned seed = 0; seed < 3; seed++)
                check_gradients(shapes[shape], layers, rows, seed);
    }
}

/* What backward has announced so far, and the arena as it was then. */
typedef struct Listener {
    const Fixture *fixture;
    int announced;
    float *seen; /* each gradient as it was when it was announced */
} Listener;

static void listen(void *context, int parameter)
{
    Listener *listener = context;
    const Layout *layout = &listener->fixture->layout;
    assert_int_equal(parameter, listener->announced++);
    const Parameter *p = &layout->parameter[parameter];
    memcpy(listener->seen + p->offset, listener->fixture->model.gradients + p->offset,
           sizeof(float) * p->count);
}

/* Each once, in the order of the arena, and finished: nothing is added after the announcement. */
static void test_gradients_are_announced_when_they_are_final(void **state)
{
    (void)state;
    Fixture fixture;
    fixture_open(&fixture, (const int[]){6, 9, 5, 4, 3}, 4, 8, 5);
    size_t count = fixture.layout.arena_count;
    Listener listener = {.fixture = &fixture, .seen = calloc(count, sizeof(float))};
    assert_non_null(listener.seen);
    fixture_pass(&fixture, 0, 8, false, listen, &listener);
    assert_int_equal(listener.announced, fixture.layout.parameters);
    assert_memory_equal(listener.seen, fixture.model.gradients, sizeof(float) * count);
    free(listener.seen);
    device_close(fixture.device);
}

/* The gradients of two parts add up to those of the whole; written over where not asked to add. */
static void test_parts_accumulate(void **state)
{
    (void)state;
    enum { ROWS = 11, FIRST = 4 };
    Fixture whole, parts;
    fixture_open(&whole, (const int[]){6, 9, 5, 3}, 3, ROWS, 2);
    fixture_open(&parts, (const int[]){6, 9, 5, 3}, 3, ROWS, 2);
    size_t count = whole.layout.arena_count;
    fixture_pass(&whole, 0, ROWS, false, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        parts.model.gradients[i] = 100; /* what is left of an earlier step */
    fixture_pass(&parts, 0, FIRST, false, NULL, NULL);
    fixture_pass(&parts, FIRST, ROWS - FIRST, true, NULL, NULL);
    assert_float_equal(whole.stats->loss_sum, parts.stats->loss_sum, 1e-6);
    for (int p = 0; p < whole.layout.parameters; p++) {
        const Parameter *parameter = &whole.layout.parameter[p];
        for (size_t i = parameter->offset; i < parameter->offset + parameter->count; i++)
            assert_float_equal(whole.model.gradients[i], parts.model.gradients[i], 1e-6);
    }
    device_close(whole.device);
    device_close(parts.device);
}

/* A rank without samples has gradients that add nothing, and announces them like everyone. */
static void test_no_rows_have_zero_gradients(void **state)
{
    (void)state;
    Fixture fixture;
    fixture_open(&fixture, (const int[]){6, 9, 3}, 2, 4, 1);
    size_t count = fixture.layout.arena_count;
    fixture_pass(&fixture, 0, 4, false, NULL, NULL);
    Listener listener = {.fixture = &fixture, .seen = calloc(count, sizeof(float))};
    assert_non_null(listener.seen);
    double loss_sum = fixture.stats->loss_sum;
    fixture_pass(&fixture, 0, 0, false, listen, &listener);
    assert_int_equal(listener.announced, fixture.layout.parameters);
    assert_true(fixture.stats->loss_sum == loss_sum);
    for (int p = 0; p < fixture.layout.parameters; p++) {
        const Parameter *parameter = &fixture.layout.parameter[p];
        for (size_t i = 0; i < parameter->count; i++)
            assert_true(fixture.model.gradients[parameter->offset + i] == 0);
    }
    free(listener.seen);
    device_close(fixture.device);
}

/* --- optimizers ---------------------------------------------------------------------------- */

/* One weight in double. `first` and `second` are SGD's velocity, or Adam's two moments. */
typedef struct Scalar {
    double weight, first, second;
} Scalar;

static void reference_step(Scalar *s, const OptimizerSettings *settings, double gradient, int step)
{
    bool decoupled = settings->kind == OPTIMIZER_ADAMW;
    if (!decoupled)
        gradient += settings->weight_decay * s->weight;
    if (settings->kind == OPTIMIZER_SGD) {
        s->first = settings->momentum * s->first + gradient;
        s->weight -= settings->lr * s->first;
        return;
    }
    if (decoupled)
        s->weight -= settings->lr * settings->weight_decay * s->weight;
    s->first = 0.9 * s->first + 0.1 * gradient;
    s->second = 0.999 * s->second + 0.001 * gradient * gradient;
    double mean = s->first / (1 - pow(0.9, step));
    double square = s->second / (1 - pow(0.999, step));
    s->weight -= settings->lr * mean / (sqrt(square) + 1e-8);
}

/* COUNT weights through STEPS updates. Gradients of all sizes: 0, some next to Adam's epsilon, and
 * up to 1; each weight's keep one size but change their sign. */
static void check_optimizer(const OptimizerSettings *settings)
{
    enum { COUNT = 101, STEPS = 30 };
    Error error = NULL;
    Device *device = device_open(DEVICE_CPU, 0, false, &error);
    if (!device)
        fail_msg("%s", error);
    float *weights, *gradients;
    assert_null(device_alloc(device, COUNT * sizeof *weights, (void **)&weights));
    assert_null(device_alloc(device, COUNT * sizeof *gradients, (void **)&gradients));
    Optimizer optimizer;
    assert_null(optimizer_open(&optimizer, settings, device, COUNT));
    Scalar reference[COUNT];
    double largest[COUNT]; /* that each weight has been */
    uint32_t random = 1;
    for (int i = 0; i < COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        weights[i] = ((float)(random >> 8) / 8388608 - 1) / 10;
        reference[i] = (Scalar){.weight = (double)weights[i]};
        largest[i] = fabs(reference[i].weight);
    }
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < COUNT; i++) {
            random = random * 1664525u + 1013904223u;
            double size = i == 0 ? 0 : pow(10, -9.0 * i / COUNT);
            gradients[i] = (float)(size * ((double)(random >> 8) / 8388608 - 0.7));
            reference_step(&reference[i], settings, (double)gradients[i], step);
            largest[i] = fmax(largest[i], fabs(reference[i].weight));
        }
        optimizer_step(&optimizer, weights, gradients);
        assert_null(device_sync(device));
    }
    for (int i = 0; i < COUNT; i++) {
        /* each step rounds the weight, by at most half a unit in its last place; what the changes
         * themselves are rounded by is small beside it, as they are */
        double off = fabs((double)weights[i] - reference[i].weight);
        if (!(off <= STEPS * 0x1p-24 * largest[i]))
            fail_msg(
                "optimizer %d, momentum %g, weight decay %g: weight %d is %.9g after %d steps, "
                "should be %.9g",
                (int)settings->kind, settings->momentum, settings->weight_decay, i,
                (double)weights[i], STEPS, reference[i].weight);
    }
    device_close(device);
}

static void test_optimizers(void **state)
{
    (void)state;
    static const double decays[] = {0, 0.05};
    for (int i = 0; i < 2; i++) {
        double decay = decays[i];
        check_optimizer(&(OptimizerSettings){
            .kind = OPTIMIZER_SGD, .lr = 0.1, .momentum = 0, .weight_decay = decay});
        check_optimizer(&(OptimizerSettings){
            .kind = OPTIMIZER_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = decay});
        check_optimizer(
            &(OptimizerSettings){.kind = OPTIMIZER_ADAM, .lr = 0.01, .weight_decay = decay});
        check_optimizer(
            &(OptimizerSettings){.kind = OPTIMIZER_ADAMW, .lr = 0.01, .weight_decay = decay});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_central_differences),
        cmocka_unit_test(test_gradients_are_announced_when_they_are_final),
        cmocka_unit_test(test_parts_accumulate),
        cmocka_unit_test(test_no_rows_have_zero_gradients),
        cmocka_unit_test(test_optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
