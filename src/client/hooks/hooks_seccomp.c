/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that restricts its own system calls (seccomp) may be killed for a system call of the
 * client. So the hooks of prctl() and syscall(), by which programs and libseccomp install filters,
 * notice a filter before it is in force. From then on the client makes no system call (system.h).
 * The session goes on without them.
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
#include "client/modules/module.h"
#include "client/sample/thread_slot.h"
#include "client/system.h"
#include "client/unwind/unwind_stack.h"

/* How much of the unused stack is checked in advance, and in which steps. */
#define CHECKED_STACK_BYTES (8u << 20)
#define CHECKED_STEP_BYTES (64u << 10)

/* The target of the hook of syscall(); NULL before real_resolve(). */
HIDDEN long (*real_syscall)(long number, ...);

static int (*real_prctl)(int option, ...);

/* Look the real functions up, at start-up before there are threads. Idempotent. */
HIDDEN __attribute__((constructor(101))) void seccomp_hooks_resolve(void);
HIDDEN long hook_seccomp(long number, unsigned int operation, unsigned int flags, void *argument);

/* Return whether the caller is the profiled process itself. A vfork child shares our memory, but
 * its filter is not ours. A forked child is still CLIENT_NEW. */
static bool is_own_process(void)
{
    return client_state() == CLIENT_NEW || system_call(SYS_getpid) == client.pid;
}

/* Do in advance what needs system calls: give this thread a slot, check how far its stack is
 * readable, read the program's path. */
static void prepare(void)
{
    struct thread_passage passage;
    thread_enter(&passage);
    struct ring_thread *thread = client_state() == CLIENT_ACTIVE ? thread_slot_get() : NULL;
    if (thread != NULL) {
        struct unwind_stack stack = {.bounds = thread_slot_bounds(thread)};
        uintptr_t here = (uintptr_t)__builtin_frame_address(0);
        size_t depth = 0;
        do {
            unwind_stack_open(&stack, here - depth, false);
            depth += CHECKED_STEP_BYTES;
        } while (stack.high != 0 && depth <= CHECKED_STACK_BYTES && depth < here);
        module_keep_executable_path();
        store_relaxed(&client.control->restricted, 1);
    }
    thread_leave(&passage);
}

/* Stop making system calls. Return true if they were allowed before. */
static bool restrict_calls(void)
{
    if (load_relaxed(&system_is_restricted) != 0 || !is_own_process())
        return false;
    int saved_errno = errno;
    prepare();
    errno = saved_errno;
    store_ordered(&system_is_restricted, 1);
    return true;
}

/* The kernel has refused the filter: allow system calls again. */
static void lift_restriction(void)
{
    store_ordered(&system_is_restricted, 0);
    if (client_state() == CLIENT_ACTIVE)
        store_relaxed(&client.control->restricted, 0);
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
    bool is_new = option == PR_SET_SECCOMP && restrict_calls();
    int result = real_prctl(option, arguments[0], arguments[1], arguments[2], arguments[3]);
    if (is_new && result != 0)
        lift_restriction();
    return result;
}

/* Handle syscall(SYS_seccomp, ...), which returns 0 or, with some flags, a descriptor or a thread.
 */
long hook_seccomp(long number, unsigned int operation, unsigned int flags, void *argument)
{
    bool restricts = operation == SECCOMP_SET_MODE_STRICT ||
                     (operation == SECCOMP_SET_MODE_FILTER &&
                      argument != NULL); /* else libseccomp only tests the kernel */
    seccomp_hooks_resolve();
    bool is_new = restricts && restrict_calls();
    long result = real_syscall(number, operation, flags, argument);
    bool took_effect = result == 0 || (result > 0 && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER));
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
