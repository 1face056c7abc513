/* test_table.c: the screens made from invented JSON objects (tests/fixtures/made_up_*.json), and
 * that no object, however broken, crashes them.
 *
 * Run from the root of the repository. `test_table --write` makes the golden screens anew; look at
 * the difference before keeping it. */
#include "report/screen.h"
#include "report/table.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#define FIXTURES "tests/fixtures/made_up_"
#define GOLDEN   "tests/golden_screens/"

static const char *const comparisons[] = {
    "two_devices",   "four_devices",    "dp_wins",
    "no_difference", "failed_equality", "more_devices_than_cores",
};
static const char *const single_runs[] = {"one_run_single", "one_run_dp", "one_run_ddp"};

enum { COMPARISONS = 6, SINGLE_RUNS = 3, FIXTURE_COUNT = COMPARISONS + SINGLE_RUNS + 1 };

static const char *fixture_name(int i)
{
    return i < COMPARISONS                 ? comparisons[i]
           : i < COMPARISONS + SINGLE_RUNS ? single_runs[i - COMPARISONS]
                                           : "ladder";
}

/* --- helpers --------------------------------------------------------------------------------- */

/* The whole file, to be freed; NULL if there is none. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (!file)
        return NULL;
    if (getdelim(&text, &size, 0, file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static cJSON *load(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, FIXTURES "%s.json", name);
    char *text = read_file(path);
    if (!text)
        fail_msg("%s cannot be read; run the test from the root of the repository", path);
    cJSON *object = cJSON_Parse(text);
    free(text);
    assert_non_null(object);
    return object;
}

/* What is printed, to be freed. An error's sentence goes to `*error`. */
static char *print_with(const cJSON *object, TableDepth depth, TableStyle style, Error *error)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    *error = table_print(out, object, depth, style);
    fclose(out);
    return text;
}

static char *print_plain(const cJSON *object, TableDepth depth, int columns)
{
    Error error;
    char *text = print_with(object, depth, (TableStyle){.columns = columns}, &error);
    if (error)
        fail_msg("%s", error);
    return text;
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is missing in:\n%s", part, text);
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* Removes colours in place. */
static void strip_colours(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '\033')
            *to++ = *from;
        else
            from = strchr(from, 'm');
    }
    *to = 0;
}

/* No line wider than `columns`, none with blanks at its end. */
static void assert_fits(const char *text, int columns)
{
    while (*text) {
        int length = (int)strcspn(text, "\n");
        char line[TEXT_MOST_COLUMNS * 4];
        snprintf(line, sizeof line, "%.*s", length, text);
        if (text_width(line) > columns)
            fail_msg("%d columns instead of %d: %s", text_width(line), columns, line);
        if (length && line[length - 1] == ' ')
            fail_msg("blank at the end of: %s", line);
        text += length;
        text += *text == '\n';
    }
}

/* --- golden screens -------------------------------------------------------------------------- */

static const struct {
    const char *fixture;
    TableDepth depth;
    int columns;
} screens[] = {
    {"two_devices", TABLE_BEGINNER, 80},     {"two_devices", TABLE_BEGINNER, 60},
    {"two_devices", TABLE_RESEARCHER, 80},   {"four_devices", TABLE_BEGINNER, 80},
    {"four_devices", TABLE_BEGINNER, 60},    {"four_devices", TABLE_RESEARCHER, 120},
    {"dp_wins", TABLE_RESEARCHER, 80},       {"no_difference", TABLE_BEGINNER, 80},
    {"failed_equality", TABLE_BEGINNER, 80}, {"more_devices_than_cores", TABLE_RESEARCHER, 80},
    {"one_run_single", TABLE_BEGINNER, 80},  {"one_run_dp", TABLE_BEGINNER, 80},
    {"one_run_dp", TABLE_BEGINNER, 60},      {"one_run_ddp", TABLE_RESEARCHER, 80},
    {"ladder", TABLE_BEGINNER, 80},          {"ladder", TABLE_BEGINNER, 60},
    {"ladder", TABLE_BEGINNER, 120},         {"ladder", TABLE_RESEARCHER, 80},
};

