/* test_progress.c: the line that shows how far a run is, at every width; what reaches a terminal,
 * and what is written where there is none; and which reports have passed.
 */
#include "report/json.h"
#include "report/progress.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

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

static void test_what_stays_on_narrower_lines(void **state)
{
    (void)state;
    static const struct {
        int columns;
        bool utf8;
        const char *line;
    } cases[] = {
        /* an ordinary terminal has 80 columns, of which three are left alone */
        {77, false,
         "DDP, 2 devices  #####.....  epoch 2/3  13 s left  loss 0.512   98765 images/s"},
        {60, false, "DDP, 2 devices  #####.....  epoch 2/3  13 s left  loss 0.512"},
        {40, false, "DDP, 2 devices  ######.......  epoch 2/3"},
        {22, false, "DDP, 2 devices   50 %"},
        {18, false, "######......  50 %"},
        {12, false, "######......"},
        {5, false, " 50 %"},
        {4, false, ""},
        {30, true, "DDP, 2 devices  \u2588\u2588\u2588\u2588\u2591\u2591\u2591\u2591  50 %"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[1024];
        progress_format(line, sizeof line, cases[i].columns, cases[i].utf8, &half);
        assert_string_equal(line, cases[i].line);
    }
}

/* The buffer is never overrun, and UTF-8 characters come whole or not at all. */
static void test_a_small_buffer(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 200; size++) {
        char *line = malloc(size); /* of that size, so that AddressSanitizer sees an overrun */
        progress_format(line, size, 100, true, &half);
        assert_true(strlen(line) < size);
        int to_come = 0;
        for (const char *c = line; *c; c++) { /* a block is one byte and two that continue it */
            if (((unsigned char)*c & 0xc0) == 0x80)
                to_come--;
            else
                assert_int_equal(to_come, 0);
            if (((unsigned char)*c & 0xf0) == 0xe0)
                to_come = 2;
        }
        assert_int_equal(to_come, 0);
        free(line);
    }
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
                if (columns >= 8) /* how far it is goes last */
                    assert_true(strstr(line, " %") || strpbrk(line, "#.\u2588\u2591"));
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
    end.done = 200; /* more than there is cannot be shown */
    progress_format(line, sizeof line, 120, false, &end);
    assert_non_null(strstr(line, "########## 100 %"));
    end.done = 100000 - 1;
    end.total = 100000;
    progress_format(line, sizeof line, 120, false, &end);
    assert_non_null(strstr(line, "#.  99 %"));
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

/* --- where it is drawn --------------------------------------------------------------------- */

/* What has been written since the last call. A terminal passes bytes on when it likes, but in
 * order: a mark is sent after them, and all is read up to it. */
static const char *received(FILE *out, int screen)
{
    static char text[8192];
    size_t used = 0;
    fputc('@', out);
    fflush(out);
    while (used == 0 || text[used - 1] != '@') {
        ssize_t got = read(screen, text + used, sizeof text - used);
        assert_true(got > 0);
        used += (size_t)got;
    }
    text[used - 1] = '\0';
    return text;
}

static FILE *open_terminal(int *screen, unsigned short columns)
{
    *screen = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(*screen >= 0);
    assert_int_equal(grantpt(*screen), 0);
    assert_int_equal(unlockpt(*screen), 0);
    int terminal = open(ptsname(*screen), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    struct termios raw = {0};
    cfmakeraw(&raw); /* bytes arrive as they were sent */
    assert_int_equal(tcsetattr(terminal, TCSANOW, &raw), 0);
    struct winsize window = {.ws_row = 24, .ws_col = columns};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &window), 0);
    FILE *out = fdopen(terminal, "w");
    assert_non_null(out);
    setvbuf(out, NULL, _IONBF, 0); /* as standard error */
    return out;
}

static void test_a_bar_on_a_terminal(void **state)
{
    (void)state;
    static const char bar[] = "\rDDP, 2 devices  #######.......  50 %\033[K";
    setenv("TERM", "xterm-256color", 1);
    setenv("LC_ALL", "C", 1);
    unsetenv("XTERM_VERSION");
    int screen;
    FILE *out = open_terminal(&screen, 39);
    Progress progress;
    progress_open(&progress, out);
    ProgressState now = half;
    now.epochs = 0;
    now.what = "DDP, 2 devices";
    now.seconds_left = 1e20; /* so long that it has no room */

    progress_show(&progress, &now);
    assert_string_equal(received(out, screen), bar);
    progress_show(&progress, &now); /* too early to be drawn again */
    assert_string_equal(received(out, screen), "");
    progress.last_ms -= 101; /* as if time had passed */
    progress_show(&progress, &now);
    assert_string_equal(received(out, screen), bar);

    /* lines stay; the bar makes room for them and comes back at once */
    progress_line(&progress, "epoch %d of %d", 1, 3);
    assert_string_equal(received(out, screen), "\r\033[Kepoch 1 of 3\n");
    progress_show(&progress, &now);
    assert_string_equal(received(out, screen), bar);

    /* a narrower window has broken the bar's 36 characters into two rows: both are cleared */
    struct winsize narrow = {.ws_row = 24, .ws_col = 18};
    assert_int_equal(ioctl(screen, TIOCSWINSZ, &narrow), 0);
    progress.last_ms -= 101;
    progress_show(&progress, &now);
    assert_string_equal(received(out, screen), "\r\033[1A\033[J####.....  50 %\033[K");

    progress_close(&progress);
    assert_string_equal(received(out, screen), "\r\033[K");
    progress_close(&progress); /* nothing is left to clear, also not what came after it */
    assert_string_equal(received(out, screen), "");
    fclose(out);
    close(screen);
}

static void test_what_a_terminal_can_show(void **state)
{
    (void)state;
    int screen;
    FILE *out = open_terminal(&screen, 80);
    Progress progress;
    setenv("TERM", "dumb", 1);
    progress_open(&progress, out);
    assert_false(progress.terminal);
    unsetenv("TERM");
    progress_open(&progress, out);
    assert_false(progress.terminal);
    setenv("TERM", "xterm", 1);

    static const struct {
        const char *all, *ctype, *lang; /* empty is as good as unset */
        bool utf8;
    } locales[] = {
        {"", "", "", false},         {"", "", "de_DE.UTF-8", true},
        {"", "", "C.utf8", true},    {"", "C", "de_DE.UTF-8", false},
        {"C", "C.UTF-8", "", false}, {"", "en_GB.UTF-8", "C", true},
    };
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++) {
        setenv("LC_ALL", locales[i].all, 1);
        setenv("LC_CTYPE", locales[i].ctype, 1);
        setenv("LANG", locales[i].lang, 1);
        progress_open(&progress, out);
        assert_true(progress.terminal);
        assert_int_equal(progress.utf8, locales[i].utf8);
    }
    fclose(out);
    close(screen);
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
    bool answer = !report_failure(object);
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
        cmocka_unit_test(test_what_stays_on_narrower_lines),
        cmocka_unit_test(test_a_small_buffer),
        cmocka_unit_test(test_a_line_never_outgrows_the_terminal),
        cmocka_unit_test(test_the_last_figures_go_first),
        cmocka_unit_test(test_what_is_not_known_is_not_shown),
        cmocka_unit_test(test_the_bar_is_full_at_the_end_only),
        cmocka_unit_test(test_time_left_in_fitting_units),
        cmocka_unit_test(test_a_bar_on_a_terminal),
        cmocka_unit_test(test_what_a_terminal_can_show),
        cmocka_unit_test(test_plain_lines_where_there_is_no_terminal),
        cmocka_unit_test(test_a_report_passes_unless_dp_and_ddp_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
