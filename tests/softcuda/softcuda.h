/* softcuda.h: a CUDA in software, for testing the GPU path on a machine without a GPU.
 *
 * Three libraries stand in for libcudart, libcublas and libnccl. Put first on LD_LIBRARY_PATH they
 * run the program that nvcc built, unchanged:
 *
 *     LD_LIBRARY_PATH=build/softcuda SOFTCUDA_GPUS=4 ./trainer --device=cuda
 *
 * They are made to find mistakes, not to be fast:
 *
 * - A stream is a queue. Nothing on it runs when it is queued, but when the program waits for
 *   something; and then the seed picks which of the streams' first operations runs next, among
 *   those whose events have happened. A wait that the program forgot changes what it computes.
 * - Host memory that a copy was given is read when the copy runs.
 * - GPU memory can be touched by operations alone: the pages are closed to the host, and to kernels
 *   of other GPUs. Every allocation ends at a closed page, fresh memory is full of NaN, addresses
 *   are never used again.
 * - Kernels are those of kernels.cu, compiled for the CPU through shim.h. A block's threads run
 *   forwards or backwards, one at a time, each until it meets a barrier.
 * - What the real libraries answer with undefined behaviour prints one line, "softcuda: ...", and
 *   aborts.
 *
 * Files: memory.cpp (allocations), schedule.cpp (streams, and what every call goes through),
 * cudart.cpp (the calls of libcudart), launch.cpp with shim.h (kernels), cublas.cpp, nccl.cpp with
 * collective.cpp. Only what the program calls is there; any other call ends it: "undefined symbol".
 *
 * The environment:
 *   SOFTCUDA_GPUS=N            how many (2)
 *   SOFTCUDA_SEED=N            picks the order of streams, threads and blocks (1)
 *   SOFTCUDA_PEERS=on|off      whether GPUs can reach each other's memory (on)
 *   SOFTCUDA_MEMORY=MIB        of each GPU, for each process (1024)
 *   SOFTCUDA_DRIVER=none|old   as on a machine without a driver, or with one for CUDA 12.4
 *   SOFTCUDA_FAIL=[GPU/]CALL@N[=CODE]   the Nth such call (of a thread at work on GPU) fails
 *   SOFTCUDA_STALL=[GPU/]CALL@N         what the Nth such call queued never runs (NCCL calls only)
 *   SOFTCUDA_DROP=[GPU/]CALL@N          the Nth such call does nothing; @0: none of them does
 *                                       anything (CUDA calls only): as if the program had a mistake
 *
 * What it cannot show: speed, the memory model of a GPU (one operation runs at a time), whether the
 * real libraries do as their manuals say.
 */
