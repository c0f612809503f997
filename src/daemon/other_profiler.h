/*
 * Who profiles a process already. A process can be in one session at a time, and asking for a
 * second one must not look like a process that never comes.
 */
#ifndef HEAPPROFD_DAEMON_OTHER_PROFILER_H
#define HEAPPROFD_DAEMON_OTHER_PROFILER_H

#include <sys/types.h>

#define OTHER_PROFILER_UNSEEN ((pid_t)-1)

/*
 * The pid of the profiler that serves a ring of this process; 0: nobody does, or what the process
 * maps cannot be read; OTHER_PROFILER_UNSEEN: somebody whose maps we may not read.
 */
pid_t other_profiler_of(pid_t pid);

#endif
