/* screen_researcher.c: what depth researcher adds: the spread, each figure of the traffic beside
 * its formula, what bounds the step, and the lesson's claims beside what was measured. */
#include "report/screen.h"

#include <math.h>
#include <string.h>

enum { MOST_RUNS = 64, MOST_LAYERS = 256 };

/* --- spread ---------------------------------------------------------------------------------- */

static void print_spread(Text *text, const Report *report)
{
    enum { DEVICES = 18, P05 = 27, MEDIAN = 35, P95 = 43, STEPS = 50, RATE = 60 };
    screen_heading(text, "Spread of the step in ms");
    text_right(text, DEVICES, TEXT_GREY, "devices");
    text_right(text, P05, TEXT_GREY, "p05");
    text_right(text, MEDIAN, TEXT_GREY, "median");
    text_right(text, P95, TEXT_GREY, "p95");
    text_right(text, STEPS, TEXT_GREY, "n");
    text_right(text, RATE, TEXT_GREY, "images/s");
    text_newline(text);
    for (int i = 0; i < report->result_count; i++) {
        const Result *run = &report->results[i];
        int decimals = figure_decimals(run->p95_ms, 4);
        text_printf(text, "%s", result_name(run).text);
        text_right(text, DEVICES, TEXT_PLAIN,
                   figure_text("%s%d", run->oversubscribed ? "*" : "", run->devices).text);
        text_right(text, P05, TEXT_PLAIN, figure_number(run->p05_ms, decimals).text);
        text_right(text, MEDIAN, TEXT_PLAIN, figure_number(run->step_ms, decimals).text);
        text_right(text, P95, TEXT_PLAIN, figure_number(run->p95_ms, decimals).text);
        text_right(text, STEPS, TEXT_PLAIN, figure_count(run->steps).text);
        text_right(text, RATE, TEXT_PLAIN, figure_count(run->samples_per_s).text);
        text_newline(text);
    }
}

/* --- the model's arithmetic ------------------------------------------------------------------ */

/* Reads the layers' widths; returns how many. */
static int read_layers(const Report *report, double *widths)
{
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(report->config, "layers");
    int count = cJSON_GetArraySize(layers);
    if (count > MOST_LAYERS)
        count = MOST_LAYERS;
    for (int i = 0; i < count; i++)
        widths[i] = cJSON_GetNumberValue(cJSON_GetArrayItem(layers, i));
    return count;
}

/* Floating-point operations of the products of one sample's forward and backward pass: 2 in out for
 * the outputs, as many for the weights' gradients, and as many for the inputs' gradients, which the
 * first layer needs not. NAN if the layers are not known. */
static double flops_per_sample(const Report *report)
{
    double widths[MOST_LAYERS], flops = 0;
    int count = read_layers(report, widths);
    if (count < 2)
        return NAN;
    for (int i = 0; i + 1 < count; i++)
        flops += (i == 0 ? 4 : 6) * widths[i] * widths[i + 1];
    const char *unused = json_string(report->config, "unused");
    if (unused && strcmp(unused, "never") == 0) /* a branch beside the last layer, in use */
        flops += (count == 2 ? 4 : 6) * widths[count - 2] * widths[count - 1];
    return flops;
}

/* --- traffic beside its formula -------------------------------------------------------------- */

/* What the formulas are made of, all in bytes per step. */
typedef struct Terms {
    double n;       /* devices that get samples */
    double micros;  /* micro-batches of an update */
    double trips;   /* A(N-1): how often DP's model travels to some device in an update */
    double model;   /* P */
    double inputs;  /* X: of the devices other than the boss, in float */
    double outputs; /* Y: of the same devices */
} Terms;

/* Micro-batches as batch_micro makes them (batch.h), each shared out as below. */
static double model_trips(double batch, double micros, int devices)
{
    double trips = 0, rows = ceil(batch / devices), left = batch;
    for (int i = 0; i < micros && left > 0; i++) {
        double each = floor(rows / micros) + (i < fmod(rows, micros) ? 1 : 0);
        double samples = fmin(left, each * devices);
        if (samples > 0)
            trips += ceil(samples / ceil(samples / devices)) - 1;
        left -= samples;
    }
    return trips;
}

