/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a process's system call filters (seccomp) allow what the client needs. A forbidden
 * call may kill the process, so this check comes before any change.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_SECCOMP_FILTER_H
#define HEAPPROFD_RECORDER_ATTACH_SECCOMP_FILTER_H

#include <sys/types.h>

#include "util/error.h"
#include "wire/client_filter.h"

/* Check all filters of a stopped, traced thread. Return 0 if they allow all calls of these makers
 * (enum call_maker) that are needed; -EPERM with a message if they do not, or cannot be read. Add
 * to the verdict what the client must not do. For the first thread of a process that is checked,
 * also ask whether the kernel shows filters at all. */
int seccomp_filter_check(pid_t tid, bool is_first, unsigned makers,
                         struct client_filter_verdict *verdict, struct error *error);

#endif
