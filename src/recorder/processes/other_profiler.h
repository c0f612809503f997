/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the profiler that already profiles a process. A process can be in one session at a time, so
 * the user of a second session must learn why it gets no profile.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_OTHER_PROFILER_H
#define HEAPPROFD_RECORDER_PROCESSES_OTHER_PROFILER_H

#include <sys/types.h>

#define OTHER_PROFILER_UNSEEN ((pid_t)-1)

/*
 * Return the pid of the profiler that serves a ring of this process. Return 0 if there is no such
 * profiler or the process's maps cannot be read, and OTHER_PROFILER_UNSEEN if a profiler serves it
 * whose maps we may not read.
 */
pid_t other_profiler_of(pid_t pid);

/* End the sessions of this process whose profiler died without ending them, so that its preloaded
 * client accepts another one. Otherwise it would notice only when its ring is full. This writes to
 * the rings in its memory, which needs the right to attach to it. */
void other_profiler_end_orphaned(pid_t pid);

#endif
