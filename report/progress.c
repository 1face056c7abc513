/* progress.c: a bar on a terminal, plain lines elsewhere (see progress.h). */
#include "report/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_MS   100
#define LEAST_BAR   10
#define MOST_BAR    40
#define MOST_PIECES 6

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* --- the line ----------------------------------------------------------------------------- */

static void format_left(char *text, size_t size, double seconds)
{
    if (!isfinite(seconds))
        snprintf(text, size, "-- left");
    else if (seconds < 100)
        snprintf(text, size, "%.0f s left", ceil(seconds));
    else if (seconds < 5940)
        snprintf(text, size, "%.0f min left", ceil(seconds / 60));
    else
        snprintf(text, size, "%.0f h left", ceil(seconds / 3600));
}

static void append(char *line, size_t size, const char *text)
{
    size_t used = strlen(line);
    snprintf(line + used, size - used, "%s", text);
}

void progress_format(char *line, size_t size, int columns, bool utf8, const ProgressState *state)
{
    char piece[MOST_PIECES][48];
    int pieces = 0;
    snprintf(piece[pieces++], sizeof piece[0], "%s", state->what);
    double share = state->total > 0 ? (double)state->done / (double)state->total : 0;
    snprintf(piece[pieces++], sizeof piece[0], "%3.0f %%", floor(share * 100));
    if (state->epochs > 0)
        snprintf(piece[pieces++], sizeof piece[0], "epoch %d/%d", state->epoch, state->epochs);
    format_left(piece[pieces++], sizeof piece[0], state->seconds_left);
    if (isfinite(state->loss))
        snprintf(piece[pieces++], sizeof piece[0], "loss %.3f", state->loss);
    if (isfinite(state->samples_per_s))
        snprintf(piece[pieces++], sizeof piece[0], "%.0f images/s", state->samples_per_s);

    /* as many pieces as leave room for a bar; the first two always */
    int width = 0, shown = 0;
    while (shown < pieces) {
        int more = (int)strlen(piece[shown]) + 2;
        if (shown >= 2 && width + more + LEAST_BAR > columns)
            break;
        width += more;
        shown++;
    }
    int bar = columns - width;
    bar = bar > MOST_BAR ? MOST_BAR : bar < 0 ? 0 : bar;

    *line = '\0';
    append(line, size, piece[0]);
    append(line, size, "  ");
    for (int i = 0; i < bar; i++) {
        bool full = i < (int)(share * bar + 0.5);
        append(line, size, utf8 ? (full ? "\u2588" : "\u2591") : (full ? "#" : "."));
    }
    for (int i = 1; i < shown; i++) {
        append(line, size, i == 1 && bar == 0 ? "" : i == 1 ? " " : "  ");
        append(line, size, piece[i]);
    }
}

/* --- the terminal ------------------------------------------------------------------------- */

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

void progress_show(Progress *progress, const ProgressState *state)
{
    double now = now_ms();
    if (!progress->terminal || (progress->drawn && now - progress->last_ms < REDRAW_MS))
        return;
    struct winsize window;
    int columns = 80;
    if (ioctl(fileno(progress->out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        columns = window.ws_col;
    char line[4096];
    /* one column less: a full line would make some terminals begin the next one */
    progress_format(line, sizeof line, columns > 400 ? 399 : columns - 1, progress->utf8, state);
    fprintf(progress->out, "\r%s\033[K", line); /* the rest of the old line is erased */
    fflush(progress->out);
    progress->drawn = true;
    progress->last_ms = now;
}

void progress_close(Progress *progress)
{
    if (progress->drawn)
        fprintf(progress->out, "\r\033[K");
    fflush(progress->out);
    progress->drawn = false;
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