/* torch.chunk gives the first devices ceil(batch / devices) samples each, and the last ones none if
 * there are too few (torch/nn/parallel/scatter_gather.py). */
static Terms terms_of(const Report *report, int devices)
{
    double widths[MOST_LAYERS];
    int count = read_layers(report, widths);
    double chunk = ceil(report->batch / devices);
    double micros = fmax(1, json_number(report->config, "accumulate"));
    double others = report->batch - fmin(chunk, report->batch);
    return (Terms){
        .n = ceil(report->batch / chunk),
        .micros = micros,
        .trips = model_trips(report->batch, micros, devices),
        .model = report->model_bytes,
        .inputs = count >= 2 ? 4 * others * widths[0] : NAN,
        .outputs = count >= 2 ? 4 * others * widths[count - 1] : NAN,
    };
}

/* A line; `measured` or `formula` may be NAN. Returns whether they differ. */
static bool print_formula(Text *text, const char *name, double measured, double formula,
                          const char *written)
{
    int width = text->columns >= 80 ? 14 : 12;
    /* A bucket's share of a rank is a whole number of cache lines, so not exactly 1/N. */
    bool differ = fabs(measured - formula) > 0.001 * formula;
    text_printf(text, "%s", name);
    text_right(text, 19 + width, TEXT_PLAIN, figure_count(measured).text);
    text_right(text, 19 + 2 * width, TEXT_PLAIN, figure_count(formula).text);
    text_in(text, TEXT_ORANGE, " %s ", differ ? "!" : " ");
    text_printf(text, "%s", written);
    text_newline(text);
    return differ;
}

static void print_formulas(Text *text, const Report *report)
{
    const Result *dp = report_result(report, MODE_DP, report->devices);
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    if (!dp && !ddp)
        return;
    Terms t = terms_of(report, report->devices);
    double ranks = report->devices, p = t.model, x = t.inputs, y = t.outputs;
    CommunicationFormula by_rank = {0};
    if (ddp)
        by_rank = communication_formula(ddp, p);
    int width = text->columns >= 80 ? 14 : 12;
    bool differ = false, repeated = t.micros > 1;
    screen_heading(text, "Bytes per step, counted where they move, beside the formula");
    text_right(text, 19 + width, TEXT_GREY, "counted");
    text_right(text, 19 + 2 * width, TEXT_GREY, "formula");
    text_newline(text);
    if (dp) {
        const double *kind = dp->by_kind_bytes;
        differ |= print_formula(text, "DP boss sends", dp->sent_bytes, t.trips * p + x + y,
                                repeated ? "A(N-1)P+X+Y" : "(N-1)P+X+Y");
        differ |= print_formula(text, "DP boss receives", dp->received_bytes, t.trips * p + y,
                                repeated ? "A(N-1)P+Y" : "(N-1)P+Y");
        differ |=
            print_formula(text, "DP all links", dp->traffic_bytes, 2 * t.trips * p + x + 2 * y,
                          repeated ? "2A(N-1)P+X+2Y" : "2(N-1)P+X+2Y");
        differ |=
            print_formula(text, "  model", kind[0], t.trips * p, repeated ? "A(N-1)P" : "(N-1)P");
        differ |= print_formula(text, "  inputs", kind[1], x, "X");
        differ |= print_formula(text, "  outputs", kind[2], y, "Y");
        differ |= print_formula(text, "  output gradients", kind[3], y, "Y");
        differ |= print_formula(text, "  param. gradients", kind[4], t.trips * p,
                                repeated ? "A(N-1)P" : "(N-1)P");
    }
    if (ddp) {
        differ |= print_formula(text, "DDP rank sends", ddp->sent_bytes, by_rank.bytes,
                                by_rank.bytes_written);
        differ |= print_formula(text, "DDP rank receives", ddp->received_bytes, by_rank.bytes,
                                by_rank.bytes_written);
        differ |= print_formula(text, "DDP all links", ddp->traffic_bytes, 2 * p * (ranks - 1),
                                "2P(N-1)");
        const cJSON *counted = cJSON_GetObjectItemCaseSensitive(ddp->json, "communication");
        double all_reduces = json_number(counted, "all_reduces");
        if (isfinite(by_rank.steps))
            differ |= print_formula(text, "DDP steps of waiting", json_number(counted, "steps"),
                                    all_reduces * by_rank.steps,
                                    figure_text("%s each", by_rank.steps_written).text);
    }
    if (differ)
        text_paragraph(text, TEXT_ORANGE, 2, "! differs by more than 0.1 %%.");
    if (!dp) {
        text_paragraph(text, TEXT_GREY, 0, "N = %d devices; P = %s bytes of weights.",
                       report->devices, figure_count(p).text);
        return;
    }
    char idle[64] = "";
    if (t.n < report->devices)
        snprintf(idle, sizeof idle, " (DP: %.0f, the others got no samples)", t.n);
    text_paragraph(
        text, TEXT_GREY, 0,
        "N = %d devices%s; P = %s bytes of weights; X = %s bytes of inputs and Y = %s of "
        "outputs on devices other than the boss%s.",
        report->devices, idle, figure_count(p).text, figure_count(x).text, figure_count(y).text,
        repeated ? figure_text("; A = %.0f micro-batches", t.micros).text : "");
    bool even = ddp && strcmp(by_rank.bytes_written, "2P(N-1)/N") == 0;
    if (ddp && repeated)
        text_paragraph(text, TEXT_GREY, 0,
                       "DDP's ranks add their micro-batches' gradients up before they send them "
                       "(no_sync): A is not in its formulas.");
    else if (ddp)
        text_paragraph(text, TEXT_GREY, 0,
                       "Over all links both move about the same. What differs: who carries it (the "
                       "boss 2(N-1)P, %s), what it waits for, and that DDP's can hide.",
                       even ? "a rank 4P(N-1)/N"
                            : figure_text("DDP's rank 0 twice %s", by_rank.bytes_written).text);
}

