/* screen_ladder.c: the screen of --mode=ladder: what each rung from the naive way to DDP gains
 * here, and the curve over bucket sizes. */
#include "report/screen.h"

#include <math.h>
#include <string.h>

/* The last rung: DDP. Rung 0 is one device. */
enum { LAST_RUNG = 4 };

static const struct {
    const char *name, *does;
} rungs[LAST_RUNG + 1] = {
    {"one device", ""},
    {"per tensor, afterwards", "Naive: after backward, an all-reduce for every tensor:"},
    {"one bucket, afterwards", "The same bytes in a single all-reduce:"},
    {"per tensor, overlapped", "Each tensor leaves as soon as backward has made it:"},
    {"buckets, overlapped: DDP", "Buckets of neighbours, each sent when full:"},
};

/* --- reading --------------------------------------------------------------------------------- */

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const cJSON *ladder_of(const Report *report)
{
    return member(report->object, "ladder");
}

bool report_is_ladder(const Report *report)
{
    const char *mode = json_string(report->config, "mode");
    return mode && strcmp(mode, "ladder") == 0;
}

static const Result *find_rung(const Report *report, int rung)
{
    for (int i = 0; i < report->result_count; i++)
        if (report->results[i].rung == rung)
            return &report->results[i];
    return NULL;
}

/* By how many per cent one run does more steps per second than another. */
typedef struct Gain {
    double percent, low, high;
    bool known; /* with 95 % confidence */
    int sign;   /* +1 or -1 where a difference can be told, else 0 */
} Gain;

static Gain read_gain(const cJSON *object, const char *name)
{
    const cJSON *json = member(object, name);
    Gain gain = {
        .percent = json_number(json, "median"),
        .low = json_number(json, "low"),
        .high = json_number(json, "high"),
    };
    gain.known = json_number(json, "confidence") >= 0.95 && isfinite(gain.percent) &&
                 isfinite(gain.low) && isfinite(gain.high);
    if (gain.known)
        gain.sign = gain.low > 0 ? 1 : gain.high < 0 ? -1 : 0;
    return gain;
}

/* Over the rung before. */
static Gain gain_of_rung(const Report *report, int rung)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, member(ladder_of(report), "rungs"))
    {
        if (json_number(entry, "rung") == rung)
            return read_gain(entry, "gain_percent");
    }
    return (Gain){.percent = NAN};
}

/* "+5 % (+2 to +8)" */
static Figure gain_figure(Gain gain)
{
    return figure_text("%+.0f %% (%+.0f to %+.0f)", gain.percent, gain.low, gain.high);
}

/* --- the table ------------------------------------------------------------------------------- */

typedef enum { COLUMN_MS, COLUMN_BUCKETS, COLUMN_BYTES, COLUMN_HIDDEN, COLUMN_EXPOSED } Column;
enum { COLUMNS = 5, LABEL_COLUMNS = 27, GAIN_COLUMNS = 8 };

/* A narrow terminal shows the columns that say most. */
static const struct {
    const char *head;
    int width, least_columns;
} columns[COLUMNS] = {
    [COLUMN_MS] = {"ms", 7, 0},
    [COLUMN_BUCKETS] = {"buckets", 9, 60},
    [COLUMN_BYTES] = {"bytes", 10, 80},
    [COLUMN_HIDDEN] = {"hidden", 9, 70},
    [COLUMN_EXPOSED] = {"exposed", 9, 60},
};

static Figure cell(const Report *report, const Result *run, Column column)
{
    const cJSON *communication = member(run->json, "communication");
    int decimals = report_decimals(report, 4);
    switch (column) {
    case COLUMN_MS:
        return figure_number(run->step_ms, decimals);
    case COLUMN_BUCKETS:
        return figure_count(json_number(run->json, "buckets"));
    case COLUMN_BYTES:
        return run->devices > 1 ? figure_bytes(run->traffic_bytes) : figure_text("-");
    case COLUMN_HIDDEN:
        return figure_number(json_number(communication, "hidden_ms"), decimals);
    case COLUMN_EXPOSED:
        return figure_number(json_number(communication, "exposed_ms"), decimals);
    }
    return figure_text("-");
}

