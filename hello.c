/* hello.c: ranks, world size, and a first collective (see hello.h).
 *
 * This is all of DDP's machinery on one number: processes are forked, each takes a seat in a group,
 * puts a number into memory that the group can use, and calls a collective that all of them call.
 */
#include "hello.h"

#include "base/futex.h"
#include "base/interrupt.h"
#include "base/place.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE_BYTES 4096

/* What the ranks leave for the supervisor; shared. */
typedef struct Answer {
    char line[LINE_BYTES];
    double first; /* what the rank holds afterwards, its first number */
} Answer;

typedef struct Greeting {
    const Hello *hello;
    Group *group;
    Answer *answers;   /* [ranks], shared */
    RankError *errors; /* the same */
} Greeting;

static const char *name_of(HelloCollective collective)
{
    static const char *const names[] = {"all_reduce", "all_gather", "broadcast", "reduce_scatter"};
    return names[collective];
}

/* --- a rank ------------------------------------------------------------------------------- */

/* "3.0" or "[1.0, 2.0]" */
static void append_numbers(char *line, const float *numbers, int count, bool brackets)
{
    size_t used = strlen(line);
    for (int i = 0; i < count && used < LINE_BYTES - 64; i++) {
        const char *before = i > 0 ? ", " : brackets ? "[" : "";
        const char *after = brackets && i == count - 1 ? "]" : "";
        int length =
            snprintf(line + used, LINE_BYTES - used, "%s%.1f%s", before, (double)numbers[i], after);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* Makes the collective: `before` and `after` get what the rank holds, in host memory [ranks]. */
static Error converse(const Hello *hello, Comm *comm, Device *device, float *before,
                      int *before_count, float *after, int *after_count)
{
    int ranks = hello->ranks, rank = comm_rank(comm);
    size_t bytes = sizeof(float) * (size_t)ranks;
    float *from, *to;
    Event done;
    TRY(comm_alloc(comm, bytes, (void **)&from));
    TRY(comm_alloc(comm, bytes, (void **)&to));
    bool scatter = hello->collective == HELLO_REDUCE_SCATTER;
    *before_count = scatter ? ranks : 1;
    for (int i = 0; i < *before_count; i++)
        before[i] = (float)(rank + 1) * powf(10, (float)i);
    device_upload(device, from, before, sizeof(float) * (size_t)*before_count);
    Event ready = device_record(device);

    float *result = from;
    *after_count = 1;
    switch (hello->collective) {
    case HELLO_ALL_REDUCE:
        comm_use(comm, hello->algorithm);
        TRY(comm_all_reduce(comm, from, 1, COMM_FLOAT, hello->op, ready, &done));
        break;
    case HELLO_BROADCAST:
        TRY(comm_broadcast(comm, from, 1, COMM_FLOAT, 0, ready, &done));
        break;
    case HELLO_ALL_GATHER:
        TRY(comm_all_gather(comm, to, from, 1, COMM_FLOAT, ready, &done));
        result = to;
        *after_count = ranks;
        break;
    case HELLO_REDUCE_SCATTER:
        TRY(comm_reduce_scatter(comm, to, from, 1, COMM_FLOAT, hello->op, ready, &done));
        result = to;
        break;
    }
    TRY(device_wait(device, &done));
    return device_download(device, after, result, sizeof(float) * (size_t)*after_count);
}

static Error rank_life(const Greeting *greeting, int rank)
{
    const Hello *hello = greeting->hello;
    Answer *answer = &greeting->answers[rank];
    Error error = NULL;
    Device *device =
        device_open(hello->device_kind, hello->gpus ? rank % hello->gpus : rank, false, &error);
    TRY(error);
    Comm *comm = comm_open(greeting->group, rank, device, hello->timeout_s, false, &error);
    TRY(error);
    float *before = calloc((size_t)hello->ranks, sizeof *before);
    float *after = calloc((size_t)hello->ranks, sizeof *after);
    if (!before || !after)
        return error_make("no memory"); /* NOLINT(clang-analyzer-unix.Malloc): the process ends */
    int before_count, after_count;
    TRY(converse(hello, comm, device, before, &before_count, after, &after_count));

    char *line = answer->line;
    snprintf(line, LINE_BYTES, "rank %d of %d: ", rank, hello->ranks);
    if (hello->collective != HELLO_ALL_REDUCE) {
        strcat(line, "before ");
        append_numbers(line, before, before_count, before_count > 1);
        strcat(line, ", ");
    }
    size_t used = strlen(line);
    snprintf(line + used, LINE_BYTES - used, "after %s -> ", name_of(hello->collective));
    append_numbers(line, after, after_count, hello->collective == HELLO_ALL_GATHER);
    strcat(line, "\n");
    answer->first = (double)after[0];
    if (!hello->ordered) /* one write: lines of different ranks do not mix */
        TRY_SYSTEM(write(STDOUT_FILENO, line, strlen(line)) == (ssize_t)strlen(line),
                   "writing a line");
    free(before);
    free(after);
    comm_close(comm);
    device_close(device);
    return NULL;
}

static int child(void *context, int rank)
{
    Greeting *greeting = context;
    place_name("trainer: rank %d", rank);
    Error error = rank_life(greeting, rank);
    if (!error)
        return 0;
    snprintf(greeting->errors[rank].text, sizeof greeting->errors[rank].text, "%s", error);
    return 1;
}

/* --- the supervisor ----------------------------------------------------------------------- */

/* What an all-reduce of 1, 2, ..., N gives, in words. */
static void explain_answer(const Hello *hello, double answer)
{
    static const char *const how[] = {
        [COMM_SUM] = "the sum of 1 to %d",
        [COMM_AVG] = "the sum of 1 to %d, divided by their number",
        [COMM_MIN] = "the least of 1 to %d",
        [COMM_MAX] = "the largest of 1 to %d",
        [COMM_PROD] = "the product of 1 to %d",
    };
    printf("Your guess %g is %s: rank 0 ends with %.1f", hello->guess,
           hello->guess == answer ? "right" : "wrong", answer);
    switch (hello->collective) {
    case HELLO_ALL_REDUCE:
        printf(", ");
        printf(how[hello->op], hello->ranks);
        printf(".\nRank r holds r + 1, and every rank gets the result.\n");
        break;
    case HELLO_BROADCAST:
        printf(".\nIt is the one that sends, and keeps its own number.\n");
        break;
    case HELLO_ALL_GATHER:
        printf(" in the first place.\nThat is its own number; those of the others follow.\n");
        break;
    case HELLO_REDUCE_SCATTER:
        printf(".\nThe first numbers of all ranks were reduced to it.\n");
        break;
    }
}

Error hello(const Hello *hello, int *status)
{
    Error error = NULL;
    *status = 1;
    size_t heap = 2 * comm_heap_bytes(sizeof(float) * (size_t)hello->ranks);
    Greeting greeting = {.hello = hello};
    greeting.group = comm_group(hello->comm_kind, hello->ranks, heap, &error);
    TRY(error);
    size_t ranks = (size_t)hello->ranks;
    size_t bytes = (sizeof *greeting.answers + sizeof *greeting.errors) * ranks;
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TRY_SYSTEM(shared != MAP_FAILED, "memory for %d answers", hello->ranks);
    greeting.answers = shared;
    greeting.errors = (RankError *)(greeting.answers + ranks);
    Process *process = calloc((size_t)hello->ranks, sizeof *process);
    if (!process)
        return error_make("no memory");

    Launch launch = {
        .count = hello->ranks, .process = process, .body = child, .context = &greeting};
    error = launch_all(&launch);
    if (!error && launch.interrupted) {
        *status = interrupt_say(launch.interrupted);
    } else if (!error && launch.failed >= 0) {
        ranks_explain_failure(&launch, greeting.group, greeting.errors);
    } else if (!error) {
        *status = 0;
        for (int rank = 0; rank < hello->ranks && hello->ordered; rank++)
            fputs(greeting.answers[rank].line, stdout);
        if (hello->guess_given)
            explain_answer(hello, greeting.answers[0].first);
    }
    free(process);
    munmap(shared, bytes);
    comm_group_free(greeting.group);
    return error;
}
