/* screen_series.c: one table of several comparisons on virtual devices (see screen_series.h).
 *
 *                    1 device     2 devices       4 devices
 *                          ms     DP    DDP       DP    DDP
 *     tiny              0.080   0.29   0.55     0.15   0.49
 *     meaty               875   1.72   1.95     2.22   3.74
 */
#include "report/screen_series.h"

#include "report/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_COUNTS = 16,
    LABEL_COLUMNS = 18,
    MS_COLUMNS = 10,
    PAIR_COLUMNS = 16, /* of DP and DDP at one device count */
    DP_COLUMNS = 8,
};

typedef struct Entry {
    const char *label;
    Report report;
} Entry;

bool screen_series_is(const cJSON *object)
{
    return cJSON_IsArray(cJSON_GetObjectItem(object, "series"));
}

/* --- the table ---------------------------------------------------------------------------- */

/* The device counts that fit, the largest ones. */
static int shown_counts(const Text *text, const Report *report, int *counts)
{
    int all[MOST_COUNTS];
    int count = report_device_counts(report, all, MOST_COUNTS);
    int room = (text->columns - LABEL_COLUMNS - MS_COLUMNS) / PAIR_COLUMNS;
    int fit = count < room ? count : room > 1 ? room : 1;
    memcpy(counts, all + count - fit, (size_t)fit * sizeof *counts);
    return fit;
}

static void print_head(Text *text, const int *counts, int count)
{
    int ms_end = LABEL_COLUMNS + MS_COLUMNS;
    text_right(text, ms_end, TEXT_GREY, "one device");
    for (int i = 0; i < count; i++)
        text_right(text, ms_end + PAIR_COLUMNS * (i + 1), TEXT_GREY,
                   figure_text("%d devices", counts[i]).text);
    text_newline(text);
    text_right(text, ms_end, TEXT_GREY, "ms");
    for (int i = 0; i < count; i++) {
        text_right(text, ms_end + PAIR_COLUMNS * i + DP_COLUMNS, TEXT_GREY, "DP");
        text_right(text, ms_end + PAIR_COLUMNS * (i + 1), TEXT_GREY, "DDP");
    }
    text_newline(text);
}

static void print_entry(Text *text, const Entry *entry, const int *counts, int count)
{
    const Report *report = &entry->report;
    const Result *single = report_result(report, MODE_SINGLE, 1);
    int ms_end = LABEL_COLUMNS + MS_COLUMNS;
    text_printf(text, "%s", entry->label);
    double ms = single ? single->step_ms : NAN;
    text_right(text, ms_end, TEXT_PLAIN, figure_number(ms, figure_decimals(ms, 3)).text);
    for (int i = 0; i < count; i++) {
        const Result *dp = report_result(report, MODE_DP, counts[i]);
        const Result *ddp = report_result(report, MODE_DDP, counts[i]);
        text_right(text, ms_end + PAIR_COLUMNS * i + DP_COLUMNS, TEXT_PLAIN,
                   figure_number(dp ? dp->speedup : NAN, 2).text);
        text_right(text, ms_end + PAIR_COLUMNS * (i + 1), TEXT_BLUE,
                   figure_number(ddp ? ddp->speedup : NAN, 2).text);
    }
    text_newline(text);
}

/* --- the sentences ------------------------------------------------------------------------ */

/* What came of one model. */
static void say_gain(Text *text, const Entry *entry)
{
    const Report *report = &entry->report;
    const Result *dp = report_result(report, MODE_DP, report->devices);
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    if (!ddp)
        return;
    double dp_gain = dp ? dp->speedup : NAN;
    double each = report->batch / report->devices;
    Figure weights = figure_count(report->parameters);
    Figure gain = figure_number(ddp->speedup, 2);
    if (ddp->speedup < 1 && !(dp_gain >= 1))
        text_paragraph(text, TEXT_PLAIN, 2,
                       "%s (%s weights): %d devices are slower than one%s: %s %s each are "
                       "less work than talking about them.",
                       entry->label, weights.text, report->devices,
                       dp ? ", with DP and with DDP" : "", figure_count(each).text,
                       report_samples_noun(report));
    else if (!dp)
        text_paragraph(text, TEXT_PLAIN, 2,
                       "%s (%s weights): DDP on %d devices is %s times as fast as one; DP is "
                       "impossible there: one process cannot span machines.",
                       entry->label, weights.text, report->devices, gain.text);
    else
        text_paragraph(text, TEXT_PLAIN, 2,
                       "%s (%s weights): %d devices are %s times as fast as one with DDP and %s "
                       "times with DP%s.",
                       entry->label, weights.text, report->devices, gain.text,
                       figure_number(dp_gain, 2).text,
                       dp_gain > ddp->speedup ? ": here DP won" : "");
    screen_bound(text, report, dp, ddp, entry->label);
}

