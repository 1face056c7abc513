/* screen.h: what the parts of the tables share: the JSON object read into figures, and the blocks
 * that table_print puts together. For report/ only.
 *
 * A figure that is missing, null or not a number is NAN and prints as a dash.
 */
#ifndef TRAINER_SCREEN_H
#define TRAINER_SCREEN_H

#include "base/error.h"
#include "report/phase_names.h"
#include "report/text.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

typedef enum { MODE_SINGLE, MODE_DP, MODE_DDP, MODE_DDP_NO_OVERLAP, MODE_LIMIT, MODES } Mode;

/* The phases, and what they leave of a step. */
enum { STEP_OTHER = PHASES, STEP_PHASES };

/* What the time of a phase is spent on. */
typedef enum {
    SPENT_COMPUTING,  /* on every device at once */
    SPENT_BOSS_ALONE, /* DP: the boss computes, the others are idle */
    SPENT_COPYING,    /* between devices, adding gradients up included */
    SPENT_WAITING,    /* for late colleagues and for transfers that nothing hides */
    SPENT_OTHER,
    SPENT_KINDS
} Spent;

/* The traffic's kinds, in the order of device.h. */
enum { TRAFFIC_KINDS = 6 };

typedef struct Result {
    Mode mode;
    int devices;
    int rung;   /* of a ladder; -1: it is none */
    bool sweep; /* a point of the curve over bucket sizes */
    bool oversubscribed;
    double processes, threads, model_copies, batch_per_device;
    double step_ms, p05_ms, p95_ms, steps; /* the median and its spread */
    double samples_per_s, speedup, efficiency;
    double phase_ms[STEP_PHASES];                       /* NAN: the run has no such phase */
    double sent_bytes, received_bytes;                  /* per step, by the busiest device */
    double traffic_bytes, by_kind_bytes[TRAFFIC_KINDS]; /* per step, over all links */
    double loss, accuracy, weight_difference;
    double virtual_ms; /* what virtual devices would take; NAN: they were not asked */
    const cJSON *json;
} Result;

typedef struct Report {
    const cJSON *object;
    const cJSON *config, *environment;
    Result *results;
    int result_count;
    int devices; /* the largest count of any DP or DDP run: what the screen compares */
    double batch, parameters, model_bytes;
} Report;

/* --- reading the object (screen_runs.c) ------------------------------------------------------ */

/* Reads the object, which must outlive the report. Free the report with report_close, also after an
 * error. */
Error report_open(Report *report, const cJSON *object);
void report_close(Report *report);

/* The run, or NULL. MODE_SINGLE is found with any `devices`; of a ladder's rungs of one mode, the
 * highest. */
const Result *report_result(const Report *report, Mode mode, int devices);

/* The device counts of DP and DDP runs, ascending; returns how many, at most `most`. */
int report_device_counts(const Report *report, int *counts, int most);

/* Did any run with so many devices have more devices than cores? */
bool report_oversubscribed(const Report *report, int devices);

/* Who did more steps per second. */
typedef enum {
    WINNER_UNKNOWN, /* not measured, or too seldom for an interval */
    WINNER_NONE,    /* the interval spans zero */
    WINNER_DDP,
    WINNER_DP
} Winner;

/* By how many per cent more steps per second the winner won, and the interval; without a winner,
 * DDP's lead, NAN if not known. */
typedef struct Verdict {
    Winner winner;
    double percent, low, high;
} Verdict;
Verdict report_verdict(const Report *report, int devices);

/* The entry of `comparisons` for a device count, or NULL. */
const cJSON *report_comparison(const Report *report, int devices);

/* A member's number, NAN if there is none; its string, NULL if there is none. */
double json_number(const cJSON *object, const char *name);
const char *json_string(const cJSON *object, const char *name);

/* "one device", "DP", "DDP", "no overlap", "limit" */
const char *result_mode_name(Mode mode);

/* The same, but a rung of a ladder is "rung 3" and a point of its curve "0.5 MiB". */
Figure result_name(const Result *run);

/* As it is written in the tables: "scatter grad". */
const char *step_phase_name(int phase);

/* What the phase's time is spent on in a run of this mode. */
Spent step_phase_spent(int phase, Mode mode);

/* Milliseconds of a step spent on this; NAN where the run has no phases. */
double result_spent_ms(const Result *run, Spent spent);

/* Milliseconds of a step that are talk: copying and waiting. */
double result_talk_ms(const Result *run);

/* How many times as long a rank or device computes as it communicates, hidden or not (rank 0's, in
 * the timeline); NAN if it does not communicate. The boss's own computing counts, too. */
double result_compute_to_talk(const Result *run);

/* The sum of the phases; NAN where there are none. */
double result_phases_ms(const Result *run);

/* "Fashion-MNIST, MLP 784-512-512-10 (669,706 weights, 2.7 MB), 1 device = 1 core" */
void screen_what_was_trained(Text *text, const Report *report);

