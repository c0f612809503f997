/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of the client, without libc's wrappers: those set errno, are
 * cancellation points, and may be hooked by the target. Failures return a negative
 * errno, as from the kernel.
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
#include "wire/client_calls.h"

/* Whether the process has restricted its system calls. Then all of ours fail with -EPERM. The
 * preloaded client notices that itself (hooks_seccomp.c); the daemon tells an attached client in
 * the ring. */
#ifdef HEAPPROFD_ATTACHED
__attribute__((visibility("hidden"))) bool system_calls_are_forbidden(void);
#else
extern __attribute__((visibility("hidden"))) uint32_t system_is_restricted;

static inline bool system_calls_are_forbidden(void)
{
    return load_relaxed(&system_is_restricted) != 0;
}
#endif

#ifdef HEAPPROFD_ATTACHED
#define CALL_OWN_MAKERS (CALL_ATTACHED | CALL_AT_ENTRY)
#else
#define CALL_OWN_MAKERS CALL_PRELOADED
#endif

/* Make a call of the table, with the arguments that it leaves open (0 to 6):
 * system_call(CALL_CLOSE, fd). */
#define system_call(...)                                                                           \
    SYSTEM_CALL_PICK(__VA_ARGS__, system_call6, system_call5, system_call4, system_call3,          \
                     system_call2, system_call1, system_call0, )                                   \
    (__VA_ARGS__)
#define SYSTEM_CALL_PICK(_0, _1, _2, _3, _4, _5, _6, name, ...) name

#define system_call0(call) system_call_make(call, 0, 0, 0, 0, 0, 0, 0)
#define system_call1(call, a) system_call_make(call, 1, a, 0, 0, 0, 0, 0)
#define system_call2(call, a, b) system_call_make(call, 2, a, b, 0, 0, 0, 0)
#define system_call3(call, a, b, c) system_call_make(call, 3, a, b, c, 0, 0, 0)
#define system_call4(call, a, b, c, d) system_call_make(call, 4, a, b, c, d, 0, 0)
#define system_call5(call, a, b, c, d, e) system_call_make(call, 5, a, b, c, d, e, 0)
#define system_call6(call, a, b, c, d, e, f) system_call_make(call, 6, a, b, c, d, e, f)
#define system_call_make(call, count, a, b, c, d, e, f)                                            \
    ({                                                                                             \
        _Static_assert((call##_MAKERS & CALL_OWN_MAKERS) != 0,                                     \
                       "the call is checked for others only");                                     \
        _Static_assert(count == call##_CHOOSES,                                                    \
                       "the call leaves another number of arguments open");                        \
        system_call_of(call, (const int64_t[6]){(long)(a), (long)(b), (long)(c), (long)(d),        \
                                                (long)(e), (long)(f)});                            \
    })

static inline __attribute__((always_inline)) long system_call_of(enum client_call call,
                                                                 const int64_t chosen[6])
{
    int64_t with[6];
    if (unlikely(system_calls_are_forbidden()))
        return -EPERM;
    client_call_fill(call, chosen, with);
    return arch_system_call(client_calls[call].number, with[0], with[1], with[2], with[3], with[4],
                            with[5]);
}

/* Map private zeroed memory that is zeroed again in a forked child. Return NULL if
 * there is none. */
void *system_map_wiped(size_t bytes);

/* The same, but a forked child inherits its contents. */
void *system_map(size_t bytes);

/* Unmap memory from system_map_wiped() or system_map(). */
void system_unmap(void *memory, size_t bytes);

/* Zero the memory and give its pages back. */
void system_wipe(void *memory, size_t bytes);

/* Copy bytes of this process's memory that may not be mapped, by the kernel. Return the number of
 * bytes copied, which may be short, or a negative errno: -EPERM or -ENOSYS if the kernel may not be
 * asked to copy. */
long system_read_memory(void *to, uintptr_t from, size_t bytes);

/* Copy bytes that no thread unmaps meanwhile: the calling thread's stack, or an object with a frame
 * on it. Read them directly if the kernel may not be asked to copy. Return false if they cannot be
 * read. */
bool system_read_in_use(void *to, uintptr_t from, size_t bytes);

/* Return whether the kernel may be asked to copy. */
bool system_copies_memory(void);

/* Return how many of `count` pages from the page address `from` on can be read; count <=
 * SYSTEM_PROBES. */
#define SYSTEM_PROBES 32u
unsigned system_probe_pages(uintptr_t from, unsigned count);

/* From now on, do not call process_vm_readv: a filter (seccomp) would kill for it. The preloaded
 * client avoids it under each filter that it began with, because it cannot read filters; the
 * attacher reads them for an attached client. */
void system_avoid_copying(void);

/* From now on, call process_vm_readv: the profiler has proved that the filters of this process do
 * not kill for it. Unless system_forbid_copying() came before. */
void system_permit_copying(void);

/* From now on, never call process_vm_readv: a filter that the program installs forbids it. */
void system_forbid_copying(void);

/* From now on, do not map large tables if the program has its memory locked: a filter would kill
 * for the calls that keep them unlocked. */
void system_avoid_unlocking(void);

/* Prepare system_barrier_of_threads() for this process. Return false if it may not be used. Takes
 * milliseconds if there are several threads. */
bool system_prepare_barrier(void);

/* Make a memory barrier in every thread of this process. Return false if that failed. */
bool system_barrier_of_threads(void);

/* The calling thread's signal mask, by bits of signal numbers less one. */
struct system_signals {
    uint64_t mask;
    long held; /* 0: signals are blocked */
};

/* Block all signals for the calling thread, except those that it causes itself. Used where a
 * handler's jump would leave work that nobody would finish. */
struct system_signals system_hold_signals(void);
void system_release_signals(const struct system_signals *signals);

#endif