static void print_row(Text *text, const Report *report, const Result *run)
{
    int end = LABEL_COLUMNS;
    if (run->rung < 0)
        text_printf(text, "  machine limit");
    else
        text_printf(text, "%d %s", run->rung, rungs[run->rung].name);
    text_printf(text, "%s", run->oversubscribed ? "*" : "");
    for (int column = 0; column < COLUMNS; column++) {
        if (text->columns < columns[column].least_columns)
            continue;
        end += columns[column].width;
        bool talk = column == COLUMN_EXPOSED || column == COLUMN_HIDDEN;
        text_right(text, end, talk ? TEXT_ORANGE : TEXT_PLAIN,
                   cell(report, run, (Column)column).text);
    }
    Gain gain = gain_of_rung(report, run->rung);
    if (run->rung > 0 && isfinite(gain.percent))
        text_right(text, end + GAIN_COLUMNS, TEXT_PLAIN,
                   figure_text(gain.sign ? "%+.0f %%" : "(%+.0f %%)", gain.percent).text);
    text_newline(text);
}

static void print_table(Text *text, const Report *report)
{
    int end = LABEL_COLUMNS;
    text_newline(text);
    for (int column = 0; column < COLUMNS; column++) {
        if (text->columns < columns[column].least_columns)
            continue;
        end += columns[column].width;
        text_right(text, end, TEXT_GREY, columns[column].head);
    }
    text_right(text, end + GAIN_COLUMNS, TEXT_GREY, "gain");
    text_newline(text);
    for (int rung = 0; rung <= LAST_RUNG; rung++) {
        const Result *run = find_rung(report, rung);
        if (run)
            print_row(text, report, run);
    }
    const Result *limit = report_result(report, MODE_LIMIT, report->devices);
    if (limit)
        print_row(text, report, limit);
    screen_oversubscribed(text, report);
    text_paragraph(
        text, TEXT_GREY, 0,
        "A step; communication in ms: hidden beside backward, exposed (waited for). Gain: "
        "steps/s over the rung before, in brackets where no difference can be told.");
    text_newline(text);
}

/* --- what it means --------------------------------------------------------------------------- */

static void print_what_rungs_do(Text *text, const Report *report)
{
    for (int rung = 1; rung <= LAST_RUNG; rung++) {
        if (!find_rung(report, rung))
            continue;
        Gain gain = gain_of_rung(report, rung);
        Figure what = !gain.known ? figure_text("too few measurements.")
                      : gain.sign == 0
                          ? figure_text("unclear (%+.0f to %+.0f %%).", gain.low, gain.high)
                          : figure_text("%s.", gain_figure(gain).text);
        text_paragraph(text, TEXT_PLAIN, 2, "%d %s %s", rung, rungs[rung].does, what.text);
    }
}

static void print_same_weights(Text *text, const Report *report)
{
    const cJSON *ladder = ladder_of(report), *equal = member(ladder, "weights_equal");
    double apart = json_number(ladder, "max_abs_weight_diff");
    if (cJSON_IsTrue(equal))
        text_paragraph(text, TEXT_PLAIN, 2, "Same weights? All rungs to the last bit.");
    else if (cJSON_IsFalse(equal))
        text_paragraph(text, TEXT_ORANGE, 2, "Same weights? FAILED: rungs differ%s.",
                       isfinite(apart) ? figure_text(" by up to %.0e", apart).text : "");
    else if (isfinite(apart))
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Same weights? Within %.0e: buckets change the order of the sums here.",
                       apart);
}

/* Which rungs gain nothing, and why that may be: as far as this run itself shows it. */
static void print_why_nothing(Text *text, const Report *report)
{
    char which[32] = "";
    bool overlapping = false;
    for (int rung = 2; rung <= LAST_RUNG; rung++) {
        Gain gain = gain_of_rung(report, rung);
        size_t used = strlen(which);
        if (!gain.known || gain.sign > 0)
            continue;
        snprintf(which + used, sizeof which - used, "%s%d", used ? ", " : "", rung);
        overlapping = overlapping || rung >= 3;
    }
    const Result *ddp = find_rung(report, LAST_RUNG);
    if (!which[0] || !ddp)
        return;
    bool one_bucket = json_number(ddp->json, "buckets") == 1;
    bool cores = strcmp(report_device_noun(report), "core") == 0;
    const char *why = !overlapping ? ""
                      : one_bucket ? " DDP's one bucket is full when backward is over."
                      : cores      ? " On cores, hidden talk takes time from backward."
                                   : "";
    text_paragraph(text, TEXT_PLAIN, 2, "No gain shown here: rung%s %s.%s",
                   strchr(which, ',') ? "s" : "", which, why);
}