/* The decimals with which the longest step has `digits` digits: the same for all columns of a
 * table, so that they can be compared at a glance. */
int report_decimals(const Report *report, int digits);

/* Cores of the machine, or the GPUs where they are the devices; NAN if not known. */
double report_cores(const Report *report);

/* "images", or "samples" of a workload */
const char *report_samples_noun(const Report *report);

/* "core", "GPU" or "device" */
const char *report_device_noun(const Report *report);

/* Prints the first of the candidates that fits into one line; the last one is wrapped. */
void screen_fitting(Text *text, TextColour colour, const char *const *candidates, int count);

/* --- blocks ---------------------------------------------------------------------------------- */

/* What a comparison prints at depth beginner; `more` adds the line that names the other depths. */
void screen_compare(Text *text, const Report *report, bool more);

/* What was guessed by --guess, right or wrong, and why; nothing without it. */
void screen_guess(Text *text, const Report *report);

/* The same for a ladder (screen_ladder.c), and whether it is one. */
void screen_ladder(Text *text, const Report *report, bool more);
bool report_is_ladder(const Report *report);

/* The same for one run of mode single, DP or DDP. */
void screen_single_run(Text *text, const Report *report, bool more);

void screen_developer(Text *text, const Report *report);
void screen_researcher(Text *text, const Report *report);

/* "Busiest device sends/receives: ..." for DP and DDP, either of which may be NULL. */
void screen_busiest(Text *text, const Result *dp, const Result *ddp);

/* How a DDP run's ranks all-reduce a buffer of `bytes`, by formula: the busiest rank sends and
 * receives so many bytes each, and a rank waits so many steps for another. NAN if the run does not
 * tell, and with NCCL for the steps. */
typedef struct CommunicationFormula {
    const char *algorithm, *bytes_written, *steps_written; /* "ring", "2P(N-1)/N", "2(N-1)" */
    double bytes, steps;
} CommunicationFormula;
CommunicationFormula communication_formula(const Result *run, double bytes);

/* The all-reduces of a step and the steps that they took, beside the formula. */
void screen_communication(Text *text, const Result *run);

/* What the gradients of an update's micro-batches cost on the way, and what no_sync saves: for DP
 * and DDP, either of which may be NULL; nothing without --accumulate. */
void screen_accumulate(Text *text, const Result *dp, const Result *ddp);

/* Which device was slow, in which runs, because that was asked for; nothing without it. */
void screen_fault(Text *text, const Report *report);

/* What --find-unused-parameters costs in a step of this run; nothing without it. */
void screen_find_unused(Text *text, const Report *report, const Result *run);

/* On virtual devices (screen_advice.c): what bounds DP and DDP (either may be NULL) and how long
 * they compute for each millisecond that they communicate, after "LABEL: " unless that is NULL;
 * which bucket size would suit DDP; and at depth developer the times behind both. Nothing where the
 * object has no advice. */
void screen_bound(Text *text, const Report *report, const Result *dp, const Result *ddp,
                  const char *label);
void screen_buckets(Text *text, const Report *report);
void screen_without(Text *text, const Report *report);

/* Names the other depths. */
void screen_more(Text *text);

/* What was learned, from the run's losses and accuracy. */
void screen_learned(Text *text, const Report *report, const Result *run);

/* "* 4 devices share 2 cores: they cannot all work at once.", or nothing. */
void screen_oversubscribed(Text *text, const Report *report);

/* A heading of a block, after an empty line. */
void screen_heading(Text *text, const char *heading);

/* A table with a row per `row` and a column per run, in as many blocks as the width asks for. Rows
 * that are dashes in every column are left out. */
typedef Figure (*GridCell)(const Report *report, const Result *run, int row);
typedef const char *(*GridLabel)(int row);
typedef struct Grid {
    GridLabel label; /* of row 0 ... rows - 1 */
    GridCell cell;
    int rows;
    bool talk_in_orange; /* rows are phases: those spent on talk are orange */
} Grid;
/* The runs that a grid shows: one device, those of the largest device count, and those of others as
 * far as they fit beside them. Returns how many, at most `most`. */
int screen_grid_results(const Text *text, const Report *report, const Result **runs, int most);
void screen_grid(Text *text, const Report *report, const Grid *grid, const Result *const *runs,
                 int count);

/* --- the timeline (timeline.c) --------------------------------------------------------------- */

/* Draws the lanes of one step of each run (NULL ones are skipped), all to the same scale, and a
 * legend. If they are more than `most_lanes`, of each run only the first two devices and the first
 * rank's communication. Prints nothing when no run has a timeline. */
enum { ALL_LANES = 64 };
void timeline_print(Text *text, const char *title, const Result *const *runs, int count,
                    int most_lanes);

/* Milliseconds of the step that the first rank's communication was at work, hidden or not; NAN
 * where the timeline does not show it. */
double timeline_communication_ms(const Result *run);

#endif
