/* screen_compare.c: the one screen of a comparison (DESIGN.md, "What compare prints at depth
 * beginner"): at most 23 lines of 80 columns, for the largest number of devices; what other numbers
 * gave stands beside it. */
#include "report/screen.h"

#include <math.h>
#include <string.h>

/* The main table's columns. */
enum { LABEL_COLUMNS = 16, MS_END = 23, SPEEDUP_END = 34, IDEAL_END = 45, TALK_END = 56 };

enum { MOST_COUNTS = 32, OTHER_COUNT_COLUMNS = 6, BEGINNER_LANES = 5 };

/* --- lines that other screens use, too ------------------------------------------------------- */

void screen_fitting(Text *text, TextColour colour, const char *const *candidates, int count)
{
    for (int i = 0; i < count; i++) {
        if (i == count - 1 || text_width(candidates[i]) <= text->columns) {
            text_paragraph(text, colour, 2, "%s", candidates[i]);
            return;
        }
    }
}

void screen_heading(Text *text, const char *heading)
{
    text_newline(text);
    text_paragraph(text, TEXT_BOLD, 0, "%s", heading);
}

void screen_more(Text *text)
{
    text_paragraph(text, TEXT_GREY, 2,
                   "More: --depth=developer (every phase), --depth=researcher (spread, formulas)");
}

static const char *data_name(const Report *report)
{
    const char *data = json_string(report->config, "data");
    if (data && strcmp(data, "fashion-mnist") == 0)
        return "Fashion-MNIST";
    if (data && strcmp(data, "synthetic") == 0)
        return "Generated images";
    return data ? data : "unknown data";
}

/* "784-512-512-10", or "" if the file does not say. */
static void join_layers(char *joined, size_t size, const Report *report)
{
    const cJSON *layer;
    size_t used = 0;
    joined[0] = 0;
    cJSON_ArrayForEach(layer, cJSON_GetObjectItemCaseSensitive(report->config, "layers"))
    {
        int written = snprintf(joined + used, size - used, "%s%.0f", used ? "-" : "",
                               fmin(fmax(cJSON_GetNumberValue(layer), 0), 1e9));
        if (written < 0 || (size_t)written >= size - used)
            break;
        used += (size_t)written;
    }
}

/* That all of this is calculated, and for what. */
static void screen_virtual(Text *text, const cJSON *profile)
{
    const char *name = json_string(profile, "name");
    if (!name)
        return;
    bool timing_only = cJSON_IsTrue(cJSON_GetObjectItem(profile, "timing_only"));
    bool interpreter = cJSON_IsTrue(cJSON_GetObjectItem(profile, "interpreter"));
    text_paragraph(text, TEXT_PLAIN, 2, "Virtual clocks of %s: calculated, not measured%s%s.", name,
                   timing_only ? "; nothing was trained" : "",
                   interpreter ? "; queued by PyTorch's interpreter" : "");
}

void screen_what_was_trained(Text *text, const Report *report)
{
    char layers[128], model[256], with_device[320];
    join_layers(layers, sizeof layers, report);
    const cJSON *profile = cJSON_GetObjectItem(report->config, "profile");
    const char *workload = json_string(profile, "workload");
    if (workload)
        snprintf(model, sizeof model, "%.80s", workload);
    else if (cJSON_IsTrue(cJSON_GetObjectItem(profile, "timing_only")))
        snprintf(model, sizeof model, "MLP %s", layers);
    else
        snprintf(model, sizeof model, "%.80s, MLP%s%s", data_name(report), layers[0] ? " " : "",
                 layers);
    size_t used = strlen(model);
    if (isfinite(report->parameters))
        snprintf(model + used, sizeof model - used, " (%s weights, %s)",
                 figure_count(report->parameters).text, figure_bytes(report->model_bytes).text);
    snprintf(with_device, sizeof with_device, "%s, 1 device = 1 %s", model,
             report_device_noun(report));
    bool known = strcmp(report_device_noun(report), "device") != 0 &&
                 !report_oversubscribed(report, report->devices);
    /* A deep model's line may not have the room; a second line would cost the screen one. */
    const char *const candidates[] = {known ? with_device : model, model};
    screen_fitting(text, TEXT_PLAIN, candidates, 2);
    screen_virtual(text, profile);
}