/* --- what bounds the step -------------------------------------------------------------------- */

enum {
    ROW_COMPUTING,
    ROW_BOSS_ALONE,
    ROW_COPYING,
    ROW_WAITING,
    ROW_OTHER,
    ROW_STEP,
    ROW_IDEAL,
    ROW_LOST,
    ROW_RATIO,
    ROW_MOST_TIME,
    ROW_MOST_LOST,
    BOUND_ROWS
};

static const char *bound_label(int row)
{
    static const char *const labels[BOUND_ROWS] = {
        [ROW_COMPUTING] = "computing",
        [ROW_BOSS_ALONE] = "boss alone",
        [ROW_COPYING] = "copying",
        [ROW_WAITING] = "waiting",
        [ROW_OTHER] = "other",
        [ROW_STEP] = "step",
        [ROW_IDEAL] = "ideal",
        [ROW_LOST] = "lost to the ideal",
        [ROW_RATIO] = "compute : talk",
        [ROW_MOST_TIME] = "bound by",
        [ROW_MOST_LOST] = "lost most to",
    };
    return labels[row];
}

/* The milliseconds by which each kind of spending keeps the step from its ideal, one device's step
 * divided by the number of devices. */
static void lost_ms(const Report *report, const Result *run, double lost[SPENT_KINDS])
{
    const Result *single = report_result(report, MODE_SINGLE, 1);
    for (int spent = 0; spent < SPENT_KINDS; spent++)
        lost[spent] = result_spent_ms(run, (Spent)spent);
    double ideal = single ? result_phases_ms(single) / run->devices : NAN;
    /* The ideal is computing, too: of computing only what exceeds it is lost. The boss's part
     * belongs to the ideal as far as one device's step contains the same phases. */
    double boss_ideal = 0;
    for (int phase = 0; single && phase < STEP_PHASES; phase++) {
        if (step_phase_spent(phase, run->mode) == SPENT_BOSS_ALONE &&
            !isnan(single->phase_ms[phase]))
            boss_ideal += single->phase_ms[phase] / run->devices;
    }
    lost[SPENT_BOSS_ALONE] -= boss_ideal;
    lost[SPENT_COMPUTING] -= ideal - boss_ideal;
}

