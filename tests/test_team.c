/* test_team.c: the threads of DataParallel, and whose failure is reported. */
#include "team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct Board {
    int times[8];   /* work done by each member; its own element only */
    int fails_from; /* members from this one on fail */
    atomic_int together;
} Board;

static Error count_work(void *context, int member)
{
    Board *board = context;
    board->times[member]++;
    atomic_fetch_add(&board->together, 1);
    return NULL;
}

static Error fail_some(void *context, int member)
{
    Board *board = context;
    if (member < board->fails_from)
        return NULL;
    return error_make("member %d has run out of paper", member);
}

static void test_every_active_member_works_once(void **state)
{
    (void)state;
    for (int own_cores = 0; own_cores < 2; own_cores++) {
        Error error = NULL;
        Board board = {0};
        Team *team = team_open(5, own_cores, NULL, NULL, &error);
        assert_null(error);
        for (int round = 0; round < 300; round++) {
            int active = round % 5 + 1;
            atomic_store(&board.together, 0);
            assert_null(team_do(team, active, count_work, &board));
            assert_int_equal(atomic_load(&board.together), active); /* all are done on return */
        }
        for (int member = 0; member < 5; member++)
            assert_int_equal(board.times[member], 60 * (5 - member));
        team_close(team);
    }
}

static void test_the_lowest_failure_is_reported_with_its_number(void **state)
{
    (void)state;
    Error error = NULL;
    Board board = {.fails_from = 2};
    Team *team = team_open(4, true, NULL, NULL, &error);
    assert_null(error);
    error = team_do(team, 4, fail_some, &board);
    assert_string_equal(error, "replica 2 on device 2: member 2 has run out of paper");
    assert_null(team_do(team, 2, fail_some, &board)); /* the next piece of work is a new one */
    board.fails_from = 0;
    error = team_do(team, 4, fail_some, &board);
    assert_string_equal(error, "member 0 has run out of paper");
    team_close(team);
}

static void test_a_member_that_cannot_start_is_reported(void **state)
{
    (void)state;
    Error error = NULL;
    Board board = {.fails_from = 1};
    assert_null(team_open(3, false, fail_some, &board, &error));
    assert_string_equal(error, "replica 1 on device 1: member 1 has run out of paper");
}

static void test_a_team_of_one_is_its_caller(void **state)
{
    (void)state;
    Error error = NULL;
    Board board = {0};
    Team *team = team_open(1, true, count_work, &board, &error);
    assert_null(error);
    assert_null(team_do(team, 1, count_work, &board));
    assert_int_equal(board.times[0], 2);
    team_close(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_active_member_works_once),
        cmocka_unit_test(test_the_lowest_failure_is_reported_with_its_number),
        cmocka_unit_test(test_a_member_that_cannot_start_is_reported),
        cmocka_unit_test(test_a_team_of_one_is_its_caller),
    };
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
