/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nice value of a process that has to answer soon. Its children work on behalf of others, and
 * must not run before other programs: they get back the value from before.
 */
#ifndef HEAPPROFD_UTIL_PRIORITY_H
#define HEAPPROFD_UTIL_PRIORITY_H

#include <sys/types.h>

/* Set this process's nice value to `nice` if that raises its priority and the kernel allows it. */
void priority_raise(int nice);

/* Give a child the nice value from before priority_raise(), or 0 if
 * that was below 0. Do nothing if the priority was not raised. */
void priority_restore(pid_t child);

#endif
