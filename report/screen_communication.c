/* screen_communication.c: how DDP's ranks all-reduced their gradients, counted and by formula; what
 * micro-batches cost on the way. */
#include "report/screen.h"

#include <math.h>
#include <string.h>

static const cJSON *communication_of(const Result *run)
{
    return cJSON_GetObjectItemCaseSensitive(run->json, "communication");
}

CommunicationFormula communication_formula(const Result *run, double bytes)
{
    double n = run->devices, height = ceil(log2(n));
    double even = 2 * bytes * (n - 1) / n;
    const CommunicationFormula formulas[] = {
        {"direct", "2P(N-1)/N", "2", even, 2},
        {"ring", "2P(N-1)/N", "2(N-1)", even, 2 * (n - 1)},
        {"tree", "P ceil(log2 N)", "2 ceil(log2 N)", height * bytes, 2 * height},
        {"naive", "P(N-1)", "2", (n - 1) * bytes, 2},
        {"nccl", "2P(N-1)/N", "", even, NAN},
    };
    const char *algorithm = json_string(communication_of(run), "algorithm");
    for (size_t i = 0; algorithm && i < sizeof formulas / sizeof *formulas; i++)
        if (strcmp(formulas[i].algorithm, algorithm) == 0)
            return formulas[i];
    /* a file from before there was a choice */
    return (CommunicationFormula){"", "2P(N-1)/N", "", even, NAN};
}

void screen_communication(Text *text, const Result *run)
{
    const cJSON *communication = communication_of(run);
    double count = json_number(communication, "all_reduces");
    double steps = json_number(communication, "steps");
    CommunicationFormula formula = communication_formula(run, NAN);
    if (!(count > 0) || !formula.algorithm[0])
        return;
    const char *plural = count == 1 ? "" : "s";
    if (isnan(steps))
        text_paragraph(text, TEXT_PLAIN, 2, "%.0f all-reduce%s per step, as NCCL chooses.", count,
                       plural);
    else
        text_paragraph(text, TEXT_PLAIN, 2,
                       "%.0f all-reduce%s per step (%s): a rank waits %.0f times for another, %s "
                       "each.",
                       count, plural, formula.algorithm, steps, formula.steps_written);
}

/* --- micro-batches ------------------------------------------------------------------------ */

static const cJSON *accumulation_of(const Result *run)
{
    return run ? cJSON_GetObjectItemCaseSensitive(
                     cJSON_GetObjectItemCaseSensitive(run->json, "traffic"), "accumulation")
               : NULL;
}

void screen_accumulate(Text *text, const Result *dp, const Result *ddp)
{
    const cJSON *of_dp = accumulation_of(dp), *of_ddp = accumulation_of(ddp);
    double micros = json_number(of_ddp ? of_ddp : of_dp, "micro_batches");
    if (!(micros > 1))
        return;
    double of_each = dp ? dp->by_kind_bytes[0] + dp->by_kind_bytes[4] : NAN; /* DP's, all links */
    Figure once = figure_bytes(json_number(of_ddp, "gradient_bytes"));
    if (of_dp && of_ddp)
        text_paragraph(
            text, TEXT_PLAIN, 2,
            "%.0f micro-batches: DDP's gradients travel in the last one only (%s instead "
            "of %.0f x %s), DP's model and gradients in each (%s).",
            micros, once.text, micros, once.text, figure_bytes(of_each).text);
    else if (of_ddp)
        text_paragraph(text, TEXT_PLAIN, 2,
                       "%.0f micro-batches per update, gradients travel in the last one only: %s "
                       "per update instead of %.0f x %s.",
                       micros, once.text, micros, once.text);
    else
        text_paragraph(text, TEXT_PLAIN, 2,
                       "%.0f micro-batches per update, model and gradients travel in each: %s per "
                       "update, %.0f x %s.",
                       micros, figure_bytes(of_each).text, micros,
                       figure_bytes(of_each / micros).text);
}
