/* playback.c: a step in slow motion (see playback.h). The lanes are timeline.c's, drawn as far as
 * the clock has come:
 *
 *     One step of DP and DDP on 2 devices, 400 times slower than it was
 *     4.20 of 9.14 ms   q ends, space pauses
 *
 *     DP  boss   CCFFFFFFFFFFFBBBBBBBBB
 *                backward: computing gradients
 *         dev 1  ..FFFFFFFFFFFBBBBBBBBB
 *                backward: computing gradients
 *     ...
 *
 * Every picture is made from the clock alone, never from the picture before it: a slow terminal
 * gets fewer of them, not a slower play.
 */
#include "report/playback.h"

#include "base/clock.h"
#include "report/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    MOST_LANES = 6,        /* with more, two devices of each run stand for all */
    FRAME_MS = 40,         /* between two pictures */
    ALL_ROWS = 10000,      /* where nothing needs to be cut */
    FEW_PICTURES = 5,      /* where there is no terminal */
    LONG_PLAY_MS = 120000, /* from here on one is told how long it will take */
};

/* What is played. */
typedef struct Film {
    Report report;
    const Result *runs[2]; /* DP and DDP, or one run; NULL: none */
    double slower;
    TableStyle style;
    Picture picture;
} Film;

/* --- what is played -------------------------------------------------------------------------- */

static bool has_timeline(const Result *run)
{
    return run && !isnan(timeline_step_ms(run));
}

static Error choose_film(Film *film, const cJSON *object)
{
    Report *report = &film->report;
    TRY(report_open(report, object));
    const Result *dp = report_result(report, MODE_DP, report->devices);
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    film->runs[0] = has_timeline(dp) ? dp : NULL;
    film->runs[1] = has_timeline(ddp) ? ddp : NULL;
    for (int i = 0; i < report->result_count && !film->runs[0] && !film->runs[1]; i++)
        if (has_timeline(&report->results[i]))
            film->runs[0] = &report->results[i];
    if (!picture_choose(&film->picture, film->runs, 2, MOST_LANES))
        return error_make("none of its runs has a \"timeline\", so there is nothing to play");
    return NULL;
}

/* "one device", "DP on 2 devices", "DP and DDP on 2 devices" */
static Figure subject(const Film *film)
{
    const Result *first = film->runs[0] ? film->runs[0] : film->runs[1];
    const Result *second = film->runs[0] ? film->runs[1] : NULL;
    if (first->mode == MODE_SINGLE)
        return figure_text("%s", result_mode_name(MODE_SINGLE));
    return figure_text("%s%s%s on %d device%s", result_mode_name(first->mode),
                       second ? " and " : "", second ? result_mode_name(second->mode) : "",
                       first->devices, first->devices == 1 ? "" : "s");
}

/* --- a picture ------------------------------------------------------------------------------- */

static Figure duration(double ms)
{
    return ms < 3600e3
               ? figure_text("%.0f min %02.0f s", floor(ms / 60e3), floor(fmod(ms, 60e3) / 1e3))
               : figure_text("%.0f h %02.0f min", floor(ms / 3600e3),
                             floor(fmod(ms, 3600e3) / 60e3));
}

static void draw_title(Text *text, const Film *film, double step_ms, const char *keys)
{
    char speed[64], whole[160], shorter[160];
    if (film->slower > 1)
        snprintf(speed, sizeof speed, "%.10g times slower", film->slower);
    else
        snprintf(speed, sizeof speed, "as fast");
    snprintf(whole, sizeof whole, "One step of %s, %s %s it was", subject(film).text, speed,
             film->slower > 1 ? "than" : "as");
    snprintf(shorter, sizeof shorter, "%s, %s", subject(film).text, speed);
    screen_fitting(text, TEXT_BOLD, (const char *[]){whole, shorter, speed}, 3);

    double longest_ms = film->picture.longest_ms;
    int decimals = figure_decimals(longest_ms, 3);
    text_printf(text, "%*.*f of %.*f ms", (int)strlen(figure_number(longest_ms, decimals).text),
                decimals, fmin(step_ms, longest_ms), decimals, longest_ms);
    if (*keys)
        text_in(text, TEXT_GREY, "   %s", keys);
    if (*keys && longest_ms * film->slower > LONG_PLAY_MS)
        text_in(text, TEXT_GREY, "   takes %s", duration(longest_ms * film->slower).text);
    text_newline(text);
}