enum { SCREENS = sizeof screens / sizeof *screens };

static void golden_path(char *path, size_t size, int i)
{
    static const char *const depths[] = {"beginner", "developer", "researcher"};
    snprintf(path, size, GOLDEN "%s_%s_%d.txt", screens[i].fixture, depths[screens[i].depth],
             screens[i].columns);
}

static void screens_are_the_golden_ones(void **state)
{
    (void)state;
    for (int i = 0; i < SCREENS; i++) {
        char path[256];
        golden_path(path, sizeof path, i);
        cJSON *object = load(screens[i].fixture);
        char *actual = print_plain(object, screens[i].depth, screens[i].columns);
        char *expected = read_file(path);
        if (!expected)
            fail_msg("%s cannot be read", path);
        if (strcmp(actual, expected) != 0)
            fail_msg("%s differs; now it is:\n%s", path, actual);
        free(expected);
        free(actual);
        cJSON_Delete(object);
    }
}

static int write_golden_screens(void)
{
    for (int i = 0; i < SCREENS; i++) {
        char path[256];
        golden_path(path, sizeof path, i);
        cJSON *object = load(screens[i].fixture);
        FILE *file = fopen(path, "w");
        Error error = file ? table_print(file, object, screens[i].depth,
                                         (TableStyle){.columns = screens[i].columns})
                           : "cannot be opened";
        if (file)
            fclose(file);
        cJSON_Delete(object);
        if (error) {
            fprintf(stderr, "%s: %s\n", path, error);
            return 1;
        }
    }
    return 0;
}

/* --- width, height, colour ------------------------------------------------------------------- */

static void every_screen_fits(void **state)
{
    (void)state;
    const int widths[] = {40, 60, 79, 80, 120, 200, 400};
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        cJSON *object = load(fixture_name(i));
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            for (int depth = TABLE_BEGINNER; depth <= TABLE_RESEARCHER; depth++) {
                char *text = print_plain(object, (TableDepth)depth, widths[w]);
                assert_fits(text, widths[w]);
                /* '>' at the end of a line says that it was cut. */
                if (widths[w] >= 60 && strstr(text, ">\n"))
                    fail_msg("%s at %d columns is cut:\n%s", fixture_name(i), widths[w], text);
                free(text);
            }
        }
        cJSON_Delete(object);
    }
}

/* 24 lines, of which the shell's prompt takes one. */
static void a_comparison_is_one_screen(void **state)
{
    (void)state;
    for (int i = 0; i < COMPARISONS; i++) {
        cJSON *object = load(comparisons[i]);
        char *text = print_plain(object, TABLE_BEGINNER, 80);
        if (count_lines(text) > 23)
            fail_msg("%d lines:\n%s", count_lines(text), text);
        free(text);
        cJSON_Delete(object);
    }
}

static void colour_changes_no_letter(void **state)
{
    (void)state;
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        cJSON *object = load(fixture_name(i));
        Error error;
        char *plain = print_plain(object, TABLE_BEGINNER, 80);
        char *coloured =
            print_with(object, TABLE_BEGINNER, (TableStyle){.columns = 80, .colour = true}, &error);
        assert_null(error);
        assert_null(strchr(plain, '\033'));
        assert_non_null(strchr(coloured, '\033'));
        strip_colours(coloured);
        assert_string_equal(plain, coloured);
        free(plain);
        free(coloured);
        cJSON_Delete(object);
    }
}

static void style_suits_the_place(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    unsetenv("COLUMNS");
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm-256color", 1);
    setenv("LC_ALL", "C", 1);
    TableStyle style = table_style(file);
    assert_int_equal(style.columns, 80);
    assert_false(style.colour);
    assert_false(style.utf8);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    setenv("COLUMNS", "132", 1);
    assert_int_equal(table_style(file).columns, 132);
    assert_true(table_style(file).utf8);
    setenv("COLUMNS", "many", 1);
    assert_int_equal(table_style(file).columns, 80);
    unsetenv("COLUMNS");
    fclose(file);
}

