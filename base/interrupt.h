/* interrupt.h: what ends the program from outside: Ctrl-C, kill, a closed terminal.
 *
 * While processes run, their supervisor waits for these signals and ends the processes first (see
 * comm/launch.h). At any other moment, as when a long run is planned, nothing has to be ended
 * first; the program then says the same sentence and goes. */
#ifndef TRAINER_INTERRUPT_H
#define TRAINER_INTERRUPT_H

#include <signal.h>

/* SIGINT, SIGTERM, SIGQUIT, and SIGHUP unless it is ignored, as under nohup. An ignored SIGINT
 * counts all the same: a script's background jobs have it so, and are still told to stop by it. */
void interrupt_signals(sigset_t *signals);

/* The exit status after a signal is this and its number. */
enum { INTERRUPTED = 128 };

/* From now on each of them ends the process with the sentence and its exit status, wherever nobody
 * blocks or catches it. For the first process, at its start. */
void interrupt_catch(void);

/* In a child: as before interrupt_catch; the sentence is its parent's to say. */
void interrupt_leave(void);

/* Prints the sentence for one of these signals on standard error; returns the exit status. Only
 * after interrupt_catch, by which it is written. */
int interrupt_say(int signal);

#endif
