/* screen_developer.c: what depth developer adds: every phase, every byte, who takes part. */
#include "report/screen.h"

#include <math.h>
#include <string.h>

enum { GRID_LABEL_COLUMNS = 20, GRID_COLUMNS = 12, MOST_RUNS = 64, MOST_COUNTS = 32 };

/* --- the grid -------------------------------------------------------------------------------- */

static bool is_empty_row(const Report *report, const Grid *grid, int row)
{
    for (int i = 0; i < report->result_count; i++) {
        if (strncmp(grid->cell(report, &report->results[i], row).text, "-", 1) != 0)
            return false;
    }
    return true;
}

static void print_grid_block(Text *text, const Report *report, const Grid *grid,
                             const Result *const *runs, int count)
{
    for (int i = 0; i < count; i++)
        text_right(text, GRID_LABEL_COLUMNS + GRID_COLUMNS * (i + 1), TEXT_GREY,
                   result_name(runs[i]).text);
    text_newline(text);
    for (int i = 0; i < count; i++) {
        if (runs[i]->mode != MODE_SINGLE)
            text_right(text, GRID_LABEL_COLUMNS + GRID_COLUMNS * (i + 1), TEXT_GREY,
                       figure_text("%d device%s%s", runs[i]->devices,
                                   runs[i]->devices == 1 ? "" : "s",
                                   runs[i]->oversubscribed ? "*" : "")
                           .text);
    }
    text_newline(text);
    for (int row = 0; row < grid->rows; row++) {
        if (is_empty_row(report, grid, row))
            continue;
        bool talk = grid->talk_in_orange && row < STEP_PHASES &&
                    (step_phase_spent(row, MODE_DDP) == SPENT_COPYING ||
                     step_phase_spent(row, MODE_DDP) == SPENT_WAITING);
        text_in(text, talk ? TEXT_ORANGE : TEXT_PLAIN, "%s", grid->label(row));
        for (int i = 0; i < count; i++)
            text_right(text, GRID_LABEL_COLUMNS + GRID_COLUMNS * (i + 1),
                       talk ? TEXT_ORANGE : TEXT_PLAIN, grid->cell(report, runs[i], row).text);
        text_newline(text);
    }
}

void screen_grid(Text *text, const Report *report, const Grid *grid, const Result *const *runs,
                 int count)
{
    int fit = (text->columns - GRID_LABEL_COLUMNS) / GRID_COLUMNS;
    if (fit < 1)
        fit = 1;
    for (int from = 0; from < count; from += fit) {
        if (from > 0)
            text_newline(text);
        print_grid_block(text, report, grid, runs + from, count - from < fit ? count - from : fit);
    }
}

int screen_grid_results(const Text *text, const Report *report, const Result **runs, int most)
{
    int counts[MOST_COUNTS];
    int count = report_device_counts(report, counts, MOST_COUNTS);
    int fit = (text->columns - GRID_LABEL_COLUMNS) / GRID_COLUMNS;
    int found = 0;
    if (report_is_ladder(report)) {
        for (int i = 0; i < report->result_count && found < most; i++)
            if (!report->results[i].sweep)
                runs[found++] = &report->results[i];
        return found;
    }
    const Result *single = report_result(report, MODE_SINGLE, 1);
    if (single && most > 0)
        runs[found++] = single;
    for (int devices = report->devices; devices > 0;) {
        const Result *together[MODES];
        int more = 0;
        for (int mode = MODE_DP; mode < MODES; mode++) {
            const Result *run = report_result(report, (Mode)mode, devices);
            if (run)
                together[more++] = run;
        }
        if (found + more > most || (devices != report->devices && found + more > fit))
            break;
        memcpy(runs + found, together, (size_t)more * sizeof *runs);
        found += more;
        while (count > 0 && counts[count - 1] >= devices)
            count--;
        devices = count > 0 ? counts[count - 1] : 0;
    }
    return found;
}

/* --- phases ---------------------------------------------------------------------------------- */

enum { ROW_TOTAL = STEP_PHASES, ROW_MEDIAN, PHASE_ROWS };

static const char *phase_label(int row)
{
    return row == ROW_TOTAL ? "total" : row == ROW_MEDIAN ? "median step" : step_phase_name(row);
}

static Figure phase_cell(const Report *report, const Result *run, int row)
{
    int decimals = report_decimals(report, 4);
    double total = result_phases_ms(run);
    double ms = row == ROW_MEDIAN ? run->step_ms : row == ROW_TOTAL ? total : run->phase_ms[row];
    if (isnan(ms) || row == ROW_MEDIAN)
        return figure_text("%s %5s", figure_number(ms, decimals).text, "");
    return figure_text("%s %5s", figure_number(ms, decimals).text, figure_percent(ms / total).text);
}

