/* plants.cu: small CUDA programs, each in a right and in a wrong version, to show that the software
 * CUDA finds what it is made to find, and finds nothing where nothing is wrong.
 *
 *     plants NAME right|wrong
 *
 * ends with 0 if the numbers come out right, with 1 if they do not; or softcuda aborts it.
 */
struct PlantSlice {
    float *start;
    int count;
};

/* --- kernels: also compiled for the CPU ----------------------------------------------------- */

__global__ void plant_fill(float *memory, int count, float value)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        memory[i] = value;
}

__global__ void plant_fill_slice(PlantSlice slice, float value)
{
    for (int i = (int)threadIdx.x; i < slice.count; i += (int)blockDim.x)
        slice.start[i] = value;
}

/* memory[i] = 1 if thread i sees what thread i + 1 wrote. */
__global__ void plant_ask_neighbour(float *memory, bool barrier)
{
    __shared__ unsigned left[1024];
    left[threadIdx.x] = threadIdx.x;
    if (barrier)
        __syncthreads();
    unsigned neighbour = (threadIdx.x + 1) % blockDim.x;
    memory[threadIdx.x] = left[neighbour] == neighbour;
}

/* Only the first `count` lanes come to the exchange, which names all 32. */
__global__ void plant_shuffle_for(float *memory, unsigned count)
{
    memory[threadIdx.x] = 1;
    if (threadIdx.x % 32 < count)
        memory[threadIdx.x] = __shfl_xor_sync(0xffffffffu, memory[threadIdx.x], 1);
}

/* --- programs -------------------------------------------------------------------------------- */

#ifdef __CUDACC__

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define COUNT 1024 /* floats: one page */
#define BYTES (COUNT * sizeof(float))

