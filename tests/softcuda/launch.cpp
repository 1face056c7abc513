/* launch.cpp: kernels: the calls that nvcc puts into a program, and the threads of a block.
 *
 * Each thread that is stopped at a barrier needs a stack of its own: a fiber. A fiber that comes to
 * the end of its thread goes on with the next that has not begun, so a kernel without barriers runs
 * in a single one, as a plain loop. Fibers switch by longjmp; swapcontext would make a system call
 * each time.
 */
#include "softcuda.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>

using namespace softcuda;

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

/* The kernels' __shared__ variables (shim.h); the linker names the section's ends. */
extern "C" char __start_softcuda_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_softcuda_shared[] __attribute__((weak, visibility("hidden")));

namespace
{

constexpr unsigned MOST_THREADS = 1024, WARP = 32;
constexpr std::size_t STACK = 64 << 10, GUARD = 4096;

enum Place { NOT_BEGUN, READY, AT_BLOCK_BARRIER, AT_EXCHANGE, ENDED };

struct Fiber {
    jmp_buf context;
};

struct Thread {
    Place place;
    Fiber *fiber;
    unsigned mask;      /* of the exchange at which it waits */
    unsigned exchanges; /* so far */
};

/* The block that is running; there is one lock, so there is one. */
struct Block {
    const char *kernel;
    const std::function<void()> *body;
    unsigned count; /* threads */
    std::vector<unsigned> order;
    unsigned begun; /* of `order` */
    Thread thread[MOST_THREADS];
    std::uint64_t value[2][MOST_THREADS]; /* an exchange's; the next one's while some still read */
    unsigned current;
    jmp_buf scheduler;
    std::vector<Fiber *> idle;
    ucontext_t first_context; /* of the scheduler, while a fiber is being made */
};
Block block;

/* --- fibers -------------------------------------------------------------------------------- */

void enter_thread(unsigned number)
{
    block.current = number;
    threadIdx.x = number % blockDim.x;
    threadIdx.y = number / blockDim.x % blockDim.y;
    threadIdx.z = number / (blockDim.x * blockDim.y);
}

/* Back to the scheduler; returns when it resumes this fiber. */
__attribute__((noinline)) void leave(Fiber *fiber)
{
    if (_setjmp(fiber->context) == 0)
        _longjmp(block.scheduler, 1);
}

/* Runs the fiber until it leaves. */
__attribute__((noinline)) void resume(Fiber *fiber)
{
    if (_setjmp(block.scheduler) == 0)
        _longjmp(fiber->context, 1);
}

void fiber_life(unsigned high, unsigned low)
{
    auto *fiber = (Fiber *)((std::uintptr_t)high << 32 | low);
    if (_setjmp(fiber->context) == 0)
        setcontext(&block.first_context);
    for (;;) {
        while (block.begun < block.count) {
            unsigned number = block.order[block.begun++];
            block.thread[number].fiber = fiber;
            enter_thread(number);
            (*block.body)();
            block.thread[number].place = ENDED;
        }
        block.idle.push_back(fiber);
        leave(fiber);
    }
}

Fiber *make_fiber()
{
    auto *fiber = new Fiber;
    void *stack =
        mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE) != 0)
        violation("no memory for a fiber");
    static ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = (char *)stack + GUARD;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    auto address = (std::uintptr_t)fiber;
    makecontext(&context, (void (*)())fiber_life, 2, (unsigned)(address >> 32), (unsigned)address);
    swapcontext(&block.first_context, &context);
    return fiber;
}

Fiber *idle_fiber()
{
    if (block.idle.empty())
        return make_fiber();
    Fiber *fiber = block.idle.back();
    block.idle.pop_back();
    return fiber;
}

/* --- a block ------------------------------------------------------------------------------- */

