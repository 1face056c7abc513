/* timeline.c: the picture "who works, who waits": a step of each run as lanes of letters, all to
 * the same scale, so that the shorter step is the shorter line.
 *
 *     DP  boss   CCCFFFFFFFFFFGBBBBBBBBBBBBBBBBBBBBBBBBBBBBRRRUUUUU
 *         dev 1  ...FFFFFFFFFF.BBBBBBBBBBBBBBBBBBBBBBBBBBBB........
 *
 * A letter stands for what filled most of its time; what is too short for a letter is named.
 * (playback.c draws the same lanes while they grow: see timeline.h.)
 */
#include "report/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 24 };

/* What a letter can be. Idle comes last and wins nothing. */
typedef enum {
    LETTER_INPUT,
    LETTER_COPY,
    LETTER_FORWARD,
    LETTER_GATHER,
    LETTER_LOSS,
    LETTER_BACKWARD,
    LETTER_REDUCE,
    LETTER_UPDATE,
    LETTER_WAIT,
    LETTER_ALL_REDUCE,
    LETTERS
} Letter;

_Static_assert((int)LETTERS == (int)PICTURE_LETTERS, "a picture remembers every letter");

static const struct {
    const char *name;
    TextColour colour;
    char letter;
} letters[LETTERS] = {
    [LETTER_INPUT] = {"input", TEXT_BLUE, 'I'},
    [LETTER_COPY] = {"copy", TEXT_ORANGE, 'C'},
    [LETTER_FORWARD] = {"forward", TEXT_BLUE, 'F'},
    [LETTER_GATHER] = {"gather", TEXT_ORANGE, 'G'},
    [LETTER_LOSS] = {"loss", TEXT_BLUE, 'L'},
    [LETTER_BACKWARD] = {"backward", TEXT_BLUE, 'B'},
    [LETTER_REDUCE] = {"reduce", TEXT_ORANGE, 'R'},
    [LETTER_UPDATE] = {"update", TEXT_BLUE, 'U'},
    [LETTER_WAIT] = {"wait", TEXT_ORANGE, 'W'},
    [LETTER_ALL_REDUCE] = {"all-reduce", TEXT_ORANGE, 'A'},
};

/* The phases of a timeline: their letter, and what one says of a device that is in it. */
static const struct {
    const char *name;
    Letter letter;
    const char *doing;
} phases[] = {
    {"input", LETTER_INPUT, "taking in the images"},
    {"replicate", LETTER_COPY, "copying the model"},
    {"scatter", LETTER_COPY, "dealing out the images"},
    {"scatter_grad", LETTER_COPY, "sending the outputs' gradients"},
    {"forward", LETTER_FORWARD, "forward: images to outputs"},
    {"gather", LETTER_GATHER, "collecting the outputs"},
    {"loss", LETTER_LOSS, "computing the loss"},
    {"backward", LETTER_BACKWARD, "backward: computing gradients"},
    {"reduce", LETTER_REDUCE, "adding up the gradients"},
    {"update", LETTER_UPDATE, "updating the weights"},
    {"late_colleague", LETTER_WAIT, "waiting for the slowest rank"},
    {"transfer", LETTER_WAIT, "waiting for the all-reduce"},
    {"used_map", LETTER_WAIT, "asking who used which parameter"},
    {"all_reduce", LETTER_ALL_REDUCE, "all-reduce: adding up gradients"},
};

/* A piece of the timeline, in ms from the start of the step. False if it is not whole. */
typedef struct Piece {
    const char *lane;
    int letter;        /* -1: none of them */
    const char *doing; /* NULL: not known */
    double start_ms, end_ms;
} Piece;

static const cJSON *pieces_of(const Result *run)
{
    const cJSON *timeline = cJSON_GetObjectItemCaseSensitive(run->json, "timeline");
    return cJSON_IsArray(timeline) ? timeline : NULL;
}

static bool read_piece(Piece *piece, const cJSON *json)
{
    const char *phase = json_string(json, "phase");
    *piece = (Piece){
        .lane = json_string(json, "lane"),
        .letter = -1,
        .start_ms = json_number(json, "start_ms"),
        .end_ms = json_number(json, "end_ms"),
    };
    for (size_t i = 0; phase && i < sizeof phases / sizeof *phases; i++) {
        if (strcmp(phase, phases[i].name) != 0)
            continue;
        piece->letter = (int)phases[i].letter;
        piece->doing = phases[i].doing;
    }
    /* Steps are short; more than a day is not a time. */
    return piece->lane && phase && fabs(piece->start_ms) < 1e8 && fabs(piece->end_ms) < 1e8 &&
           piece->end_ms >= piece->start_ms;
}

