/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a new process at the first instruction of its program, where it can be attached to before
 * it has allocated anything (ATTACH_AT_ENTRY).
 *
 * The process is about to call exec: a child of the caller, or one that has told it. It is traced
 * from entry_watch() until it is attached to or released. If the caller dies, it goes on by itself.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_ENTRY_H
#define HEAPPROFD_RECORDER_ATTACH_ENTRY_H

#include <sys/types.h>

#include "util/error.h"

/* Begin to trace the process, which goes on. Return 0, or a negative errno with a message. */
int entry_watch(pid_t pid, struct error *error);

/*
 * Wait for the exec, and hold the process at its first instruction. Signals meanwhile have their
 * usual effect. Return 0; -ESRCH if it has ended (nobody has waited for it yet if it is a child of
 * ours); or -ETIMEDOUT if there was no exec within limit_ms (0: wait as long as it takes): then it
 * is no longer traced.
 */
int entry_hold(pid_t pid, unsigned limit_ms);

/* Let a held process go on, and no longer trace it. Does nothing if it was released. */
void entry_release(pid_t pid);

#endif
