/* phase_names.h: the phases of a step by name, for those who measure them and those who print them.
 */
#ifndef TRAINER_PHASE_NAMES_H
#define TRAINER_PHASE_NAMES_H

/* In the order of a step. */
typedef enum {
    PHASE_NONE = -1, /* nothing that has a name: waiting for work, or bookkeeping */
    PHASE_INPUT,
    PHASE_REPLICATE,
    PHASE_SCATTER,
    PHASE_FORWARD,
    PHASE_GATHER,
    PHASE_LOSS,
    PHASE_SCATTER_GRAD,
    PHASE_BACKWARD,
    PHASE_REDUCE,
    PHASE_LATE_COLLEAGUE,
    PHASE_TRANSFER,
    PHASE_USED_MAP, /* DDP's ranks tell each other which parameters they used */
    PHASE_UPDATE,
    PHASES
} Phase;

/* "input", "scatter_grad", "late_colleague", ...: the names in the JSON. */
const char *phase_name(Phase phase);

#endif