static void draw_lanes(Text *text, Film *film, double step_ms, bool with_words)
{
    Picture *picture = &film->picture;
    for (int i = 0; i < picture->lane_count; i++) {
        picture_draw_lane(text, picture, i, step_ms);
        text_newline(text);
        if (!with_words)
            continue;
        Doing doing = lane_doing(&picture->lanes[i], step_ms);
        text_to(text, picture->label_width);
        text_in(text, doing.colour, "%s", doing.words);
        text_newline(text);
    }
    Figure left_out = picture_left_out(picture);
    if (with_words && left_out.text[0]) {
        text_in(text, TEXT_GREY, "%s", left_out.text);
        text_newline(text);
    }
}

/* The legend of the whole step from the start, so that it does not grow with the lanes. */
static void draw_legend(Text *text, Film *film)
{
    for (int i = 0; i < film->picture.lane_count; i++) {
        picture_draw_lane(text, &film->picture, i, INFINITY);
        text->used = 0;
        text->cut = false;
    }
    picture_draw_legend(text, &film->picture, true);
}

/* "the boss", "device 1", "rank 0" */
static Figure lane_in_words(const Lane *lane)
{
    return figure_text("%s%.20s", strcmp(lane->name, "boss") == 0 ? "the " : "", lane->name);
}

/* "In DP the boss waited 0.31 ms and device 1 3.12 ms of 9.14 ms." */
static void say_who_waited(Text *text, const Film *film, const Result *run)
{
    int devices = 0, decimals = figure_decimals(film->picture.longest_ms, 3);
    char said[400] = "";
    size_t used = 0;
    for (int i = 0; i < film->picture.lane_count; i++) {
        const Lane *lane = &film->picture.lanes[i];
        if (lane->run != run || lane_is_communication(lane))
            continue;
        int length = snprintf(said + used, sizeof said - used, "%s%s%s %s ms", devices ? ", " : "",
                              lane_in_words(lane).text, devices ? "" : " waited",
                              figure_number(lane_waited_ms(lane), decimals).text);
        used += length > 0 ? (size_t)length : 0;
        if (used >= sizeof said)
            break;
        devices++;
    }
    if (devices > 1)
        text_paragraph(text, TEXT_PLAIN, 2, "In %s %s.", result_mode_name(run->mode), said);
}

static void say_who_won(Text *text, const Film *film)
{
    const Result *dp = film->runs[0], *ddp = film->runs[1];
    int decimals = figure_decimals(film->picture.longest_ms, 3);
    if (!dp || !ddp) {
        const Result *run = dp ? dp : ddp;
        text_paragraph(text, TEXT_BOLD, 2, "This step of %s took %s ms.",
                       run->mode == MODE_DDP_NO_OVERLAP ? "DDP without overlap"
                                                        : result_mode_name(run->mode),
                       figure_number(film->picture.longest_ms, decimals).text);
        return;
    }
    double dp_ms = timeline_step_ms(dp), ddp_ms = timeline_step_ms(ddp);
    const Result *winner = dp_ms < ddp_ms ? dp : ddp, *loser = winner == dp ? ddp : dp;
    double ahead_ms = fabs(dp_ms - ddp_ms);
    Figure ahead = figure_number(ahead_ms, decimals);
    if (strcmp(ahead.text, figure_number(0, decimals).text) == 0)
        text_paragraph(text, TEXT_BOLD, 2, "DP and DDP finished this step together.");
    else
        text_paragraph(
            text, TEXT_BOLD, 2, "%s finished this step first, %s ms (%s of %s ms) before %s.",
            result_mode_name(winner->mode), ahead.text,
            figure_percent(ahead_ms / fmax(dp_ms, ddp_ms)).text,
            figure_number(fmax(dp_ms, ddp_ms), decimals).text, result_mode_name(loser->mode));
}

static void draw_end(Text *text, const Film *film)
{
    say_who_won(text, film);
    for (int i = 0; i < 2; i++)
        if (film->runs[i])
            say_who_waited(text, film, film->runs[i]);
}

/* The picture of one moment, for a window of `rows`: what each lane does is said in words where
 * there is room for that. The caller cuts what is still too much. */
static void draw_picture(FILE *out, Film *film, double step_ms, int rows, int columns,
                         const char *keys)
{
    Text text;
    text_open(&text, out, columns, film->style.colour, film->style.utf8);
    picture_scale(&film->picture, text.columns);
    bool over = step_ms >= film->picture.longest_ms;
    /* Beside the lanes: the title, the clock, two empty lines, the legend and the end. */
    bool roomy = rows >= 2 * film->picture.lane_count + 10;
    draw_title(&text, film, step_ms, keys);
    if (roomy)
        text_newline(&text);
    draw_lanes(&text, film, step_ms, roomy);
    if (roomy)
        text_newline(&text);
    if (roomy || !over)
        draw_legend(&text, film);
    if (over)
        draw_end(&text, film);
}