static void a_terminal_gets_colour_and_its_width(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        skip();
    FILE *terminal = fopen(ptsname(master), "r+");
    assert_non_null(terminal);
    assert_int_equal(
        ioctl(fileno(terminal), TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 101}), 0);
    unsetenv("COLUMNS");
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm-256color", 1);
    assert_int_equal(table_style(terminal).columns, 101);
    assert_true(table_style(terminal).colour);
    setenv("NO_COLOR", "1", 1);
    assert_false(table_style(terminal).colour);
    setenv("NO_COLOR", "", 1); /* no-color.org: only if not empty */
    assert_true(table_style(terminal).colour);
    setenv("TERM", "dumb", 1);
    assert_false(table_style(terminal).colour);
    fclose(terminal);
    close(master);
}

/* --- what is said ---------------------------------------------------------------------------- */

static void assert_says(const char *fixture, TableDepth depth, const char *part)
{
    cJSON *object = load(fixture);
    char *text = print_plain(object, depth, 80);
    assert_contains(text, part);
    free(text);
    cJSON_Delete(object);
}

static void the_verdict_is_plain(void **state)
{
    (void)state;
    assert_says("two_devices", TABLE_BEGINNER, "DDP does 29 % more steps/s than DP (26 - 32)");
    assert_says("dp_wins", TABLE_BEGINNER, "DP won: ");
    assert_says("no_difference", TABLE_BEGINNER, "No difference can be told (DDP -");
    assert_says("failed_equality", TABLE_BEGINNER, "Same weights? FAILED");
    assert_says("more_devices_than_cores", TABLE_BEGINNER, "* 4 devices share 2 cores");
    assert_says("dp_wins", TABLE_RESEARCHER, "the opposite of");
}

static cJSON *faster_percent(cJSON *object)
{
    return cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(object, "comparisons"), 0),
                               "ddp_faster_percent");
}

static void a_verdict_without_95_percent_is_none(void **state)
{
    (void)state;
    cJSON *object = load("two_devices");
    cJSON_SetNumberValue(cJSON_GetObjectItem(faster_percent(object), "confidence"), 0.75);
    char *text = print_plain(object, TABLE_BEGINNER, 80);
    assert_contains(text, "Too few measurements");
    free(text);
    cJSON_Delete(object);
}

/* DDP 20 % behind is DP 25 % ahead. */
static void percents_change_sides(void **state)
{
    (void)state;
    cJSON *object = load("two_devices");
    cJSON *percent = faster_percent(object);
    cJSON_SetNumberValue(cJSON_GetObjectItem(percent, "median"), -20);
    cJSON_SetNumberValue(cJSON_GetObjectItem(percent, "low"), -50);
    cJSON_SetNumberValue(cJSON_GetObjectItem(percent, "high"), -10);
    char *text = print_plain(object, TABLE_BEGINNER, 80);
    assert_contains(text, "DP won: 25 % more steps/s than DDP (11 - 100)");
    free(text);
    cJSON_Delete(object);
}

/* --- the ladder ------------------------------------------------------------------------------ */

static void set_gain(cJSON *gain, double median, double low, double high)
{
    cJSON_SetNumberValue(cJSON_GetObjectItem(gain, "median"), median);
    cJSON_SetNumberValue(cJSON_GetObjectItem(gain, "low"), low);
    cJSON_SetNumberValue(cJSON_GetObjectItem(gain, "high"), high);
}

static cJSON *gain_of_rung(cJSON *ladder, int rung)
{
    return cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(ladder, "rungs"), rung - 1),
                               "gain_percent");
}

/* Prints the object as it is now; it must contain the first part and, unless NULL, not the other.
 */
static void assert_now(const cJSON *object, const char *part, const char *not_this)
{
    char *text = print_plain(object, TABLE_BEGINNER, 80);
    assert_contains(text, part);
    if (not_this && strstr(text, not_this))
        fail_msg("\"%s\" is in:\n%s", not_this, text);
    free(text);
}

