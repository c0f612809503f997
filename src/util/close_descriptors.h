/* SPDX-License-Identifier: Apache-2.0 */
/* Closes a range of descriptors on every kernel. It makes system calls only, so that a copy of one
 * thread of a process that may have more can call it. */
#ifndef HEAPPROFD_UTIL_CLOSE_DESCRIPTORS_H
#define HEAPPROFD_UTIL_CLOSE_DESCRIPTORS_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/kernel_calls.h"

/* The kernel's default limit of all limits (fs.nr_open). */
#define CLOSE_DESCRIPTORS_MAX (1u << 20)

/* Return the number after the largest descriptor that can be open. */
static inline unsigned close_descriptors_end(void)
{
    _Alignas(struct dirent) char entries[1024]; /* libc's structure is the kernel's */
    struct rlimit limit;
    unsigned end = 0;
    long got = -1;
    int directory =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (directory >= 0 &&
           (got = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0) {
        for (long at = 0; at < got; at += ((const struct dirent *)(entries + at))->d_reclen) {
            unsigned fd = 0;
            const char *name = ((const struct dirent *)(entries + at))->d_name;
            while (*name >= '0' && *name <= '9')
                fd = fd * 10 + (unsigned)(*name++ - '0');
            end = fd >= end ? fd + 1 : end;
        }
    }
    if (directory >= 0)
        syscall(SYS_close, directory);
    if (got == 0)
        return end;
    /* Without /proc, or a descriptor for it. */
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < CLOSE_DESCRIPTORS_MAX
               ? (unsigned)limit.rlim_max
               : CLOSE_DESCRIPTORS_MAX;
}

/* Close the descriptors first to last, of which some may be open. Linux has a call for that
 * from 5.9 on, and a filter of system calls may forbid it. */
static inline void close_descriptors(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0u) == 0)
        return;
    unsigned end = close_descriptors_end();
    for (unsigned fd = first; fd < end && fd <= last; fd++)
        syscall(SYS_close, fd);
}

#endif
