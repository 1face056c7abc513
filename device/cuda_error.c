/* cuda_error.c: sentences for CUDA and cuBLAS calls that failed, with what usually helps.
 *
 * CUDA calls: cudaMemGetInfo, cudaDriverGetVersion, cudaRuntimeGetVersion, cudaGetLastError,
 * cudaGetErrorString, cublasGetStatusString.
 */
#ifdef TRAINER_CUDA

#include "device/cuda.h"

#include <stdarg.h>
#include <stdio.h>

#define HINT_ROOM 256

static const char *memory_hint(char *text)
{
    const double mib = 1024 * 1024;
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
        return "; a smaller --batch or --layers needs less";
    snprintf(text, HINT_ROOM,
             "; %.1f of its %.1f MiB are free: a smaller --batch or --layers, or fewer devices on "
             "one GPU, need less",
             (double)free_bytes / mib, (double)total_bytes / mib);
    return text;
}

static const char *driver_hint(char *text)
{
    int driver = 0, toolkit = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&toolkit);
    if (driver == 0)
        return "; no NVIDIA driver is at work here";
    snprintf(text, HINT_ROOM,
             "; the driver is for CUDA up to %d.%d, this program was built with %d.%d: update the "
             "driver, or build with an older toolkit",
             driver / 1000, driver % 1000 / 10, toolkit / 1000, toolkit % 1000 / 10);
    return text;
}

/* Empty where nothing is known to help. `text` has HINT_ROOM. */
static const char *cuda_hint(cudaError_t status, char *text)
{
    switch (status) {
    case cudaErrorMemoryAllocation:
        return memory_hint(text);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
        return "; this program holds no code for this kind of GPU: build it on this machine (make "
               "clean, make), with a newer CUDA toolkit if the GPU is newer than the toolkit";
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorUnsupportedPtxVersion:
        return driver_hint(text);
    case cudaErrorInitializationError:
        return "; was CUDA used before this process was forked?";
    case cudaErrorDevicesUnavailable:
        return "; another process may hold it for itself (nvidia-smi shows who)";
    case cudaErrorPeerAccessUnsupported:
        return "; these GPUs cannot reach each other's memory (nvidia-smi topo -p2p r)";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
        return "; an earlier kernel or copy went wrong: compute-sanitizer names it";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
        return "; the hardware reports damage (dmesg, nvidia-smi -q)";
    case cudaErrorSystemNotReady:
        return "; on machines with NVSwitch the service nvidia-fabricmanager must run";
    case cudaErrorSystemDriverMismatch:
        return "; the driver's library and its kernel module differ: restart after an update";
    default:
        return "";
    }
}

static const char *cublas_hint(cublasStatus_t status, char *text)
{
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: /* what cublasCreate says when memory is short */
    case CUBLAS_STATUS_ALLOC_FAILED:
        return memory_hint(text);
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "; this version of cuBLAS has no code for this kind of GPU";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "; an earlier kernel or copy went wrong: compute-sanitizer names it";
    default:
        return "";
    }
}

Error cuda_error(int gpu, cudaError_t status, const char *file, int line, const char *format, ...)
{
    char asked[256], hint[HINT_ROOM];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(asked, sizeof asked, format, arguments);
    va_end(arguments);
    cudaGetLastError(); /* it is reported here, not once more by the next call */
    return error_make_at(file, line, "GPU %d: %s: %s%s", gpu, asked, cudaGetErrorString(status),
                         cuda_hint(status, hint));
}

Error cublas_error(int gpu, cublasStatus_t status, const char *file, int line, const char *format,
                   ...)
{
    char asked[256], hint[HINT_ROOM];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(asked, sizeof asked, format, arguments);
    va_end(arguments);
    return error_make_at(file, line, "GPU %d: %s: %s%s", gpu, asked, cublasGetStatusString(status),
                         cublas_hint(status, hint));
}

#endif