static void the_ladder_says_what_gains_nothing(void **state)
{
    (void)state;
    cJSON *object = load("ladder"), *ladder = cJSON_GetObjectItem(object, "ladder");
    assert_now(object, "No gain shown here: rung 3. On cores", "unclear (+");
    assert_now(object, "made it: unclear (-2 to +2 %)", "FAILED");
    assert_now(object, "all-reduce: +6 % (+4 to +8).", NULL);

    set_gain(gain_of_rung(ladder, 3), 5, 1, 9);
    assert_now(object, "made it: +5 % (+1 to +9).", "No gain shown");
    set_gain(gain_of_rung(ladder, 2), -5, -9, -1);
    assert_now(object, "No gain shown here: rung 2.\n", "On cores");
    set_gain(gain_of_rung(ladder, 4), -5, -9, -1);
    assert_now(object, "No gain shown here: rungs 2, 4. On cores, hidden", NULL);
    cJSON_SetNumberValue(cJSON_GetObjectItem(gain_of_rung(ladder, 4), "confidence"), 0.5);
    assert_now(object, "when full: too few measurements.", "rungs 2, 4");
    cJSON_Delete(object);
}

static void the_ladders_verdict_is_plain(void **state)
{
    (void)state;
    cJSON *object = load("ladder"), *ladder = cJSON_GetObjectItem(object, "ladder");
    cJSON *whole = cJSON_GetObjectItem(ladder, "ddp_gain_percent");
    assert_now(object, "DDP does 12 % more steps/s than the naive way (10 - 14).", "beats it");
    cJSON *best = cJSON_Duplicate(whole, true);
    set_gain(best, 3, 1, 5);
    cJSON_ReplaceItemInObject(ladder, "best_gain_percent", best);
    cJSON_SetNumberValue(cJSON_GetObjectItem(ladder, "best_rung"), 2);
    assert_now(object, "(10 - 14). Rung 2 beats it: +3 %.", NULL);
    set_gain(best, 3, -1, 5);
    assert_now(object, "(10 - 14).\n", "beats it");
    set_gain(whole, 1, -2, 3);
    assert_now(object, "No difference can be told between DDP and the naive way (-2 to +3 %).",
               NULL);
    set_gain(whole, -7, -9, -3);
    assert_now(object, "The naive way won: DDP's rung does -7 % (-9 to -3) steps/s.", NULL);
    cJSON_SetNumberValue(cJSON_GetObjectItem(whole, "confidence"), 0.5);
    assert_now(object, "Too few measurements", "won");
    cJSON_ReplaceItemInObject(ladder, "weights_equal", cJSON_CreateFalse());
    cJSON_SetNumberValue(cJSON_GetObjectItem(ladder, "max_abs_weight_diff"), 2e-7);
    assert_now(object, "Same weights? FAILED: rungs differ by up to 2e-07.", "last bit");
    cJSON_ReplaceItemInObject(ladder, "weights_equal", cJSON_CreateNull());
    assert_now(object, "Same weights? Within 2e-07:", "FAILED");
    cJSON_Delete(object);
}

/* The longest bar fills its room, the others are in proportion; undecided points are as good. */
static void the_curve_marks_its_best(void **state)
{
    (void)state;
    cJSON *object = load("ladder");
    assert_now(object, "       0        6     7.98  ========================================\n",
               NULL);
    assert_now(object,
               "     0.5        3     7.55  ====================================== as good\n",
               NULL);
    assert_now(object, "       1        2     7.49  ====================================== best\n",
               NULL);
    assert_now(object, "      25        1     7.94  ========================================\n",
               NULL);
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(object, "ladder"), "sweep");
    assert_now(object, "Same weights?", "by bucket size");
    cJSON_Delete(object);
}

/* --- a guess --------------------------------------------------------------------------------- */

static void set_guess(cJSON *object, double guess)
{
    cJSON *config = cJSON_GetObjectItem(object, "config");
    cJSON_DeleteItemFromObject(config, "guess_percent");
    cJSON_AddNumberToObject(config, "guess_percent", guess);
}