/* The name of the largest, or "-" if nothing is above zero. */
static Figure largest(const double ms[SPENT_KINDS])
{
    int most = 0;
    for (int spent = 0; spent < SPENT_KINDS; spent++) {
        if (isnan(ms[spent]))
            return figure_text("-");
        if (ms[spent] > ms[most])
            most = spent;
    }
    return ms[most] > 0 ? figure_text("%s", bound_label(most)) : figure_text("-");
}

double result_compute_to_talk(const Result *run)
{
    double talk = timeline_communication_ms(run);
    if (isnan(talk))
        talk = result_talk_ms(run);
    double computing =
        result_spent_ms(run, SPENT_COMPUTING) + result_spent_ms(run, SPENT_BOSS_ALONE);
    return talk > 0 ? computing / talk : NAN;
}

static Figure bound_cell(const Report *report, const Result *run, int row)
{
    const Result *single = report_result(report, MODE_SINGLE, 1);
    double total = result_phases_ms(run), kinds[SPENT_KINDS];
    double ideal = single ? result_phases_ms(single) / run->devices : NAN;
    int decimals = report_decimals(report, 4);
    switch (row) {
    case ROW_STEP:
        return figure_number(total, decimals);
    case ROW_IDEAL:
        return figure_number(ideal, decimals);
    case ROW_LOST:
        return run->mode == MODE_SINGLE ? figure_text("-") : figure_number(total - ideal, decimals);
    case ROW_RATIO:
        return isnan(result_compute_to_talk(run))
                   ? figure_text("-")
                   : figure_text("%.1f : 1", result_compute_to_talk(run));
    case ROW_MOST_TIME:
        for (int spent = 0; spent < SPENT_KINDS; spent++)
            kinds[spent] = result_spent_ms(run, (Spent)spent);
        return largest(kinds);
    case ROW_MOST_LOST:
        if (!(total - ideal > 0.02 * total))
            return figure_text("-");
        lost_ms(report, run, kinds);
        return largest(kinds);
    default:
        if (result_spent_ms(run, (Spent)row) == 0)
            return figure_text("-");
        return figure_number(result_spent_ms(run, (Spent)row), decimals);
    }
}

static void print_bounds(Text *text, const Report *report)
{
    const Result *runs[MOST_RUNS];
    int count = screen_grid_results(text, report, runs, MOST_RUNS);
    const Grid grid = {bound_label, bound_cell, BOUND_ROWS, .talk_in_orange = false};
    screen_heading(text, "What bounds the step: where its milliseconds go");
    screen_grid(text, report, &grid, runs, count);
    text_paragraph(text, TEXT_GREY, 0,
                   "Ideal is one device's step divided by the number of devices. Boss alone: the "
                   "boss computes, the others are idle. What is lost to computing: small batches "
                   "are less efficient, and an update that every rank repeats does not shrink. "
                   "Compute : talk counts hidden talk, too (rank 0's all-reduce in the timeline).");
    double saved = json_number(report_comparison(report, report->devices), "overlap_saved_ms");
    if (isfinite(saved))
        text_paragraph(text, TEXT_PLAIN, 0,
                       "Overlap saved %s ms of each step with %d devices: the same run with "
                       "--overlap=off, interleaved, minus this one.",
                       figure_number(saved, 3).text, report->devices);
    double flops = flops_per_sample(report) * report->batch / report->devices;
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    if (ddp && isfinite(flops) && ddp->sent_bytes > 0)
        text_paragraph(text, TEXT_PLAIN, 0,
                       "A rank computes %s million floating-point operations (its products, by "
                       "formula) and sends %s per step: %s operations per byte.",
                       figure_count(flops / 1e6).text, figure_bytes(ddp->sent_bytes).text,
                       figure_number(flops / ddp->sent_bytes, 0).text);
}

/* --- the lesson's claims --------------------------------------------------------------------- */

