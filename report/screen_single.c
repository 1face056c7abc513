/* screen_single.c: the screen of one run (--mode=single, dp or ddp): where a step's time goes, and
 * beside it what was learned, epoch by epoch. */
#include "report/screen.h"

#include <math.h>
#include <string.h>

/* The phases' columns, then the epochs' columns, counted from where they begin. */
enum { NAME_COLUMNS = 15, MS_END = 23, SHARE_END = 30, EPOCHS_BEGIN = 36 };
enum { EPOCH_END = 5, LOSS_END = 14, ACCURACY_END = 30, SECONDS_END = 40 };

enum { MOST_LINES = 12, SINGLE_LANES = 3 };

/* Phases that happened, and their total. */
typedef struct PhaseLines {
    const Result *run;
    int phases[STEP_PHASES];
    int count;
    double total_ms;
    int decimals;
} PhaseLines;

static PhaseLines phase_lines(const Result *run)
{
    PhaseLines lines = {.run = run, .total_ms = result_phases_ms(run)};
    for (int phase = 0; phase < STEP_PHASES; phase++) {
        if (!isnan(run->phase_ms[phase]))
            lines.phases[lines.count++] = phase;
    }
    lines.decimals = figure_decimals(lines.total_ms, 4);
    return lines;
}

static void print_phase_line(Text *text, const PhaseLines *lines, int line)
{
    double ms = lines->total_ms;
    const char *name = "step";
    TextColour colour = TEXT_PLAIN;
    if (line < lines->count) {
        int phase = lines->phases[line];
        Spent spent = step_phase_spent(phase, lines->run->mode);
        ms = lines->run->phase_ms[phase];
        name = step_phase_name(phase);
        if (spent == SPENT_COPYING || spent == SPENT_WAITING)
            colour = TEXT_ORANGE;
    }
    text_in(text, colour, "%s", name);
    text_right(text, MS_END, colour, figure_number(ms, lines->decimals).text);
    text_right(text, SHARE_END, colour, figure_percent(ms / lines->total_ms).text);
}

static void print_phase_head(Text *text)
{
    text_in(text, TEXT_GREY, "phase");
    text_right(text, MS_END, TEXT_GREY, "ms");
    text_right(text, SHARE_END, TEXT_GREY, "share");
}

static void print_epoch_head(Text *text, int begin)
{
    text_right(text, begin + EPOCH_END, TEXT_GREY, "epoch");
    text_right(text, begin + LOSS_END, TEXT_GREY, "loss");
    text_right(text, begin + ACCURACY_END, TEXT_GREY, "test accuracy");
    text_right(text, begin + SECONDS_END, TEXT_GREY, "seconds");
}

/* Line `line` of at most MOST_LINES: of many epochs the middle ones are left out. */
static void print_epoch_line(Text *text, const cJSON *epochs, int line, int begin)
{
    int count = cJSON_GetArraySize(epochs);
    if (count > MOST_LINES && line == MOST_LINES / 2) {
        text_right(text, begin + EPOCH_END, TEXT_PLAIN, "...");
        return;
    }
    int index = count > MOST_LINES && line > MOST_LINES / 2 ? line + count - MOST_LINES : line;
    const cJSON *epoch = cJSON_GetArrayItem(epochs, index);
    double accuracy = json_number(epoch, "accuracy");
    text_right(text, begin + EPOCH_END, TEXT_PLAIN,
               figure_number(json_number(epoch, "epoch"), 0).text);
    text_right(text, begin + LOSS_END, TEXT_PLAIN,
               figure_number(json_number(epoch, "loss"), 4).text);
    text_right(text, begin + ACCURACY_END, TEXT_PLAIN,
               isnan(accuracy) ? "-"
                               : figure_text("%s %%", figure_number(100 * accuracy, 2).text).text);
    text_right(text, begin + SECONDS_END, TEXT_PLAIN,
               figure_number(json_number(epoch, "seconds"), 2).text);
}

