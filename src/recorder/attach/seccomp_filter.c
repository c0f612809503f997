/* SPDX-License-Identifier: Apache-2.0 */
/* Read the system call filters of a stopped thread, and ask them about the client's calls. */
#include "recorder/attach/seccomp_filter.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/process_files.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

#define NAME(name, system_call, ...) #system_call,
static const char *const names[] = {CLIENT_CALLS(NAME)};
#undef NAME

/* Return 0 if the process with this many KiB of locked memory can do with what its filters allow.
 */
static int seccomp_filter_judge(const struct client_filter_verdict *verdict, uint64_t locked_kb,
                                struct error *error)
{
    if (verdict->tells_places)
        return error_set(error, -EPERM,
                         "it restricts from where system calls may come (seccomp), and the "
                         "profiler's client makes some: run it without that restriction");
    /* The client's tables, mapped like all its memory, would be locked whole. */
    if (verdict->forbids || (verdict->forbids_unlocking && locked_kb > 0))
        return error_set(error, -EPERM,
                         "it forbids the system call %s (seccomp), which the profiler's client "
                         "needs: run it without that restriction",
                         names[verdict->call]);
    return 0;
}

int seccomp_filter_check(pid_t tid, bool is_first, unsigned makers,
                         struct client_filter_verdict *verdict, struct error *error)
{
    struct sock_filter program[BPF_MAXINSNS];
    struct process_status status;
    for (unsigned long index = 0;; index++) {
        long length = syscall(SYS_ptrace, PTRACE_SECCOMP_GET_FILTER, tid, index, program);
        if (length < 0 && errno == ENOENT)
            return 0; /* no more filters */
        if (length < 0 || length > BPF_MAXINSNS) {
            /* Unlike EPERM or EACCES, EINVAL mostly means that there are no filters. Check /proc
             * for its other meanings only once per process: all threads are stopped meanwhile. */
            if ((errno == EINVAL && !is_first) || process_status_read(tid, &status) < 0 ||
                status.seccomp_mode == 0)
                return 0;
            if (status.seccomp_mode == 1)
                return error_set(error, -EPERM,
                                 "it forbids nearly all system calls (strict seccomp)");
            if (process_status_read(getpid(), &status) == 0 && status.seccomp_mode > 0)
                return error_set(
                    error, -EPERM,
                    "it restricts its system calls (seccomp), and a profiler with such "
                    "restrictions, as in systemd's service or a container, cannot read them: "
                    "attach as root of the machine without the daemon "
                    "(HEAPPROFD_RUN_DIR=/run/heapprofd-alone), or start it under heap_profile");
            return error_set(
                error, -EPERM,
                "it restricts its system calls (seccomp), and only CAP_SYS_ADMIN can read the "
                "restrictions: attach as root, or start it under heap_profile");
        }
        client_filter_check(program, (size_t)length, makers, verdict);
        uint64_t locked_kb = 0;
        if (verdict->forbids_unlocking && process_status_read(tid, &status) == 0)
            locked_kb = status.locked_kb;
        int code = seccomp_filter_judge(verdict, locked_kb, error);
        if (code < 0)
            return code;
    }
}