void screen_oversubscribed(Text *text, const Report *report)
{
    double cores = report_cores(report);
    if (report_oversubscribed(report, report->devices))
        text_paragraph(text, TEXT_ORANGE, 2,
                       "* %d devices share %s %ss: they cannot all work at once.", report->devices,
                       isnan(cores) ? "fewer" : figure_count(cores).text,
                       report_device_noun(report));
}

void screen_busiest(Text *text, const Result *dp, const Result *ddp)
{
    char part[2][96] = {"", ""}, line[256], shorter[256];
    const Result *runs[2] = {dp, ddp};
    for (int i = 0; i < 2; i++) {
        if (!runs[i] || isnan(runs[i]->sent_bytes) || isnan(runs[i]->received_bytes))
            continue;
        Figure sent = figure_bytes(runs[i]->sent_bytes);
        Figure received = figure_bytes(runs[i]->received_bytes);
        /* "3.1/2.7 MB", but "800.0 kB/2.7 MB" */
        char *sent_unit = strchr(sent.text, ' '), *received_unit = strchr(received.text, ' ');
        if (sent_unit && received_unit && strcmp(sent_unit, received_unit) == 0)
            *sent_unit = 0;
        snprintf(part[i], sizeof part[i], "%s %s/%s", result_mode_name(runs[i]->mode), sent.text,
                 received.text);
    }
    if (!part[0][0] && !part[1][0])
        return;
    const char *comma = part[0][0] && part[1][0] ? ", " : "";
    snprintf(line, sizeof line, "Busiest device sends/receives: %s%s%s%s", part[0],
             part[0][0] && dp && dp->devices > 1 ? " (model re-sent)" : "", comma, part[1]);
    snprintf(shorter, sizeof shorter, "Busiest device sends/receives: %s%s%s", part[0], comma,
             part[1]);
    const char *const candidates[] = {line, shorter};
    screen_fitting(text, TEXT_PLAIN, candidates, 2);
}

void screen_find_unused(Text *text, const Report *report, const Result *run)
{
    const cJSON *price =
        run ? cJSON_GetObjectItemCaseSensitive(run->json, "find_unused_parameters") : NULL;
    double bytes = json_number(price, "bytes"), ms = json_number(price, "ms");
    if (isnan(bytes) && isnan(ms))
        return;
    const char *unused = json_string(report->config, "unused");
    bool for_nothing = !unused || strcmp(unused, "never") == 0; /* PyTorch warns of it, too */
    text_paragraph(text, TEXT_PLAIN, 2,
                   "find-unused-parameters: %s bytes and %s ms more per step%s.",
                   figure_count(bytes).text, figure_number(ms, 3).text,
                   for_nothing ? ", for nothing: every parameter was used" : "");
}

void screen_fault(Text *text, const Report *report)
{
    const cJSON *fault = cJSON_GetObjectItemCaseSensitive(report->config, "fault");
    const char *kind = json_string(fault, "kind");
    const char *mode = json_string(report->config, "mode");
    if (!kind || strcmp(kind, "slow") != 0) /* of the others no tables come */
        return;
    bool compared = mode && strcmp(mode, "compare") == 0;
    text_paragraph(text, TEXT_ORANGE, 2,
                   "Asked for: rank %.0f%s at half speed from step %.0f on (--slow).",
                   json_number(fault, "rank"), compared ? " of DP and DDP computes" : " computes",
                   json_number(fault, "step"));
}

void screen_learned(Text *text, const Report *report, const Result *run)
{
    if (!run)
        return;
    const cJSON *losses = cJSON_GetObjectItemCaseSensitive(run->json, "losses");
    double first = json_number(run->json, "first_loss"), last = run->loss;
    double steps = json_number(report->config, "total_steps");
    int count = cJSON_IsArray(losses) ? cJSON_GetArraySize(losses) : 0;
    if (count > 0) {
        first = cJSON_GetNumberValue(cJSON_GetArrayItem(losses, 0));
        last = cJSON_GetNumberValue(cJSON_GetArrayItem(losses, count - 1));
        steps = count;
    }
    char line[256] = "";
    size_t used = 0;
    if (isfinite(first) && isfinite(last))
        snprintf(line, sizeof line, "loss %s -> %s", figure_number(first, 2).text,
                 figure_number(last, 2).text);
    else if (isfinite(last))
        snprintf(line, sizeof line, "loss %s", figure_number(last, 2).text);
    used = strlen(line);
    if (used && isfinite(steps))
        snprintf(line + used, sizeof line - used, " after %s steps", figure_count(steps).text);
    used = strlen(line);
    if (isfinite(run->accuracy))
        snprintf(line + used, sizeof line - used, "%stest accuracy %s %%", used ? "; " : "",
                 figure_number(100 * run->accuracy, 1).text);
    if (line[0])
        text_paragraph(text, TEXT_PLAIN, 2, "Learned: %s.", line);
}

