/* SPDX-License-Identifier: Apache-2.0 */
/* The reader process: it gives up its rights and answers requests until the other end of the socket
 * closes. */
#ifndef HEAPPROFD_RECORDER_READER_READER_PROCESS_H
#define HEAPPROFD_RECORDER_READER_READER_PROCESS_H

#include <sys/types.h>

/* Run in the forked child. `profiler` is its parent. */
_Noreturn void reader_process_run(int socket, pid_t profiler);

/* Give up everything except memory and the socket, which becomes descriptor 0. Return 0, or a
 * negative errno with *step set to the step that failed (enum reader_step). */
int reader_sandbox_enter(int socket, pid_t profiler, int *step);

enum reader_step { READER_STEP_MEMORY = 1, READER_STEP_RIGHTS, READER_STEP_SYSTEM_CALLS };

#endif
