/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether seccomp filters let a process copy its own memory with process_vm_readv. A client cannot
 * read its filters, and a forbidden call may kill it. So a child of ours tries the call, and a
 * process that provably has our filters, and no others, may make it.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_SELF_READ_H
#define HEAPPROFD_RECORDER_PROCESSES_SELF_READ_H

#include <stdbool.h>
#include <sys/types.h>

/* Try the call, if this process has filters. Call it before processes are asked about. */
void self_read_try(void);

/* Return whether the process may make the call under its filters: the trial succeeded, and the
 * process has descended from this one without adding filters. False if that is unknown, and for a
 * process without filters. */
bool self_read_is_allowed(pid_t pid);

#endif
