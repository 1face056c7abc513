/* ranks.c: which rank failed, and how (see ranks.h). */
#include "ranks.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void ranks_explain_failure(const Launch *launch, const Group *group, const RankError *errors)
{
    for (int rank = 0; rank < launch->count; rank++)
        if (errors[rank].text[0])
            fprintf(stderr, "trainer: %s\n", errors[rank].text);
    int status = launch->process[launch->failed].status;
    char operation[64];
    comm_group_last_operation(group, launch->failed, operation, sizeof operation);
    if (WIFSIGNALED(status))
        fprintf(stderr, "trainer: FAILED: rank %d was killed by signal %d (%s)", launch->failed,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "trainer: FAILED: rank %d exited with status %d", launch->failed,
                WEXITSTATUS(status));
    fprintf(stderr, "; its last collective: %s\n", operation);
}
