/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees a stopped process if we stand still.
 *
 * Threads that we trace stay stopped as long as we live and do nothing. So timers run while any are
 * stopped, and every step of ours sets them back. They are the kernel's, so they also act while we
 * are stopped (Ctrl-Z, SIGSTOP), frozen, or wait in the kernel:
 *
 * - After STOP_GUARD_CONTINUE_MS without a step we get SIGCONT.
 * - After STOP_GUARD_KILL_MS without a step we are killed. Then the kernel releases all threads,
 * and the one that made system calls for us returns through its frame (return_frame.h).
 *
 * A wait without a limit of its own (waitpid) is cut short by a third timer. One guard for the
 * whole process, which has one thread.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_STOP_GUARD_H
#define HEAPPROFD_RECORDER_ATTACH_STOP_GUARD_H

#include <stdbool.h>

#define STOP_GUARD_CONTINUE_MS 2000
#define STOP_GUARD_KILL_MS 10000

/* Start the timers. The caller then stops the first thread. Return 0 or a negative errno. */
int stop_guard_begin(void);

/* Note a step. Cheap: the timers are set back only several times a second. */
void stop_guard_step(void);

/* End it: no thread is stopped any more. `may_stop`: some will, and then wait for us. So from here
 * on only SIGCONT comes, until the next call. */
void stop_guard_end(bool may_stop);

/* Have blocking system calls of ours end with EINTR after a while, and again and again, until this
 * is called with false. */
void stop_guard_interrupt_waits(bool on);

#endif
