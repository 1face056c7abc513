/* phase_names.c: see phase_names.h. */
#include "report/phase_names.h"

const char *phase_name(Phase phase)
{
    static const char *const names[PHASES] = {
        [PHASE_INPUT] = "input",
        [PHASE_REPLICATE] = "replicate",
        [PHASE_SCATTER] = "scatter",
        [PHASE_FORWARD] = "forward",
        [PHASE_GATHER] = "gather",
        [PHASE_LOSS] = "loss",
        [PHASE_SCATTER_GRAD] = "scatter_grad",
        [PHASE_BACKWARD] = "backward",
        [PHASE_REDUCE] = "reduce",
        [PHASE_LATE_COLLEAGUE] = "late_colleague",
        [PHASE_TRANSFER] = "transfer",
        [PHASE_USED_MAP] = "used_map",
        [PHASE_UPDATE] = "update",
    };
    return phase == PHASE_NONE ? "none" : names[phase];
}
