/* SPDX-License-Identifier: Apache-2.0 */
/* Closes a range of descriptors on every kernel. It makes system calls only, so that a copy of one
 * thread of a process that may have more can call it. */
#ifndef HEAPPROFD_UTIL_CLOSE_DESCRIPTORS_H
#define HEAPPROFD_UTIL_CLOSE_DESCRIPTORS_H

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's default limit of all limits (fs.nr_open). */
#define CLOSE_DESCRIPTORS_MAX (1u << 20)

/* Close the descriptors first to last, of which some may be open. Linux has a call for that
 * from 5.9 on, and a filter of system calls may forbid it. */
static inline void close_descriptors(unsigned first, unsigned last)
{
    struct rlimit limit;
    if (first > last || syscall(SYS_close_range, first, last, 0u) == 0)
        return;
    unsigned end = CLOSE_DESCRIPTORS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < end)
        end = (unsigned)limit.rlim_max;
    for (unsigned fd = first; fd < end && fd <= last; fd++)
        syscall(SYS_close, fd);
}

#endif
