/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that restricts its own system calls (seccomp, Syscall User Dispatch) may be killed for
 * one of the client's. So the hooks of prctl() and syscall() notice a restriction before it is in
 * force, and the client makes no system call from then on. The daemon finds a filter that was
 * installed in another way, but a moment later (recorder/session/target.c).
 */
#include "client/attached/restrict.h"

#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "client/attached.h"
#include "client/client.h"
#include "client/restriction.h"
#include "client/session.h"
#include "client/system.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#endif

/* Called by attached_syscall(). */
long restrict_syscall(long number, unsigned long a, unsigned long b, unsigned long c,
                      unsigned long d, unsigned long e) HIDDEN;

/* Stop making system calls. Return whether they were made before. */
static bool restrict_calls(void)
{
    session_join_or_tick(); /* its calls would be forbidden later */
    enum client_state state = (enum client_state)client_state();
    bool has_control = state == CLIENT_ACTIVE || state == CLIENT_DORMANT;
    /* A vfork child shares our memory, but its filter is not ours. */
    if (!has_control || system_calls_are_forbidden() || system_call(CALL_OWN_PROCESS) != client.pid)
        return false;
    restriction_prepare();
    store_ordered(&client.control->restricted, 1);
    return true;
}

/* The kernel has refused the restriction. */
static void lift_restriction(void)
{
    store_ordered(&client.control->restricted, 0);
}

static bool prctl_restricts(int option, unsigned long mode)
{
    return (option == PR_SET_SECCOMP ||
            (option == PR_SET_SYSCALL_USER_DISPATCH && mode != PR_SYS_DISPATCH_OFF)) &&
           restrict_calls();
}

/* Return whether seccomp() restricts our calls from now on. libseccomp only tests the kernel with a
 * filter at NULL. */
static bool seccomp_restricts(unsigned operation, unsigned long filter)
{
    return (operation == SECCOMP_SET_MODE_STRICT ||
            (operation == SECCOMP_SET_MODE_FILTER && filter != 0)) &&
           restrict_calls();
}

int restrict_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    typedef int function(int, ...);
    add_relaxed(&heapprofd_attach_params.inside, 1);
    bool is_new = prctl_restricts(option, a);
    int result = ((function *)heapprofd_attach_params.real[ATTACHED_PRCTL])(option, a, b, c, d);
    if (is_new && result != 0)
        lift_restriction();
    sub_relaxed(&heapprofd_attach_params.inside, 1);
    return result;
}

long restrict_syscall(long number, unsigned long a, unsigned long b, unsigned long c,
                      unsigned long d, unsigned long e)
{
    typedef long function(long, ...);
    add_relaxed(&heapprofd_attach_params.inside, 1);
    bool is_new =
        number == SYS_prctl ? prctl_restricts((int)a, b) : seccomp_restricts((unsigned)a, c);
    long result = ((function *)heapprofd_attach_params.real_syscall)(number, a, b, c, d, e);
    /* With some flags the result is a descriptor or a thread. */
    bool gives_listener = number == SYS_seccomp && (b & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
    bool took_effect = result == 0 || (result > 0 && gives_listener);
    if (is_new && !took_effect)
        lift_restriction();
    sub_relaxed(&heapprofd_attach_params.inside, 1);
    return result;
}
