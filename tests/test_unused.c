/* test_unused.c: a model with a branch is PyTorch's to the last bit at the start, gets PyTorch's
 * gradients with and without its branch, and an update leaves alone what has no gradient.
 *
 * What PyTorch gives is in tests/golden/unused.txt; several ranks are unused.sh's matter.
 */
#include "model.h"
#include "optimizer.h"
#include "tests/golden/golden.h"

#include <math.h>

enum { MOST_LAYERS = 8 };

static float *new_floats(size_t count)
{
    float *floats = calloc(count, sizeof *floats);
    assert_non_null(floats);
    return floats;
}

/* The next parameter of a golden file, by its name, as floats at its place in an arena. False if
 * its count is 0, as for a gradient of None. */
static bool golden_parameter(FILE *file, const Parameter *parameter, float *arena)
{
    golden_expect(file, parameter->name);
    uint64_t count = golden_integer(file);
    if (count == 0)
        return false;
    assert_int_equal(count, parameter->count);
    for (size_t i = 0; i < parameter->count; i++)
        arena[parameter->offset + i] = float_of(golden_bits(file));
    return true;
}

static void weights_case(FILE *file)
{
    uint64_t seed = golden_integer(file);
    int widths[MOST_LAYERS + 1];
    int layers = golden_widths(file, widths, MOST_LAYERS);
    Layout layout;
    layout_init_branched(&layout, widths, layers, UNUSED_ALWAYS);
    assert_int_equal(layout.parameters, 2 * layers + 2);
    float *expected = new_floats(layout.arena_count), *got = new_floats(layout.arena_count);
    layout_init_weights(&layout, seed, got);
    for (int i = 0; i < layout.parameters; i++)
        assert_true(golden_parameter(file, layout_registered(&layout, i), expected));
    assert_memory_equal(got, expected, sizeof *got * layout.arena_count);
    free(expected);
    free(got);
}

/* A backward pass of the first `rows` samples; what it announces, in order. */
typedef struct Pass {
    Device *device;
    Layout layout;
    Model model;
    int announced[MODEL_MOST_PARAMETERS];
    int announcements;
    double loss;
} Pass;

static void note_ready(void *context, int parameter)
{
    Pass *pass = context;
    pass->announced[pass->announcements++] = parameter;
}

static void pass_open(Pass *pass, const int *widths, int layers, bool skips, uint64_t seed,
                      int rows)
{
    Error error = NULL;
    *pass = (Pass){.device = device_open(DEVICE_CPU, 0, false, &error)};
    assert_non_null(pass->device);
    layout_init_branched(&pass->layout, widths, layers, UNUSED_NEVER);
    float *arena[2];
    for (int i = 0; i < 2; i++)
        assert_null(device_alloc(pass->device, sizeof(float) * pass->layout.arena_count,
                                 (void **)&arena[i]));
    layout_init_weights(&pass->layout, seed, arena[0]);
    assert_null(
        model_open(&pass->model, &pass->layout, pass->device, arena[0], arena[1], rows, rows));
    pass->model.skips_branch = skips;

    size_t size = (size_t)widths[0];
    uint8_t *pixels = malloc((size_t)rows * size), *labels = malloc((size_t)rows);
    assert_true(pixels && labels);
    golden_images(pixels, labels, (uint32_t)rows, (uint32_t)size, (uint32_t)widths[layers]);
    LossStats stats = {0};
    device_bytes_to_float(pass->device, model_input(&pass->model), pixels, (size_t)rows * size);
    model_forward(&pass->model, rows);
    device_softmax_cross_entropy(pass->device, pass->model.logit_gradient, &stats,
                                 model_logits(&pass->model), labels, rows, widths[layers],
                                 1.0f / (float)rows);
    pass->loss = stats.loss_sum / rows;
    free(pixels);
    free(labels);
}

