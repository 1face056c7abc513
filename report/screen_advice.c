/* screen_advice.c: what bounds the step on virtual devices, and which buckets would suit it, as it
 * was found by trying (advice.h).
 */
#include "report/screen.h"

#include <math.h>

/* The part of "advice" on a mode, or NULL. */
static const cJSON *judged_of(const Report *report, Mode mode)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(report->object, "advice"),
                               mode == MODE_DP ? "dp" : "ddp");
}

/* "links (compute : talk 0.3)", the words left out where they were said; empty if the run was not
 * judged. */
static Figure bound_of(const Report *report, const Result *run, bool said)
{
    const char *cost = run ? json_string(judged_of(report, run->mode), "bound_by") : NULL;
    if (!cost)
        return figure_text("%s", "");
    double ratio = result_compute_to_talk(run);
    if (isnan(ratio))
        return figure_text("%.24s", cost);
    return figure_text("%.24s (%s%.1f)", cost, said ? "" : "compute : talk ", ratio);
}

void screen_bound(Text *text, const Report *report, const Result *dp, const Result *ddp,
                  const char *label)
{
    Figure by_dp = bound_of(report, dp, false);
    bool both = by_dp.text[0] != 0;
    Figure by_ddp = bound_of(report, ddp, both);
    const char *before = label ? label : "", *colon = label ? ": " : "";
    if (both && by_ddp.text[0])
        text_paragraph(text, TEXT_PLAIN, 2, "%s%sDP is bound by %s, DDP by %s.", before, colon,
                       by_dp.text, by_ddp.text);
    else if (both || by_ddp.text[0])
        text_paragraph(text, TEXT_PLAIN, 2, "%s%s%s is bound by %s.", before, colon,
                       both ? "DP" : "DDP", both ? by_dp.text : by_ddp.text);
}

static double bucket_step_ms(const cJSON *buckets, double bucket_mb)
{
    const cJSON *bucket;
    cJSON_ArrayForEach(bucket, buckets)
    {
        if (json_number(bucket, "bucket_mb") == bucket_mb)
            return json_number(bucket, "step_ms");
    }
    return NAN;
}

void screen_buckets(Text *text, const Report *report)
{
    const cJSON *judged = judged_of(report, MODE_DDP);
    double now_mb = json_number(judged, "bucket_mb"), step_ms = json_number(judged, "step_ms");
    double best_mb = json_number(judged, "best_bucket_mb");
    if (isnan(now_mb) || isnan(step_ms) || isnan(best_mb))
        return;
    double best_ms = bucket_step_ms(cJSON_GetObjectItem(judged, "buckets"), best_mb);
    double gain = 100 * (1 - best_ms / step_ms);
    if (best_mb == now_mb || isnan(gain))
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Buckets of %.4g MiB suit it: no other size would gain 1 %%.", now_mb);
    else
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Try --bucket-mb=%.4g: DDP's step would be %s %% shorter than with %.4g.",
                       best_mb, figure_number(gain, gain < 9.95).text, now_mb);
}

/* --- by depth developer ---------------------------------------------------------------------- */

/* A row of either table. */
static void print_pair(Text *text, TextColour colour, const char *label, Figure left, Figure right)
{
    enum { LEFT_END = 37, RIGHT_END = 48 };
    text_printf(text, "%s", label);
    text_right(text, LEFT_END, colour, left.text);
    text_right(text, RIGHT_END, colour, right.text);
    text_newline(text);
}

void screen_without(Text *text, const Report *report)
{
    const cJSON *dp = judged_of(report, MODE_DP), *ddp = judged_of(report, MODE_DDP);
    if (!dp && !ddp)
        return;
    double dp_ms = json_number(dp, "step_ms"), ddp_ms = json_number(ddp, "step_ms");
    int decimals = figure_decimals(fmin(dp_ms, ddp_ms), 3);
    const cJSON *dp_without = cJSON_GetObjectItem(dp, "without_ms");
    const cJSON *ddp_without = cJSON_GetObjectItem(ddp, "without_ms");
    const cJSON *names = dp_without ? dp_without : ddp_without, *cost;
    screen_heading(text, "What bounds it: ms of the step on hardware that lacks one cost");
    print_pair(text, TEXT_GREY, "", figure_text("DP"), figure_text("DDP"));
    print_pair(text, TEXT_PLAIN, "as it is", figure_number(dp_ms, decimals),
               figure_number(ddp_ms, decimals));
    cJSON_ArrayForEach(cost, names)
    {
        print_pair(text, TEXT_PLAIN, figure_text("without %.24s", cost->string).text,
                   figure_number(json_number(dp_without, cost->string), decimals),
                   figure_number(json_number(ddp_without, cost->string), decimals));
    }
    if (!ddp)
        return;
    const cJSON *buckets = cJSON_GetObjectItem(ddp, "buckets"), *bucket;
    screen_heading(text, "DDP's buckets: ms of the step by their size");
    print_pair(text, TEXT_GREY, "", figure_text("MiB"), figure_text("ms"));
    cJSON_ArrayForEach(bucket, buckets)
    {
        print_pair(text, TEXT_PLAIN, "", figure_text("%g", json_number(bucket, "bucket_mb")),
                   figure_number(json_number(bucket, "step_ms"), decimals));
    }
}
