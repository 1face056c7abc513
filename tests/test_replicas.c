/* test_replicas.c: ranks whose models differ are found out, by parameter and rank. */
#include "replicas.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WORLD = 4 };

/* What each rank holds: the layout, and which float of the arena it changes (-1: none). */
typedef struct Rank {
    int number;
    Group *group;
    int layers, hidden;
    long changed;
    char error[1024];
} Rank;

static Error check(Rank *rank, Device *device, Comm *comm)
{
    Layout layout;
    layout_init(&layout, (const int[]){6, rank->hidden, 3, 4}, rank->layers);
    float *weights;
    uint64_t *scratch;
    TRY(comm_alloc(comm, replicas_bytes(WORLD), (void **)&scratch));
    TRY(replicas_check_shapes(comm, device, &layout, scratch));
    TRY(comm_alloc(comm, sizeof(float) * layout.arena_count, (void **)&weights));
    for (size_t i = 0; i < layout.arena_count; i++)
        weights[i] = (float)i;
    if (rank->changed >= 0)
        weights[rank->changed] = -0.5f;
    return replicas_check_weights(comm, device, &layout, weights, scratch);
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
        error = check(rank, device, comm);
    snprintf(rank->error, sizeof rank->error, "%s", error ? error : "");
    comm_close(comm);
    device_close(device);
    return NULL;
}

/* Runs the checks on all ranks, which must agree on the outcome. */
static void run(Rank *ranks, const char *expected)
{
    Error error = NULL;
    Group *group = comm_group(COMM_SHM, WORLD, 65536, &error);
    assert_null(error);
    pthread_t thread[WORLD];
    for (int i = 0; i < WORLD; i++) {
        ranks[i].number = i;
        ranks[i].group = group;
        assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < WORLD; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < WORLD; i++)
        assert_string_equal(ranks[i].error, expected);
    comm_group_free(group);
}

static void test_equal_replicas_pass(void **state)
{
    (void)state;
    Rank ranks[WORLD];
    for (int i = 0; i < WORLD; i++)
        ranks[i] = (Rank){.layers = 2, .hidden = 5, .changed = -1};
    run(ranks, "");
}

static void test_other_weights_are_named(void **state)
{
    (void)state;
    Layout layout;
    layout_init(&layout, (const int[]){6, 5, 3}, 2);
    Rank ranks[WORLD];
    for (int i = 0; i < WORLD; i++)
        ranks[i] = (Rank){.layers = 2, .hidden = 5, .changed = -1};
    /* rank 1 differs in a late parameter, rank 3 in an early one: the early one is named */
    const Parameter *late = &layout.parameter[layout_bias(&layout, 1)];
    const Parameter *early = &layout.parameter[layout_bias(&layout, 0)];
    ranks[1].changed = (long)late->offset;
    ranks[3].changed = (long)early->offset + 4;
    run(ranks, "the replicas differ: parameter 0.bias has other weights on rank 3 than on rank 0");

    ranks[1].changed = ranks[3].changed = (long)(late + 1)->offset + 14;
    run(ranks, "the replicas differ: parameter 2.weight has other weights on ranks 1, 3 than on "
               "rank 0");
}

static void test_another_shape_is_named(void **state)
{
    (void)state;
    Rank ranks[WORLD];
    for (int i = 0; i < WORLD; i++)
        ranks[i] = (Rank){.layers = 2, .hidden = i == 2 ? 7 : 5, .changed = -1};
    run(ranks, "the replicas differ: parameter 0.weight has another shape on rank 2 than on rank "
               "0");
}

static void test_another_number_of_parameters_is_named(void **state)
{
    (void)state;
    Rank ranks[WORLD];
    for (int i = 0; i < WORLD; i++)
        ranks[i] = (Rank){.layers = i == 3 ? 3 : 2, .hidden = 5, .changed = -1};
    run(ranks, "the replicas differ: another number of parameters on rank 3 than on rank 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_replicas_pass),
        cmocka_unit_test(test_other_weights_are_named),
        cmocka_unit_test(test_another_shape_is_named),
        cmocka_unit_test(test_another_number_of_parameters_is_named),
    };
    return cmocka_run_group_tests_name("replicas", tests, NULL, NULL);
}
