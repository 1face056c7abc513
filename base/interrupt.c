/* interrupt.c: see interrupt.h. */
#include "base/interrupt.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
#define NUMBERS (sizeof numbers / sizeof *numbers)

/* By signal, written beforehand: a handler must not call snprintf or strsignal. SIGTERM's number
 * is the highest of the four. */
static char sentence[SIGTERM + 1][128];

int interrupt_say(int signal)
{
    ssize_t wrote = write(STDERR_FILENO, sentence[signal], strlen(sentence[signal]));
    (void)wrote; /* nobody is left to be told */
    return INTERRUPTED + signal;
}

static bool is_ignored(int signal)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void interrupt_signals(sigset_t *signals)
{
    sigemptyset(signals);
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers[i] != SIGHUP || !is_ignored(SIGHUP))
            sigaddset(signals, numbers[i]);
}

static void end(int signal)
{
    _exit(interrupt_say(signal));
}

static void on_each(void (*handler)(int))
{
    sigset_t signals;
    interrupt_signals(&signals);
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < NUMBERS; i++)
        if (sigismember(&signals, numbers[i]))
            sigaction(numbers[i], &action, NULL);
}

void interrupt_catch(void)
{
    for (size_t i = 0; i < NUMBERS; i++)
        snprintf(sentence[numbers[i]], sizeof *sentence,
                 "trainer: interrupted by signal %d (%s); every process has been ended\n",
                 numbers[i], strsignal(numbers[i]));
    on_each(end);
}

void interrupt_leave(void)
{
    on_each(SIG_DFL);
}
