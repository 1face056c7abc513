/* cuda_probe.c: asks CUDA what there is, in a child process that ends with the answer.
 *
 * A process that has called CUDA, even to count GPUs, leaves its children unable to use it, and
 * this program forks one process per rank. The child sends what it learned through a pipe. Loading
 * the driver takes its time, and a broken one may crash or hang; the child does that too.
 *
 * CUDA calls: cudaGetDeviceCount, cudaGetDeviceProperties, cudaDriverGetVersion,
 * cudaRuntimeGetVersion, cudaGetErrorString.
 */
#include "device/probe.h"

#include "base/interrupt.h"
#include "device/device.h"

#ifdef TRAINER_CUDA

#include <cuda_runtime_api.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Machines with many GPUs and no persistence daemon wake them one after the other: seconds each. */
#define DEADLINE_MS 120000

/* Why CUDA has no GPU for us. The error code alone cannot tell a missing driver from an old one. */
static void explain(Probe *probe, cudaError_t status)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    size_t room = sizeof probe->reason;
    if (probe->driver == 0 &&
        (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice))
        snprintf(probe->reason, room,
                 "no NVIDIA driver is at work here: install it, or give the container its GPUs "
                 "(docker run --gpus all)");
    else if (status == cudaErrorInsufficientDriver)
        snprintf(probe->reason, room,
                 "the NVIDIA driver is too old: it is for CUDA up to %d.%d, this program was built "
                 "with %d.%d; update the driver, or build with an older toolkit",
                 probe->driver / 1000, probe->driver % 1000 / 10, probe->runtime / 1000,
                 probe->runtime % 1000 / 10);
    else if ((status == cudaErrorNoDevice || status == cudaSuccess) && visible)
        snprintf(probe->reason, room,
                 "the driver shows no GPU, with CUDA_VISIBLE_DEVICES=\"%s\" in the environment: "
                 "unset it, or see what nvidia-smi -L lists",
                 visible);
    else if (status == cudaErrorNoDevice || status == cudaSuccess)
        snprintf(probe->reason, room,
                 "the driver is there but shows no GPU: see what nvidia-smi -L lists");
    else
        snprintf(probe->reason, room, "CUDA answers: %s; see whether nvidia-smi works",
                 cudaGetErrorString(status));
}

/* In the child. */
static void ask(Probe *probe)
{
    cudaDriverGetVersion(&probe->driver);
    cudaRuntimeGetVersion(&probe->runtime);
    int count = 0; /* a failing call leaves it alone */
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        explain(probe, status);
        return;
    }
    for (int i = 0; i < count && i < PROBE_MOST_GPUS; i++) {
        struct cudaDeviceProp properties;
        ProbedGpu *gpu = &probe->gpu[i];
        status = cudaGetDeviceProperties(&properties, i);
        if (status != cudaSuccess) {
            explain(probe, status);
            return;
        }
        snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)sizeof gpu->name - 1, properties.name);
        gpu->major = properties.major;
        gpu->minor = properties.minor;
        gpu->bytes = properties.totalGlobalMem;
    }
    probe->count = count < PROBE_MOST_GPUS ? count : PROBE_MOST_GPUS;
}

static void send_all(int pipe_end, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t sent = write(pipe_end, at, bytes);
        if (sent <= 0)
            return;
        at += sent;
        bytes -= (size_t)sent;
    }
}

/* False if the pipe ends, or nothing comes in time, before all is there. */
static bool receive_all(int pipe_end, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        struct pollfd waiting = {.fd = pipe_end, .events = POLLIN};
        int ready = poll(&waiting, 1, DEADLINE_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t received = ready > 0 ? read(pipe_end, at, bytes) : 0;
        if (received <= 0)
            return false;
        at += received;
        bytes -= (size_t)received;
    }
    return true;
}

static void explain_ending(Probe *probe, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        snprintf(probe->reason, sizeof probe->reason,
                 "asking CUDA for its GPUs ended with signal %d (%s); see whether nvidia-smi works",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(probe->reason, sizeof probe->reason,
                 "CUDA did not say which GPUs it has; see whether nvidia-smi works");
}

static void probe_in_child(Probe *probe)
{
    int ends[2];
    if (pipe(ends) != 0) {
        snprintf(probe->reason, sizeof probe->reason, "no pipe to ask CUDA through: %s",
                 strerror(errno));
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        Probe found = {0};
        interrupt_leave();
        close(ends[0]);
        ask(&found);
        send_all(ends[1], &found, sizeof found);
        _exit(0);
    }
    close(ends[1]);
    if (child < 0) {
        snprintf(probe->reason, sizeof probe->reason, "no process to ask CUDA in: %s",
                 strerror(errno));
        close(ends[0]);
        return;
    }
    bool answered = receive_all(ends[0], probe, sizeof *probe);
    close(ends[0]);
    if (!answered)
        kill(child, SIGKILL); /* it hangs, or is gone */
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!answered) {
        *probe = (Probe){0};
        explain_ending(probe, status);
    }
}

#else

#include <stdbool.h>
#include <stdio.h>

static void probe_in_child(Probe *probe)
{
    snprintf(probe->reason, sizeof probe->reason,
             "this program was built without CUDA: install the CUDA toolkit (nvcc, cuBLAS), then "
             "run make again");
}

#endif

const Probe *device_probe(void)
{
    static Probe probe;
    static bool asked;
    if (!asked)
        probe_in_child(&probe);
    asked = true;
    return &probe;
}

int device_cuda_count(const char **reason)
{
    const Probe *probe = device_probe();
    if (probe->count == 0 && reason)
        *reason = probe->reason;
    return probe->count;
}
