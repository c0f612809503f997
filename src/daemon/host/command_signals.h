/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes on to a command the signals that are sent to its profiler, each once.
 *
 * A terminal signals all processes of its foreground, and a signal to a process group reaches all
 * of the group. The command has already received such a signal. The kernel marks signals of a
 * terminal, but not those to a group. So a watcher, a child in our group that does nothing else,
 * reports which signals it got.
 *
 * The command decides on Ctrl-Z, too. If it stops, we stop, so that a shell sees a stopped job.
 * When we are continued, we continue the command.
 *
 * SIGUSR1 is not passed on: it asks for a dump. Once the command has ended, SIGINT, SIGTERM,
 * SIGHUP and SIGQUIT ask for the end of the session.
 *
 * Signal dispositions belong to the process, so there is one command at a time.
 */
#ifndef HEAPPROFD_DAEMON_HOST_COMMAND_SIGNALS_H
#define HEAPPROFD_DAEMON_HOST_COMMAND_SIGNALS_H

#include <signal.h>
#include <sys/types.h>

/* Requests that came as signals. */
enum {
    COMMAND_SIGNALS_DUMP = 1,
    COMMAND_SIGNALS_END = 2,
};

/* Dispositions and mask as they were before; the command gets them. */
struct command_signals_before {
    sigset_t mask;
    struct sigaction child;
};

/*
 * Hold back signals until there is a command. Return a descriptor that is readable when a signal
 * asks something of us, or a negative errno.
 */
int command_signals_open(struct command_signals_before *before);

/* Begin to pass signals on to the command, those that came before included. `missed` are the
 * signals that were pending before the command existed: it received none of them. */
void command_signals_pass_to(pid_t command, const sigset_t *missed);

/* Stop passing signals on: the command has ended. Call it before waiting for the command, because
 * its pid may then be given to another process. */
void command_signals_command_ended(void);

/* Return the requests since the last call. */
unsigned command_signals_take(void);

/* Give all signals back their dispositions. Idempotent. */
void command_signals_close(void);

#endif
