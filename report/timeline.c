/* timeline.c: the picture "who works, who waits": a step of each run as lanes of letters, all to
 * the same scale, so that the shorter step is the shorter line.
 *
 *     DP  boss   CCCFFFFFFFFFFGBBBBBBBBBBBBBBBBBBBBBBBBBBBBRRRUUUUU
 *         dev 1  ...FFFFFFFFFF.BBBBBBBBBBBBBBBBBBBBBBBBBBBB........
 *
 * A letter stands for what filled most of its time; what is too short for a letter is named.
 */
#include "report/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LANES = ALL_LANES, MOST_NAME = 24 };

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

static const struct {
    const char *phase;
    Letter letter;
} letter_of_phase[] = {
    {"input", LETTER_INPUT},       {"replicate", LETTER_COPY},        {"scatter", LETTER_COPY},
    {"scatter_grad", LETTER_COPY}, {"forward", LETTER_FORWARD},       {"gather", LETTER_GATHER},
    {"loss", LETTER_LOSS},         {"backward", LETTER_BACKWARD},     {"reduce", LETTER_REDUCE},
    {"update", LETTER_UPDATE},     {"late_colleague", LETTER_WAIT},   {"transfer", LETTER_WAIT},
    {"used_map", LETTER_WAIT},     {"all_reduce", LETTER_ALL_REDUCE},
};

typedef struct Lane {
    const char *name; /* as in the JSON */
    const Result *run;
    bool first_of_run;
} Lane;

typedef struct Picture {
    Lane lanes[MOST_LANES];
    int lane_count;
    bool left_out; /* lanes that are not drawn */
    double ms_per_letter;
    bool shown[LETTERS], happened[LETTERS];
} Picture;

/* A piece of the timeline, in ms from the start of the step. False if it is not whole. */
typedef struct Piece {
    const char *lane;
    int letter; /* -1: none of them */
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
    for (size_t i = 0; phase && i < sizeof letter_of_phase / sizeof *letter_of_phase; i++) {
        if (strcmp(phase, letter_of_phase[i].phase) == 0)
            piece->letter = (int)letter_of_phase[i].letter;
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
    if (picture->lane_count == MOST_LANES) {
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

/* "boss", "dev 1", "rank 0" and "comm 0": what stands before a lane. */
static Figure lane_label(const Lane *lane)
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

static void draw_lane(Text *text, Picture *picture, const Lane *lane)
{
    double start_ms = 0, end_ms = 0, ms = picture->ms_per_letter;
    if (!step_of(lane->run, &start_ms, &end_ms))
        return;
    int cells = (int)fmax(1, round((end_ms - start_ms) / ms));
    if (cells > TEXT_MOST_COLUMNS)
        cells = TEXT_MOST_COLUMNS;
    double filled_ms[TEXT_MOST_COLUMNS][LETTERS] = {{0}};

    const cJSON *json;
    Piece piece;
    cJSON_ArrayForEach(json, pieces_of(lane->run))
    {
        if (!read_piece(&piece, json) || piece.letter < 0 || strcmp(piece.lane, lane->name) != 0)
            continue;
        if (piece.end_ms > piece.start_ms)
            picture->happened[piece.letter] = true;
        double from = piece.start_ms - start_ms, to = piece.end_ms - start_ms;
        for (int cell = (int)fmin(from / ms, cells); cell < cells && cell * ms < to; cell++)
            filled_ms[cell][piece.letter] += fmin(to, (cell + 1) * ms) - fmax(from, cell * ms);
    }
    for (int cell = 0; cell < cells; cell++) {
        int most = 0;
        double busy_ms = 0;
        for (int letter = 0; letter < LETTERS; letter++) {
            busy_ms += filled_ms[cell][letter];
            if (filled_ms[cell][letter] > filled_ms[cell][most])
                most = letter;
        }
        /* The last cell may reach beyond the end of the step. */
        double cell_ms = fmin(ms, end_ms - start_ms - cell * ms);
        if (filled_ms[cell][most] <= 0 || filled_ms[cell][most] < cell_ms - busy_ms) {
            text_in(text, TEXT_GREY, ".");
        } else {
            text_in(text, letters[most].colour, "%c", letters[most].letter);
            picture->shown[most] = true;
        }
    }
}

static void draw_legend(Text *text, const Picture *picture, bool few)
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

void timeline_print(Text *text, const char *title, const Result *const *runs, int count,
                    int most_lanes)
{
    Picture picture = {.lane_count = 0};
    int devices = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        picture = (Picture){.lane_count = 0};
        for (int i = 0; i < count; i++) {
            if (!runs[i])
                continue;
            choose_lanes(&picture, runs[i], attempt == 1);
            if (runs[i]->devices > devices)
                devices = runs[i]->devices;
        }
        if (picture.lane_count <= most_lanes)
            break;
    }

    double longest_ms = 0, start_ms, end_ms;
    int mode_width = 0, name_width = 0;
    for (int i = 0; i < picture.lane_count; i++) {
        const Lane *lane = &picture.lanes[i];
        if (step_of(lane->run, &start_ms, &end_ms))
            longest_ms = fmax(longest_ms, end_ms - start_ms);
        mode_width = (int)fmax(mode_width, text_width(result_mode_name(lane->run->mode)));
        name_width = (int)fmax(name_width, text_width(lane_label(lane).text));
    }
    if (longest_ms <= 0)
        return;
    int label_width = mode_width + 1 + name_width + 1;
    picture.ms_per_letter = round_scale(longest_ms, text->columns - label_width);

    Figure scale = figure_text(" (one letter = %g ms, . idle)", picture.ms_per_letter);
    Figure note = !picture.left_out ? figure_text("%s", "")
                  : devices == 3    ? figure_text("device 2 not drawn")
                                    : figure_text("devices 2-%d not drawn", devices - 1);
    text_in(text, TEXT_BOLD, "%s", title);
    text_printf(text, "%s", scale.text);
    if (note.text[0] && text->used + 2 + text_width(note.text) > text->columns)
        text_newline(text);
    if (note.text[0])
        text_in(text, TEXT_GREY, "%s%s", text->used ? "  " : "", note.text);
    text_newline(text);
    for (int i = 0; i < picture.lane_count; i++) {
        const Lane *lane = &picture.lanes[i];
        if (lane->first_of_run)
            text_printf(text, "%s", result_mode_name(lane->run->mode));
        text_to(text, mode_width + 1);
        text_printf(text, "%s", lane_label(lane).text);
        text_to(text, label_width);
        draw_lane(text, &picture, lane);
        text_newline(text);
    }
    draw_legend(text, &picture, most_lanes < MOST_LANES);
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
