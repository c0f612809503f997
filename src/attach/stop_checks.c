/* SPDX-License-Identifier: Apache-2.0 */
/* Explain failed stops, and check what stopped threads may call. */
#include "attach/stop_checks.h"

#include <errno.h>
#include <string.h>

#include "attach/permission.h"

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
                         "thread %d of process %d could not be stopped within %u ms (it %s): try "
                         "again later",
                         (int)tracee->stuck, (int)tracee->pid,
                         tracee->stuck_without_processor ? TRACEE_TURN_MS : tracee->patience_ms,
                         tracee->stuck_without_processor ? "gets no processor"
                                                         : "waits in the kernel");
    }
    return error_set(error, code, "cannot stop process %d: %s", (int)tracee->pid, strerror(-code));
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
        if (seccomp_filter_check(tracee->threads[i].tid, is_first, makers, verdict, &why) < 0)
            return error_set(error, -EPERM, "process %d: %s", (int)tracee->pid, why.message);
        is_first = false;
    }
    return 0;
}
