/* screen_guess.c: what was guessed before a comparison (--guess), beside what was measured. */
#include "report/screen.h"

#include <math.h>

/* A guess this near is right, however narrow the measured interval is. In points of per cent. */
static const double near_enough = 3;

/* Where the time of both went that the other does not spend. */
static void print_why(Text *text, const Report *report)
{
    const Result *dp = report_result(report, MODE_DP, report->devices);
    const Result *ddp = report_result(report, MODE_DDP, report->devices);
    int decimals = report_decimals(report, 3);
    if (!dp || !ddp || isnan(result_phases_ms(dp)) || isnan(result_phases_ms(ddp)))
        return;
    text_paragraph(text, TEXT_PLAIN, 2,
                   "Why: DP copies %s ms, its boss works alone %s ms; DDP waits %s ms a step.",
                   figure_number(result_spent_ms(dp, SPENT_COPYING), decimals).text,
                   figure_number(result_spent_ms(dp, SPENT_BOSS_ALONE), decimals).text,
                   figure_number(result_spent_ms(ddp, SPENT_WAITING), decimals).text);
}

void screen_guess(Text *text, const Report *report)
{
    double guess = json_number(report->config, "guess_percent");
    const cJSON *faster = cJSON_GetObjectItemCaseSensitive(
        report_comparison(report, report->devices), "ddp_faster_percent");
    double median = json_number(faster, "median");
    double low = json_number(faster, "low"), high = json_number(faster, "high");
    if (isnan(guess))
        return;
    Figure guessed = figure_text("Your guess, %+g %%", guess);
    if (report_verdict(report, report->devices).winner == WINNER_UNKNOWN) {
        text_paragraph(text, TEXT_BOLD, 2, "%s: too few measurements to judge it.", guessed.text);
        return;
    }
    Figure measured = figure_text("DDP did %+.0f %% (%+.0f to %+.0f)", median, low, high);
    double apart = fabs(guess - median);
    bool right = (guess >= low && guess <= high) || apart <= near_enough;
    if (right)
        text_paragraph(text, TEXT_BOLD, 2, "%s: right. %s.", guessed.text, measured.text);
    else
        text_paragraph(text, TEXT_BOLD, 2, "%s: wrong by %.0f points. %s.", guessed.text, apart,
                       measured.text);
    print_why(text, report);
}