/* --- without a terminal ---------------------------------------------------------------------- */

static Error written(FILE *out)
{
    errno = 0;
    if (fflush(out) != 0 || ferror(out))
        return error_make("the step cannot be shown: %s", errno ? strerror(errno) : "output error");
    return NULL;
}

static Error print_few_pictures(FILE *out, Film *film)
{
    for (int i = 1; i <= FEW_PICTURES; i++) {
        draw_picture(out, film, film->picture.longest_ms * i / FEW_PICTURES, ALL_ROWS,
                     film->style.columns, "");
        fputc('\n', out);
    }
    return written(out);
}

/* --- the terminal ---------------------------------------------------------------------------- */

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
enum { WATCHED = sizeof watched / sizeof *watched };

/* Signals arrive as bytes of a pipe, like keys: what restores the terminal is ordinary code. (They
 * are not blocked and read from a signalfd, as a library's thread that began before main would
 * still take them.) */
static int signal_pipe[2];

typedef struct Terminal {
    FILE *out;
    bool keys;             /* standard input is a terminal that can be asked for keys */
    struct termios before; /* of standard input */
    struct sigaction actions_before[WATCHED];
} Terminal;

static void pass_on(int number)
{
    int kept = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t wrote = write(signal_pipe[1], &byte, 1); /* a full pipe holds enough of them */
    (void)wrote;
    errno = kept;
}

static void terminal_enter(Terminal *terminal)
{
    terminal->keys =
        tcgetattr(STDIN_FILENO, &terminal->before) == 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
    if (terminal->keys) {
        struct termios raw = terminal->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    }
    /* The other screen, no cursor, and long lines are cut, not broken. */
    fputs("\033[?1049h\033[?25l\033[?7l\033[2J", terminal->out);
}

static void terminal_leave(Terminal *terminal)
{
    fputs("\033[0m\033[?7h\033[?25h\033[?1049l", terminal->out);
    fflush(terminal->out);
    if (terminal->keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
}

static Error terminal_open(Terminal *terminal, FILE *out)
{
    *terminal = (Terminal){.out = out};
    TRY_SYSTEM(pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) == 0, "making a pipe for signals");
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    for (int i = 0; i < WATCHED; i++)
        sigaction(watched[i], &action, &terminal->actions_before[i]);
    terminal_enter(terminal);
    return NULL;
}

static void terminal_close(Terminal *terminal)
{
    terminal_leave(terminal);
    for (int i = 0; i < WATCHED; i++)
        sigaction(watched[i], &terminal->actions_before[i], NULL);
    close(signal_pipe[0]);
    close(signal_pipe[1]);
}

/* As Ctrl-Z does it elsewhere: the shell gets its terminal back, until the process goes on. */
static void terminal_suspend(Terminal *terminal)
{
    terminal_leave(terminal);
    raise(SIGSTOP);
    terminal_enter(terminal);
}

