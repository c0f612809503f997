/* SPDX-License-Identifier: Apache-2.0 */
/* Explain failed stops, and check what stopped threads may call. */
#include "recorder/attach/stop_checks.h"

#include <errno.h>
#include <string.h>

#include "recorder/attach/permission.h"
#include "recorder/attach/stop_guard.h"

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

int stop_explain(const struct tracee *tracee, int code, struct attach_outcome *outcome,
                 struct error *error)
{
    if (code == -EPERM && permission_to_trace(tracee->pid)) {
        outcome->refusal = ATTACH_BUSY;
        return error_set(error, -EAGAIN,
                         "process %d was traced by another program (a profiler or a debugger): try "
                         "again",
                         (int)tracee->pid);
    }
    if (code == -EPERM || code == -EACCES)
        return permission_explain(tracee->pid, outcome, error);
    if (code == -ESRCH) {
        outcome->refusal = ATTACH_NO_PROCESS;
        return error_set(error, -ESRCH, "process %d has ended", (int)tracee->pid);
    }
    if (code == -ETIMEDOUT) {
        outcome->refusal = ATTACH_BUSY;
        return error_set(error, -EAGAIN,
                         "thread %d of process %d could not be %s within %u ms (it %s): try "
                         "again later",
                         (int)tracee->stuck, (int)tracee->pid,
                         tracee->work_code == -ETIMEDOUT ? "used" : "stopped",
                         tracee->stuck_without_processor   ? TRACEE_TURN_MS
                         : tracee->work_code == -ETIMEDOUT ? TRACEE_CALL_MS
                                                           : tracee->patience_ms,
                         tracee->stuck_without_processor ? "gets no processor"
                                                         : "waits in the kernel");
    }
    return error_set(error, code, "cannot stop process %d: %s", (int)tracee->pid, strerror(-code));
}

/* Return whether system calls of the thread become signals to it, unless they come from one range
 * of code. Kernels before 6.4 do not tell. */
static bool dispatches_calls(pid_t tid)
{
    struct {
        uint64_t mode, selector, offset, length;
    } config = {0};
    return tracee_request(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid,
                          (void *)(uintptr_t)sizeof(config), &config) == 0 &&
           config.mode != 0;
}

int stop_check_calls(const struct tracee *tracee, unsigned makers,
                     struct client_filter_verdict *verdict, struct error *error)
{
    struct error why = {0};
    bool is_first = true;
    *verdict = (struct client_filter_verdict){0};
    for (size_t i = 0; i < tracee->thread_count; i++) {
        if (!tracee->threads[i].stopped || tracee->threads[i].gone)
            continue;
        stop_guard_step();
        if (dispatches_calls(tracee->threads[i].tid))
            return error_set(
                error, -EPERM,
                "process %d: it handles system calls itself (Syscall User Dispatch, as "
                "Wine does), and would take those of the profiler's client for its own",
                (int)tracee->pid);
        if (seccomp_filter_check(tracee->threads[i].tid, is_first, makers, verdict, &why) < 0)
            return error_set(error, -EPERM, "process %d: %s", (int)tracee->pid, why.message);
        is_first = false;
    }
    return 0;
}