/* The labels of the entries for which `holds`, as "1 Gbit/s, 10 Gbit/s". */
static const char *labels_of(const Entry *entries, int count,
                             bool (*holds)(const Result *dp, const Result *ddp), char *list,
                             size_t size)
{
    *list = '\0';
    for (int i = 0; i < count; i++) {
        const Report *report = &entries[i].report;
        const Result *dp = report_result(report, MODE_DP, report->devices);
        const Result *ddp = report_result(report, MODE_DDP, report->devices);
        size_t used = strlen(list);
        if (ddp && holds(dp, ddp))
            snprintf(list + used, size - used, "%s%s", used ? ", " : "", entries[i].label);
    }
    return *list ? list : "nowhere";
}

static bool dp_wins(const Result *dp, const Result *ddp)
{
    return dp && dp->step_ms < ddp->step_ms;
}

static bool one_wins(const Result *dp, const Result *ddp)
{
    (void)dp;
    return ddp->speedup < 1;
}

/* Where the links turn the result around. */
static void say_turns(Text *text, const Entry *entries, int count)
{
    char list[512];
    int devices = entries[0].report.devices;
    text_paragraph(text, TEXT_PLAIN, 2, "On %d devices DP is faster than DDP: %s.", devices,
                   labels_of(entries, count, dp_wins, list, sizeof list));
    text_paragraph(text, TEXT_PLAIN, 2, "One device is faster than %d with DDP: %s.", devices,
                   labels_of(entries, count, one_wins, list, sizeof list));
}

/* --- all of it ---------------------------------------------------------------------------- */

static void print(Text *text, const Entry *entries, int count)
{
    int counts[MOST_COUNTS];
    const Report *first = &entries[0].report;
    int shown = shown_counts(text, first, counts);
    const cJSON *profile = cJSON_GetObjectItem(first->config, "profile");
    const char *name = json_string(profile, "name"), *about = json_string(profile, "about");
    text_paragraph(text, TEXT_PLAIN, 2, "%s: %s.", name ? name : "virtual devices",
                   about ? about : "");
    text_paragraph(text, TEXT_PLAIN, 2,
                   "Virtual clocks: calculated, not measured; nothing was trained. Speed-up over "
                   "one device:");
    text_newline(text);
    print_head(text, counts, shown);
    for (int i = 0; i < count; i++)
        print_entry(text, &entries[i], counts, shown);
    text_newline(text);
    if (count > 2)
        say_turns(text, entries, count);
    else
        for (int i = 0; i < count; i++)
            say_gain(text, &entries[i]);
}

Error screen_series(Text *text, const cJSON *object)
{
    const cJSON *series = cJSON_GetObjectItem(object, "series"), *item;
    int room = cJSON_GetArraySize(series), count = 0;
    Entry *entries = calloc(room ? (size_t)room : 1, sizeof *entries);
    if (!entries)
        return error_make("no memory for a series of %d", room);
    Error error = room ? NULL : error_make("the series is empty");
    cJSON_ArrayForEach(item, series)
    {
        const char *label = json_string(item, "label");
        entries[count].label = label ? label : "?";
        if (!error)
            error = report_open(&entries[count++].report, cJSON_GetObjectItem(item, "report"));
    }
    if (!error)
        print(text, entries, count);
    for (int i = 0; i < count; i++)
        report_close(&entries[i].report);
    free(entries);
    return error;
}
