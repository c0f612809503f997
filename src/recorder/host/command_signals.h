/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes signals that are sent to the profiler on to its command, each once.
 *
 * A terminal signals all processes in its foreground, and a signal to a process group reaches the
 * whole group. The command has then already received the signal. The kernel marks signals of a
 * terminal, but not those to a group. So a watcher, a child in our group with no other purpose,
 * reports which signals it got.
 *
 * The command decides on Ctrl-Z, too. If it stops, we stop, so that a shell sees a stopped job.
 * When we are continued, we continue the command.
 *
 * SIGUSR1 is not passed on: it requests a dump. Once the command has ended, SIGINT, SIGTERM, SIGHUP
 * and SIGQUIT request the end of the session.
 *
 * Signal dispositions belong to the process, so there is one command at a time.
 */
#ifndef HEAPPROFD_RECORDER_HOST_COMMAND_SIGNALS_H
#define HEAPPROFD_RECORDER_HOST_COMMAND_SIGNALS_H

#include <signal.h>
#include <sys/types.h>

/* Requests that came as signals. */
enum {
    COMMAND_SIGNALS_DUMP = 1,
    COMMAND_SIGNALS_END = 2,
};

/* The original mask and disposition of SIGCHLD, which the command gets. */
struct command_signals_before {
    sigset_t mask;
    struct sigaction child;
};

/*
 * Hold signals back until there is a command. Return a descriptor that is readable when a signal
 * requests something, or a negative errno.
 */
int command_signals_open(struct command_signals_before *before);

/* Begin to pass signals on to the command, including those that came before. `missed` are the
 * signals that were pending before the command existed: it received none of them. */
void command_signals_pass_to(pid_t command, const sigset_t *missed);

/* Stop passing signals on: the command has ended. Call it before waiting for the command, because
 * its pid may then be given to another process. */
void command_signals_command_ended(void);

/* Return the requests since the last call. */
unsigned command_signals_take(void);

/* Restore the dispositions of all signals. Idempotent. */
void command_signals_close(void);

#endif
