/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the client asks of the kernel, directly: no libc wrapper (they set
 * errno, are cancellation points, and may be hooked by the target). Results are
 * as the kernel's: negative errno on failure.
 */
#ifndef HEAPPROFD_CLIENT_SYSTEM_H
#define HEAPPROFD_CLIENT_SYSTEM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "client/arch/syscall.h"
#include "wire/barrier.h"

/* Whether the process has restricted its system calls: all of ours fail then, with -EPERM. The
 * preloaded client notices by itself (hooks_seccomp.c), the attached one is told in the ring. */
#ifdef HEAPPROFD_ATTACHED
__attribute__((visibility("hidden"))) bool system_calls_are_forbidden(void);
#else
extern __attribute__((visibility("hidden"))) uint32_t system_is_restricted;

static inline bool system_calls_are_forbidden(void)
{
    return load_relaxed(&system_is_restricted) != 0;
}
#endif

/* Private anonymous zeroed memory that a forked child finds zeroed again;
 * NULL if there is none to be had. */
void *system_map_wiped(size_t bytes);

/* The same, but a forked child finds it as it was. */
void *system_map(size_t bytes);

/* Gives back what system_map_wiped() or system_map() gave. */
void system_unmap(void *memory, size_t bytes);

/* Makes it zeros again and gives its pages back. */
void system_wipe(void *memory, size_t bytes);

/* Copies bytes of this process's memory that may not be there; the number of
 * bytes copied, which may be short, or a negative errno. */
long system_read_memory(void *to, uintptr_t from, size_t bytes);

/* What the calling thread lets through, by bits of signal numbers less one. */
struct system_signals {
    uint64_t mask;
    long held; /* 0: they are held back */
};

/* Holds signals back from the calling thread, but for those that it causes itself: a handler that
 * jumps must not leave what nobody would finish. */
struct system_signals system_hold_signals(void);
void system_release_signals(const struct system_signals *signals);

#endif
