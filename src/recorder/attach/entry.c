/* SPDX-License-Identifier: Apache-2.0 */
/* Trace a process through its exec. */
#include "recorder/attach/entry.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "recorder/attach/permission.h"
#include "recorder/attach/tracee.h"
#include "util/clock.h"
#include "util/process_files.h"

/* Time for a process to stop that has not called exec in time. */
#define STOP_MS 100
#define POLL_NS 50000
/* A process that has run for less than this has not reached its exec. */
#define STARVED_NS UINT64_C(20000000)

int entry_watch(pid_t pid, struct error *error)
{
    struct attach_outcome outcome;
    struct process_status status;
    long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;
    long code = tracee_request(PTRACE_SEIZE, pid, NULL, (void *)options);
    if (code == 0)
        return 0;
    if (process_status_read(pid, &status) == 0 && status.tracer != 0)
        return error_set(error, -EBUSY, "pid %d traces it already", (int)status.tracer);
    if (code == -EPERM || code == -EACCES)
        return permission_explain(pid, &outcome, error);
    return error_set(error, (int)code, "cannot trace it: %s", strerror((int)-code));
}

/* Wait for the next stop, until the deadline (CLOCK_MONOTONIC; UINT64_MAX: none). Return its
 * status; -ESRCH if the process has ended; or -ETIMEDOUT. */
static int wait_for_stop(pid_t pid, uint64_t deadline_us)
{
    int status, options = WEXITED | WSTOPPED | __WALL | WNOWAIT;
    if (deadline_us != UINT64_MAX)
        options |= WNOHANG;
    for (;;) {
        siginfo_t info = {0};
        int code = waitid(P_PID, (id_t)pid, &info, options);
        if (code < 0 && errno != EINTR)
            return -ESRCH;
        if (code == 0 && info.si_pid != 0) {
            if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED)
                return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) ? status : -ESRCH;
            tracee_reap(pid);
            return -ESRCH;
        }
        if (clock_read_us(CLOCK_MONOTONIC) >= deadline_us)
            return -ETIMEDOUT;
        tracee_waits();
        if (code == 0)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

/* Stop tracing a process that did not call exec in time. */
static void give_up(pid_t pid)
{
    uint64_t deadline_us = clock_read_us(CLOCK_MONOTONIC) + STOP_MS * UINT64_C(1000);
    tracee_request(PTRACE_INTERRUPT, pid, NULL, NULL);
    for (;;) {
        int status = wait_for_stop(pid, deadline_us);
        if (status == -ETIMEDOUT)
            tracee_release_later(pid);
        if (status < 0)
            return;
        if (status >> 16 == PTRACE_EVENT_STOP) {
            entry_release(pid);
            return;
        }
        tracee_request(PTRACE_CONT, pid, NULL,
                       (void *)(intptr_t)(status >> 16 == 0 ? WSTOPSIG(status) : 0));
    }
}

/* Return the time that the process has run so far; 0: unknown. */
static uint64_t processor_time_ns(pid_t pid)
{
    char line[128] = "";
    return process_file_read(pid, "schedstat", line, sizeof(line)) > 0 ? strtoull(line, NULL, 10)
                                                                       : 0;
}

/* Return whether the process has hardly run since then, and would if it had a processor. */
static bool is_starved(pid_t pid, uint64_t processor_ns)
{
    struct process_status status;
    return process_status_read(pid, &status) == 0 && (status.state == 'R' || status.state == 'D') &&
           processor_time_ns(pid) < processor_ns + STARVED_NS;
}

int entry_hold(pid_t pid, unsigned limit_ms)
{
    bool has_begun = false;
    uint64_t limit_us = limit_ms * UINT64_C(1000), processor_ns = processor_time_ns(pid);
    uint64_t began_us = clock_read_us(CLOCK_MONOTONIC);
    uint64_t deadline_us = limit_ms > 0 ? began_us + limit_us : UINT64_MAX;
    for (;;) {
        int status = wait_for_stop(pid, deadline_us);
        if (status == -ETIMEDOUT && deadline_us < began_us + TRACEE_TURN_MS * UINT64_C(1000) &&
            (has_begun || is_starved(pid, processor_ns))) {
            deadline_us += limit_us;
            continue;
        }
        if (status == -ETIMEDOUT)
            give_up(pid);
        if (status < 0)
            return status;
        int event = status >> 16, signal = WSTOPSIG(status);
        if (event == PTRACE_EVENT_STOP && has_begun)
            return 0;
        if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
            /* A signal stopped it before its exec: it stays stopped until it is continued. */
            tracee_request(PTRACE_LISTEN, pid, NULL, NULL);
            continue;
        }
        if (event == PTRACE_EVENT_EXEC) {
            /* It is still inside the system call. Stop it where that returns. */
            has_begun = true;
            tracee_request(PTRACE_INTERRUPT, pid, NULL, NULL);
        }
        tracee_request(PTRACE_CONT, pid, NULL, (void *)(intptr_t)(event == 0 ? signal : 0));
    }
}

void entry_release(pid_t pid)
{
    tracee_request(PTRACE_DETACH, pid, NULL, NULL);
}