static void print_phases(Text *text, const Report *report, const Result *const *runs, int count)
{
    const Grid grid = {phase_label, phase_cell, PHASE_ROWS, .talk_in_orange = true};
    screen_heading(text, "Phases of a step: ms and share of the step");
    screen_grid(text, report, &grid, runs, count);
    text_paragraph(text, TEXT_GREY, 0,
                   "A phase is its mean over the middle half of the steps by duration; DDP shows "
                   "rank 0.%s",
                   text->colour ? " Orange: talk." : "");
    for (int i = 0; i < count; i++) {
        double share = runs[i]->phase_ms[STEP_OTHER] / result_phases_ms(runs[i]);
        if (share > 0.02)
            text_paragraph(text, TEXT_ORANGE, 2,
                           "%s with %d device%s: other is %.1f %% of the step, more than the 2 %% "
                           "that the named phases may leave.",
                           result_name(runs[i]).text, runs[i]->devices,
                           runs[i]->devices == 1 ? "" : "s", 100 * share);
    }
}

/* --- bytes ----------------------------------------------------------------------------------- */

enum { ROW_ALL_LINKS = TRAFFIC_KINDS, ROW_SENT, ROW_RECEIVED, BYTES_ROWS };

static const char *bytes_label(int row)
{
    static const char *const labels[BYTES_ROWS] = {
        "model",    "inputs",    "outputs",       "output gradients", "param. gradients",
        "used map", "all links", "busiest sends", "busiest receives",
    };
    return labels[row];
}

static Figure bytes_cell(const Report *report, const Result *run, int row)
{
    (void)report;
    double bytes = row == ROW_ALL_LINKS  ? run->traffic_bytes
                   : row == ROW_SENT     ? run->sent_bytes
                   : row == ROW_RECEIVED ? run->received_bytes
                                         : run->by_kind_bytes[row];
    return figure_bytes(bytes);
}

/* --- who takes part -------------------------------------------------------------------------- */

enum {
    ROW_PROCESSES,
    ROW_THREADS,
    ROW_COPIES,
    ROW_BATCH,
    ROW_MEMORY_FIRST,
    ROW_MEMORY_OTHERS,
    ROW_BUSY_FIRST,
    ROW_BUSY_OTHERS,
    ROW_MACHINES,
    ROW_SOURCE_LINES,
    TAKING_PART_ROWS
};

static const char *taking_part_label(int row)
{
    static const char *const labels[TAKING_PART_ROWS] = {
        [ROW_PROCESSES] = "processes",           [ROW_THREADS] = "threads",
        [ROW_COPIES] = "copies of the model",    [ROW_BATCH] = "images per device",
        [ROW_MEMORY_FIRST] = "peak, device 0",   [ROW_MEMORY_OTHERS] = "peak, the others",
        [ROW_BUSY_FIRST] = "busy, device 0",     [ROW_BUSY_OTHERS] = "busy, the others",
        [ROW_MACHINES] = "machines it can span", [ROW_SOURCE_LINES] = "lines of its source",
    };
    return labels[row];
}

/* The least and the most of a figure over all devices but the first. */
static void span_of_others(const cJSON *list, const char *name, double *least, double *most)
{
    *least = *most = NAN;
    for (int i = 1; i < cJSON_GetArraySize(list); i++) {
        double value = json_number(cJSON_GetArrayItem(list, i), name);
        *least = fmin(*least, value);
        *most = fmax(*most, value);
    }
}

static Figure memory_cell(const Result *run, bool first)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(run->json, "memory");
    if (first)
        return figure_bytes(json_number(cJSON_GetArrayItem(list, 0), "peak_bytes"));
    double least, most;
    span_of_others(list, "peak_bytes", &least, &most);
    return figure_bytes(most);
}

static Figure busy_cell(const Result *run, bool first)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(run->json, "busy");
    if (first)
        return figure_percent(json_number(cJSON_GetArrayItem(list, 0), "share"));
    double least, most;
    span_of_others(list, "share", &least, &most);
    Figure low = figure_percent(least), high = figure_percent(most);
    if (strcmp(low.text, high.text) == 0)
        return low;
    return figure_text("%s-%s", figure_number(100 * least, 0).text, high.text);
}

static Figure taking_part_cell(const Report *report, const Result *run, int row)
{
    bool ddp = run->mode == MODE_DDP || run->mode == MODE_DDP_NO_OVERLAP;
    const cJSON *lines = cJSON_GetObjectItemCaseSensitive(report->environment, "source_lines");
    switch (row) {
    case ROW_PROCESSES:
        return figure_count(run->processes);
    case ROW_THREADS:
        return figure_count(run->threads);
    case ROW_COPIES:
        return figure_count(run->model_copies);
    case ROW_BATCH:
        return figure_number(run->batch_per_device,
                             run->batch_per_device != floor(run->batch_per_device));
    case ROW_MEMORY_FIRST:
    case ROW_MEMORY_OTHERS:
        return memory_cell(run, row == ROW_MEMORY_FIRST);
    case ROW_BUSY_FIRST:
    case ROW_BUSY_OTHERS:
        return busy_cell(run, row == ROW_BUSY_FIRST);
    case ROW_MACHINES:
        return figure_text(ddp ? "many" : run->mode == MODE_LIMIT ? "-" : "1");
    default:
        return figure_count(json_number(lines, run->mode == MODE_SINGLE ? "single.c"
                                               : run->mode == MODE_DP   ? "dp.c"
                                               : ddp                    ? "ddp.c"
                                                                        : ""));
    }
}

