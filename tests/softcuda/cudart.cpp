/* cudart.cpp: the calls of libcudart that the program makes, but for kernels (launch.cpp). What
 * each does is NVIDIA's to say: the CUDA Runtime API manual.
 *
 * Where the manual leaves open whether a call waits, the seed decides, or it does not wait.
 */
#include "softcuda.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <time.h>
#include <unordered_map>

using namespace softcuda;

namespace
{

thread_local cudaError_t last_error;

struct Event {
    int gpu;
    bool timing;
    std::uint64_t recorded = 0; /* times it was recorded, */
    std::uint64_t happened = 0; /*   and the last of them that has come to pass */
    double time_ms = 0;
};

/* Operations that are still queued keep an event alive after it was destroyed. */
std::unordered_map<cudaEvent_t, std::shared_ptr<Event>> &events()
{
    static auto *made = new std::unordered_map<cudaEvent_t, std::shared_ptr<Event>>;
    return *made;
}

std::shared_ptr<Event> event_of(const char *call, cudaEvent_t handle)
{
    auto found = events().find(handle);
    if (found == events().end())
        violation("%s gets an event that is none, or is destroyed", call);
    return found->second;
}

void run_all()
{
    for (int gpu = 0; gpu < settings().gpus; gpu++)
        run_gpu(gpu);
}

bool exists(int gpu)
{
    return gpu >= 0 && gpu < settings().gpus;
}

double clock_ms()
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

} // namespace

cudaError_t softcuda::report(cudaError_t status)
{
    if (status != cudaSuccess)
        last_error = status;
    return status;
}

/* --- errors -------------------------------------------------------------------------------- */

extern "C" {

cudaError_t cudaGetLastError()
{
    cudaError_t status = last_error;
    last_error = cudaSuccess;
    return status;
}

const char *cudaGetErrorString(cudaError_t status)
{
    switch ((int)status) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInitializationError:
        return "initialization error";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorDevicesUnavailable:
        return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorInvalidDeviceFunction:
        return "invalid device function";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorPeerAccessUnsupported:
        return "peer access is not supported between these two devices";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorPeerAccessAlreadyEnabled:
        return "peer access is already enabled";
    case cudaErrorLaunchFailure:
        return "unspecified launch failure";
    default:
        return "unknown error";
    }
}