static void print_verdict(Text *text, const Report *report)
{
    const cJSON *ladder = ladder_of(report);
    Gain whole = read_gain(ladder, "ddp_gain_percent");
    Gain best = read_gain(ladder, "best_gain_percent");
    double best_rung = json_number(ladder, "best_rung");
    if (!whole.known) {
        text_paragraph(text, TEXT_BOLD, 2,
                       "Too few measurements to tell what the rungs gain: give more --steps.");
        return;
    }
    Figure fastest = figure_text("%s", "");
    if (best.sign > 0)
        fastest = figure_text(" Rung %.0f beats it: %+.0f %%.", best_rung, best.percent);
    if (whole.sign > 0)
        text_paragraph(text, TEXT_BOLD, 2,
                       "DDP does %.0f %% more steps/s than the naive way "
                       "(%.0f - %.0f).%s",
                       whole.percent, whole.low, whole.high, fastest.text);
    else if (whole.sign < 0)
        text_paragraph(text, TEXT_BOLD, 2, "The naive way won: DDP's rung does %s steps/s.%s",
                       gain_figure(whole).text, fastest.text);
    else
        text_paragraph(text, TEXT_BOLD, 2,
                       "No difference can be told between DDP and the naive way (%+.0f to %+.0f "
                       "%%).%s",
                       whole.low, whole.high, fastest.text);
}

/* --- the curve ------------------------------------------------------------------------------- */

/* The measured point of a bucket size, and how far the best one is ahead of it. */
static const Result *find_point(const Report *report, double bucket_mb)
{
    for (int i = 0; i < report->result_count; i++) {
        const Result *run = &report->results[i];
        if (run->sweep && json_number(run->json, "bucket_mb") == bucket_mb)
            return run;
    }
    return NULL;
}

static void print_point(Text *text, const Report *report, const cJSON *entry, double longest_ms)
{
    enum { MB_END = 8, BUCKETS_END = 17, MS_END = 26, BAR = 28, NOTE_COLUMNS = 12, MOST_BAR = 60 };
    const Result *run = find_point(report, json_number(entry, "bucket_mb"));
    if (!run)
        return;
    Gain gain = read_gain(entry, "best_gain_percent");
    bool best = cJSON_IsNull(member(entry, "best_gain_percent"));
    text_right(text, MB_END, TEXT_PLAIN, figure_text("%g", json_number(entry, "bucket_mb")).text);
    text_right(text, BUCKETS_END, TEXT_PLAIN, figure_count(json_number(run->json, "buckets")).text);
    text_right(text, MS_END, TEXT_PLAIN,
               figure_number(run->step_ms, report_decimals(report, 4)).text);
    text_to(text, BAR);
    int room = (int)fmin(text->columns - BAR - NOTE_COLUMNS, MOST_BAR);
    int length = (int)lround(fmin(fmax(run->step_ms / longest_ms, 0), 1) * room);
    for (int i = 0; i < length; i++)
        text_in(text, TEXT_BLUE, "=");
    text_in(text, best ? TEXT_BOLD : TEXT_GREY, "%s",
            best                           ? " best"
            : gain.known && gain.sign == 0 ? " as good"
                                           : "");
    text_newline(text);
}

static void print_curve(Text *text, const Report *report)
{
    const cJSON *sweep = member(ladder_of(report), "sweep"), *entry;
    double longest_ms = 0;
    cJSON_ArrayForEach(entry, sweep)
    {
        const Result *run = find_point(report, json_number(entry, "bucket_mb"));
        longest_ms = fmax(longest_ms, run ? run->step_ms : NAN);
    }
    if (!(longest_ms > 0))
        return;
    screen_heading(text, "DDP by bucket size (a bar is as long as its step)");
    text_in(text, TEXT_GREY, "     MiB  buckets       ms");
    text_newline(text);
    cJSON_ArrayForEach(entry, sweep)
    {
        print_point(text, report, entry, longest_ms);
    }
    text_paragraph(text, TEXT_GREY, 0,
                   "0: a bucket per tensor. \"as good\": no difference to the best can be told.");
}

void screen_ladder(Text *text, const Report *report, bool more)
{
    char batch[64] = "";
    if (isfinite(report->batch))
        snprintf(batch, sizeof batch, ", the same %s %s", figure_count(report->batch).text,
                 report_samples_noun(report));
    text_paragraph(text, TEXT_BOLD, 0, "From the naive way to DDP on %d devices: one step%s",
                   report->devices, batch);
    screen_what_was_trained(text, report);
    print_table(text, report);
    print_what_rungs_do(text, report);
    print_curve(text, report);
    print_same_weights(text, report);
    print_why_nothing(text, report);
    print_verdict(text, report);
    if (more)
        screen_more(text);
}
