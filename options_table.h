/* options_table.h: what the parts of the command line share: the table and what was typed. For
 * options.c (the table and its values), options_names.c (slips) and options_finish.c (what goes
 * with what) only.
 */
#ifndef TRAINER_OPTIONS_TABLE_H
#define TRAINER_OPTIONS_TABLE_H

#include "options.h"

#include <argp.h>
#include <stdbool.h>

/* There are no short forms: the keys are no characters. */
enum {
    KEY_MODE = 256,
    KEY_DEVICES,
    KEY_DEVICE,
    KEY_COMM,
    KEY_ALGORITHM,
    KEY_REPLICATE,
    KEY_OVERSUBSCRIBE,
    KEY_PRECISION,
    KEY_LAYERS,
    KEY_BATCH,
    KEY_ACCUMULATE,
    KEY_EPOCHS,
    KEY_STEPS,
    KEY_WARMUP,
    KEY_OPTIMIZER,
    KEY_LR,
    KEY_MOMENTUM,
    KEY_WEIGHT_DECAY,
    KEY_SEED,
    KEY_DATA,
    KEY_SAMPLES,
    KEY_BUCKET_MB,
    KEY_SWEEP_BUCKETS,
    KEY_OVERLAP,
    KEY_UNUSED,
    KEY_FIND_UNUSED,
    KEY_UNEVEN,
    KEY_ON_UNEVEN,
    KEY_FAIL,
    KEY_STOP,
    KEY_SLOW,
    KEY_TIMEOUT,
    KEY_COLLECTIVE,
    KEY_OP,
    KEY_ORDERED,
    KEY_GUESS,
    KEY_SIZES,
    KEY_PROFILE,
    KEY_WORKLOAD,
    KEY_TIMING_ONLY,
    KEY_INTERPRETER,
    KEY_LINK_GBPS,
    KEY_LATENCY_US,
    KEY_SAVE,
    KEY_LOAD,
    KEY_RESUME,
    KEY_WRAPPED_KEYS,
    KEY_WEIGHTS_ONLY,
    KEY_STRICT,
    KEY_DESCRIBE,
    KEY_SHOW_SAMPLER,
    KEY_NO_SET_EPOCH,
    KEY_DEPTH,
    KEY_JSON,
    KEY_REPLAY,
    KEY_SLOW_MOTION,
    KEY_LOG_LOSSES,
    KEY_QUIET,
    KEY_HELP,
    KEY_VERSION,
    KEY_END, /* one more than the last */
};

#define DEFAULT_STEPS  "60" /* where neither --epochs nor --steps is given: for compare, */
#define DEFAULT_EPOCHS "3"  /* and for the other modes */

/* Ended by an entry without name and text. */
extern const struct argp_option options_table[];

/* Names of the values of a choice, in the order of their enum; a NULL ends each. */
extern const char *const options_mode_names[];
extern const char *const options_optimizer_names[];
extern const char *const options_unused_names[]; /* from UNUSED_NEVER on */
extern const char *const options_collective_names[];

/* What argp's callback works on. */
typedef struct Parse {
    Options *options;
    Error error;                    /* the first one */
    bool given[KEY_END - KEY_MODE]; /* which options were typed */
} Parse;

static inline bool given(const Parse *parse, int key)
{
    return parse->given[key - KEY_MODE];
}

/* Sets one option from its text. */
Error options_set(Options *options, int key, const char *text);

/* Refuses words that are no options, saying what they are a slip of. */
Error options_check_names(int argc, char **argv);

/* Defaults that depend on other options, and options that contradict each other. */
Error options_finish(const Parse *parse);

/* The words as they could be typed into a shell again; the caller frees them. NULL: no memory. */
char *options_join(int argc, char **argv);

#endif
