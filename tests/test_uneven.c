/* test_uneven.c: who has a batch in which step, and that all ranks find the same thing wrong. */
#include "ddp_uneven.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WORLD = 4 };

static void test_the_last_rank_lacks_the_last_batches_of_every_epoch(void **state)
{
    (void)state;
    const Config config = {.steps_per_epoch = 10, .uneven = 3};
    for (int64_t step = 0; step < 30; step++)
        for (int rank = 0; rank < WORLD; rank++)
            assert_int_equal(config_has_batch(&config, WORLD, rank, step),
                             rank < WORLD - 1 || step % 10 < 7);
    assert_int_equal(config_batches(&config, WORLD, WORLD - 1), 7);
    assert_int_equal(config_batches(&config, WORLD, 0), 10);

    /* a resumed run counts from the middle of an epoch */
    const Config resumed = {.steps_per_epoch = 10, .uneven = 3, .first_step = 25};
    assert_true(config_has_batch(&resumed, WORLD, 3, 1));
    assert_false(config_has_batch(&resumed, WORLD, 3, 2));
    assert_true(config_has_batch(&resumed, WORLD, 3, 5));

    const Config even = {.steps_per_epoch = 10};
    for (int64_t step = 0; step < 30; step++)
        assert_true(config_has_batch(&even, WORLD, 3, step));
    assert_true(config_has_batch(&even, 1, 0, 9)); /* a process of its own is the last, too */
}

typedef struct Rank {
    int number;
    Group *group;
    const Config *config;
    char error[1024];
} Rank;

static Error agree(Rank *rank, Device *device, Comm *comm)
{
    uint64_t *scratch;
    TRY(comm_alloc(comm, sizeof *scratch * WORLD, (void **)&scratch));
    Worker worker = {.device = device};
    Job job = {.config = rank->config, .rank = rank->number, .workers = 1, .worker = &worker};
    return uneven_agree(&job, comm, scratch);
}

static void *rank_main(void *argument)
{
    Rank *rank = argument;
    Error error = NULL;
    Comm *comm = NULL;
    Device *device = device_open(DEVICE_CPU, rank->number, false, &error);
    if (!error)
        comm = comm_open(rank->group, rank->number, device, 60, false, &error);
    if (!error)
        error = agree(rank, device, comm);
    snprintf(rank->error, sizeof rank->error, "%s", error ? error : "");
    comm_close(comm);
    device_close(device);
    return NULL;
}

/* All ranks must come to the same. */
static void expect(const Config *config, const char *expected)
{
    Error error = NULL;
    Group *group = comm_group(COMM_SHM, WORLD, 4096, &error);
    assert_null(error);
    Rank rank[WORLD];
    pthread_t thread[WORLD];
    for (int i = 0; i < WORLD; i++) {
        rank[i] = (Rank){.number = i, .group = group, .config = config};
        assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &rank[i]), 0);
    }
    for (int i = 0; i < WORLD; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < WORLD; i++)
        assert_string_equal(rank[i].error, expected);
    comm_group_free(group);
}

static void test_all_ranks_agree_before_the_first_step(void **state)
{
    (void)state;
    expect(&(Config){.steps_per_epoch = 10}, "");
    expect(&(Config){.steps_per_epoch = 10, .uneven = 3, .on_uneven = UNEVEN_JOIN}, "");
    expect(&(Config){.steps_per_epoch = 10, .uneven = 3, .on_uneven = UNEVEN_HANG}, "");
    expect(&(Config){.steps_per_epoch = 10, .uneven = 3},
           "rank 3 has 7 batches per epoch, rank 0 has 10: after step 7 the others would wait for "
           "it in vain; give every rank as many, or --on-uneven=join, to go on without it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_rank_lacks_the_last_batches_of_every_epoch),
        cmocka_unit_test(test_all_ranks_agree_before_the_first_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