/* The step of a run, from the first to the last moment of any lane. False without a timeline. */
static bool step_of(const Result *run, double *start_ms, double *end_ms)
{
    bool any = false;
    const cJSON *json;
    Piece piece;
    cJSON_ArrayForEach(json, pieces_of(run))
    {
        if (!read_piece(&piece, json))
            continue;
        *start_ms = any ? fmin(*start_ms, piece.start_ms) : piece.start_ms;
        *end_ms = any ? fmax(*end_ms, piece.end_ms) : piece.end_ms;
        any = true;
    }
    return any && *end_ms > *start_ms;
}

double timeline_step_ms(const Result *run)
{
    double start_ms, end_ms;
    return step_of(run, &start_ms, &end_ms) ? end_ms - start_ms : (double)NAN;
}

static bool is_communication(const char *lane)
{
    size_t length = strlen(lane);
    return length >= 5 && strcmp(lane + length - 5, " comm") == 0;
}

/* --- choosing lanes -------------------------------------------------------------------------- */

static bool has_lane(const Picture *picture, const Result *run, const char *name)
{
    for (int i = 0; i < picture->lane_count; i++) {
        const Lane *lane = &picture->lanes[i];
        if (lane->run == run && strcmp(lane->name, name) == 0)
            return true;
    }
    return false;
}

static void add_lane(Picture *picture, const Result *run, const char *name)
{
    if (picture->lane_count == ALL_LANES) {
        picture->left_out = true;
        return;
    }
    bool first = picture->lane_count == 0 || picture->lanes[picture->lane_count - 1].run != run;
    picture->lanes[picture->lane_count++] = (Lane){.name = name, .run = run, .first_of_run = first};
}

/* Adds lanes in the order of the timeline, each communication lane directly below its rank. Of few
 * lanes, the first two devices and the first communication. */
static void choose_lanes(Picture *picture, const Result *run, bool few)
{
    int devices = 0, communications = 0;
    const cJSON *json, *other;
    Piece piece, below;
    cJSON_ArrayForEach(json, pieces_of(run))
    {
        if (!read_piece(&piece, json) || is_communication(piece.lane) ||
            has_lane(picture, run, piece.lane))
            continue;
        if (few && devices == 2) {
            picture->left_out = true;
            continue;
        }
        add_lane(picture, run, piece.lane);
        devices++;
        size_t length = strlen(piece.lane);
        cJSON_ArrayForEach(other, pieces_of(run))
        {
            if (!read_piece(&below, other) || !is_communication(below.lane) ||
                strlen(below.lane) != length + 5 || strncmp(below.lane, piece.lane, length) != 0 ||
                has_lane(picture, run, below.lane) || (few && communications == 1))
                continue;
            add_lane(picture, run, below.lane);
            communications++;
        }
    }
}

bool lane_is_communication(const Lane *lane)
{
    return is_communication(lane->name);
}

Figure lane_label(const Lane *lane)
{
    int number;
    if (lane->run->mode == MODE_SINGLE)
        return figure_text("%s", "");
    if (is_communication(lane->name) && sscanf(lane->name, "rank %d", &number) == 1)
        return figure_text("comm %d", number);
    if (strncmp(lane->name, "device ", 7) == 0)
        return figure_text("dev %.*s", MOST_NAME, lane->name + 7);
    return figure_text("%.*s", MOST_NAME, lane->name);
}

/* --- drawing --------------------------------------------------------------------------------- */

/* The smallest round number of ms per letter for which `longest_ms` takes at most `most_letters`.
 */
static double round_scale(double longest_ms, int most_letters)
{
    static const double round_numbers[] = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
    double least = longest_ms / most_letters;
    double power = pow(10, floor(log10(least)));
    for (size_t i = 0; i < sizeof round_numbers / sizeof *round_numbers; i++) {
        if (round_numbers[i] * power >= least * (1 - 1e-9))
            return round_numbers[i] * power;
    }
    return 10 * power;
}

/* Milliseconds that each letter fills of each cell of a lane, until `end_ms` (from the start of the
 * step, which is `start_ms` of the timeline). */