/* DDP did 29 % (26 to 32) in one, and lost in the other. */
static void a_guess_is_judged(void **state)
{
    (void)state;
    cJSON *object = load("two_devices");
    assert_now(object, "DDP does 29 %", "guess");
    set_guess(object, 29);
    assert_now(object, "Your guess, +29 %: right. DDP did +29 % (+26 to +32).\nWhy: DP copies ",
               "wrong");
    cJSON *percent = faster_percent(object);
    set_gain(percent, 29, 20, 38);
    set_guess(object, 21); /* inside the interval */
    assert_now(object, "Your guess, +21 %: right.", "wrong");
    set_gain(percent, 29, 28.5, 29.5);
    set_guess(object, 31.9); /* within three points */
    assert_now(object, "Your guess, +31.9 %: right.", "wrong");
    set_guess(object, 32.5);
    assert_now(object, "Your guess, +32.5 %: wrong by 4 points. DDP did +29 % (+28 to +30).",
               "right");
    cJSON_SetNumberValue(cJSON_GetObjectItem(percent, "confidence"), 0.75);
    assert_now(object, "Your guess, +32.5 %: too few measurements to judge it.", "wrong");
    cJSON_Delete(object);

    object = load("dp_wins");
    set_guess(object, 20);
    assert_now(object, "Your guess, +20 %: wrong by ", "right. ");
    double median = cJSON_GetNumberValue(cJSON_GetObjectItem(faster_percent(object), "median"));
    set_guess(object, median);
    assert_now(object, "%: right. DDP did -", "wrong");
    cJSON_Delete(object);
}

/* --- a wrong figure -------------------------------------------------------------------------- */

static cJSON *result_of(cJSON *object, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(object, "results"), index);
}

static void a_wrong_byte_count_is_marked(void **state)
{
    (void)state;
    cJSON *object = load("two_devices");
    char *text = print_plain(object, TABLE_RESEARCHER, 80);
    assert_null(strstr(text, "! differs"));
    free(text);
    cJSON *sent = cJSON_GetObjectItem(
        cJSON_GetObjectItem(cJSON_GetObjectItem(result_of(object, 1), "traffic"), "busiest"),
        "sent");
    cJSON_SetNumberValue(sent, sent->valuedouble * 1.01);
    text = print_plain(object, TABLE_RESEARCHER, 80);
    assert_contains(text, "! (N-1)P+X+Y");
    assert_contains(text, "! differs");
    free(text);
    cJSON_Delete(object);
}

/* 10 samples over 4 devices: 3, 3, 3, 1 (torch.chunk), so the boss keeps 3 and sends 7. */
static void formulas_know_uneven_splits(void **state)
{
    (void)state;
    cJSON *object = load("more_devices_than_cores");
    cJSON_SetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(object, "config"), "batch"), 10);
    char *text = print_plain(object, TABLE_RESEARCHER, 200);
    assert_contains(text, "X = 21,952 bytes"); /* 7 * 784 * 4 */
    free(text);
    cJSON_SetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(object, "config"), "batch"), 6);
    text = print_plain(object, TABLE_RESEARCHER, 200);
    assert_contains(text, "(DP: 3, the others got no samples)"); /* 2, 2, 2 */
    free(text);
    cJSON_Delete(object);
}

static void too_much_other_is_named(void **state)
{
    (void)state;
    cJSON *object = load("two_devices");
    cJSON_SetNumberValue(
        cJSON_GetObjectItem(cJSON_GetObjectItem(result_of(object, 1), "phases_ms"), "other"), 1);
    char *text = print_plain(object, TABLE_DEVELOPER, 200);
    assert_contains(text, "DP with 2 devices: other is 9.9 % of the step");
    free(text);
    cJSON_Delete(object);
}

/* A letter stands for what filled most of its time. */
static void lanes_are_to_scale(void **state)
{
    (void)state;
    cJSON *object = cJSON_Parse(
        "{\"schema\": 1, \"results\": [{\"mode\": \"ddp\", \"devices\": 1, \"timeline\": ["
        "{\"lane\": \"rank 0\", \"phase\": \"forward\", \"start_ms\": 5, \"end_ms\": 15.4},"
        "{\"lane\": \"rank 0\", \"phase\": \"backward\", \"start_ms\": 15.4, \"end_ms\": 35},"
        "{\"lane\": \"rank 0\", \"phase\": \"loss\", \"start_ms\": 35, \"end_ms\": 35.2},"
        "{\"lane\": \"rank 0\", \"phase\": \"update\", \"start_ms\": 40, \"end_ms\": 55},"
        "{\"lane\": \"rank 0 comm\", \"phase\": \"all_reduce\", \"start_ms\": 25, \"end_ms\": 45}"
        "]}]}");
    assert_non_null(object);
    char *text = print_plain(object, TABLE_BEGINNER, 62);
    assert_contains(text, "(one letter = 1 ms, . idle)");
    assert_contains(text, "DDP rank 0 FFFFFFFFFFBBBBBBBBBBBBBBBBBBBB.....UUUUUUUUUUUUUUU\n"
                          "    comm 0 ....................AAAAAAAAAAAAAAAAAAAA..........\n"
                          "F forward  B backward  U update  A all-reduce");
    free(text);
    cJSON_Delete(object);
}

