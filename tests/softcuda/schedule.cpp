/* schedule.cpp: the order in which things happen: streams, the seed that picks among them, and what
 * every call goes through first.
 *
 * One lock per process guards everything, and an operation runs with it held, on whichever thread
 * of the program waits for something. It is let go while nothing can run: then other threads of the
 * program can queue more, or another process must get further (nccl.cpp).
 */
#include "softcuda.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <sched.h>
#include <unistd.h>

namespace softcuda
{

thread_local int current_gpu;
thread_local const char *running;

namespace
{

/* SOFTCUDA_FAIL, SOFTCUDA_STALL or SOFTCUDA_DROP: "[GPU/]CALL@N[=CODE]". */
struct Plan {
    bool made = false;
    int gpu = -1; /* any */
    std::string call;
    unsigned number = 0; /* of the call, from 1; 0: every one */
    int code = 0;        /* none given */
    unsigned seen = 0;

    /* Counts a call; true if it is the one. */
    bool meets(const char *name, int on_gpu)
    {
        return made && call == name && (gpu < 0 || gpu == on_gpu) &&
               (++seen == number || number == 0);
    }
};

Plan read_plan(const char *variable)
{
    Plan plan;
    const char *text = getenv(variable);
    if (!text || !*text)
        return plan;
    char call[64];
    const char *slash = strchr(text, '/');
    if (slash)
        plan.gpu = atoi(text);
    if (sscanf(slash ? slash + 1 : text, "%63[A-Za-z]@%u=%d", call, &plan.number, &plan.code) < 2)
        violation("%s=%s should be [GPU/]CALL@N[=CODE]", variable, text);
    plan.call = call;
    plan.made = true;
    return plan;
}

long number_from(const char *variable, long usual)
{
    const char *text = getenv(variable);
    return text && *text ? atol(text) : usual;
}

struct State {
    std::mutex lock;
    Plan fail = read_plan("SOFTCUDA_FAIL");
    Plan stall = read_plan("SOFTCUDA_STALL");
    Plan drop = read_plan("SOFTCUDA_DROP");
    cudaError_t crashed = cudaSuccess; /* what no later call survives */
    std::vector<Stream *> streams;
    std::vector<Stream *> own_streams; /* by GPU: the one that NULL means */
    std::uint64_t random = 0;          /* 0: not seeded yet */
    unsigned calm = 1; /* operations for which the streams keep their priorities, on average */
};

State &state()
{
    static auto *made = new State; /* never destroyed: other threads may outlive main */
    return *made;
}

/* The process that used CUDA first, or its ancestor that did: its children cannot. */
std::atomic<pid_t> first_user;

bool no_driver()
{
    const char *driver = getenv("SOFTCUDA_DRIVER");
    return driver && *driver;
}

std::uint64_t next_random()
{
    State &s = state();
    if (s.random == 0) {
        const unsigned calms[] = {1, 8, 64};
        auto seed = (std::uint64_t)number_from("SOFTCUDA_SEED", 1);
        s.calm = calms[seed % 3];
        s.random = seed * 1000003 + (std::uint64_t)current_gpu + 1; /* ranks should differ */
    }
    std::uint64_t z = s.random += 0x9e3779b97f4a7c15; /* Steele et al. 2014, SplitMix */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* An illegal access and the like end the process's use of CUDA. */
bool ends_everything(int code)
{
    return code == cudaErrorIllegalAddress || code == cudaErrorLaunchTimeout ||
           (code >= cudaErrorHardwareStackError && code <= cudaErrorLaunchFailure);
}

} // namespace

const Settings &settings()
{
    static const Settings read = [] {
        const char *peers = getenv("SOFTCUDA_PEERS");
        Settings s;
        s.gpus = (int)number_from("SOFTCUDA_GPUS", 2);
        s.peers = !peers || strcmp(peers, "off") != 0;
        s.memory_bytes = (std::size_t)number_from("SOFTCUDA_MEMORY", 1024) << 20;
        return s;
    }();
    return read;
}

unsigned random_below(unsigned below)
{
    return (unsigned)(next_random() % below);
}

/* --- a call -------------------------------------------------------------------------------- */

Call::Call(const char *name)
    : refused(cudaSuccess), injected(0), any_code(false), stalled(false), dropped(false),
      holds_lock(false)
{
    pid_t nobody = 0, self = getpid();
    if (no_driver())
        refused = cudaErrorInsufficientDriver;
    else if (!first_user.compare_exchange_strong(nobody, self) && nobody != self)
        refused = cudaErrorInitializationError;
    else if (settings().gpus == 0)
        refused = cudaErrorNoDevice;
    if (refused != cudaSuccess)
        return;

    State &s = state();
    s.lock.lock();
    holds_lock = true;
    refused = s.crashed;
    stalled = s.stall.meets(name, current_gpu);
    dropped = s.drop.meets(name, current_gpu);
    if (s.fail.meets(name, current_gpu)) {
        injected = s.fail.code;
        any_code = injected == 0;
        if (ends_everything(injected))
            s.crashed = (cudaError_t)injected;
    }
}

Call::~Call()
{
    if (holds_lock)
        state().lock.unlock();
}

void without_lock(const std::function<void()> &body)
{
    state().lock.unlock();
    body();
    state().lock.lock();
}

void with_lock(const std::function<void()> &body)
{
    std::lock_guard<std::mutex> guard(state().lock);
    body();
}

void pause(int tries)
{
    without_lock([tries] {
        if (tries < 20)
            sched_yield();
        else
            usleep((useconds_t)std::min(1000, 10 * tries));
    });
}

/* --- streams ------------------------------------------------------------------------------- */

cudaStream_t make_stream(int gpu)
{
    auto *stream = new Stream;
    stream->gpu = gpu;
    stream->priority = random_below(1u << 16);
    state().streams.push_back(stream);
    return (cudaStream_t)stream;
}

Stream *stream_of(const char *call, cudaStream_t handle)
{
    State &s = state();
    if (!handle) {
        s.own_streams.resize((std::size_t)settings().gpus);
        Stream *&own = s.own_streams[(std::size_t)current_gpu];
        if (!own)
            own = (Stream *)make_stream(current_gpu);
        return own;
    }
    auto found = std::find(s.streams.begin(), s.streams.end(), (Stream *)handle);
    if (found == s.streams.end() || (*found)->destroyed)
        violation("%s gets a stream that is none, or is destroyed", call);
    return *found;
}

void queue(Stream *stream, Operation operation)
{
    stream->queue.push_back(std::move(operation));
    stream->queued++;
}

/* Runs the stream's first operation if it can. */
static bool attempt(Stream *stream)
{
    if (stream->queue.empty())
        return false;
    Operation &operation = stream->queue.front();
    if (operation.memory != NO_MEMORY)
        open_memory(operation.memory);
    running = operation.what.c_str();
    bool ran = operation.attempt();
    running = nullptr;
    if (ran) {
        stream->queue.pop_front();
        stream->done++;
    }
    return ran;
}

/* The streams keep their priorities for a while, so that one may get far ahead of another, or be
 * left behind as long as anything else can run; how long depends on the seed. */
bool run_one()
{
    State &s = state();
    if (random_below(s.calm) == 0)
        for (Stream *stream : s.streams)
            stream->priority = random_below(1u << 16);

    std::vector<Stream *> order = s.streams;
    std::sort(order.begin(), order.end(),
              [](const Stream *a, const Stream *b) { return a->priority > b->priority; });
    for (Stream *stream : order)
        if (attempt(stream))
            return true;
    return false;
}

void run_until(const std::function<bool()> &done)
{
    for (int tries = 0; !done();) {
        if (run_one())
            tries = 0;
        else
            pause(tries++);
    }
    open_memory(NO_MEMORY);
}

void run_stream(Stream *stream)
{
    std::uint64_t target = stream->queued;
    run_until([=] { return stream->done >= target; });
}

void run_gpu(int gpu)
{
    std::vector<Stream *> all = state().streams;
    for (Stream *stream : all)
        if (stream->gpu == gpu)
            run_stream(stream);
}

void run_some()
{
    bool ran = true;
    for (unsigned left = random_below(4); left > 0 && ran; left--)
        ran = run_one();
    open_memory(NO_MEMORY);
    if (!ran)
        pause(0);
}

} // namespace softcuda
