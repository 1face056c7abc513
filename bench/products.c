/* products.c: the matrix products of a training step and nothing else, for `make bench`: the same
 * shapes, in the same order, in the same buffers as a step of the trainer. A step cannot be faster.
 *
 *     products LAYERS ROWS CORE       as in: products 784,128,10 256 0
 *
 * Each number that comes in on standard input asks for that many steps; the answer is the median of
 * their times in ms.
 */
#include "base/place.h"
#include "model.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The products of model_forward and model_backward, as device/cpu.c writes them. */
static void products(const Model *model, int rows)
{
    const Layout *layout = model->layout;
    for (int layer = 0; layer < layout->layers; layer++) {
        int in = layout->widths[layer], out = layout->widths[layer + 1];
        size_t weight = layout->parameter[layout_bias(layout, layer) + 1].offset;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1,
                    model->activation[layer], in, model->weights + weight, in, 0,
                    model->activation[layer + 1], out);
    }
    const float *output_gradient = model->logit_gradient;
    for (int layer = layout->layers - 1; layer >= 0; layer--) {
        int in = layout->widths[layer], out = layout->widths[layer + 1];
        size_t weight = layout->parameter[layout_bias(layout, layer) + 1].offset;
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, rows, 1, output_gradient, out,
                    model->activation[layer], in, 0, model->gradients + weight, in);
        if (layer == 0)
            break;
        float *input_gradient = model->delta[layer % 2];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, in, out, 1, output_gradient,
                    out, model->weights + weight, in, 0, input_gradient, in);
        output_gradient = input_gradient;
    }
}

/* Numbers of a usual size: a product of zeros or of denormals could take another time. */
static void fill(float *numbers, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = scale * (float)(i % 97) / 97;
}

static Error prepare(Model *model, Layout *layout, Device *device, int rows)
{
    size_t bytes = sizeof(float) * layout->arena_count;
    float *weights, *gradients;
    TRY(device_alloc(device, bytes, (void **)&weights));
    TRY(device_alloc(device, bytes, (void **)&gradients));
    TRY(model_open(model, layout, device, weights, gradients, rows, rows));
    layout_init_weights(layout, 0, weights);
    fill(model->activation[0], (size_t)rows * (size_t)layout->widths[0], 1);
    fill(model->logit_gradient, (size_t)rows * (size_t)layout->widths[layout->layers], 1e-3f);
    return NULL;
}

static Error serve(Layout *layout, int rows)
{
    Error error = NULL;
    Device *device = device_open(DEVICE_CPU, 0, false, &error);
    TRY(error);
    Model model;
    TRY(prepare(&model, layout, device, rows));
    int steps;
    while (scanf("%d", &steps) == 1 && steps > 0) {
        double *times = malloc(sizeof *times * (size_t)steps);
        if (!times)
            return error_make("no memory for the times of %d steps", steps);
        for (int i = 0; i < 5; i++) /* the caches are cold after a pause */
            products(&model, rows);
        for (int i = 0; i < steps; i++) {
            double start = now_ms();
            products(&model, rows);
            times[i] = now_ms() - start;
        }
        qsort(times, (size_t)steps, sizeof *times, compare_doubles);
        printf("%.6f\n", times[steps / 2]);
        fflush(stdout);
        free(times);
    }
    device_close(device);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "Usage: products LAYERS ROWS CORE\n");
        return 2;
    }
    int widths[MODEL_MOST_LAYERS + 1], layers = -1;
    for (char *word = strtok(arguments[1], ","); word && layers < MODEL_MOST_LAYERS;
         word = strtok(NULL, ","))
        widths[++layers] = atoi(word);
    Layout layout;
    layout_init(&layout, widths, layers);

    openblas_set_num_threads(1);
    int cpus[256];
    int cores = place_core_list(cpus, 256);
    place_pin(cpus, cores, atoi(arguments[3]), 2);

    Error error = serve(&layout, atoi(arguments[2]));
    if (error)
        fprintf(stderr, "products: %s\n", error);
    return error != NULL;
}