#ifndef SOFTCUDA_H
#define SOFTCUDA_H

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace softcuda
{

/* Prints "softcuda: ..." and aborts: the program did what CUDA leaves undefined. */
[[noreturn]] void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- the machine (schedule.cpp) ------------------------------------------------------------ */

struct Settings {
    int gpus;
    bool peers;
    std::size_t memory_bytes;
};
const Settings &settings();

/* Uniform in 0 .. below-1, from the seed. */
unsigned random_below(unsigned below);

/* The calling thread's current GPU. */
extern thread_local int current_gpu;

/* --- a call into a library (schedule.cpp) -------------------------------------------------- */

/* Made first in every call that needs a driver. While it lives, its thread holds the one lock of
 * this process, which guards everything here. */
struct Call {
    explicit Call(const char *name);
    ~Call();
    Call(const Call &) = delete;

    cudaError_t refused; /* why no call can succeed: no driver, forked, an earlier crash */
    int injected;        /* the code with which SOFTCUDA_FAIL makes this call fail, or 0; */
    bool any_code;       /*   it gave none: the call fails in its usual way */
    bool stalled;        /* SOFTCUDA_STALL means this call */
    bool dropped;        /* SOFTCUDA_DROP does */

  private:
    bool holds_lock;
};

/* Keeps `status` for cudaGetLastError; returns it. */
cudaError_t report(cudaError_t status);

/* A call of libcudart: `body` runs unless the call is refused or made to fail (with `usual`). */
template <class Body>
cudaError_t cuda_call(const char *name, Body body, cudaError_t usual = cudaErrorUnknown)
{
    Call call(name);
    if (call.refused != cudaSuccess)
        return report(call.refused);
    if (call.injected || call.any_code)
        return report(call.any_code ? usual : (cudaError_t)call.injected);
    return call.dropped ? cudaSuccess : report(body());
}

/* --- streams (schedule.cpp) ---------------------------------------------------------------- */

/* Which GPUs' memory an operation may touch: a GPU's number (a kernel: its own and its peers'), or
 * one of these. */
enum { NO_MEMORY = -1, ALL_MEMORY = -2 };

struct Operation {
    std::string what; /* for messages: "kernel add on GPU 0" */
    int memory;
    /* Runs it; false if it cannot run yet. Called again and again until it returns true. */
    std::function<bool()> attempt;
};

struct Stream {
    int gpu;
    bool destroyed = false; /* by the program; what is queued is still done */
    std::deque<Operation> queue;
    std::uint64_t queued = 0, done = 0; /* operations so far */
    unsigned priority = 0;              /* at the moment: drawn again and again */
};

/* The stream of a handle, NULL being the current GPU's own. A handle that is none is a violation
 * of `call`. */
Stream *stream_of(const char *call, cudaStream_t handle);
cudaStream_t make_stream(int gpu);

void queue(Stream *stream, Operation operation);

/* Runs one operation, of a stream that the seed picks; false if none can run. */
bool run_one();

/* Runs operations until `done`. While none can run it lets go of the lock and sleeps. */
void run_until(const std::function<bool()> &done);

/* Runs all that is queued on the stream now. */
void run_stream(Stream *stream);
/* All that is queued on any stream of the GPU. */
void run_gpu(int gpu);

/* What a question ("is it done?") does before it is answered: lets a few operations run, or none.
 */
void run_some();

/* Lets go of the lock for a moment; longer when nothing has happened for many `tries`. */
void pause(int tries);

/* Lets go of the lock while `body` runs. */
void without_lock(const std::function<void()> &body);
/* For threads of the libraries themselves. */
void with_lock(const std::function<void()> &body);

/* What the calling thread's operation is; NULL outside of operations. */
extern thread_local const char *running;

/* --- memory (memory.cpp) ------------------------------------------------------------------- */

/* Pinned host memory belongs to this "GPU". */
enum { HOST = -1 };

/* NULL when the GPU's memory is used up. GPU memory is full of 0xff: NaN. */
void *allocate(int gpu, std::size_t bytes);
/* `call` frees an allocation of any GPU, or of HOST; anything else is a violation. */
void release(const char *call, void *memory, bool host);
std::size_t free_bytes(int gpu);

/* Host memory of the program's own becomes pinned, or no longer is; false if it was so already. */
bool register_host(void *memory, std::size_t bytes);
bool unregister_host(void *memory);

/* Whose memory `pointer` is: a GPU's number, HOST, or UNKNOWN (ordinary host memory). */
enum { UNKNOWN = -2 };
int owner(const void *pointer);

/* The bytes must be one live allocation's, of `gpu`, HOST included; else it is a violation:
 * "`call`: its `role` ...". */
void check_memory(const char *call, const char *role, int gpu, const void *pointer,
                  std::size_t bytes);

/* A kernel's pointer argument: any place in live memory that kernels of `gpu` can reach. */
void check_kernel_pointer(const char *kernel, int gpu, const void *pointer);

/* The contents are of no interest any more. */
void forget_contents(void *memory, std::size_t bytes);

/* Opens the memory that an operation may touch (see Operation), and closes all other. */
void open_memory(int which);

/* Lets kernels of `gpu` reach the memory of `peer`; false if they could already. */
bool enable_peer(int gpu, int peer);

/* --- kernels (launch.cpp) ------------------------------------------------------------------ */

/* A kernel with its arguments. */
struct BoundKernel {
    std::function<void()> thread;        /* one thread's work */
    std::vector<const void *> arguments; /* those that are pointers */
};

/* `address` is the kernel; its symbol is the name by which nvcc's code asks for it. */
void register_kernel(void *address, std::function<BoundKernel(void **arguments)> bind);

/* Called by kernels: returns when every thread of the block has called it, or has ended. */
void block_barrier();

/* Called by kernels: gives `value` to the lanes of `mask`, all of which must call this, and returns
 * lane `from`'s. */
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned from);

} // namespace softcuda

#endif
