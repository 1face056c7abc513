/* table.c: chooses the screen for a JSON object and the style for a place to print it (see
 * table.h). The blocks are in screen_*.c and timeline.c. */
#include "report/table.h"

#include "report/screen.h"
#include "report/screen_bench.h"
#include "report/screen_series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int columns_of(FILE *out)
{
    const char *wanted = getenv("COLUMNS");
    long columns = wanted ? strtol(wanted, NULL, 10) : 0;
    if (columns > 0 && columns <= TEXT_MOST_COLUMNS)
        return (int)columns;
    struct winsize window;
    if (ioctl(fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        return window.ws_col;
    return 80;
}

static bool speaks_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

TableStyle table_style(FILE *out)
{
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (TableStyle){
        .columns = columns_of(out),
        .colour = isatty(fileno(out)) && !(no_colour && *no_colour) && terminal && *terminal &&
                  strcmp(terminal, "dumb") != 0,
        .utf8 = speaks_utf8(),
    };
}

/* One run is not a comparison, whatever options made it. */
static bool is_single_run(const Report *report)
{
    const char *mode = json_string(report->config, "mode");
    return report->result_count == 1 ||
           (mode &&
            (strcmp(mode, "single") == 0 || strcmp(mode, "dp") == 0 || strcmp(mode, "ddp") == 0));
}

static Error written(FILE *out)
{
    errno = 0;
    if (fflush(out) != 0 || ferror(out))
        return error_make("the tables cannot be written: %s",
                          errno ? strerror(errno) : "output error");
    return NULL;
}

Error table_print(FILE *out, const cJSON *object, TableDepth depth, TableStyle style)
{
    if (screen_bench_is(object)) {
        screen_bench(out, object);
        return written(out);
    }
    if (screen_series_is(object)) {
        Text series;
        text_open(&series, out, style.columns, style.colour, style.utf8);
        TRY(screen_series(&series, object));
        return written(out);
    }
    Report report;
    Error error = report_open(&report, object);
    if (error) {
        report_close(&report);
        return error;
    }
    Text text;
    text_open(&text, out, style.columns, style.colour, style.utf8);
    bool more = depth == TABLE_BEGINNER;
    if (report_is_ladder(&report))
        screen_ladder(&text, &report, more);
    else if (is_single_run(&report))
        screen_single_run(&text, &report, more);
    else
        screen_compare(&text, &report, more);
    if (depth >= TABLE_DEVELOPER)
        screen_developer(&text, &report);
    if (depth >= TABLE_RESEARCHER)
        screen_researcher(&text, &report);
    report_close(&report);
    return written(out);
}