static void fill_cells(Picture *picture, const Lane *lane, double start_ms, double end_ms,
                       int cells, double filled_ms[][LETTERS])
{
    double ms = picture->ms_per_letter;
    const cJSON *json;
    Piece piece;
    cJSON_ArrayForEach(json, pieces_of(lane->run))
    {
        if (!read_piece(&piece, json) || piece.letter < 0 || strcmp(piece.lane, lane->name) != 0)
            continue;
        if (piece.end_ms > piece.start_ms)
            picture->happened[piece.letter] = true;
        double from = piece.start_ms - start_ms, to = fmin(piece.end_ms - start_ms, end_ms);
        for (int cell = (int)fmin(from / ms, cells); cell < cells && cell * ms < to; cell++)
            filled_ms[cell][piece.letter] += fmin(to, (cell + 1) * ms) - fmax(from, cell * ms);
    }
}

static void draw_letters(Text *text, Picture *picture, const Lane *lane, double until_ms)
{
    double start_ms = 0, end_ms = 0, ms = picture->ms_per_letter;
    if (until_ms <= 0 || !step_of(lane->run, &start_ms, &end_ms))
        return;
    int cells = (int)fmax(1, round((end_ms - start_ms) / ms));
    /* The step is rounded to whole letters; the one that is growing is drawn as soon as it begins.
     */
    cells = (int)fmin(cells, ceil(until_ms / ms));
    if (cells > TEXT_MOST_COLUMNS)
        cells = TEXT_MOST_COLUMNS;
    double length_ms = fmin(end_ms - start_ms, until_ms);
    double filled_ms[TEXT_MOST_COLUMNS][LETTERS] = {{0}};
    fill_cells(picture, lane, start_ms, length_ms, cells, filled_ms);
    for (int cell = 0; cell < cells; cell++) {
        int most = 0;
        double busy_ms = 0;
        for (int letter = 0; letter < LETTERS; letter++) {
            busy_ms += filled_ms[cell][letter];
            if (filled_ms[cell][letter] > filled_ms[cell][most])
                most = letter;
        }
        /* The last cell may reach beyond what there is. */
        double cell_ms = fmin(ms, length_ms - cell * ms);
        if (filled_ms[cell][most] <= 0 || filled_ms[cell][most] < cell_ms - busy_ms) {
            text_in(text, TEXT_GREY, ".");
        } else {
            text_in(text, letters[most].colour, "%c", letters[most].letter);
            picture->shown[most] = true;
        }
    }
}

void picture_draw_legend(Text *text, const Picture *picture, bool few)
{
    int width = 0, entries = 0;
    Figure too_short = figure_text("%s", "");
    for (int letter = 0; letter < LETTERS; letter++) {
        if (picture->shown[letter]) {
            width += 2 + text_width(letters[letter].name);
            entries++;
        } else if (picture->happened[letter]) {
            too_short = figure_text("%s%s%s", too_short.text, too_short.text[0] ? ", " : "",
                                    letters[letter].name);
        }
    }
    bool airy = width + 2 * (entries - 1) <= text->columns;
    bool any = false;
    for (int letter = 0; letter < LETTERS; letter++) {
        if (!picture->shown[letter])
            continue;
        if (any && text->used + 3 + text_width(letters[letter].name) > text->columns) {
            text_newline(text);
            any = false;
        }
        if (any)
            text_printf(text, airy ? "  " : " ");
        text_in(text, letters[letter].colour, "%c", letters[letter].letter);
        text_printf(text, " %s", letters[letter].name);
        any = true;
    }
    /* Where lines are few, the note is given only if it costs none. */
    const char *note = "not drawn, too short: ";
    int note_width = text_width(note) + text_width(too_short.text);
    if (too_short.text[0] && text->used + 3 + note_width <= text->columns) {
        text_in(text, TEXT_GREY, "   %s%s", note, too_short.text);
    } else if (too_short.text[0] && !few) {
        text_newline(text);
        text_in(text, TEXT_GREY, "%s%s", note, too_short.text);
    }
    text_newline(text);
}

/* --- pictures -------------------------------------------------------------------------------- */

bool picture_choose(Picture *picture, const Result *const *runs, int count, int most_lanes)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        *picture = (Picture){.lane_count = 0};
        for (int i = 0; i < count; i++) {
            if (!runs[i])
                continue;
            choose_lanes(picture, runs[i], attempt == 1);
            if (runs[i]->devices > picture->devices)
                picture->devices = runs[i]->devices;
        }
        if (picture->lane_count <= most_lanes)
            break;
    }
    for (int i = 0; i < picture->lane_count; i++)
        picture->longest_ms = fmax(picture->longest_ms, timeline_step_ms(picture->lanes[i].run));
    return picture->longest_ms > 0;
}

