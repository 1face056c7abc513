/* team.h: the threads of DataParallel: one per device, living for the whole run.
 *
 * Member 0 is the calling thread, the boss. The others sleep until they are given work.
 */
#ifndef TRAINER_TEAM_H
#define TRAINER_TEAM_H

#include "base/error.h"

#include <stdbool.h>

typedef struct Team Team;

/* One member's part of some work; `member` counts from 0. */
typedef Error (*TeamWork)(void *context, int member);

/* Makes `members` - 1 threads, called "replica 1" and so on. Each runs `start` once, if it is not
 * NULL (to pin itself to a core, say). `own_cores`: there is a core for each, so a member that
 * waits may look for a moment before it sleeps. NULL and `*error` on failure. */
Team *team_open(int members, bool own_cores, TeamWork start, void *context, Error *error);

/* Members 0 to `active` - 1 do `work`, all at once, the caller as member 0; returns when all are
 * done. Of several failures the one of the lowest member is returned, with its number. */
Error team_do(Team *team, int active, TeamWork work, void *context);

/* Ends the threads. */
void team_close(Team *team);

#endif
