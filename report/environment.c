/* environment.c: the machine, the libraries and the source, for the JSON (see environment.h). */
#include "report/environment.h"

#include "device/probe.h"
#include "train.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#ifdef TRAINER_NCCL
#include <nccl.h>
#endif

#ifndef TRAINER_REVISION
#define TRAINER_REVISION "unknown"
#endif

/* The value of the first line of /proc/cpuinfo that begins with `key`. */
static void read_cpu_name(char *name, size_t size)
{
    snprintf(name, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        /* x86 says "model name", some others "Model" or "cpu" */
        if (strncmp(line, "model name", 10) != 0 && strncmp(line, "Model", 5) != 0)
            continue;
        const char *value = strchr(line, ':');
        if (!value)
            continue;
        value += strspn(value, ": \t");
        snprintf(name, size, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    fclose(file);
}

/* CUDA writes 13.0 as 13000. */
static void add_cuda_version(cJSON *object, const char *name, int version)
{
    char text[32];
    if (version == 0)
        return;
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    cJSON_AddStringToObject(object, name, text);
}

static cJSON *libraries(const Plan *plan)
{
    cJSON *object = cJSON_CreateObject();
    char text[256];
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...", of which name and version count, and the
     * kernels that it picked for this CPU */
    const char *config = openblas_get_config();
    size_t name = strcspn(config, " ");
    size_t version = config[name] ? strcspn(config + name + 1, " ") + 1 : 0;
    snprintf(text, sizeof text, "%.*s (%s)", (int)(name + version), config,
             openblas_get_corename());
    cJSON_AddStringToObject(object, "blas", text);
    cJSON_AddStringToObject(object, "cjson", cJSON_Version());
    cJSON_AddStringToObject(object, "zlib", zlibVersion());
    if (plan->config.device_kind == DEVICE_CUDA) {
        add_cuda_version(object, "cuda_runtime", device_probe()->runtime);
        add_cuda_version(object, "cuda_driver", device_probe()->driver);
#ifdef TRAINER_NCCL
        snprintf(text, sizeof text, "%d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
        cJSON_AddStringToObject(object, "nccl", text);
#endif
    }
    return object;
}

/* "NVIDIA H200 (sm_90, 140 GiB)" for each GPU that was used. */
static cJSON *gpus(const Plan *plan)
{
    cJSON *array = cJSON_CreateArray();
    if (plan->config.device_kind != DEVICE_CUDA)
        return array;
    const Probe *probe = device_probe();
    for (int i = 0; i < probe->count; i++) {
        const ProbedGpu *gpu = &probe->gpu[i];
        char text[192];
        snprintf(text, sizeof text, "%s (sm_%d%d, %.0f GiB)", gpu->name, gpu->major, gpu->minor,
                 (double)gpu->bytes / (1 << 30));
        cJSON_AddItemToArray(array, cJSON_CreateString(text));
    }
    return array;
}

cJSON *environment_json(const Plan *plan, const char *command_line)
{
    cJSON *object = cJSON_CreateObject();
    struct utsname system;
    char cpu[256], date[32];
    uname(&system);
    read_cpu_name(cpu, sizeof cpu);
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));

    cJSON_AddStringToObject(object, "host", system.nodename);
    cJSON_AddStringToObject(object, "system", system.release);
    cJSON_AddStringToObject(object, "cpu", cpu);
    cJSON_AddNumberToObject(object, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
    cJSON_AddNumberToObject(object, "physical_cores", plan->cores);
    cJSON_AddItemToObject(object, "gpus", gpus(plan));
    cJSON_AddItemToObject(object, "libraries", libraries(plan));
    cJSON_AddStringToObject(object, "revision", TRAINER_REVISION);
    cJSON_AddStringToObject(object, "command", command_line);
    cJSON_AddStringToObject(object, "date", date);
    cJSON *lines = cJSON_AddObjectToObject(object, "source_lines");
    cJSON_AddNumberToObject(lines, "dp.c", dp_strategy.source_lines);
    cJSON_AddNumberToObject(lines, "ddp.c", ddp_strategy.source_lines);
    return object;
}
