/* SPDX-License-Identifier: Apache-2.0 */
/* One message for each reason to deny ptrace: yama, another user, privileges. */
#include "recorder/attach/permission.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <unistd.h>

#include "util/process_files.h"

/* Return whether a system call filter applies to this process, as in a container. */
static bool are_filtered(void)
{
    struct process_status status;
    return process_status_read(getpid(), &status) == 0 && status.seccomp_mode != 0;
}

static bool has_ptrace_capability(void)
{
    struct process_status own;
    return process_status_read(getpid(), &own) == 0 && (own.effective >> CAP_SYS_PTRACE & 1) != 0;
}

int permission_explain(pid_t pid, struct attach_outcome *outcome, struct error *error)
{
    int scope = process_ptrace_scope();
    struct process_status status;
    long uid = process_status_read(pid, &status) == 0 ? (long)status.uid[0] : -1;
    outcome->refusal = ATTACH_FORBIDDEN;
    /* Not even root may attach. */
    if (scope == 3)
        return error_set(error, -EPERM,
                         "the kernel forbids attaching to any process until the next boot "
                         "(kernel.yama.ptrace_scope is 3); a program without its own allocator can "
                         "be profiled from its start (heap_profile host)");
    /* Neither the user, nor yama, nor the capabilities of the process matter then. */
    if (has_ptrace_capability() && scope <= 0)
        return error_set(error, -EPERM,
                         "the kernel forbids attaching to pid %d, although we have CAP_SYS_PTRACE: "
                         "%sit belongs to another user namespace, or a security module or the "
                         "container protects it; attach from outside the container",
                         (int)pid,
                         are_filtered() ? "a seccomp filter of ours forbids ptrace, " : "");
    if (uid >= 0 && uid != (long)geteuid())
        return error_set(error, -EPERM,
                         "pid %d belongs to uid %ld and this is uid %ld; attach as %sroot, or with "
                         "CAP_SYS_PTRACE and CAP_DAC_OVERRIDE",
                         (int)pid, uid, (long)geteuid(), scope > 0 ? "" : "that user, as ");
    if (scope > 0)
        return error_set(error, -EPERM,
                         "the kernel forbids attaching to pid %d (kernel.yama.ptrace_scope is %d); "
                         "attach as root or with CAP_SYS_PTRACE, or run: sysctl "
                         "kernel.yama.ptrace_scope=0; %s can be profiled from its start "
                         "(heap_profile host)",
                         (int)pid, scope,
                         scope == 1 ? "a program" : "a program without its own allocator");
    return error_set(error, -EPERM,
                     "the kernel forbids attaching to pid %d (%sit has more privileges than we, or "
                     "is not dumpable); attach as root or with CAP_SYS_PTRACE%s",
                     (int)pid, are_filtered() ? "a seccomp filter of ours forbids ptrace, or " : "",
                     are_filtered() ? " (containers: --cap-add SYS_PTRACE)" : "");
}

/* The kernel asks the same question for ptrace() and for this file. A filter of ours asks another.
 */
bool permission_to_trace(pid_t pid)
{
    int memory = process_file_open(pid, "mem");
    if (memory >= 0)
        close(memory);
    return memory >= 0 && !are_filtered();
}

int permission_check_stopped(pid_t pid, struct attach_outcome *outcome, struct error *error)
{
    struct process_status status;
    if (geteuid() == 0 || has_ptrace_capability())
        return 0;
    if (process_status_read(pid, &status) < 0)
        return permission_explain(pid, outcome, error);
    for (size_t i = 0; i < 3; i++) /* real, effective, saved */
        if (status.uid[i] == 0)
            return permission_explain(pid, outcome, error);
    return 0;
}
