/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a process's system call filters (seccomp) allow what the client needs. A forbidden
 * call may kill the process, so this check comes before any change.
 */
#ifndef HEAPPROFD_ATTACH_SECCOMP_FILTER_H
#define HEAPPROFD_ATTACH_SECCOMP_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

/* Return the result of a filter for a system call, or SECCOMP_RET_KILL_PROCESS for an invalid
 * program. */
uint32_t seccomp_filter_run(const struct sock_filter *program, size_t length,
                            const struct seccomp_data *data);

enum seccomp_purpose {
    SECCOMP_TO_STAY, /* attach, run the client, and detach */
    SECCOMP_TO_LEAVE /* only detach */
};

/* Check all filters of a stopped, traced thread of the process. Return 0 if they allow all calls
 * that are needed; -EPERM with a message if they do not, or cannot be read. Set *avoid_copying if
 * they would kill for process_vm_readv. */
int seccomp_filter_check(pid_t pid, pid_t tid, enum seccomp_purpose purpose, bool *avoid_copying,
                         struct error *error);

#endif
