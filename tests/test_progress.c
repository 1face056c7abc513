/* test_progress.c: the line that shows how far a run is, at every width of a terminal; what is
 * written where there is none; and which reports have passed.
 */
#include "report/json.h"
#include "report/progress.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const ProgressState half = {.what = "DDP, 2 devices",
                                   .done = 50,
                                   .total = 100,
                                   .epoch = 2,
                                   .epochs = 3,
                                   .loss = 0.51234,
                                   .samples_per_s = 98765.4,
                                   .seconds_left = 12.3};

/* Characters, not bytes: those that continue a character do not count. */
static int width_of(const char *line)
{
    int width = 0;
    for (; *line; line++)
        width += ((unsigned char)*line & 0xc0) != 0x80;
    return width;
}

static void test_a_wide_line_says_everything(void **state)
{
    (void)state;
    char line[1024];
    progress_format(line, sizeof line, 120, false, &half);
    assert_string_equal(line, "DDP, 2 devices  ####################....................  50 %  "
                              "epoch 2/3  13 s left  loss 0.512   98765 images/s");
}

static void test_a_line_never_outgrows_the_terminal(void **state)
{
    (void)state;
    for (int utf8 = 0; utf8 < 2; utf8++)
        for (int columns = 1; columns <= 200; columns++)
            for (int done = 0; done <= 100; done += 5) {
                char line[1024];
                ProgressState now = half;
                now.done = done;
                progress_format(line, sizeof line, columns, utf8, &now);
                assert_true(width_of(line) <= columns);
                if (columns >= 5)
                    assert_non_null(strstr(line, " %")); /* how far it is goes last */
            }
}

static void test_the_last_figures_go_first(void **state)
{
    (void)state;
    static const char *const pieces[] = {"epoch 2/3", "13 s left", "loss 0.512", "98765 images/s"};
    int before = 4;
    for (int columns = 120; columns >= 24; columns--) {
        char line[1024];
        progress_format(line, sizeof line, columns, false, &half);
        int shown = 0;
        while (shown < 4 && strstr(line, pieces[shown]))
            shown++;
        for (int i = shown; i < 4; i++)
            assert_null(strstr(line, pieces[i]));
        assert_true(shown <= before);
        before = shown;
    }
    assert_int_equal(before, 0);
}

static void test_what_is_not_known_is_not_shown(void **state)
{
    (void)state;
    char line[1024];
    ProgressState start = {
        .what = "compare", .total = 100, .loss = NAN, .samples_per_s = NAN, .seconds_left = NAN};
    progress_format(line, sizeof line, 100, false, &start);
    assert_string_equal(line, "compare  ........................................   0 %  -- s left");
    start.total = 0; /* nothing to do is no division by zero */
    progress_format(line, sizeof line, 100, false, &start);
    assert_non_null(strstr(line, "0 %"));
}

static void test_the_bar_is_full_at_the_end_only(void **state)
{
    (void)state;
    char line[1024];
    ProgressState end = half;
    end.done = 100;
    progress_format(line, sizeof line, 120, false, &end);
    assert_non_null(strstr(line, "100 %"));
    assert_null(strstr(line, "#."));
    end.done = 100000 - 1;
    end.total = 100000;
    progress_format(line, sizeof line, 120, false, &end);
    assert_non_null(strstr(line, " 99 %"));
}

static void test_time_left_in_fitting_units(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0.2, "1 s left"},   {99, "99 s left"},     {99.5, "2 min left"},
                 {100, "2 min left"}, {3600, "60 min left"}, {5939, "99 min left"},
                 {7300, "3 h left"},  {1e6, "278 h left"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[1024];
        ProgressState now = half;
        now.seconds_left = cases[i].seconds;
        progress_format(line, sizeof line, 120, false, &now);
        char expected[64];
        snprintf(expected, sizeof expected, "  %s", cases[i].text);
        if (!strstr(line, expected))
            fail_msg("%g seconds: %s", cases[i].seconds, line);
    }
}

/* Where there is no terminal only whole lines are written, and no control characters. */
static void test_plain_lines_where_there_is_no_terminal(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *file = tmpfile();
    assert_non_null(file);
    Progress progress;
    progress_open(&progress, file);
    progress_show(&progress, &half);
    progress_line(&progress, "epoch %d of %d", 1, 3);
    progress_show(&progress, &half);
    progress_close(&progress);
    rewind(file);
    assert_int_equal(getline(&text, &size, file), strlen("epoch 1 of 3\n"));
    assert_string_equal(text, "epoch 1 of 3\n");
    assert_int_equal(getline(&text, &size, file), -1);
    free(text);
    fclose(file);
}

static bool passed(const char *text)
{
    cJSON *object = cJSON_Parse(text);
    assert_non_null(object);
    bool answer = report_passed(object);
    cJSON_Delete(object);
    return answer;
}

static void test_a_report_passes_unless_dp_and_ddp_differ(void **state)
{
    (void)state;
    assert_true(passed("{\"comparisons\": []}"));
    assert_true(passed("{\"comparisons\": [{\"devices\": 2, \"dp_equals_ddp\": true}]}"));
    assert_true(passed("{\"comparisons\": [{\"devices\": 3, \"dp_equals_ddp\": null}]}"));
    assert_false(passed("{\"comparisons\": [{\"devices\": 2, \"dp_equals_ddp\": false}]}"));
    assert_false(passed("{\"comparisons\": [{\"dp_equals_ddp\": true}, {\"dp_equals_ddp\": null}, "
                        "{\"dp_equals_ddp\": false}]}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wide_line_says_everything),
        cmocka_unit_test(test_a_line_never_outgrows_the_terminal),
        cmocka_unit_test(test_the_last_figures_go_first),
        cmocka_unit_test(test_what_is_not_known_is_not_shown),
        cmocka_unit_test(test_the_bar_is_full_at_the_end_only),
        cmocka_unit_test(test_time_left_in_fitting_units),
        cmocka_unit_test(test_plain_lines_where_there_is_no_terminal),
        cmocka_unit_test(test_a_report_passes_unless_dp_and_ddp_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
