/*
 * Signals that are sent to the profiler of a command and meant for the command: each is passed on
 * to it, once.
 *
 * A terminal sends to all processes of its foreground, and who sends to a process group sends to
 * all of it: the command has such a signal already. The kernel marks what a terminal sends, but
 * not what is sent to a group. So a watcher, a child in our group that does nothing else, tells
 * which signals it got.
 *
 * Ctrl-Z, too, is the command's to act on: if it stops, we stop, so that a shell sees a stopped
 * job; when we are continued, so is the command.
 *
 * SIGUSR1 is not passed on: it asks for a dump. Once the command has ended, SIGINT, SIGTERM,
 * SIGHUP and SIGQUIT ask for the end of the session.
 *
 * Signals are a process's: there is one command at a time.
 */
#ifndef HEAPPROFD_DAEMON_COMMAND_SIGNALS_H
#define HEAPPROFD_DAEMON_COMMAND_SIGNALS_H

#include <signal.h>
#include <sys/types.h>

/* What signals have asked of us. */
enum {
    COMMAND_SIGNALS_DUMP = 1,
    COMMAND_SIGNALS_END = 2,
};

/* Dispositions and mask as they were before: the command's. */
struct command_signals_before {
    sigset_t mask;
    struct sigaction child;
};

/*
 * Hold back signals until there is a command. A descriptor that is readable when something is
 * asked of us, or a negative errno.
 */
int command_signals_open(struct command_signals_before *before);

/* The command runs: what has come and what comes is passed on to it. `missed` are the signals that
 * were pending before it existed, so that it has none of them, whomever they were sent to. */
void command_signals_pass_to(pid_t command, const sigset_t *missed);

/* The command has ended, and is not waited for yet: from here on its number may be another's. */
void command_signals_command_ended(void);

/* Return what has been asked since the last call. */
unsigned command_signals_take(void);

/* Give all signals back their dispositions. Idempotent. */
void command_signals_close(void);

#endif
