/* memory.cpp: the memory of the software GPUs, and pinned host memory.
 *
 * Each GPU has a range of addresses of its own, so that an address tells whose it is. Addresses are
 * given out once and never again. An allocation is as close to the closed page behind it as its
 * alignment of 256 bytes allows; what lies between is full of 0xff like fresh memory. (Reading
 * there gives NaN; writing there is found when the memory is freed.)
 *
 * Pages of GPU memory are closed while no operation runs: a program that reads them as if they were
 * the host's meets the fault that it would meet on a real GPU.
 */
#include "softcuda.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace softcuda
{

namespace
{

constexpr std::size_t PAGE = 4096, ALIGNMENT = 256;
constexpr std::size_t RANGE = (std::size_t)64 << 30; /* addresses for each GPU */

struct Allocation {
    int gpu;
    std::size_t bytes;
    char *pages; /* the first */
    std::size_t page_bytes;
    bool freed;
    bool open; /* readable and writable */
};

struct Range {
    char *start = nullptr;
    std::size_t used = 0;      /* addresses given out */
    std::size_t allocated = 0; /* bytes alive */
};

struct Memory {
    std::vector<Range> ranges; /* by GPU, then HOST's */
    std::map<char *, Allocation> allocations;
    std::map<char *, std::size_t> registered; /* host memory of the program's own, pinned: bytes */
    std::vector<std::vector<bool>> peer; /* [gpu][other]: kernels of gpu reach other's memory */
    int opened = NO_MEMORY;
};

void on_fault(int, siginfo_t *info, void *);

/* Made at the first use, never destroyed: other threads may be at work when the process ends. */
Memory &memory()
{
    static Memory *made = [] {
        auto *m = new Memory;
        auto gpus = (std::size_t)settings().gpus;
        m->ranges.resize(gpus + 1);
        m->peer.assign(gpus, std::vector<bool>(gpus));
        for (Range &range : m->ranges) {
            void *start =
                mmap(nullptr, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (start == MAP_FAILED)
                violation("no addresses for %d GPUs", settings().gpus);
            range.start = (char *)start;
        }
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, nullptr);
        return m;
    }();
    return *made;
}

/* The registered host memory that holds the address; NULL if none does. */
const std::pair<char *const, std::size_t> *registered_at(const void *pointer)
{
    auto &all = memory().registered;
    auto next = all.upper_bound((char *)pointer);
    if (next == all.begin() ||
        (const char *)pointer >= std::prev(next)->first + std::prev(next)->second)
        return nullptr;
    return &*std::prev(next);
}

Range &range_of(int gpu)
{
    Memory &m = memory();
    return gpu == HOST ? m.ranges.back() : m.ranges[(std::size_t)gpu];
}

void set_open(Allocation &allocation, bool open)
{
    if (allocation.open == open)
        return;
    mprotect(allocation.pages, allocation.page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    allocation.open = open;
}

/* The last allocation that begins at or before the address. */
std::map<char *, Allocation>::iterator allocation_before(const void *pointer)
{
    auto &all = memory().allocations;
    auto next = all.upper_bound((char *)pointer);
    return next == all.begin() ? all.end() : std::prev(next);
}

std::string name_of(int gpu)
{
    return gpu == HOST ? "pinned host memory" : "GPU " + std::to_string(gpu);
}

/* "4 bytes past the end of 400 bytes of GPU 1" */
std::string describe(const void *pointer)
{
    int gpu = owner(pointer);
    if (!pointer)
        return "NULL";
    if (gpu == UNKNOWN)
        return "ordinary host memory";
    if (registered_at(pointer))
        return "registered host memory";
    auto found = allocation_before(pointer);
    if (found == memory().allocations.end() || found->second.gpu != gpu)
        return "in front of all memory of " + name_of(gpu);
    const Allocation &a = found->second;
    auto at = (std::size_t)((const char *)pointer - found->first);
    std::string place = at < a.bytes ? std::to_string(at) + " bytes into "
                                     : std::to_string(at - a.bytes) + " bytes past the end of ";
    return place + std::to_string(a.bytes) + " bytes of " + name_of(gpu) +
           (a.freed ? ", already freed" : "");
}

void on_fault(int, siginfo_t *info, void *)
{
    if (owner(info->si_addr) == UNKNOWN) { /* not ours: crash as usual when it comes again */
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    if (running)
        violation("%s touches %s", running, describe(info->si_addr).c_str());
    violation("the host touches GPU memory: %s", describe(info->si_addr).c_str());
}

} // namespace

void violation(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "softcuda: %s\n", text);
    abort();
}

int owner(const void *pointer)
{
    const Memory &m = memory();
    for (std::size_t i = 0; i < m.ranges.size(); i++) {
        const char *start = m.ranges[i].start;
        if ((const char *)pointer >= start && (const char *)pointer < start + RANGE)
            return i + 1 == m.ranges.size() ? (int)HOST : (int)i;
    }
    return registered_at(pointer) ? (int)HOST : (int)UNKNOWN;
}

bool register_host(void *pointer, std::size_t bytes)
{
    if (owner(pointer) != UNKNOWN || owner((char *)pointer + bytes - 1) != UNKNOWN)
        return false;
    memory().registered[(char *)pointer] = bytes;
    return true;
}

bool unregister_host(void *pointer)
{
    return memory().registered.erase((char *)pointer) == 1;
}

void *allocate(int gpu, std::size_t bytes)
{
    Range &range = range_of(gpu);
    if (gpu != HOST && bytes > free_bytes(gpu))
        return nullptr;
    std::size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    std::size_t page_bytes = (room + PAGE - 1) / PAGE * PAGE;
    if (page_bytes + PAGE > RANGE - range.used)
        violation("%s has given out all its addresses", name_of(gpu).c_str());
    char *pages = range.start + range.used;
    range.used += page_bytes + PAGE; /* one page stays closed */
    range.allocated += bytes;

    char *start = pages + page_bytes - room;
    Allocation made = {gpu, bytes, pages, page_bytes, false, false};
    set_open(made, true);
    memset(pages, 0xff, page_bytes);
    set_open(made, gpu == HOST);
    memory().allocations[start] = made;
    return start;
}

void release(const char *call, void *pointer, bool host)
{
    auto found = memory().allocations.find((char *)pointer);
    if (found == memory().allocations.end() || (found->second.gpu == HOST) != host)
        violation("%s gets what is no allocation of its own: %s", call, describe(pointer).c_str());
    Allocation &a = found->second;
    if (a.freed)
        violation("%s frees %zu bytes of %s twice", call, a.bytes, name_of(a.gpu).c_str());
    set_open(a, true);
    for (char *at = found->first + a.bytes; at < a.pages + a.page_bytes; at++)
        if (*at != (char)0xff)
            violation("something wrote %zu bytes past the end of %zu bytes of %s",
                      (std::size_t)(at - found->first) - a.bytes, a.bytes, name_of(a.gpu).c_str());
    madvise(a.pages, a.page_bytes, MADV_DONTNEED);
    set_open(a, false);
    a.freed = true;
    range_of(a.gpu).allocated -= a.bytes;
}

std::size_t free_bytes(int gpu)
{
    return settings().memory_bytes - range_of(gpu).allocated;
}

void check_memory(const char *call, const char *role, int gpu, const void *pointer,
                  std::size_t bytes)
{
    if (bytes == 0)
        return;
    if (owner(pointer) != gpu)
        violation("%s: its %s should be memory of %s and is %s", call, role, name_of(gpu).c_str(),
                  describe(pointer).c_str());
    if (const auto *own = registered_at(pointer)) {
        if (bytes > own->second - (std::size_t)((const char *)pointer - own->first))
            violation("%s: its %s of %zu bytes goes beyond the registered host memory", call, role,
                      bytes);
        return;
    }
    auto found = allocation_before(pointer);
    if (found != memory().allocations.end() && found->second.gpu == gpu && !found->second.freed) {
        auto at = (std::size_t)((const char *)pointer - found->first);
        if (at <= found->second.bytes && bytes <= found->second.bytes - at)
            return;
    }
    violation("%s: its %s of %zu bytes begins %s", call, role, bytes, describe(pointer).c_str());
}

void check_kernel_pointer(const char *kernel, int gpu, const void *pointer)
{
    if (!pointer || registered_at(pointer))
        return;
    int whose = owner(pointer);
    bool reached = whose == gpu || whose == HOST ||
                   (whose >= 0 && memory().peer[(std::size_t)gpu][(std::size_t)whose]);
    auto found = allocation_before(pointer);
    if (reached && found != memory().allocations.end() && found->second.gpu == whose &&
        !found->second.freed && (const char *)pointer <= found->first + found->second.bytes)
        return;
    violation("kernel %s on GPU %d gets a pointer to %s%s", kernel, gpu, describe(pointer).c_str(),
              whose >= 0 && !reached ? ", to which it has no peer access" : "");
}

void forget_contents(void *pointer, std::size_t bytes)
{
    std::size_t to_page = (PAGE - (std::size_t)pointer % PAGE) % PAGE;
    if (bytes > to_page)
        madvise((char *)pointer + to_page, (bytes - to_page) / PAGE * PAGE, MADV_DONTNEED);
}

void open_memory(int which)
{
    Memory &m = memory();
    if (m.opened == which && which == NO_MEMORY)
        return;
    m.opened = which;
    for (auto &[start, a] : m.allocations) {
        if (a.gpu == HOST || a.freed)
            continue;
        set_open(a, which == ALL_MEMORY || which == a.gpu ||
                        (which >= 0 && m.peer[(std::size_t)which][(std::size_t)a.gpu]));
    }
}

bool enable_peer(int gpu, int peer)
{
    std::vector<bool> &reached = memory().peer[(std::size_t)gpu];
    bool before = reached[(std::size_t)peer];
    reached[(std::size_t)peer] = true;
    return !before;
}

} // namespace softcuda