/* --- objects that are not ours, or broken ---------------------------------------------------- */

static void assert_refused(const char *json, const char *part)
{
    cJSON *object = cJSON_Parse(json);
    Error error;
    char *text = print_with(object, TABLE_BEGINNER, (TableStyle){.columns = 80}, &error);
    assert_string_equal(text, "");
    assert_non_null(error);
    assert_contains(error, part);
    free(text);
    cJSON_Delete(object);
}

static void foreign_objects_are_refused(void **state)
{
    (void)state;
    assert_refused("", "not a JSON object");
    assert_refused("[1]", "not a JSON object");
    assert_refused("{}", "no \"schema\"");
    assert_refused("{\"schema\": 2, \"results\": []}", "\"schema\": 2");
    assert_refused("{\"schema\": \"1\", \"results\": []}", "no number");
    assert_refused("{\"schema\": 1}", "no list \"results\"");
    assert_refused("{\"schema\": 1, \"results\": {}}", "no list \"results\"");
    assert_refused("{\"schema\": 1, \"results\": []}", "no run");
    assert_refused("{\"schema\": 1, \"results\": [{\"mode\": \"other\", \"devices\": 2}, 7]}",
                   "no run");
}

/* The deepest depth prints all the others, too. A broken object may be refused, but with a
 * sentence.
 */
static void print_broken(const cJSON *object)
{
    Error error;
    char *text = print_with(object, TABLE_RESEARCHER, (TableStyle){.columns = 80}, &error);
    assert_true(!error || strlen(error) > 20);
    assert_fits(text, 80);
    free(text);
}

/* Counts down to the node with this number below `parent`, in the order of the text; NULL if there
 * are fewer. */
static cJSON *find_node(cJSON *parent, int *number, cJSON **parent_of_node)
{
    cJSON *item;
    cJSON_ArrayForEach(item, parent)
    {
        *parent_of_node = parent;
        if ((*number)-- == 0)
            return item;
        cJSON *below = find_node(item, number, parent_of_node);
        if (below)
            return below;
    }
    return NULL;
}

/* A copy of the object with one node taken out, or with `nonsense` in its place; NULL if it has no
 * such node. */
static cJSON *broken_copy(const cJSON *object, int number, const char *nonsense)
{
    cJSON *copy = cJSON_Duplicate(object, true), *parent = NULL;
    assert_non_null(copy);
    cJSON *node = find_node(copy, &number, &parent);
    if (!node) {
        cJSON_Delete(copy);
        return NULL;
    }
    if (nonsense) {
        cJSON *wrong = cJSON_Parse(nonsense);
        wrong->string = node->string ? strdup(node->string) : NULL; /* cJSON frees it */
        assert_true(cJSON_ReplaceItemViaPointer(parent, node, wrong));
    } else {
        cJSON_Delete(cJSON_DetachItemViaPointer(parent, node));
    }
    return copy;
}

/* ThreadSanitizer has no thread to watch here, and makes it ten times slower. */
#ifdef __SANITIZE_THREAD__
enum { BREAK_EVERY = 16 };
#else
enum { BREAK_EVERY = 1 };
#endif

