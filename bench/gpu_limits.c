/* gpu_limits.c: what a GPU can do at best, for `make bench-gpu`: the matrix products of a training
 * step by bare cuBLAS, in the shapes and the order of the trainer's step; and the rates of copies.
 *
 *     gpu_limits LAYERS ROWS GPU      as in: gpu_limits 784,128,10 256 0
 *
 * prints one line: milliseconds of the step's products, their TFLOP/s, and GB/s within the GPU's
 * memory (read and written) and from pinned host memory to the GPU.
 */
#include <stdio.h>

#ifdef TRAINER_CUDA

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdlib.h>

#define MOST_LAYERS 64
#define ROUNDS      30
#define COPY_BYTES  ((size_t)256 << 20)

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int check_status = (int)(call);                                                            \
        if (check_status != 0) {                                                                   \
            fprintf(stderr, "gpu_limits: %s: error %d (%s:%d)\n", #call, check_status, __FILE__,   \
                    __LINE__);                                                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct Net {
    int layers, rows;
    int widths[MOST_LAYERS + 1];
    float *activation[MOST_LAYERS + 1], *weight[MOST_LAYERS], *gradient[MOST_LAYERS], *delta[2];
} Net;

/* Numbers of a usual size: with zeros a GPU draws less power and runs faster than in earnest. */
static float *allocate(size_t count, cudaStream_t stream)
{
    float *memory, *host = malloc(sizeof *host * count);
    if (!host)
        exit(1);
    unsigned random = 1;
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        host[i] = (float)(random >> 8) / (1 << 24) - 0.5f;
    }
    CHECK(cudaMalloc((void **)&memory, sizeof *memory * count));
    CHECK(cudaMemcpyAsync(memory, host, sizeof *host * count, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    free(host);
    return memory;
}

static void prepare(Net *net, cudaStream_t stream)
{
    size_t rows = (size_t)net->rows, widest = 1;
    for (int i = 0; i <= net->layers; i++) {
        net->activation[i] = allocate(rows * (size_t)net->widths[i], stream);
        widest = (size_t)net->widths[i] > widest ? (size_t)net->widths[i] : widest;
    }
    for (int i = 0; i < net->layers; i++) {
        net->weight[i] = allocate((size_t)net->widths[i] * (size_t)net->widths[i + 1], stream);
        net->gradient[i] = allocate((size_t)net->widths[i] * (size_t)net->widths[i + 1], stream);
    }
    for (int i = 0; i < 2; i++)
        net->delta[i] = allocate(rows * widest, stream);
}

/* product [rows, columns], row-major, of [rows, inner] and [inner, columns], each of which may lie
 * in memory transposed; see device/cuda.c for why the factors change places. */
static void multiply(cublasHandle_t blas, float *product, const float *a, int a_transposed,
                     const float *b, int b_transposed, int rows, int columns, int inner)
{
    const float one = 1, zero = 0;
    CHECK(cublasGemmEx(blas, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                       a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows, inner, &one, b,
                       CUDA_R_32F, b_transposed ? inner : columns, a, CUDA_R_32F,
                       a_transposed ? rows : inner, &zero, product, CUDA_R_32F, columns,
                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* The products of one step; returns their floating-point operations. */
static double step(cublasHandle_t blas, const Net *net)
{
    double operations = 0;
    int rows = net->rows;
    for (int i = 0; i < net->layers; i++) {
        int in = net->widths[i], out = net->widths[i + 1];
        multiply(blas, net->activation[i + 1], net->activation[i], 0, net->weight[i], 1, rows, out,
                 in);
        operations += 2.0 * rows * in * out;
    }
    const float *output_gradient = net->delta[net->layers % 2];
    for (int i = net->layers - 1; i >= 0; i--) {
        int in = net->widths[i], out = net->widths[i + 1];
        multiply(blas, net->gradient[i], output_gradient, 1, net->activation[i], 0, out, in, rows);
        operations += 2.0 * rows * in * out;
        if (i == 0)
            break;
        multiply(blas, net->delta[i % 2], output_gradient, 0, net->weight[i], 0, rows, in, out);
        operations += 2.0 * rows * in * out;
        output_gradient = net->delta[i % 2];
    }
    return operations;
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median(float *values)
{
    qsort(values, ROUNDS, sizeof *values, compare_floats);
    return values[ROUNDS / 2];
}

int main(int argc, char **argv)
{
    static Net net;
    net.layers = -1;
    if (argc != 4) {
        fprintf(stderr, "usage: gpu_limits LAYERS ROWS GPU\n");
        return 2;
    }
    for (char *at = argv[1]; *at && net.layers < MOST_LAYERS; at += *at == ',')
        net.widths[++net.layers] = (int)strtol(at, &at, 10);
    net.rows = atoi(argv[2]);

    cudaStream_t stream;
    cudaEvent_t start, end;
    cublasHandle_t blas;
    void *workspace;
    size_t workspace_bytes = (size_t)32 << 20;
    CHECK(cudaSetDevice(atoi(argv[3])));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    CHECK(cudaMalloc(&workspace, workspace_bytes));
    CHECK(cublasSetWorkspace(blas, workspace, workspace_bytes));
    prepare(&net, stream);

    float ms[ROUNDS];
    double operations = step(blas, &net); /* the first one loads kernels */
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cudaEventRecord(start, stream));
        step(blas, &net);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms[i], start, end));
    }
    double products_ms = (double)median(ms);

    void *from, *to, *host;
    CHECK(cudaMalloc(&from, COPY_BYTES));
    CHECK(cudaMalloc(&to, COPY_BYTES));
    CHECK(cudaMallocHost(&host, COPY_BYTES));
    double rates[2];
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < ROUNDS; i++) {
            CHECK(cudaEventRecord(start, stream));
            CHECK(cudaMemcpyAsync(to, kind ? host : from, COPY_BYTES,
                                  kind ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice,
                                  stream));
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaEventElapsedTime(&ms[i], start, end));
        }
        rates[kind] = (kind ? 1 : 2) * (double)COPY_BYTES / (double)median(ms) / 1e6;
    }
    printf("products_ms=%.5f tflops=%.2f copy_gb_s=%.1f upload_gb_s=%.1f\n", products_ms,
           operations / products_ms / 1e9, rates[0], rates[1]);
    return 0;
}

#else

int main(void)
{
    fprintf(stderr, "gpu_limits: built without CUDA\n");
    return 1;
}

#endif