/* --- the table ------------------------------------------------------------------------------- */

/* How many of the other device counts fit beside the table: the largest ones. */
static int other_counts(const Text *text, const Report *report, int *others)
{
    int counts[MOST_COUNTS];
    int count = report_device_counts(report, counts, MOST_COUNTS);
    while (count > 0 && counts[count - 1] >= report->devices)
        count--;
    int room = json_string(report->config, "beside")
                   ? 0 /* the virtual times stand there */
                   : (text->columns - TALK_END - 2) / OTHER_COUNT_COLUMNS;
    /* Their heading needs two columns' width. */
    if (room < 2 || count == 0)
        return 0;
    int fit = count < room ? count : room;
    memcpy(others, counts + count - fit, (size_t)fit * sizeof *others);
    return fit;
}

static void print_table_head(Text *text, const Report *report, const int *others, int other_count)
{
    if (other_count)
        text_right(text, TALK_END + 2 + OTHER_COUNT_COLUMNS * (other_count < 2 ? 2 : other_count),
                   TEXT_GREY, "speed-up with");
    text_newline(text);
    text_right(text, MS_END, TEXT_GREY, "ms");
    text_right(text, SPEEDUP_END, TEXT_GREY, "speed-up");
    text_right(text, IDEAL_END, TEXT_GREY, "of ideal");
    text_right(text, TALK_END, TEXT_GREY, "talk+wait");
    for (int i = 0; i < other_count; i++) {
        bool crowded = report_oversubscribed(report, others[i]);
        text_right(text, TALK_END + 2 + OTHER_COUNT_COLUMNS * (i + 1), TEXT_GREY,
                   figure_text("%d%s", others[i], crowded ? "*" : "").text);
    }
    if (!other_count && json_string(report->config, "beside"))
        text_right(text, TALK_END + 12, TEXT_GREY, "virtual ms");
    else if (!other_count && text->columns >= TALK_END + 24)
        text_in(text, TEXT_GREY, "  (copies, sums, waits)");
    text_newline(text);
}

static void print_row(Text *text, const Report *report, const Result *run, int decimals,
                      const int *others, int other_count)
{
    static const char *const labels[MODES] = {
        [MODE_SINGLE] = "one device",
        [MODE_DP] = "DP",
        [MODE_DDP] = "DDP",
        [MODE_DDP_NO_OVERLAP] = "DDP, no overlap",
        [MODE_LIMIT] = "machine limit",
    };
    const char *label = labels[run->mode], *mark = run->oversubscribed ? "*" : "";
    if (run->mode == MODE_DP || run->mode == MODE_DDP)
        text_printf(text, "%-4s %d device%s%s", label, run->devices, run->devices == 1 ? "" : "s",
                    mark);
    else
        text_printf(text, "%s%s", label, mark);
    text_right(text, MS_END, TEXT_PLAIN, figure_number(run->step_ms, decimals).text);
    text_right(text, SPEEDUP_END, TEXT_PLAIN, figure_number(run->speedup, 2).text);
    if (run->mode == MODE_SINGLE) {
        if (isfinite(run->virtual_ms))
            text_right(text, TALK_END + 12, TEXT_GREY,
                       figure_number(run->virtual_ms, decimals).text);
        text_newline(text);
        return;
    }
    text_right(text, IDEAL_END, TEXT_PLAIN, figure_percent(run->efficiency).text);
    double talk = result_talk_ms(run);
    text_right(text, TALK_END, TEXT_ORANGE,
               isnan(talk) ? "-" : figure_text("%s ms", figure_number(talk, decimals).text).text);
    for (int i = 0; i < other_count; i++) {
        const Result *other = report_result(report, run->mode, others[i]);
        text_right(text, TALK_END + 2 + OTHER_COUNT_COLUMNS * (i + 1), TEXT_PLAIN,
                   other ? figure_number(other->speedup, 2).text : "-");
    }
    if (other_count) {
        text_newline(text);
        return;
    }
    if (isfinite(run->virtual_ms)) {
        text_printf(text, "  ");
        text_right(text, TALK_END + 12, TEXT_GREY, figure_number(run->virtual_ms, decimals).text);
        text_newline(text);
        return;
    }
    double saved = json_number(report_comparison(report, run->devices), "overlap_saved_ms");
    Figure comment = figure_text("%s", "");
    int room = text->columns - TALK_END - 2;
    if (run->mode == MODE_LIMIT)
        comment = figure_text(room >= 33 ? "the same arithmetic, nobody talks" : "nobody talks");
    else if (run->mode == MODE_DDP_NO_OVERLAP && isfinite(saved))
        comment = figure_text("overlap %s %s ms", saved < 0 ? "costs" : "saves",
                              figure_number(fabs(saved), decimals).text);
    if (comment.text[0] && text_width(comment.text) <= room)
        text_in(text, TEXT_GREY, "  %s", comment.text);
    text_newline(text);
}