/* Lets the lanes of each exchange go on at which all lanes of its mask have arrived. */
bool release_exchanges()
{
    bool released = false;
    for (unsigned warp = 0; warp < block.count; warp += WARP) {
        Thread *lane = &block.thread[warp];
        unsigned lanes = std::min(WARP, block.count - warp);
        for (unsigned i = 0; i < lanes; i++) {
            if (lane[i].place != AT_EXCHANGE)
                continue;
            unsigned mask = lane[i].mask, arrived = 0;
            for (unsigned j = 0; j < lanes; j++)
                if (lane[j].place == AT_EXCHANGE && lane[j].mask == mask)
                    arrived |= 1u << j;
            if ((arrived & mask) != mask)
                continue;
            for (unsigned j = 0; j < lanes; j++)
                if (mask >> j & 1)
                    lane[j].place = READY;
            released = true;
        }
    }
    return released;
}

/* Lets all go on if every thread that has not ended is at the block's barrier. */
bool release_barrier()
{
    for (unsigned i = 0; i < block.count; i++)
        if (block.thread[i].place != AT_BLOCK_BARRIER && block.thread[i].place != ENDED)
            return false;
    for (unsigned i = 0; i < block.count; i++)
        if (block.thread[i].place == AT_BLOCK_BARRIER)
            block.thread[i].place = READY;
    return true;
}

bool all_ended()
{
    return std::all_of(block.thread, block.thread + block.count,
                       [](const Thread &thread) { return thread.place == ENDED; });
}

void run_block()
{
    block.begun = 0;
    for (unsigned i = 0; i < block.count; i++)
        block.thread[i] = {NOT_BEGUN, nullptr, 0, 0};
    if (__start_softcuda_shared)
        memset(__start_softcuda_shared, 0xff,
               (std::size_t)(__stop_softcuda_shared - __start_softcuda_shared));
    for (;;) {
        for (unsigned number : block.order) {
            if (block.thread[number].place == NOT_BEGUN) {
                resume(idle_fiber()); /* it takes this one, the first that has not begun */
            } else if (block.thread[number].place == READY) {
                enter_thread(number);
                resume(block.thread[number].fiber);
            }
        }
        bool exchanged = release_exchanges();
        if (all_ended())
            return;
        if (!exchanged && !release_barrier())
            violation("kernel %s: threads wait at a barrier that others of the block or the warp "
                      "do not reach",
                      block.kernel);
    }
}

void run_kernel(const char *name, const BoundKernel &kernel, dim3 grid, dim3 threads)
{
    block.kernel = name;
    block.body = &kernel.thread;
    blockDim = threads;
    gridDim = grid;
    block.count = threads.x * threads.y * threads.z;
    block.order.resize(block.count);
    for (unsigned i = 0; i < block.count; i++)
        block.order[i] = i;
    if (random_below(2))
        std::reverse(block.order.begin(), block.order.end());

    bool backwards = random_below(2);
    std::uint64_t blocks = (std::uint64_t)grid.x * grid.y * grid.z;
    for (std::uint64_t i = 0; i < blocks; i++) {
        std::uint64_t number = backwards ? blocks - 1 - i : i;
        blockIdx.x = (unsigned)(number % grid.x);
        blockIdx.y = (unsigned)(number / grid.x % grid.y);
        blockIdx.z = (unsigned)(number / grid.x / grid.y);
        run_block();
    }
}

/* --- names --------------------------------------------------------------------------------- */

using Bind = std::function<BoundKernel(void **)>;

/* By the name that nvcc and the C++ compiler both give the function. */
std::map<std::string, Bind> &kernels()
{
    static auto *made = new std::map<std::string, Bind>;
    return *made;
}

/* nvcc's code knows a kernel by the address of a function on the host. */
std::map<const void *, std::string> &names()
{
    static auto *made = new std::map<const void *, std::string>;
    return *made;
}

/* "_Z3addPfPKfm" -> "add" */
std::string readable(const std::string &name)
{
    std::size_t digits = 2, length = 0;
    while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9')
        length = 10 * length + (std::size_t)(name[digits++] - '0');
    return name.compare(0, 2, "_Z") == 0 && length > 0 ? name.substr(digits, length) : name;
}

