/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that glibc 2.28 has no function for, and their numbers, which Linux 4.19's headers
 * lack. The names are ours, so a newer libc's declarations cannot conflict with them, and every
 * build compiles the same lines. */
#ifndef HEAPPROFD_UTIL_KERNEL_CALLS_H
#define HEAPPROFD_UTIL_KERNEL_CALLS_H

#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* From 424 on, a call has the same number on every processor. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* openat2()'s argument, <linux/openat2.h>. */
struct kernel_open_how {
    uint64_t flags, mode, resolve;
};
#define KERNEL_RESOLVE_NO_MAGICLINKS UINT64_C(0x02)
#define KERNEL_RESOLVE_IN_ROOT UINT64_C(0x10)

/* Return a descriptor of the process, or -1 with errno. Linux 5.3. */
static inline int kernel_pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

#endif
