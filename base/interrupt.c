/* interrupt.c: see interrupt.h. */
#include "base/interrupt.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SENTENCE = 128 };

static const int numbers[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
#define NUMBERS (sizeof numbers / sizeof *numbers)

/* Written beforehand: a signal handler must not call snprintf or strsignal. */
static char sentence[NUMBERS][SENTENCE];

static void write_sentence(int signal, char text[static SENTENCE])
{
    snprintf(text, SENTENCE,
             "trainer: interrupted by signal %d (%s); every process has been ended\n", signal,
             strsignal(signal));
}

void interrupt_say(int signal)
{
    char text[SENTENCE];
    write_sentence(signal, text);
    fputs(text, stderr);
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
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers[i] == signal) {
            ssize_t wrote = write(STDERR_FILENO, sentence[i], strlen(sentence[i]));
            (void)wrote; /* nobody is left to be told */
        }
    _exit(128 + signal);
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
        write_sentence(numbers[i], sentence[i]);
    on_each(end);
}

void interrupt_leave(void)
{
    on_each(SIG_DFL);
}
