/* screen_advice.c: what bounds the step on virtual devices, and which buckets would suit it, as it
 * was found by trying (advice.h).
 */
#include "report/screen.h"

#include <math.h>

/* The part of "advice" on a mode, or NULL. */
static const cJSON *judged_of(const Report *report, const char *mode)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(report->object, "advice"), mode);
}

void screen_bound(Text *text, const Report *report, const Result *run, const char *label)
{
    const cJSON *judged = run ? judged_of(report, run->mode == MODE_DP ? "dp" : "ddp") : NULL;
    const char *cost = json_string(judged, "bound_by");
    if (!cost)
        return;
    double step_ms = json_number(judged, "step_ms");
    double without_ms = json_number(cJSON_GetObjectItem(judged, "without_ms"), cost);
    double ratio = result_compute_to_talk(run);
    int decimals = figure_decimals(step_ms, 3);
    const char *name = result_mode_name(run->mode);
    char bound[160], talk[64] = "";
    if (isfinite(without_ms))
        snprintf(bound, sizeof bound, "%s is bound by %.32s: %s ms, and %s without", name, cost,
                 figure_number(step_ms, decimals).text, figure_number(without_ms, decimals).text);
    else
        snprintf(bound, sizeof bound, "%s is bound by no single cost", name);
    if (isfinite(ratio))
        snprintf(talk, sizeof talk, "; compute : talk %.1f : 1", ratio);
    text_paragraph(text, TEXT_PLAIN, 2, "%s%s%s%s.", label ? label : "", label ? ": " : "", bound,
                   talk);
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
    const cJSON *judged = judged_of(report, "ddp");
    double now_mb = json_number(judged, "bucket_mb"), step_ms = json_number(judged, "step_ms");
    double best_mb = json_number(judged, "best_bucket_mb");
    double best_ms = bucket_step_ms(cJSON_GetObjectItem(judged, "buckets"), best_mb);
    double gain = 100 * (1 - best_ms / step_ms);
    if (isnan(now_mb) || isnan(gain))
        return;
    if (gain < 1)
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Buckets of %.4g MiB suit it: no other size would gain 1 %%.", now_mb);
    else
        text_paragraph(text, TEXT_PLAIN, 2,
                       "Try --bucket-mb=%.4g: DDP's step would be %s %% shorter than with %.4g.",
                       best_mb, figure_number(gain, gain < 9.95).text, now_mb);
}