#define MUST(call)                                                                                 \
    do {                                                                                           \
        cudaError_t status = (call);                                                               \
        if (status != cudaSuccess) {                                                               \
            printf("%s: %s\n", #call, cudaGetErrorString(status));                                 \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

static cudaStream_t stream_on(int gpu)
{
    cudaStream_t stream;
    MUST(cudaSetDevice(gpu));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static float *floats_on(int gpu)
{
    float *memory;
    MUST(cudaSetDevice(gpu));
    MUST(cudaMalloc((void **)&memory, BYTES));
    return memory;
}

static float *pinned_floats()
{
    float *memory;
    MUST(cudaMallocHost((void **)&memory, BYTES));
    return memory;
}

static cudaEvent_t event_on(int gpu)
{
    cudaEvent_t event;
    MUST(cudaSetDevice(gpu));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static void fill(float *memory, int count, float value, cudaStream_t stream)
{
    plant_fill<<<(count + 255) / 256, 256, 0, stream>>>(memory, count, value);
    MUST(cudaGetLastError());
}

/* 0 if all numbers of GPU memory have the value once the stream is done. */
static int check(const float *memory, float value, cudaStream_t stream)
{
    std::vector<float> host(COUNT);
    MUST(cudaMemcpyAsync(host.data(), memory, BYTES, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    for (float number : host)
        if (number != value)
            return 1;
    return 0;
}

/* --- order --------------------------------------------------------------------------------- */

/* One stream uses what another makes: an event between them is missing. */
static int missing_event(bool right)
{
    cudaStream_t makes = stream_on(0), uses = stream_on(0);
    float *memory = floats_on(0), *copy = floats_on(0);
    cudaEvent_t made = event_on(0);
    fill(memory, COUNT, 1, makes);
    MUST(cudaStreamSynchronize(makes));
    fill(memory, COUNT, 2, makes);
    MUST(cudaEventRecord(made, makes));
    if (right)
        MUST(cudaStreamWaitEvent(uses, made, 0));
    MUST(cudaMemcpyAsync(copy, memory, BYTES, cudaMemcpyDeviceToDevice, uses));
    return check(copy, 2, uses);
}

/* The wait is there, but the event is recorded after it: then it is no wait. */
static int event_recorded_too_late(bool right)
{
    cudaStream_t makes = stream_on(0), uses = stream_on(0);
    float *memory = floats_on(0), *copy = floats_on(0);
    cudaEvent_t made = event_on(0);
    fill(memory, COUNT, 2, makes);
    if (right)
        MUST(cudaEventRecord(made, makes));
    MUST(cudaStreamWaitEvent(uses, made, 0));
    if (!right)
        MUST(cudaEventRecord(made, makes));
    MUST(cudaMemcpyAsync(copy, memory, BYTES, cudaMemcpyDeviceToDevice, uses));
    return check(copy, 2, uses);
}

/* A buffer is overwritten while another stream still reads it. */
static int overwritten_too_early(bool right)
{
    cudaStream_t makes = stream_on(0), uses = stream_on(1);
    float *memory = floats_on(0), *copy = floats_on(1);
    cudaEvent_t used = event_on(1), made = event_on(0); /* GPU 0 is the current one now */
    fill(memory, COUNT, 2, makes);
    MUST(cudaEventRecord(made, makes));
    MUST(cudaStreamWaitEvent(uses, made, 0));
    MUST(cudaMemcpyPeerAsync(copy, 1, memory, 0, BYTES, uses));
    MUST(cudaEventRecord(used, uses));
    if (right)
        MUST(cudaStreamWaitEvent(makes, used, 0));
    fill(memory, COUNT, 3, makes);
    return check(copy, 2, uses);
}

/* Pinned host memory gets new contents while a copy from it is still queued. */
static int pinned_memory_reused(bool right)
{
    cudaStream_t stream = stream_on(0);
    float *memory = floats_on(0), *host = pinned_floats();
    for (int i = 0; i < COUNT; i++)
        host[i] = 1;
    MUST(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, stream));
    if (right)
        MUST(cudaStreamSynchronize(stream));
    memset(host, 0, BYTES);
    return check(memory, 1, stream);
}

/* The host reads what a copy has not brought yet. */
static int read_before_it_is_there(bool right)
{
    cudaStream_t stream = stream_on(0);
    float *memory = floats_on(0), *host = pinned_floats();
    memset(host, 0, BYTES);
    fill(memory, COUNT, 1, stream);
    MUST(cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, stream));
    if (right)
        MUST(cudaStreamSynchronize(stream));
    return host[COUNT - 1] != 1;
}

/* --- pointers ------------------------------------------------------------------------------ */

static int pointer_of_another_gpu(bool right)
{
    float *memory = floats_on(0), *foreign = floats_on(1);
    cudaStream_t stream = stream_on(0);
    fill(right ? memory : foreign, COUNT, 1, stream);
    return check(right ? memory : foreign, 1, stream);
}

/* The same where the pointer is not an argument by itself. */
static int hidden_pointer_of_another_gpu(bool right)
{
    float *memory = floats_on(0), *foreign = floats_on(1);
    cudaStream_t stream = stream_on(0);
    PlantSlice slice = {right ? memory : foreign, COUNT};
    plant_fill_slice<<<1, 256, 0, stream>>>(slice, 1);
    return check(slice.start, 1, stream);
}

static int pointer_of_the_host(bool right)
{
    std::vector<float> host(COUNT);
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    fill(right ? memory : host.data(), COUNT, 1, stream);
    return check(memory, 1, stream);
}

static int beyond_the_end(bool right)
{
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    fill(memory, right ? COUNT : COUNT + 1, 1, stream);
    return check(memory, 1, stream);
}

static int copy_beyond_the_end(bool right)
{
    float *memory = floats_on(0), *copy = floats_on(0);
    cudaStream_t stream = stream_on(0);
    fill(memory, COUNT, 1, stream);
    MUST(
        cudaMemcpyAsync(copy, memory, right ? BYTES : BYTES + 4, cudaMemcpyDeviceToDevice, stream));
    return check(copy, 1, stream);
}

static int used_after_free(bool right)
{
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    if (!right)
        MUST(cudaFree(memory));
    fill(memory, COUNT, 1, stream);
    return check(memory, 1, stream);
}

static int never_written(bool right)
{
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    if (right)
        MUST(cudaMemsetAsync(memory, 0, BYTES, stream));
    return check(memory, 0, stream);
}

static int host_reads_gpu_memory(bool right)
{
    float *memory = floats_on(0), value = 0;
    cudaStream_t stream = stream_on(0);
    fill(memory, COUNT, 1, stream);
    if (check(memory, 1, stream))
        return 1;
    if (right) {
        MUST(cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
    } else {
        value = memory[0];
    }
    return value != 1;
}

static int stream_of_another_gpu(bool right)
{
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    MUST(cudaSetDevice(right ? 0 : 1));
    fill(memory, COUNT, 1, stream);
    return check(memory, 1, stream);
}

/* --- kernels ------------------------------------------------------------------------------- */

static int missing_syncthreads(bool right)
{
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    plant_ask_neighbour<<<1, COUNT, 0, stream>>>(memory, right);
    return check(memory, 1, stream);
}

/* Half a warp's lanes call a warp function that names all of them. */
static int shuffle_in_a_branch(bool right)
{
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    plant_shuffle_for<<<1, COUNT, 0, stream>>>(memory, right ? 32 : 16);
    return check(memory, 1, stream);
}

static int too_many_threads(bool right)
{
    float *memory = floats_on(0);
    cudaStream_t stream = stream_on(0);
    plant_fill<<<1, right ? COUNT : COUNT + 1, 0, stream>>>(memory, COUNT, 1);
    MUST(cudaGetLastError());
    return check(memory, 1, stream);
}

/* --- processes ----------------------------------------------------------------------------- */

/* CUDA in a parent breaks its children. */
static int cuda_before_the_fork(bool right)
{
    int gpus = 0, status = 0;
    if (!right)
        MUST(cudaGetDeviceCount(&gpus));
    pid_t child = fork();
    if (child == 0)
        _exit(cudaGetDeviceCount(&gpus) != cudaSuccess);
    waitpid(child, &status, 0);
    return status != 0;
}

/* ------------------------------------------------------------------------------------------- */

#define PLANT(name)                                                                                \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    int (*run)(bool right);
} plants[] = {
    PLANT(missing_event),
    PLANT(event_recorded_too_late),
    PLANT(overwritten_too_early),
    PLANT(pinned_memory_reused),
    PLANT(read_before_it_is_there),
    PLANT(pointer_of_another_gpu),
    PLANT(hidden_pointer_of_another_gpu),
    PLANT(pointer_of_the_host),
    PLANT(beyond_the_end),
    PLANT(copy_beyond_the_end),
    PLANT(used_after_free),
    PLANT(never_written),
    PLANT(host_reads_gpu_memory),
    PLANT(stream_of_another_gpu),
    PLANT(missing_syncthreads),
    PLANT(shuffle_in_a_branch),
    PLANT(too_many_threads),
    PLANT(cuda_before_the_fork),
};

int main(int argc, char **argv)
{
    for (const auto &plant : plants)
        if (argc == 3 && strcmp(argv[1], plant.name) == 0)
            return plant.run(strcmp(argv[2], "right") == 0);
    for (const auto &plant : plants)
        printf("%s\n", plant.name);
    return argc == 1 ? 0 : 2;
}

#endif