bool can_launch(dim3 grid, dim3 threads)
{
    return grid.x >= 1 && grid.x <= 0x7fffffff && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 &&
           grid.z <= 65535 && threads.x >= 1 && threads.x <= MOST_THREADS && threads.y >= 1 &&
           threads.y <= MOST_THREADS && threads.z >= 1 && threads.z <= 64 &&
           (std::uint64_t)threads.x * threads.y * threads.z <= MOST_THREADS;
}

struct Configuration {
    dim3 grid, threads;
    std::size_t shared_bytes;
    void *stream;
};
thread_local Configuration pushed;

} // namespace

/* --- what kernels call --------------------------------------------------------------------- */

void softcuda::block_barrier()
{
    unsigned number = block.current;
    block.thread[number].place = AT_BLOCK_BARRIER;
    leave(block.thread[number].fiber);
}

std::uint64_t softcuda::exchange(unsigned mask, std::uint64_t value, unsigned from)
{
    unsigned number = block.current;
    Thread &thread = block.thread[number];
    if (!(mask >> number % WARP & 1))
        violation("kernel %s: a lane that is not in its own mask calls a warp function",
                  block.kernel);
    std::uint64_t *values = block.value[thread.exchanges++ % 2];
    values[number] = value;
    thread.place = AT_EXCHANGE;
    thread.mask = mask;
    leave(thread.fiber);
    return values[number / WARP * WARP + from];
}

void softcuda::register_kernel(void *address, Bind bind)
{
    Dl_info found;
    if (!dladdr(address, &found) || !found.dli_sname)
        violation("a kernel without a name");
    kernels()[found.dli_sname] = std::move(bind);
}

/* --- what nvcc's code calls ---------------------------------------------------------------- */

extern "C" {

void **__cudaRegisterFatBinary(void *)
{
    static void *nothing;
    return &nothing;
}

void __cudaRegisterFatBinaryEnd(void **)
{
}

void __cudaUnregisterFatBinary(void **)
{
}

void __cudaRegisterFunction(void **, const char *host_function, char *, const char *name, int,
                            uint3 *, uint3 *, dim3 *, dim3 *, int *)
{
    names()[host_function] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 threads, size_t shared_bytes, void *stream)
{
    pushed = {grid, threads, shared_bytes, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *threads, size_t *shared_bytes,
                                       void *stream)
{
    *grid = pushed.grid;
    *threads = pushed.threads;
    *shared_bytes = pushed.shared_bytes;
    *(void **)stream = pushed.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host_function)
{
    *kernel = (cudaKernel_t)host_function;
    return names().count(host_function) ? cudaSuccess : report(cudaErrorInvalidDeviceFunction);
}

/* SOFTCUDA_FAIL knows it as cudaLaunchKernel. */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 threads, void **arguments,
                               size_t shared_bytes, cudaStream_t handle)
{
    return cuda_call(
        "cudaLaunchKernel",
        [=] {
            Stream *stream = stream_of("a kernel launch", handle);
            auto name = std::make_shared<std::string>(readable(names()[(const void *)kernel]));
            auto found = kernels().find(names()[(const void *)kernel]);
            if (found == kernels().end())
                violation("kernel %s was not compiled for the CPU", name->c_str());
            if (stream->gpu != current_gpu)
                return cudaErrorInvalidResourceHandle;
            if (!can_launch(grid, threads))
                return cudaErrorInvalidConfiguration;
            if (shared_bytes != 0)
                violation("kernel %s: dynamic shared memory is not known here", name->c_str());

            auto bound = std::make_shared<BoundKernel>(found->second(arguments));
            for (const void *pointer : bound->arguments)
                check_kernel_pointer(name->c_str(), stream->gpu, pointer);
            std::string what = "kernel " + *name + " on GPU " + std::to_string(stream->gpu);
            queue(stream, {what, stream->gpu, [=] {
                               run_kernel(name->c_str(), *bound, grid, threads);
                               return true;
                           }});
            return cudaSuccess;
        },
        cudaErrorLaunchFailure);
}

} // extern "C"