/* --- devices ------------------------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *version)
{
    const char *driver = getenv("SOFTCUDA_DRIVER");
    bool none = driver && strcmp(driver, "none") == 0;
    *version = none ? 0 : driver && *driver ? 12040 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    return cuda_call("cudaGetDeviceCount", [=] {
        *count = settings().gpus;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int gpu)
{
    return cuda_call("cudaGetDeviceProperties", [=] {
        if (!exists(gpu))
            return cudaErrorInvalidDevice;
        memset(properties, 0, sizeof *properties);
        snprintf(properties->name, sizeof properties->name, "Software GPU %d", gpu);
        properties->major = 8;
        properties->totalGlobalMem = settings().memory_bytes;
        properties->multiProcessorCount = 1;
        properties->pciBusID = gpu;
        return cudaSuccess;
    });
}

cudaError_t cudaSetDevice(int gpu)
{
    return cuda_call("cudaSetDevice", [=] {
        if (!exists(gpu))
            return cudaErrorInvalidDevice;
        current_gpu = gpu;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int gpu, int peer)
{
    return cuda_call("cudaDeviceCanAccessPeer", [=] {
        if (!exists(gpu) || !exists(peer))
            return cudaErrorInvalidDevice;
        *can = settings().peers && gpu != peer;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return cuda_call("cudaDeviceEnablePeerAccess", [=] {
        if (flags != 0)
            return cudaErrorInvalidValue;
        if (!exists(peer) || peer == current_gpu)
            return cudaErrorInvalidDevice;
        if (!settings().peers)
            return cudaErrorPeerAccessUnsupported;
        return enable_peer(current_gpu, peer) ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
    });
}

/* --- memory -------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return cuda_call(
        "cudaMalloc",
        [=] {
            void *made = bytes ? allocate(current_gpu, bytes) : nullptr;
            if (bytes && !made)
                return cudaErrorMemoryAllocation;
            *memory = made;
            return cudaSuccess;
        },
        cudaErrorMemoryAllocation);
}

/* Waits for the GPU, as the real one does. */
cudaError_t cudaFree(void *memory)
{
    return cuda_call("cudaFree", [=] {
        if (!memory)
            return cudaSuccess;
        if (owner(memory) >= 0)
            run_gpu(owner(memory));
        release("cudaFree", memory, false);
        return cudaSuccess;
    });
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cuda_call(
        "cudaMallocHost",
        [=] {
            *memory = bytes ? allocate(HOST, bytes) : nullptr;
            return cudaSuccess;
        },
        cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cuda_call("cudaFreeHost", [=] {
        if (!memory)
            return cudaSuccess;
        run_all();
        release("cudaFreeHost", memory, true);
        return cudaSuccess;
    });
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    return cuda_call("cudaHostRegister", [=] {
        if (!memory || bytes == 0)
            return cudaErrorInvalidValue;
        return register_host(memory, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
    });
}

cudaError_t cudaHostUnregister(void *memory)
{
    return cuda_call("cudaHostUnregister", [=] {
        run_all();
        return unregister_host(memory) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
    });
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    return cuda_call("cudaMemGetInfo", [=] {
        *free = free_bytes(current_gpu);
        *total = settings().memory_bytes;
        return cudaSuccess;
    });
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t handle)
{
    return cuda_call("cudaMemsetAsync", [=] {
        Stream *stream = stream_of("cudaMemsetAsync", handle);
        check_memory("cudaMemsetAsync", "memory", owner(memory) >= 0 ? owner(memory) : stream->gpu,
                     memory, bytes);
        queue(stream, {"a cudaMemsetAsync", ALL_MEMORY, [=] {
                           memset(memory, value, bytes);
                           return true;
                       }});
        return cudaSuccess;
    });
}
} // extern "C"

static void queue_copy(Stream *stream, void *to, const void *from, size_t bytes)
{
    queue(stream, {"a copy", ALL_MEMORY, [=] {
                       memcpy(to, from, bytes);
                       return true;
                   }});
}

/* One end of a copy, which `kind` says is a GPU's or the host's. */
static void check_end(const char *role, const void *memory, size_t bytes, bool on_gpu)
{
    int whose = owner(memory);
    if (on_gpu)
        check_memory("cudaMemcpyAsync", role, whose >= 0 ? whose : current_gpu, memory, bytes);
    else if (whose == HOST)
        check_memory("cudaMemcpyAsync", role, HOST, memory, bytes);
    else if (whose >= 0)
        violation("cudaMemcpyAsync: its %s should be host memory and is memory of GPU %d", role,
                  whose);
}

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t handle)
{
    return cuda_call("cudaMemcpyAsync", [=] {
        Stream *stream = stream_of("cudaMemcpyAsync", handle);
        if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost &&
            kind != cudaMemcpyDeviceToDevice)
            violation("cudaMemcpyAsync: kind %d is not known here", (int)kind);
        if (bytes == 0)
            return cudaSuccess;
        check_end("destination", to, bytes, kind != cudaMemcpyDeviceToHost);
        check_end("source", from, bytes, kind != cudaMemcpyHostToDevice);
        if (kind == cudaMemcpyHostToDevice && owner(from) == UNKNOWN) {
            /* Ordinary memory is copied to the driver's own before the call returns. */
            auto staged =
                std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
            queue(stream, {"an upload", ALL_MEMORY, [=] {
                               memcpy(to, staged->data(), bytes);
                               return true;
                           }});
            return cudaSuccess;
        }
        queue_copy(stream, to, from, bytes);
        /* "Might be synchronous", says the manual of copies to ordinary memory. */
        if (kind == cudaMemcpyDeviceToHost && owner(to) == UNKNOWN && random_below(2) == 0)
            run_stream(stream);
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_gpu, const void *from, int from_gpu, size_t bytes,
                                cudaStream_t handle)
{
    return cuda_call("cudaMemcpyPeerAsync", [=] {
        if (!exists(to_gpu) || !exists(from_gpu))
            return cudaErrorInvalidDevice;
        Stream *stream = stream_of("cudaMemcpyPeerAsync", handle);
        if (bytes == 0)
            return cudaSuccess;
        check_memory("cudaMemcpyPeerAsync", "destination", to_gpu, to, bytes);
        check_memory("cudaMemcpyPeerAsync", "source", from_gpu, from, bytes);
        queue_copy(stream, to, from, bytes);
        return cudaSuccess;
    });
}

/* --- streams ------------------------------------------------------------------------------- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return cuda_call("cudaDeviceGetStreamPriorityRange", [=] {
        *least = 0;
        *greatest = -5;
        return cudaSuccess;
    });
}

/* The program's streams do not wait for the NULL stream; those that would are not known here. */
static cudaError_t create_stream(const char *call, cudaStream_t *stream, unsigned flags)
{
    if (flags != cudaStreamNonBlocking)
        violation("%s: only streams with cudaStreamNonBlocking are known here", call);
    *stream = make_stream(current_gpu);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cuda_call("cudaStreamCreateWithFlags",
                     [=] { return create_stream("cudaStreamCreateWithFlags", stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    return cuda_call("cudaStreamCreateWithPriority",
                     [=] { return create_stream("cudaStreamCreateWithPriority", stream, flags); });
}

/* Returns at once; what is queued is still done. */
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    return cuda_call("cudaStreamDestroy", [=] {
        stream_of("cudaStreamDestroy", handle)->destroyed = true;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    return cuda_call("cudaStreamSynchronize", [=] {
        run_stream(stream_of("cudaStreamSynchronize", handle));
        return cudaSuccess;
    });
}

/* Waits for the event as it was last recorded before this call; not at all if it never was. */
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned)
{
    return cuda_call("cudaStreamWaitEvent", [=] {
        Stream *stream = stream_of("cudaStreamWaitEvent", handle);
        std::shared_ptr<Event> event = event_of("cudaStreamWaitEvent", event_handle);
        std::uint64_t target = event->recorded;
        queue(stream,
              {"a wait for an event", NO_MEMORY, [=] { return event->happened >= target; }});
        return cudaSuccess;
    });
}

/* --- events -------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags)
{
    return cuda_call("cudaEventCreateWithFlags", [=] {
        auto event = std::make_shared<Event>();
        event->gpu = current_gpu;
        event->timing = !(flags & cudaEventDisableTiming);
        *handle = (cudaEvent_t)event.get();
        events()[*handle] = event;
        return cudaSuccess;
    });
}

cudaError_t cudaEventCreate(cudaEvent_t *handle)
{
    return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    return cuda_call("cudaEventDestroy", [=] {
        event_of("cudaEventDestroy", handle);
        events().erase(handle);
        return cudaSuccess;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle)
{
    return cuda_call("cudaEventRecord", [=] {
        Stream *stream = stream_of("cudaEventRecord", stream_handle);
        std::shared_ptr<Event> event = event_of("cudaEventRecord", handle);
        if (event->gpu != stream->gpu)
            return cudaErrorInvalidResourceHandle;
        std::uint64_t recording = ++event->recorded;
        queue(stream, {"an event", NO_MEMORY, [=] {
                           event->happened = recording;
                           event->time_ms = clock_ms();
                           return true;
                       }});
        return cudaSuccess;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    return cuda_call("cudaEventSynchronize", [=] {
        std::shared_ptr<Event> event = event_of("cudaEventSynchronize", handle);
        std::uint64_t target = event->recorded;
        run_until([=] { return event->happened >= target; });
        return cudaSuccess;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    return cuda_call("cudaEventQuery", [=] {
        std::shared_ptr<Event> event = event_of("cudaEventQuery", handle);
        std::uint64_t target = event->recorded;
        if (event->happened < target)
            run_some();
        return event->happened >= target ? cudaSuccess : cudaErrorNotReady;
    });
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from_handle, cudaEvent_t to_handle)
{
    return cuda_call("cudaEventElapsedTime", [=] {
        std::shared_ptr<Event> from = event_of("cudaEventElapsedTime", from_handle);
        std::shared_ptr<Event> to = event_of("cudaEventElapsedTime", to_handle);
        if (!from->timing || !to->timing || from->gpu != to->gpu || !from->recorded ||
            !to->recorded)
            return cudaErrorInvalidResourceHandle;
        if (from->happened < from->recorded || to->happened < to->recorded)
            return cudaErrorNotReady;
        *ms = (float)(to->time_ms - from->time_ms);
        return cudaSuccess;
    });
}

} // extern "C"
