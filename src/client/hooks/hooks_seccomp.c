/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that restricts its own system calls (seccomp) may be killed for a system call of the
 * client. So the hooks of prctl() and syscall(), by which programs and libseccomp install filters,
 * notice a filter before it is in force, and ask it about all calls of the client. Unless it allows
 * them, the client makes no system call from then on (system.h). The session goes on without them.
 * The same holds for a program that handles its system calls itself (Syscall User Dispatch).
 *
 * The hook of syscall() is in arch/<cpu>/syscall_hook.S. It must end in a jump, because the call
 * may use the stack in any way.
 */
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "client/client.h"
#include "client/elf_lookup.h"
#include "client/libc/libc.h"
#include "client/restriction.h"
#include "client/system.h"
#include "wire/client_filter.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#endif

/* The target of the hook of syscall(); NULL before real_resolve(). */
HIDDEN long (*real_syscall)(long number, ...);

static int (*real_prctl)(int option, ...);

/* Look the real functions up, at start-up before there are threads. Idempotent. */
HIDDEN __attribute__((constructor(101))) void seccomp_hooks_resolve(void);
HIDDEN long hook_seccomp(long number, unsigned long a, unsigned long b, unsigned long c,
                         unsigned long d, unsigned long e);

/* Return whether the caller is the profiled process itself. A vfork child shares our memory, but
 * its filter is not ours. A forked child is still CLIENT_NEW. */
static bool is_own_process(void)
{
    return client_state() == CLIENT_NEW || system_call(CALL_OWN_PROCESS) == client.pid;
}

/* Ask a filter about our calls. Return whether we may go on making all of them, but for those that
 * copy memory. The kernel reads the program again: one that another thread changes meanwhile is
 * another filter. */
static bool filter_allows_calls(const struct sock_fprog *filter)
{
    struct sock_fprog fprog;
    if (!system_copies_memory() ||
        system_read_memory(&fprog, (uintptr_t)filter, sizeof(fprog)) != sizeof(fprog) ||
        fprog.len == 0 || fprog.len > BPF_MAXINSNS)
        return false;
    size_t bytes = fprog.len * sizeof(struct sock_filter);
    struct sock_filter *program = system_map(bytes);
    struct client_filter_verdict verdict = {0};
    if (program == NULL)
        return false;
    bool is_known = system_read_memory(program, (uintptr_t)fprog.filter, bytes) == (long)bytes;
    if (is_known)
        client_filter_check(program, fprog.len, CALL_PRELOADED, &verdict);
    system_unmap(program, bytes);
    if (verdict.forbids_copying)
        system_forbid_copying();
    return is_known && !verdict.forbids && !verdict.tells_places && !verdict.forbids_unlocking;
}

/* Stop making system calls, unless this filter (NULL: nothing) allows them. Return true if they
 * were allowed before, and are not now. */
static bool restrict_calls(const struct sock_fprog *filter)
{
    if (load_relaxed(&system_is_restricted) != 0 || !is_own_process())
        return false;
    int saved_errno = errno;
    bool restricts = filter == NULL || !filter_allows_calls(filter);
    if (restricts)
        restriction_prepare();
    errno = saved_errno;
    if (restricts)
        store_ordered(&system_is_restricted, 1);
    return restricts;
}

/* The kernel has refused the filter: allow system calls again. */
static void lift_restriction(void)
{
    store_ordered(&system_is_restricted, 0);
    if (client_state() == CLIENT_ACTIVE)
        store_relaxed(&client.control->restricted, 0);
}

/* Return whether prctl() restricts our calls from now on. With Syscall User Dispatch, the calls of
 * this thread from outside of one range of code, which is never ours, become signals for the
 * program. */
static bool prctl_restricts(int option, unsigned long mode, unsigned long argument)
{
    if (option == PR_SET_SECCOMP)
        return restrict_calls(mode == SECCOMP_MODE_FILTER ? (const struct sock_fprog *)argument
                                                          : NULL);
    return option == PR_SET_SYSCALL_USER_DISPATCH && mode != PR_SYS_DISPATCH_OFF &&
           restrict_calls(NULL);
}

EXPORT int prctl(int option, ...)
{
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);

    seccomp_hooks_resolve();
    bool is_new = prctl_restricts(option, arguments[0], arguments[1]);
    int result = real_prctl(option, arguments[0], arguments[1], arguments[2], arguments[3]);
    if (is_new && result != 0)
        lift_restriction();
    return result;
}

/* Handle syscall(SYS_seccomp, ...), which returns 0 or, with some flags, a descriptor or a thread;
 * and syscall(SYS_prctl, ...). */
long hook_seccomp(long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d,
                  unsigned long e)
{
    seccomp_hooks_resolve();
    bool is_new;
    if (number == SYS_prctl)
        is_new = prctl_restricts((int)a, b, c);
    else if ((unsigned int)a == SECCOMP_SET_MODE_FILTER)
        is_new = c != 0 && /* else libseccomp only tests the kernel */
                 restrict_calls((const struct sock_fprog *)c);
    else
        is_new = (unsigned int)a == SECCOMP_SET_MODE_STRICT && restrict_calls(NULL);
    long result = real_syscall(number, a, b, c, d, e);
    bool gives_listener = number == SYS_seccomp && (b & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
    bool took_effect = result == 0 || (result > 0 && gives_listener);
    if (is_new && !took_effect)
        lift_restriction();
    return result;
}

void seccomp_hooks_resolve(void)
{
    if (load_acquire(&real_syscall) != NULL)
        return;
    real_prctl = elf_lookup_next("prctl", 1).address;
    store_release(&real_syscall, elf_lookup_next("syscall", 1).address);
}
