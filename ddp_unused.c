/* ddp_unused.c: parameters that get no gradient: an error, or a question to all ranks in every step
 * (see ddp_unused.h). */
#include "ddp_unused.h"

#include <stdatomic.h>
#include <stdio.h>

/* --- the error ---------------------------------------------------------------------------- */

void unused_note(Job *job)
{
    LaneShared *lane = &job->run->lanes[job->rank];
    bool any = false;
    for (int i = 0; i < job->layout->parameters; i++) {
        lane->missing[i] = job->worker[0].model.no_gradient[i];
        any = any || lane->missing[i];
    }
    if (any)
        atomic_store(&lane->misses, true);
}

/* ", "-separated words that end with dots where they are too many. */
typedef struct List {
    char text[400];
    size_t used;
    int count;
} List;

static void list_add(List *list, const char *word)
{
    const size_t most = sizeof list->text - 40; /* room for one more word, or the dots */
    if (list->count++ == 0)
        list->used = (size_t)snprintf(list->text, sizeof list->text, "%s", word);
    else if (list->used < most)
        list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                       ", %s", list->used < most - 40 ? word : "...");
}

static bool missed(const Job *job, int rank)
{
    return atomic_load(&job->run->lanes[rank].misses);
}

static bool missed_anywhere(const Job *job, int parameter)
{
    bool any = false;
    for (int rank = 0; rank < job->run->processes; rank++)
        any = any || (missed(job, rank) && job->run->lanes[rank].missing[parameter]);
    return any;
}

Error unused_check(const Job *job)
{
    const Worker *worker = &job->worker[0];
    List ranks = {0}, names = {0};
    if (missed(job, job->rank))
        TRY(device_sync(worker->device)); /* a GPU's all-reduces may be under way still */
    for (int rank = 0; rank < job->run->processes; rank++) {
        char number[16];
        snprintf(number, sizeof number, "%d", rank);
        if (missed(job, rank))
            list_add(&ranks, number);
    }
    if (ranks.count == 0)
        return NULL;
    for (int i = job->layout->parameters - 1; i >= 0; i--) /* in PyTorch's order */
        if (missed_anywhere(job, i))
            list_add(&names, job->layout->parameter[i].name);
    int64_t step = job->config->first_step + worker->timer.steps;
    return error_make("step %lld: the backward pass gave no gradient for %s on rank%s %s: the "
                      "forward pass there did not use %s, and DDP counts on every gradient; give "
                      "--find-unused-parameters, or take the layer out of the model",
                      (long long)step, names.text, ranks.count > 1 ? "s" : "", ranks.text,
                      names.count > 1 ? "them" : "it");
}

/* --- the question ------------------------------------------------------------------------- */

size_t used_map_bytes(const Layout *layout)
{
    return sizeof(int32_t) * (size_t)layout->parameters;
}

Error used_map_open(UsedMap *map, Comm *comm, const Layout *layout)
{
    map->comm = comm;
    return comm_alloc(comm, used_map_bytes(layout), (void **)&map->used);
}

Error used_map_exchange(UsedMap *map, Worker *worker)
{
    Model *model = &worker->model;
    int parameters = model->layout->parameters;
    int32_t used[MODEL_MOST_PARAMETERS];
    bool all_used = true;
    for (int i = 0; i < parameters; i++) {
        used[i] = !model->no_gradient[i];
        all_used = all_used && used[i];
    }

    timer_phase(&worker->timer, PHASE_USED_MAP);
    device_upload(worker->device, map->used, used, used_map_bytes(model->layout));
    comm_count_as(map->comm, BYTES_USED_MAP);
    comm_name_bucket(map->comm, -1);
    Event done;
    TRY(comm_all_reduce(map->comm, map->used, (size_t)parameters, COMM_INT32, COMM_SUM,
                        device_record(worker->device), &done));
    TRY(device_wait(worker->device, &done));
    comm_count_as(map->comm, BYTES_PARAMETER_GRADIENTS);
    if (!all_used) { /* what this rank used has a gradient, whatever the others did */
        TRY(device_download(worker->device, used, map->used, used_map_bytes(model->layout)));
        for (int i = 0; i < parameters; i++)
            model->no_gradient[i] = used[i] == 0;
    }
    timer_phase(&worker->timer, PHASE_NONE);
    timer_take_talk(&worker->timer);
    return NULL;
}
