/* progress.c: a bar on a terminal, plain lines elsewhere (see progress.h). */
#include "report/progress.h"

#include "base/clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_MS    100
#define LEAST_BAR    8
#define MOST_BAR     40
#define MOST_FIGURES 4
#define MOST_COLUMNS 400

/* --- the line ----------------------------------------------------------------------------- */

/* Figures keep their width from one drawing to the next, or the bar would tremble. */

static void format_left(char *text, size_t size, double seconds)
{
    if (!isfinite(seconds))
        snprintf(text, size, "-- s left");
    else if (seconds <= 99)
        snprintf(text, size, "%2.0f s left", ceil(seconds));
    else if (seconds <= 99 * 60)
        snprintf(text, size, "%2.0f min left", ceil(seconds / 60));
    else
        snprintf(text, size, "%2.0f h left", ceil(seconds / 3600));
}

static void append(char *line, size_t size, const char *text)
{
    size_t used = strlen(line), length = strlen(text);
    if (used + length < size) /* whole or not at all: no half of a UTF-8 character */
        memcpy(line + used, text, length + 1);
}

void progress_format(char *line, size_t size, int columns, bool utf8, const ProgressState *state)
{
    double share = state->total > 0 ? (double)state->done / (double)state->total : 0;
    share = share > 1 ? 1 : share;
    char percent[16];
    snprintf(percent, sizeof percent, "%3.0f %%", floor(share * 100));

    /* the figures, the most wanted first */
    char figure[MOST_FIGURES][48];
    int figures = 0;
    if (state->epochs > 0) {
        char epochs[16];
        int digits = snprintf(epochs, sizeof epochs, "%d", state->epochs);
        snprintf(figure[figures++], sizeof figure[0], "epoch %*d/%s", digits, state->epoch, epochs);
    }
    format_left(figure[figures++], sizeof figure[0], state->seconds_left);
    if (isfinite(state->loss))
        snprintf(figure[figures++], sizeof figure[0], "loss %.3f", state->loss);
    if (isfinite(state->samples_per_s))
        snprintf(figure[figures++], sizeof figure[0], "%6.0f images/s", state->samples_per_s);

    int room = columns, name = (int)strlen(state->what) + 2, percents = (int)strlen(percent);
    bool with_name = name + percents <= room;
    room -= with_name ? name : 0;
    int shown = 0;
    while (shown < figures) {
        int more = 2 + (int)strlen(figure[shown]);
        if (more + LEAST_BAR > room)
            break;
        room -= more;
        shown++;
    }
    /* the bar says what the percentage says: they share what is left */
    bool with_bar = room >= LEAST_BAR;
    bool with_percent = with_bar ? room >= LEAST_BAR + 1 + percents : room >= percents;
    int bar = with_percent ? room - 1 - percents : room;
    bar = bar > MOST_BAR ? MOST_BAR : bar;

    *line = '\0';
    if (with_name) {
        append(line, size, state->what);
        append(line, size, "  ");
    }
    if (with_bar)
        for (int i = 0; i < bar; i++) {
            bool full = i < (int)(share * bar);
            append(line, size, utf8 ? (full ? "\u2588" : "\u2591") : (full ? "#" : "."));
        }
    if (with_percent) {
        append(line, size, with_bar ? " " : "");
        append(line, size, percent);
    }
    for (int i = 0; i < shown; i++) {
        append(line, size, "  ");
        append(line, size, figure[i]);
    }
}

/* --- the terminal ------------------------------------------------------------------------- */

/* How many columns a line takes: bytes that do not continue a UTF-8 character. */
static int characters(const char *line)
{
    int count = 0;
    for (; *line; line++)
        count += ((unsigned char)*line & 0xc0) != 0x80;
    return count;
}

static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

void progress_open(Progress *progress, FILE *out)
{
    const char *term = getenv("TERM");
    *progress = (Progress){
        .out = out,
        .terminal = isatty(fileno(out)) && term && strcmp(term, "dumb") != 0,
        .utf8 = locale_is_utf8(),
    };
}

static int terminal_columns(const Progress *progress)
{
    struct winsize window;
    if (ioctl(fileno(progress->out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        return window.ws_col < MOST_COLUMNS ? window.ws_col : MOST_COLUMNS;
    return 80;
}

/* What moves to the beginning of the bar and clears it. A terminal that has become narrower has
 * broken the bar into several rows, and the cursor is in the last. (xterm cuts instead.) */
static void format_erase(char *text, size_t size, const Progress *progress, int columns)
{
    int rows_above = progress->drawn > 0 ? (progress->drawn - 1) / columns : 0;
    if (rows_above > 0 && !getenv("XTERM_VERSION"))
        snprintf(text, size, "\r\033[%dA\033[J", rows_above);
    else
        snprintf(text, size, "\r\033[K");
}

void progress_show(Progress *progress, const ProgressState *state)
{
    double now = clock_ms();
    if (!progress->terminal || (progress->drawn > 0 && now - progress->last_ms < REDRAW_MS))
        return;
    int columns = terminal_columns(progress);
    char line[4 * MOST_COLUMNS + 1], erase[32] = "\r";
    /* with room for the terminal's ^C, which would else begin a new row and leave the bar behind */
    progress_format(line, sizeof line, columns - 3, progress->utf8, state);
    if (progress->drawn > columns)
        format_erase(erase, sizeof erase, progress, columns);
    /* the new line over the old one, then the old one's rest: nothing is ever blank in between */
    fprintf(progress->out, "%s%s\033[K", erase, line);
    fflush(progress->out);
    progress->drawn = characters(line);
    progress->last_ms = now;
}

void progress_close(Progress *progress)
{
    if (progress->drawn > 0) {
        char erase[32];
        format_erase(erase, sizeof erase, progress, terminal_columns(progress));
        fputs(erase, progress->out);
    }
    fflush(progress->out);
    progress->drawn = 0;
}

void progress_line(Progress *progress, const char *format, ...)
{
    progress_close(progress);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(progress->out, format, arguments);
    va_end(arguments);
    fputc('\n', progress->out);
    fflush(progress->out);
}