/* Where the terminal is too narrow for the columns of other device counts. */
static void print_other_counts_below(Text *text, const Report *report)
{
    int counts[MOST_COUNTS];
    int count = report_device_counts(report, counts, MOST_COUNTS);
    char line[512] = "";
    for (int i = 0; i < count && counts[i] < report->devices; i++) {
        const Result *dp = report_result(report, MODE_DP, counts[i]);
        const Result *ddp = report_result(report, MODE_DDP, counts[i]);
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s%d%s: DP %s, DDP %s", used ? "; " : "",
                 counts[i], report_oversubscribed(report, counts[i]) ? "*" : "",
                 figure_number(dp ? dp->speedup : NAN, 2).text,
                 figure_number(ddp ? ddp->speedup : NAN, 2).text);
    }
    if (line[0])
        text_paragraph(text, TEXT_PLAIN, 2, "Speed-up with fewer devices: %s.", line);
}

static bool spans_machines(const Report *report)
{
    const cJSON *profile = cJSON_GetObjectItem(report->config, "profile");
    return report->devices > json_number(profile, "per_node");
}

static void print_impossible(Text *text, const Report *report)
{
    text_printf(text, "%-4s %d devices  impossible: one process cannot span machines", "DP",
                report->devices);
    text_newline(text);
}

static void print_table(Text *text, const Report *report)
{
    int others[MOST_COUNTS];
    int other_count = other_counts(text, report, others);
    print_table_head(text, report, others, other_count);
    for (int mode = 0; mode < MODES; mode++) {
        const Result *run = report_result(report, (Mode)mode, report->devices);
        if (run)
            print_row(text, report, run, report_decimals(report, 3), others, other_count);
        else if (mode == MODE_DP && spans_machines(report))
            print_impossible(text, report);
    }
    if (other_count == 0)
        print_other_counts_below(text, report);
    if (!report_oversubscribed(report, report->devices))
        text_newline(text);
    screen_oversubscribed(text, report);
}

/* --- the lines below it ---------------------------------------------------------------------- */

static const cJSON *dp_equals_ddp(const Report *report, int devices)
{
    return cJSON_GetObjectItemCaseSensitive(report_comparison(report, devices), "dp_equals_ddp");
}

/* The check of all device counts in one line: the first that failed, else the largest. */
static void print_same_weights(Text *text, const Report *report)
{
    int counts[MOST_COUNTS];
    int count = report_device_counts(report, counts, MOST_COUNTS);
    for (int i = count - 1; i >= 0; i--) {
        if (!cJSON_IsFalse(dp_equals_ddp(report, counts[i])))
            continue;
        double apart =
            json_number(report_comparison(report, counts[i]), "dp_ddp_max_abs_weight_diff");
        text_paragraph(text, TEXT_ORANGE, 2,
                       "Same weights? FAILED: with %d devices DP and DDP differ%s.", counts[i],
                       isfinite(apart) ? figure_text(" by up to %.0e", apart).text : "");
        return;
    }
    const Result *dp = report_result(report, MODE_DP, report->devices);
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    double from_single = fmax(dp ? dp->weight_difference : NAN, ddp ? ddp->weight_difference : NAN);
    const char *unused = json_string(report->config, "unused");
    if (unused && strcmp(unused, "rank0") == 0)
        from_single = NAN; /* one device is rank 0 for every image: another training */
    const char *algorithm = json_string(report->config, "algorithm");
    double apart =
        json_number(report_comparison(report, report->devices), "dp_ddp_max_abs_weight_diff");
    bool other_order =
        algorithm && (strcmp(algorithm, "ring") == 0 || strcmp(algorithm, "tree") == 0);
    if (cJSON_IsTrue(dp_equals_ddp(report, report->devices)) || (other_order && apart == 0))
        text_paragraph(
            text, TEXT_PLAIN, 2, "Same weights? DP = DDP to the last bit%s.",
            isfinite(from_single) ? figure_text("; one device within %.0e", from_single).text : "");
    else if (other_order && report->devices > 2 && isfinite(apart))
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Same weights? DP and DDP within %.0e: a %s adds up in another order.",
                       apart, algorithm);
    else if (json_number(report->config, "accumulate") > 1 && isfinite(apart))
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Same weights? DP and DDP within %.0e: micro-batches add up in another "
                       "order.",
                       apart);
    else if (isfinite(from_single))
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Same weights? DP and DDP lie within %.0e of one device's.", from_single);
}