/* Phases on the left, epochs on the right; below each other where that is too wide. */
static void print_phases_and_epochs(Text *text, const Result *run)
{
    const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(run->json, "epochs");
    int epoch_count = cJSON_IsArray(epochs) ? cJSON_GetArraySize(epochs) : 0;
    int epoch_lines = epoch_count > MOST_LINES ? MOST_LINES : epoch_count;
    PhaseLines lines = phase_lines(run);
    int phase_lines_count = lines.count ? lines.count + 1 : 0;
    bool beside = phase_lines_count && text->columns >= EPOCHS_BEGIN + SECONDS_END;
    int begin = beside ? EPOCHS_BEGIN : 0;

    if (phase_lines_count) {
        text_newline(text);
        print_phase_head(text);
        if (beside && epoch_lines)
            print_epoch_head(text, begin);
        text_newline(text);
        for (int line = 0; line < phase_lines_count || (beside && line < epoch_lines); line++) {
            if (line < phase_lines_count)
                print_phase_line(text, &lines, line);
            if (beside && line < epoch_lines)
                print_epoch_line(text, epochs, line, begin);
            text_newline(text);
        }
    }
    if (!beside && epoch_lines) {
        text_newline(text);
        print_epoch_head(text, begin);
        text_newline(text);
        for (int line = 0; line < epoch_lines; line++) {
            print_epoch_line(text, epochs, line, begin);
            text_newline(text);
        }
    }
}

/* What a rank with fewer batches than the others did (--uneven). */
static void print_uneven(Text *text, const Report *report, const Result *run)
{
    double uneven = json_number(report->config, "uneven");
    double batches = json_number(report->config, "steps_per_epoch");
    if (!(uneven > 0) || isnan(batches))
        return;
    text_paragraph(
        text, TEXT_PLAIN, 2,
        "Uneven: rank %d has no batch in the last %s of %s steps of an epoch; it answers "
        "the others with zeros.",
        run->devices - 1, figure_count(uneven).text, figure_count(batches).text);
}

/* The run of the mode that was asked for; without that, the first. */
static const Result *the_run(const Report *report)
{
    const char *mode = json_string(report->config, "mode");
    for (int i = 0; mode && i < report->result_count; i++) {
        const char *this_mode = json_string(report->results[i].json, "mode");
        if (this_mode && strcmp(this_mode, mode) == 0)
            return &report->results[i];
    }
    return &report->results[0];
}

void screen_single_run(Text *text, const Report *report, bool more)
{
    static const char *const names[MODES] = {
        [MODE_SINGLE] = "One device",
        [MODE_DP] = "DataParallel",
        [MODE_DDP] = "DistributedDataParallel",
        [MODE_DDP_NO_OVERLAP] = "DistributedDataParallel without overlap",
        [MODE_LIMIT] = "The machine's limit: nobody talks",
    };
    const Result *run = the_run(report);
    char devices[32] = "", batch[64] = "";
    if (run->mode != MODE_SINGLE)
        snprintf(devices, sizeof devices, " on %d device%s", run->devices,
                 run->devices == 1 ? "" : "s");
    if (isfinite(report->batch))
        snprintf(batch, sizeof batch, ", %s %s per step", figure_count(report->batch).text,
                 report_samples_noun(report));
    double micros = json_number(report->config, "accumulate");
    if (micros > 1)
        snprintf(batch + strlen(batch), sizeof batch - strlen(batch), " in %.0f micro-batches",
                 micros);
    text_paragraph(text, TEXT_BOLD, 0, "%s%s%s", names[run->mode], devices, batch);
    screen_what_was_trained(text, report);
    screen_oversubscribed(text, report);
    if (isfinite(run->step_ms)) {
        int decimals = figure_decimals(run->step_ms, 3);
        char spread[128] = "";
        if (isfinite(run->p05_ms) && isfinite(run->p95_ms))
            snprintf(spread, sizeof spread, " (nine in ten: %s - %s)",
                     figure_number(run->p05_ms, decimals).text,
                     figure_number(run->p95_ms, decimals).text);
        text_paragraph(text, TEXT_PLAIN, 2, "A step takes %s ms%s: %s %s per second.",
                       figure_number(run->step_ms, decimals).text, spread,
                       figure_count(run->samples_per_s).text, report_samples_noun(report));
    }
    print_phases_and_epochs(text, run);
    text_newline(text);
    timeline_print(text, "Who works, who waits", &run, 1, SINGLE_LANES);
    if (run->mode == MODE_DP)
        screen_busiest(text, run, NULL);
    else if (run->mode != MODE_SINGLE)
        screen_busiest(text, NULL, run);
    screen_accumulate(text, run->mode == MODE_DP ? run : NULL, run->mode == MODE_DP ? NULL : run);
    screen_find_unused(text, report, run);
    print_uneven(text, report, run);
    screen_fault(text, report);
    if (!cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(run->json, "epochs"), 0))
        screen_learned(text, report, run);
    screen_bound(text, report, run->mode == MODE_DP ? run : NULL,
                 run->mode == MODE_DDP ? run : NULL, NULL);
    screen_buckets(text, report);
    if (more)
        screen_more(text);
}
