/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process's system call filters (seccomp) let the client do what it needs. A call that
 * they do not allow may kill the process, so that this is asked before anything is touched.
 */
#ifndef HEAPPROFD_ATTACH_SECCOMP_FILTER_H
#define HEAPPROFD_ATTACH_SECCOMP_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

/* What a filter returns for a system call; SECCOMP_RET_KILL_PROCESS for a program that breaks the
 * rules. */
uint32_t seccomp_filter_run(const struct sock_filter *program, size_t length,
                            const struct seccomp_data *data);

enum seccomp_purpose {
    SECCOMP_TO_STAY, /* all that attaching, the client, and detaching need */
    SECCOMP_TO_LEAVE /* detaching alone */
};

/* Looks at all filters of a stopped, traced thread of the process. 0: there are none, or they allow
 * it all; -EPERM with a message: they do not, or they cannot be read. */
int seccomp_filter_check(pid_t pid, pid_t tid, enum seccomp_purpose purpose, struct error *error);

#endif
