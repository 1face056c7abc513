/* place.c: cores, pinning and names (see place.h). Linux: sched_setaffinity, sysfs and cgroup
 * v1/v2. */
#include "base/place.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define MOST_CPUS 1024

/* The number in a small file of the kernel's, or `otherwise`. */
static long read_number(const char *path, long otherwise)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return otherwise;
    long number = otherwise;
    if (fscanf(file, "%ld", &number) != 1)
        number = otherwise;
    fclose(file);
    return number;
}

/* True if an earlier CPU of the mask is another hardware thread of the same core. */
static bool core_seen(const cpu_set_t *mask, int cpu)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool seen = false;
    int first, last;
    char separator = ',';
    while (separator == ',' && fscanf(file, "%d", &first) == 1) {
        last = first;
        if (fscanf(file, "%c", &separator) == 1 && separator == '-') {
            if (fscanf(file, "%d", &last) != 1 || fscanf(file, "%c", &separator) != 1)
                separator = '\n';
        }
        for (int other = first; other <= last && other < cpu; other++)
            seen = seen || CPU_ISSET((size_t)other, mask);
    }
    fclose(file);
    return seen;
}

/* Whole CPUs of time that the cgroup grants, rounded up; a large number where it sets no limit. */
static int granted_cpus(void)
{
    long quota = -1, period = 100000;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &quota, &period) != 2)
            quota = -1; /* "max" */
        fclose(file);
    } else {
        quota = read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1);
        period = read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 100000);
    }
    if (quota <= 0 || period <= 0)
        return MOST_CPUS;
    long cpus = (quota + period - 1) / period;
    return cpus < MOST_CPUS ? (int)cpus : MOST_CPUS;
}

int place_core_list(int *cpus, int most)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) != 0)
        CPU_SET(0, &mask);
    int granted = granted_cpus();
    int count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < most && count < granted; cpu++)
        if (CPU_ISSET((size_t)cpu, &mask) && !core_seen(&mask, cpu))
            cpus[count++] = cpu;
    if (count == 0 && most > 0)
        cpus[count++] = 0;
    return count;
}

int place_cores(void)
{
    int cpus[MOST_CPUS];
    return place_core_list(cpus, MOST_CPUS);
}

int place_pin(const int *cpus, int cores, int index, int devices)
{
    if (devices > cores)
        return -1;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET((size_t)cpus[index], &mask);
    return sched_setaffinity(0, sizeof mask, &mask) == 0 ? cpus[index] : -1;
}

void place_name(const char *format, ...)
{
    char name[16];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    prctl(PR_SET_NAME, name);
}