static void print_verdict(Text *text, const Report *report)
{
    Verdict verdict = report_verdict(report, report->devices);
    char line[256], shorter[256];
    const char *const candidates[] = {line, shorter};
    int decimals = fabs(verdict.percent) < 9.95;
    Figure percent = figure_number(verdict.percent, decimals);
    Figure low = figure_number(verdict.low, decimals), high = figure_number(verdict.high, decimals);
    char interval[96] = "";
    if (strcmp(low.text, high.text) != 0) /* as they are if calculated */
        snprintf(interval, sizeof interval, " (%s - %s)", low.text, high.text);
    switch (verdict.winner) {
    case WINNER_DDP:
        snprintf(line, sizeof line,
                 "DDP does %s %% more steps per second than DP%s. The lesson's 20-40 %% is "
                 "for 4 GPUs.",
                 percent.text, interval);
        snprintf(shorter, sizeof shorter,
                 "DDP does %s %% more steps/s than DP%s; the lesson: 20-40 %% on 4 GPUs.",
                 percent.text, interval);
        break;
    case WINNER_DP:
        snprintf(line, sizeof line,
                 "DP won: it does %s %% more steps per second than DDP%s. The lesson says "
                 "DDP, by 20-40 %% on 4 GPUs.",
                 percent.text, interval);
        snprintf(shorter, sizeof shorter,
                 "DP won: %s %% more steps/s than DDP%s; lesson: DDP 20-40 %% on 4 GPUs.",
                 percent.text, interval);
        break;
    case WINNER_NONE:
        snprintf(line, sizeof line,
                 "No difference can be told: DDP does %+.1f to %+.1f %% steps per second. The "
                 "lesson's 20-40 %% is for 4 GPUs.",
                 verdict.low, verdict.high);
        snprintf(
            shorter, sizeof shorter,
            "No difference can be told (DDP %+.1f to %+.1f %%); the lesson: 20-40 %% on 4 GPUs.",
            verdict.low, verdict.high);
        break;
    case WINNER_UNKNOWN:
        snprintf(line, sizeof line, "Too few measurements to tell whether DP or DDP is faster.");
        memcpy(shorter, line, sizeof shorter);
        break;
    }
    screen_fitting(text, TEXT_BOLD, candidates, 2);
}

void screen_compare(Text *text, const Report *report, bool more)
{
    if (isfinite(report->batch))
        text_paragraph(text, TEXT_BOLD, 0,
                       "DataParallel and DistributedDataParallel: one step, the same %s %s",
                       figure_count(report->batch).text, report_samples_noun(report));
    else
        text_paragraph(text, TEXT_BOLD, 0, "DataParallel and DistributedDataParallel: one step");
    screen_what_was_trained(text, report);
    print_table(text, report);

    const Result *dp = report_result(report, MODE_DP, report->devices);
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    const Result *const drawn[] = {dp, ddp};
    timeline_print(text, "Who works, who waits", drawn, 2, BEGINNER_LANES);
    text_newline(text);
    screen_busiest(text, dp, ddp);
    screen_accumulate(text, dp, ddp);
    screen_find_unused(text, report, ddp);
    screen_fault(text, report);
    print_same_weights(text, report);
    screen_learned(text, report, ddp ? ddp : dp);
    if (dp && ddp)
        print_verdict(text, report);
    screen_bound(text, report, dp, ddp, NULL);
    screen_buckets(text, report);
    screen_guess(text, report);
    if (more)
        screen_more(text);
}