static void print_transports(Text *text, const Report *report)
{
    char line[400] = "";
    for (int mode = MODE_DP; mode <= MODE_DDP; mode++) {
        const Result *run = report_result(report, (Mode)mode, report->devices);
        const char *transport = run ? json_string(run->json, "transport") : NULL;
        size_t used = strlen(line);
        if (transport)
            snprintf(line + used, sizeof line - used, "%s%s: %.80s", used ? "; " : "",
                     result_mode_name((Mode)mode), transport);
    }
    if (line[0])
        text_paragraph(text, TEXT_PLAIN, 2, "How devices talk: %s.", line);
    for (int mode = MODE_DDP; mode <= MODE_DDP_NO_OVERLAP; mode++) {
        const Result *run = report_result(report, (Mode)mode, report->devices);
        if (run) {
            screen_communication(text, run);
            return;
        }
    }
}

/* --- every device count ---------------------------------------------------------------------- */

static void print_counts(Text *text, const Report *report)
{
    int counts[MOST_COUNTS];
    int count = report_device_counts(report, counts, MOST_COUNTS);
    if (count < 2)
        return;
    screen_heading(text, "Every number of devices: ms per step and speed-up over one device");
    static const Mode columns[] = {MODE_DP, MODE_DDP, MODE_LIMIT};
    enum { FIRST_END = 24, NEXT = 14 };
    text_in(text, TEXT_GREY, "devices");
    for (int column = 0; column < 3; column++)
        text_right(text, FIRST_END + NEXT * column, TEXT_GREY, result_mode_name(columns[column]));
    text_in(text, TEXT_GREY, text->columns >= 76 ? "   DDP does more steps" : "");
    text_newline(text);
    for (int i = 0; i < count; i++) {
        text_printf(text, "%d%s", counts[i], report_oversubscribed(report, counts[i]) ? "*" : "");
        for (int column = 0; column < 3; column++) {
            const Result *run = report_result(report, columns[column], counts[i]);
            if (!run)
                continue;
            int end = FIRST_END + NEXT * column;
            text_right(text, end - 6, TEXT_PLAIN,
                       figure_number(run->step_ms, report_decimals(report, 3)).text);
            text_right(text, end, TEXT_PLAIN, figure_number(run->speedup, 2).text);
        }
        const cJSON *faster = cJSON_GetObjectItemCaseSensitive(report_comparison(report, counts[i]),
                                                               "ddp_faster_percent");
        double low = json_number(faster, "low"), high = json_number(faster, "high");
        if (text->columns >= 76 && isfinite(low) && isfinite(high))
            text_printf(text, "   %+.1f to %+.1f %%", low, high);
        text_newline(text);
    }
}

/* --- the block ------------------------------------------------------------------------------- */

static void print_environment(Text *text, const Report *report)
{
    const cJSON *environment = report->environment;
    const char *command = json_string(environment, "command");
    const char *cpu = json_string(environment, "cpu"), *host = json_string(environment, "host");
    const char *date = json_string(environment, "date");
    const char *revision = json_string(environment, "revision");
    if (!command && !cpu && !host && !date)
        return;
    screen_heading(text, "The run");
    if (command)
        text_paragraph(text, TEXT_PLAIN, 2, "%s", command);
    text_paragraph(text, TEXT_PLAIN, 2, "%s%s%s%s%s%s%s", cpu ? cpu : "unknown processor",
                   host ? " of " : "", host ? host : "", date ? ", " : "", date ? date : "",
                   revision ? ", revision " : "", revision ? revision : "");
}

void screen_developer(Text *text, const Report *report)
{
    const Result *runs[MOST_RUNS];
    int count = screen_grid_results(text, report, runs, MOST_RUNS);
    print_phases(text, report, runs, count);

    const Grid bytes = {bytes_label, bytes_cell, BYTES_ROWS, .talk_in_orange = false};
    screen_heading(text, "Bytes per step, by what they carry, over all links");
    screen_grid(text, report, &bytes, runs, count);

    const Grid taking_part = {taking_part_label, taking_part_cell, TAKING_PART_ROWS,
                              .talk_in_orange = false};
    screen_heading(text, "Who takes part, memory and work of each");
    screen_grid(text, report, &taking_part, runs, count);
    print_transports(text, report);

    print_counts(text, report);
    screen_without(text, report);

    const Result *drawn[MODES];
    for (int mode = 0; mode < MODES; mode++)
        drawn[mode] = report_result(report, (Mode)mode, report->devices);
    text_newline(text);
    if (report_is_ladder(report))
        timeline_print(text, "Every lane", runs, count, ALL_LANES);
    else
        timeline_print(text, "Every lane", drawn, MODES, ALL_LANES);
    print_environment(text, report);
}