static void print_claim(Text *text, const char *claim)
{
    text_in(text, TEXT_GREY, "claim     ");
    text_paragraph(text, TEXT_PLAIN, 10, "%s", claim);
    text_in(text, TEXT_GREY, "measured  ");
}

/* "4 CPU cores", "2 GPUs", "4 devices on 2 CPU cores" */
static Figure setting(const Report *report)
{
    const char *noun = report_device_noun(report);
    const char *things = strcmp(noun, "core") == 0  ? "CPU cores"
                         : strcmp(noun, "GPU") == 0 ? "GPUs"
                                                    : "devices";
    if (report_oversubscribed(report, report->devices))
        return figure_text("%d devices on %s %s", report->devices,
                           figure_count(report_cores(report)).text, things);
    return figure_text("%d %s", report->devices, things);
}

static void print_claim_faster(Text *text, const Report *report)
{
    print_claim(text, "DDP is often 20-40 % faster than DP on 4 GPUs.");
    Verdict verdict = report_verdict(report, report->devices);
    Figure here = setting(report);
    double p = verdict.percent;
    switch (verdict.winner) {
    case WINNER_DDP:
        text_paragraph(text, TEXT_BOLD, 10, "DDP is %.1f %% faster (%.1f - %.1f) with %s: %s.", p,
                       verdict.low, verdict.high, here.text,
                       p < 20   ? "below the claimed range"
                       : p > 40 ? "above the claimed range"
                                : "inside the claimed range");
        break;
    case WINNER_DP:
        text_paragraph(text, TEXT_BOLD, 10,
                       "DP is %.1f %% faster (%.1f - %.1f) with %s: the opposite of the claim.", p,
                       verdict.low, verdict.high, here.text);
        break;
    case WINNER_NONE:
        text_paragraph(text, TEXT_BOLD, 10,
                       "No difference can be told (DDP %+.1f to %+.1f %%) with %s: not as claimed.",
                       verdict.low, verdict.high, here.text);
        break;
    case WINNER_UNKNOWN:
        text_paragraph(text, TEXT_BOLD, 10, "Too few measurements to tell.");
        break;
    }
}

static void print_claim_speedup(Text *text, const Report *report)
{
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    if (!ddp || !isfinite(ddp->speedup))
        return;
    print_claim(text,
                "Well-tuned DDP reaches about 3.5x on 4 local GPUs (88 % of ideal), for models "
                "with much compute per parameter.");
    double percent = 100 * ddp->efficiency;
    text_paragraph(text, TEXT_BOLD, 10, "DDP reaches %.2fx with %s (%.0f %% of ideal): %s.",
                   ddp->speedup, setting(report).text, percent,
                   percent < 86   ? "less than claimed"
                   : percent > 90 ? "more than claimed"
                                  : "as claimed");
}

static void print_claim_tiny(Text *text, const Report *report)
{
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    if (!ddp || isnan(result_compute_to_talk(ddp)))
        return;
    double ratio = result_compute_to_talk(ddp);
    print_claim(text, "Tiny models communicate more than they compute.");
    text_paragraph(text, TEXT_BOLD, 10,
                   "With %s weights and %s images per rank, DDP computes %.1f times as long as it "
                   "communicates: %s.",
                   figure_count(report->parameters).text,
                   figure_number(ddp->batch_per_device, 0).text, ratio,
                   ratio < 1 ? "this is such a tiny model" : "this is not such a tiny model");
}

void screen_researcher(Text *text, const Report *report)
{
    print_spread(text, report);
    print_formulas(text, report);
    print_bounds(text, report);

    if (!report_result(report, MODE_DP, report->devices) ||
        !report_result(report, MODE_DDP, report->devices))
        return;
    screen_heading(text, "The lesson's claims beside this run");
    print_claim_faster(text, report);
    print_claim_speedup(text, report);
    print_claim_tiny(text, report);
    text_paragraph(
        text, TEXT_GREY, 0,
        "This DP is a C program without an interpreter: it pays for what it does at every "
        "step. PyTorch's DP pays Python's interpreter lock on top, which this run does "
        "not show.");
}