void picture_scale(Picture *picture, int columns)
{
    int name_width = 0;
    picture->mode_width = 0;
    for (int i = 0; i < picture->lane_count; i++) {
        const Lane *lane = &picture->lanes[i];
        picture->mode_width =
            (int)fmax(picture->mode_width, text_width(result_name(lane->run).text));
        name_width = (int)fmax(name_width, text_width(lane_label(lane).text));
    }
    picture->label_width = picture->mode_width + 1 + name_width + 1;
    picture->ms_per_letter = round_scale(picture->longest_ms, columns - picture->label_width);
}

Figure picture_left_out(const Picture *picture)
{
    return !picture->left_out      ? figure_text("%s", "")
           : picture->devices == 3 ? figure_text("device 2 not drawn")
                                   : figure_text("devices 2-%d not drawn", picture->devices - 1);
}

void picture_draw_lane(Text *text, Picture *picture, int lane, double until_ms)
{
    const Lane *drawn = &picture->lanes[lane];
    if (drawn->first_of_run)
        text_printf(text, "%s", result_name(drawn->run).text);
    text_to(text, picture->mode_width + 1);
    text_printf(text, "%s", lane_label(drawn).text);
    text_to(text, picture->label_width);
    draw_letters(text, picture, drawn, until_ms);
}

void timeline_print(Text *text, const char *title, const Result *const *runs, int count,
                    int most_lanes)
{
    Picture picture;
    if (!picture_choose(&picture, runs, count, most_lanes))
        return;
    picture_scale(&picture, text->columns);
    Figure note = picture_left_out(&picture);
    text_in(text, TEXT_BOLD, "%s", title);
    text_printf(text, " (one letter = %g ms, . idle)", picture.ms_per_letter);
    if (note.text[0] && text->used + 2 + text_width(note.text) > text->columns)
        text_newline(text);
    if (note.text[0])
        text_in(text, TEXT_GREY, "%s%s", text->used ? "  " : "", note.text);
    text_newline(text);
    for (int i = 0; i < picture.lane_count; i++) {
        picture_draw_lane(text, &picture, i, INFINITY);
        text_newline(text);
    }
    picture_draw_legend(text, &picture, most_lanes < ALL_LANES);
}

/* --- one lane -------------------------------------------------------------------------------- */

/* What is said of a lane that has nothing to do before its step is over. */
static const char *idle_words(const Lane *lane)
{
    if (is_communication(lane->name))
        return "idle: no bucket is full";
    if (lane->run->mode == MODE_DP)
        return strcmp(lane->name, "boss") == 0 ? "waiting for the others" : "waiting for the boss";
    return "idle";
}

Doing lane_doing(const Lane *lane, double ms)
{
    double start_ms = 0, end_ms = 0, last_ms = 0;
    Doing doing = {.words = idle_words(lane), .colour = TEXT_GREY};
    if (!step_of(lane->run, &start_ms, &end_ms) || ms >= end_ms - start_ms)
        return (Doing){.words = "done", .colour = TEXT_BOLD};
    const cJSON *json;
    Piece piece;
    cJSON_ArrayForEach(json, pieces_of(lane->run))
    {
        if (!read_piece(&piece, json) || !piece.doing || strcmp(piece.lane, lane->name) != 0)
            continue;
        last_ms = fmax(last_ms, piece.end_ms - start_ms);
        if (piece.start_ms - start_ms <= ms && ms < piece.end_ms - start_ms)
            doing = (Doing){.words = piece.doing, .colour = letters[piece.letter].colour};
    }
    /* A replica of DP is at the boss's disposal to the end; a rank is done when it has updated. */
    if (ms >= last_ms && lane->run->mode != MODE_DP)
        return (Doing){.words = "done", .colour = TEXT_BOLD};
    return doing;
}

double lane_waited_ms(const Lane *lane)
{
    double waited_ms = timeline_step_ms(lane->run);
    const cJSON *json;
    Piece piece;
    cJSON_ArrayForEach(json, pieces_of(lane->run))
    {
        if (read_piece(&piece, json) && piece.letter >= 0 && piece.letter != LETTER_WAIT &&
            strcmp(piece.lane, lane->name) == 0)
            waited_ms -= piece.end_ms - piece.start_ms;
    }
    return fmax(waited_ms, 0);
}

double timeline_communication_ms(const Result *run)
{
    double sum_ms = 0;
    const char *first = NULL;
    const cJSON *json;
    Piece piece;
    cJSON_ArrayForEach(json, pieces_of(run))
    {
        if (!read_piece(&piece, json) || piece.letter != LETTER_ALL_REDUCE)
            continue;
        if (!first)
            first = piece.lane;
        if (strcmp(piece.lane, first) == 0)
            sum_ms += piece.end_ms - piece.start_ms;
    }
    return first ? sum_ms : NAN;
}