/* Every member and every element in turn. */
static void broken_objects_crash_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"two_devices", "one_run_ddp", "ladder"};
    static const char *const nonsense[] = {NULL, "null", "\"text\"", "-1", "1e300", "{}"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cJSON *object = load(names[i]), *copy;
        for (size_t how = 0; how < sizeof nonsense / sizeof *nonsense; how++) {
            int nodes = 0;
            while ((copy = broken_copy(object, nodes, nonsense[how]))) {
                print_broken(copy);
                cJSON_Delete(copy);
                nodes += BREAK_EVERY;
            }
            assert_true(nodes > 100);
        }
        cJSON_Delete(object);
    }
}

/* Names come from files of others: they may be shown, but not obeyed. */
static void names_cannot_command_the_terminal(void **state)
{
    (void)state;
    cJSON *object = load("two_devices");
    cJSON *config = cJSON_GetObjectItem(object, "config");
    cJSON_ReplaceItemInObject(config, "data",
                              cJSON_CreateString("\033[2J\xc2\x9b"
                                                 "31m B\xc3\xbc"
                                                 "cher \xff\n"));
    Error error;
    char *text =
        print_with(object, TABLE_BEGINNER, (TableStyle){.columns = 80, .utf8 = true}, &error);
    assert_null(error);
    assert_contains(text, "?[2J?31m B\xc3\xbc"
                          "cher ??, MLP");
    free(text);
    text = print_plain(object, TABLE_BEGINNER, 80);
    assert_contains(text, "?[2J?31m B?cher ??, MLP");
    free(text);
    cJSON_Delete(object);
}

static void a_full_disk_is_reported(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    cJSON *object = load("two_devices");
    Error error = table_print(full, object, TABLE_BEGINNER, (TableStyle){.columns = 80});
    assert_non_null(error);
    assert_contains(error, "No space left on device");
    fclose(full);
    cJSON_Delete(object);
}

/* --- figures --------------------------------------------------------------------------------- */

static void figures_read_well(void **state)
{
    (void)state;
    assert_string_equal(figure_count(669706).text, "669,706");
    assert_string_equal(figure_count(999).text, "999");
    assert_string_equal(figure_count(-1234567).text, "-1,234,567");
    assert_string_equal(figure_count(NAN).text, "-");
    assert_string_equal(figure_bytes(0).text, "0");
    assert_string_equal(figure_bytes(999).text, "999 B");
    assert_string_equal(figure_bytes(999949).text, "999.9 kB");
    assert_string_equal(figure_bytes(999990).text, "1.0 MB");
    assert_string_equal(figure_bytes(2678824).text, "2.7 MB");
    assert_string_equal(figure_percent(0.684).text, "68 %");
    assert_string_equal(figure_percent(INFINITY).text, "-");
    assert_int_equal(figure_decimals(13.4, 3), 1);
    assert_int_equal(figure_decimals(9.9, 3), 2);
    assert_int_equal(figure_decimals(1234, 3), 0);
    assert_int_equal(figure_decimals(NAN, 3), 1);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--write") == 0)
        return write_golden_screens();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_read_well),
        cmocka_unit_test(screens_are_the_golden_ones),
        cmocka_unit_test(every_screen_fits),
        cmocka_unit_test(a_comparison_is_one_screen),
        cmocka_unit_test(colour_changes_no_letter),
        cmocka_unit_test(style_suits_the_place),
        cmocka_unit_test(a_terminal_gets_colour_and_its_width),
        cmocka_unit_test(the_verdict_is_plain),
        cmocka_unit_test(a_verdict_without_95_percent_is_none),
        cmocka_unit_test(percents_change_sides),
        cmocka_unit_test(the_ladder_says_what_gains_nothing),
        cmocka_unit_test(the_ladders_verdict_is_plain),
        cmocka_unit_test(the_curve_marks_its_best),
        cmocka_unit_test(a_guess_is_judged),
        cmocka_unit_test(a_wrong_byte_count_is_marked),
        cmocka_unit_test(formulas_know_uneven_splits),
        cmocka_unit_test(too_much_other_is_named),
        cmocka_unit_test(lanes_are_to_scale),
        cmocka_unit_test(foreign_objects_are_refused),
        cmocka_unit_test(broken_objects_crash_nothing),
        cmocka_unit_test(names_cannot_command_the_terminal),
        cmocka_unit_test(a_full_disk_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
