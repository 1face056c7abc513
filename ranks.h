/* ranks.h: what happens when a rank fails in a mode that trains nothing (hello, bench).
 */
#ifndef TRAINER_RANKS_H
#define TRAINER_RANKS_H

#include "comm/comm.h"
#include "comm/launch.h"

/* What a rank leaves behind when it ends with an error; in memory shared with the supervisor. */
typedef struct RankError {
    char text[1024];
} RankError;

/* Says on standard error what each rank reported, then which one failed first, how, and in which
 * collective of the group. `errors`: [launch->count]. */
void ranks_explain_failure(const Launch *launch, const Group *group, const RankError *errors);

#endif