static void gradients_case(FILE *file)
{
    bool skips = golden_integer(file);
    uint64_t seed = golden_integer(file);
    int rows = (int)golden_integer(file);
    int widths[MOST_LAYERS + 1];
    int layers = golden_widths(file, widths, MOST_LAYERS);
    Pass pass;
    pass_open(&pass, widths, layers, skips, seed, rows);
    golden_expect(file, "loss");
    assert_float_equal(pass.loss, golden_real(file), 1e-6);

    const Layout *layout = &pass.layout;
    float *gradients = pass.model.gradients;
    for (size_t i = 0; i < layout->parameter[2].offset; i++)
        gradients[i] = 7; /* the branch's: what a sum of an earlier step left there */
    model_backward(&pass.model, rows, false, note_ready, &pass);

    float *expected = new_floats(layout->arena_count);
    double largest = 0;
    int without = 0;
    for (int i = 0; i < layout->parameters; i++) {
        bool gradient = golden_parameter(file, layout_registered(layout, i), expected);
        assert_int_equal(pass.model.no_gradient[layout->parameters - 1 - i], !gradient);
        without += !gradient;
    }
    assert_int_equal(without, skips ? 2 : 0);
    for (int i = 0; i < layout->parameters; i++)
        for (size_t j = 0; j < layout->parameter[i].count; j++)
            largest = fmax(largest, fabs((double)expected[layout->parameter[i].offset + j]));
    for (int i = 0; i < layout->parameters; i++)
        for (size_t j = 0; j < layout->parameter[i].count; j++) {
            size_t at = layout->parameter[i].offset + j;
            double wanted = model_skips(&pass.model, i) ? 7 : (double)expected[at];
            if (!(fabs((double)gradients[at] - wanted) <= 1e-6 * largest))
                fail_msg("%s[%zu]: %.9g, not %.9g", layout->parameter[i].name, j,
                         (double)gradients[at], wanted);
        }

    /* in arena order, the branch first or not at all */
    assert_int_equal(pass.announcements, layout->parameters - without);
    for (int i = 0; i < pass.announcements; i++)
        assert_int_equal(pass.announced[i], i + without);

    model_zero_skipped(&pass.model);
    assert_true(gradients[0] == 0 || !skips);
    assert_true(gradients[layout->parameter[2].offset] != 0); /* the last layer's bias */
    free(expected);
    device_close(pass.device);
}

static void test_weights_and_gradients_like_pytorch(void **state)
{
    (void)state;
    FILE *file = golden_open("unused");
    char word[64];
    int weights = 0, gradients = 0;
    while (golden_next(file, word) && strcmp(word, "data") != 0) {
        if (strcmp(word, "weights") == 0) {
            weights_case(file);
            weights++;
        } else {
            assert_string_equal(word, "gradients");
            gradients_case(file);
            gradients++;
        }
    }
    fclose(file);
    assert_int_equal(weights, 4);
    assert_int_equal(gradients, 8);
}

/* The deepest model that the command line takes has room for its branch. */
static void test_room_for_the_branch_of_the_deepest_model(void **state)
{
    (void)state;
    int widths[MODEL_MOST_LAYERS + 1];
    for (int i = 0; i <= MODEL_MOST_LAYERS; i++)
        widths[i] = 3;
    static Layout layout;
    layout_init_branched(&layout, widths, MODEL_MOST_LAYERS, UNUSED_RANK0);
    assert_int_equal(layout.parameters, 2 * MODEL_MOST_LAYERS + 2);
    assert_true(layout.parameters <= MODEL_MOST_PARAMETERS);
    assert_string_equal(layout.parameter[0].name, "branch.bias");
    assert_string_equal(layout.parameter[2].name, "126.bias");
    layout_init_branched(&layout, widths, MODEL_MOST_LAYERS, UNUSED_NONE);
    assert_int_equal(layout.parameters, 2 * MODEL_MOST_LAYERS);
}

/* Two slices of an arena are updated as the whole would be; between them nothing changes, neither
 * weights nor state, with weight decay as well. */
static void slices_case(OptimizerKind kind, double momentum)
{
    enum { COUNT = 40 };
    const Slice slices[] = {{.offset = 4, .count = 12}, {.offset = 24, .count = 8}};
    OptimizerSettings settings = {
        .kind = kind, .lr = 0.1, .momentum = momentum, .weight_decay = 0.1};
    Error error = NULL;
    Device *device = device_open(DEVICE_CPU, 0, false, &error);
    assert_non_null(device);
    Optimizer whole, sliced;
    assert_null(optimizer_open(&whole, &settings, device, COUNT));
    assert_null(optimizer_open(&sliced, &settings, device, COUNT));
    float start[COUNT], weights[2][COUNT], gradients[COUNT];
    for (int i = 0; i < COUNT; i++) {
        start[i] = weights[0][i] = weights[1][i] = 1 + 0.1f * (float)i;
        gradients[i] = 0.5f + 0.03f * (float)i;
    }
    for (int step = 0; step < 3; step++) {
        optimizer_step(&whole, weights[0], gradients);
        optimizer_step_slices(&sliced, weights[1], gradients, slices, 2);
    }
    assert_int_equal(sliced.steps, 3);
    for (size_t i = 0; i < COUNT; i++) {
        bool in = (i >= 4 && i < 16) || (i >= 24 && i < 32);
        assert_true(weights[0][i] != start[i]);
        assert_true(weights[1][i] == (in ? weights[0][i] : start[i]));
        for (int j = 0; j < optimizer_states(&settings); j++)
            assert_true(sliced.state[j][i] == (in ? whole.state[j][i] : 0));
    }
    device_close(device);
}

static void test_updates_leave_the_rest_alone(void **state)
{
    (void)state;
    slices_case(OPTIMIZER_SGD, 0);
    slices_case(OPTIMIZER_SGD, 0.9);
    slices_case(OPTIMIZER_ADAM, 0);
    slices_case(OPTIMIZER_ADAMW, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_and_gradients_like_pytorch),
        cmocka_unit_test(test_room_for_the_branch_of_the_deepest_model),
        cmocka_unit_test(test_updates_leave_the_rest_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