static void terminal_size(const Terminal *terminal, int *rows, int *columns)
{
    struct winsize window;
    bool known = ioctl(fileno(terminal->out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0 &&
                 window.ws_row > 0;
    *rows = known ? window.ws_row : 24;
    *columns = known ? window.ws_col : 80;
}

/* Over the picture that is there, so that nothing flickers, and not a line more than fits. */
static Error terminal_show(Terminal *terminal, const char *picture, int rows)
{
    for (int row = 1; row <= rows; row++) {
        size_t length = strcspn(picture, "\n");
        /* Cleared before, as behind the last column that would take the last letter, too. */
        fprintf(terminal->out, "\033[%d;1H\033[K%.*s\033[0m", row, (int)length, picture);
        picture += length + (picture[length] != '\0');
    }
    return written(terminal->out);
}

typedef enum { EVENT_NONE, EVENT_KEY, EVENT_SIGNAL } EventKind;
typedef struct Event {
    EventKind kind;
    int number; /* the character or the signal */
} Event;

/* What happens until `deadline_ms` of the clock; INFINITY: waits for it. */
static Event terminal_wait(Terminal *terminal, double deadline_ms)
{
    struct pollfd files[2] = {{.fd = signal_pipe[0], .events = POLLIN},
                              {.fd = terminal->keys ? STDIN_FILENO : -1, .events = POLLIN}};
    double left_ms = fmax(ceil(deadline_ms - clock_ms()), 0);
    int got = poll(files, 2, isinf(deadline_ms) ? -1 : (int)fmin(left_ms, 1000));
    unsigned char number;
    if (got > 0 && files[0].revents && read(signal_pipe[0], &number, 1) == 1)
        return (Event){EVENT_SIGNAL, number};
    char key;
    if (got > 0 && files[1].revents) {
        if (read(STDIN_FILENO, &key, 1) == 1)
            return (Event){EVENT_KEY, key};
        terminal->keys = false; /* it has gone */
    }
    return (Event){EVENT_NONE, 0};
}

/* --- playing --------------------------------------------------------------------------------- */

/* Where the play stands. The step's time is the clock's since `start_ms`, divided by `slower`. */
typedef struct Player {
    Film *film;
    Terminal terminal;
    const Playback *playback;
    double start_ms;  /* pauses move it on */
    double paused_ms; /* when the pause began; NAN: there is none */
    bool over, ended; /* the step is over; the play is ended, before its end */
    int ended_by;     /* signal */
} Player;

static double player_now_ms(const Player *player)
{
    return isnan(player->paused_ms) ? clock_ms() : player->paused_ms;
}

static void toggle_pause(Player *player)
{
    double now_ms = clock_ms();
    if (isnan(player->paused_ms)) {
        player->paused_ms = now_ms;
    } else {
        player->start_ms += now_ms - player->paused_ms;
        player->paused_ms = NAN;
    }
}

static Error show_moment(Player *player)
{
    int rows, columns;
    terminal_size(&player->terminal, &rows, &columns);
    double step_ms = (player_now_ms(player) - player->start_ms) / player->film->slower;
    player->over = step_ms >= player->film->picture.longest_ms;
    const char *keys = !player->terminal.keys      ? "Ctrl-C ends"
                       : player->over              ? "any key goes on"
                       : !isnan(player->paused_ms) ? "paused: space goes on"
                                                   : "q ends, space pauses";
    char *picture = NULL;
    size_t size;
    FILE *memory = open_memstream(&picture, &size);
    if (!memory)
        return error_make("no memory for a picture");
    draw_picture(memory, player->film, step_ms, rows, columns, keys);
    fclose(memory);
    Error error = picture ? terminal_show(&player->terminal, picture, rows)
                          : error_make("no memory for a picture");
    free(picture);
    return error;
}

static void take_event(Player *player, Event event)
{
    bool quits = event.number == 'q' || event.number == 'Q' || player->over;
    if (event.kind == EVENT_KEY && quits) {
        player->ended = true;
    } else if (event.kind == EVENT_KEY && event.number == ' ') {
        toggle_pause(player);
    } else if (event.kind == EVENT_SIGNAL && event.number == SIGTSTP) {
        bool playing = isnan(player->paused_ms);
        if (playing)
            toggle_pause(player);
        terminal_suspend(&player->terminal);
        if (playing)
            toggle_pause(player);
    } else if (event.kind == EVENT_SIGNAL && event.number == SIGWINCH) {
        fputs("\033[2J", player->terminal.out);
    } else if (event.kind == EVENT_SIGNAL) {
        player->ended = true;
        player->ended_by = event.number;
    }
}

static Error play(Player *player)
{
    player->start_ms = clock_ms();
    while (!player->ended) {
        TRY(show_moment(player));
        bool stays = player->playback->more_follows && player->terminal.keys;
        if (player->over && !stays)
            break;
        bool moving = !player->over && isnan(player->paused_ms);
        double frames = floor((clock_ms() - player->start_ms) / FRAME_MS) + 1;
        double deadline_ms = moving ? player->start_ms + frames * FRAME_MS : INFINITY;
        take_event(player, terminal_wait(&player->terminal, deadline_ms));
    }
    return NULL;
}

static Error play_on_terminal(FILE *out, Film *film, const Playback *playback, int *ended_by)
{
    Player player = {.film = film, .playback = playback, .paused_ms = NAN};
    fflush(out);
    TRY(terminal_open(&player.terminal, out));
    Error error = play(&player);
    int rows, columns;
    terminal_size(&player.terminal, &rows, &columns);
    terminal_close(&player.terminal);
    *ended_by = player.ended_by;
    if (error || !player.over)
        return error;
    draw_picture(out, film, film->picture.longest_ms, ALL_ROWS, columns, "");
    return written(out);
}

Error playback(FILE *out, const cJSON *object, const Playback *playback, TableStyle style,
               int *ended_by)
{
    *ended_by = 0;
    Film film = {.slower = playback->slower, .style = style};
    const char *term = getenv("TERM");
    bool terminal = isatty(fileno(out)) && term && *term && strcmp(term, "dumb") != 0;
    Error error = choose_film(&film, object);
    if (!error)
        error = terminal ? play_on_terminal(out, &film, playback, ended_by)
                         : print_few_pictures(out, &film);
    report_close(&film.report);
    return error;
}
