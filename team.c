/* team.c: a thread per device that waits for work and reports back (see team.h). */
#include "team.h"

#include "base/futex.h"
#include "base/place.h"
#include "base/thread.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long a member, and the boss who waits for it, looks before it sleeps. Members have a core of
 * their own; where they have not, nobody spins. */
#define SPIN_US 200.0

typedef struct Member {
    Word given;    /* pieces of work, by the boss */
    Word finished; /* pieces of work, by the member */
    Team *team;
    int number;
    Error error;     /* of the last piece; the member's own sentence */
    HostClock clock; /* when it was done */
    pthread_t thread;
} Member;

struct Team {
    int members;
    int threads; /* that run */
    double spin_us;
    /* the piece of work: written before `given` grows, read after it */
    TeamWork work;
    void *context;
    HostClock clock; /* the boss's, when it was given out */
    bool closing;
    Member *member; /* [members]; member 0 is the caller */
};

static void *member_main(void *argument)
{
    Member *member = argument;
    Team *team = member->team;
    place_name("replica %d", member->number);
    for (uint32_t piece = 1;; piece++) {
        word_wait(&member->given, piece, team->spin_us, 0);
        if (team->closing)
            return NULL;
        device_take_over(&team->clock);
        member->error = team->work(team->context, member->number);
        member->clock = device_hand_over(1);
        word_set(&member->finished, piece);
    }
}

static void give(Member *member)
{
    word_set(&member->given, member->given.value + 1);
}

Error team_do(Team *team, int active, TeamWork work, void *context)
{
    team->work = work;
    team->context = context;
    team->clock = device_hand_over(active);
    for (int i = 1; i < active; i++)
        give(&team->member[i]);
    Error error = work(context, 0);
    device_hand_over(1); /* whoever is not done yet shares with nobody who is */
    for (int i = 1; i < active; i++) {
        Member *member = &team->member[i];
        word_wait(&member->finished, member->given.value, team->spin_us, 0);
        device_take_over(&member->clock);
        if (member->error && !error)
            error = error_make("replica %d on device %d: %s", i, i, member->error);
    }
    return error;
}

Team *team_open(int members, bool own_cores, TeamWork start, void *context, Error *error)
{
    Team *team = calloc(1, sizeof *team);
    if (!team || posix_memalign((void **)&team->member, _Alignof(Member),
                                sizeof *team->member * (size_t)members) != 0) {
        free(team);
        *error = error_make("no memory for %d threads", members);
        return NULL;
    }
    memset(team->member, 0, sizeof *team->member * (size_t)members);
    team->members = members;
    team->spin_us = own_cores ? SPIN_US : 0;

    int failed = 0;
    for (int i = 1; i < members && !failed; i++) {
        Member *member = &team->member[i];
        member->team = team;
        member->number = i;
        failed = thread_create(&member->thread, member_main, member);
        if (!failed)
            team->threads++;
    }
    if (failed)
        *error = error_make("cannot make a thread for replica %d: %s", team->threads + 1,
                            strerror(failed));
    else
        *error = start ? team_do(team, members, start, context) : NULL;
    if (*error) {
        team_close(team);
        return NULL;
    }
    return team;
}

void team_close(Team *team)
{
    if (!team)
        return;
    team->closing = true;
    for (int i = 1; i <= team->threads; i++) {
        give(&team->member[i]);
        pthread_join(team->member[i].thread, NULL);
    }
    free(team->member);
    free(team);
}
