/* ddp_uneven.c: as many batches for every rank, or an error, or the mistake (see ddp_uneven.h). */
#include "ddp_uneven.h"

#include "options.h"
#include "replicas.h"

#include <stdatomic.h>

Error uneven_agree(const Job *job, Comm *comm, uint64_t *scratch)
{
    uint64_t batches[OPTIONS_MOST_VIRTUAL];
    int world = comm_world(comm), fewest = 0, most = 0;
    batches[job->rank] = (uint64_t)config_batches(job->config, world, job->rank);
    TRY(replicas_gather(comm, job->worker[0].device, batches, 1, scratch));
    for (int rank = 1; rank < world; rank++) {
        fewest = batches[rank] < batches[fewest] ? rank : fewest;
        most = batches[rank] > batches[most] ? rank : most;
    }
    if (batches[fewest] == batches[most] || job->config->on_uneven != UNEVEN_ERROR)
        return NULL;
    return error_make("rank %d has %llu batches per epoch, rank %d has %llu: after step %llu the "
                      "others would wait for it in vain; give every rank as many, or "
                      "--on-uneven=join, to go on without it",
                      fewest, (unsigned long long)batches[fewest], most,
                      (unsigned long long)batches[most], (unsigned long long)batches[fewest]);
}

void uneven_hang(const Job *job)
{
    atomic_store(&job->run->lanes[job->rank].ran_out, true);
    Word never = {0};
    while (true)
        word_wait(&never, 1, 0, 0);
}
