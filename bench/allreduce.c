/* allreduce.c: the time of an all-reduce of floats between two ranks, through the calls that ddp.c
 * makes, for `make bench`.
 *
 *     allreduce BYTES TIMES
 *
 * prints the median of rank 0's times in microseconds.
 */
#include "base/place.h"
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Ones on rank 0 and their negatives on rank 1: the sum is zero, also when it is summed again. */
static Error run_rank(Group *group, int rank, size_t count, int times)
{
    Error error = NULL;
    Device *device = device_open(DEVICE_CPU, rank, false, &error);
    TRY(error);
    Comm *comm = comm_open(group, rank, device, 30, true, &error);
    TRY(error);
    float *buffer;
    TRY(comm_alloc(comm, sizeof(float) * count, (void **)&buffer));
    double *took_us = calloc((size_t)times, sizeof *took_us);
    if (!took_us)
        return error_make("no memory for %d times", times);

    for (size_t i = 0; i < count; i++)
        buffer[i] = rank == 0 ? 1 : -1;
    for (int i = -2; i < times; i++) { /* two to warm up */
        double start = now_us();
        Event done;
        TRY(comm_all_reduce(comm, buffer, count, COMM_FLOAT, COMM_SUM, device_record(device),
                            &done));
        TRY(device_wait(device, &done));
        if (i >= 0)
            took_us[i] = now_us() - start;
    }
    for (size_t i = 0; i < count; i++)
        if (buffer[i] != 0)
            return error_make("the all-reduce gave %g at %zu, expected 0", (double)buffer[i], i);
    qsort(took_us, (size_t)times, sizeof *took_us, compare_doubles);
    if (rank == 0) {
        printf("%.3f\n", took_us[times / 2]);
        fflush(stdout);
    }
    free(took_us);
    comm_close(comm);
    device_close(device);
    return NULL;
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 3) {
        fprintf(stderr, "Usage: allreduce BYTES TIMES\n");
        return 2;
    }
    size_t count = strtoul(arguments[1], NULL, 10) / sizeof(float);
    int times = atoi(arguments[2]);
    if (count == 0 || times < 1) {
        fprintf(stderr, "allreduce: BYTES must be at least 4 and TIMES at least 1\n");
        return 2;
    }

    Error error = NULL;
    Group *group = comm_group(COMM_SHM, 2, comm_heap_bytes(sizeof(float) * count), &error);
    if (error) {
        fprintf(stderr, "allreduce: %s\n", error);
        return 1;
    }
    int cpus[256];
    int cores = place_core_list(cpus, 256);
    for (int rank = 0; rank < 2; rank++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("allreduce: fork");
            return 1;
        }
        if (pid == 0) {
            place_pin(cpus, cores, rank, 2);
            error = run_rank(group, rank, count, times);
            if (error)
                fprintf(stderr, "allreduce: rank %d: %s\n", rank, error);
            _exit(error != NULL);
        }
    }
    int failed = 0, status;
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
