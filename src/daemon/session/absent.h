/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that a session wanted and has no profile of: each stands in the trace as
 * an empty profile that says why, once.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_ABSENT_H
#define HEAPPROFD_DAEMON_SESSION_ABSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "trace/config/trace_config.h"
#include "trace/write/trace_writer.h"

/* More are not written: a trace is no place for an endless list. */
#define ABSENT_MAX 4096u

struct absent_list {
    struct absent_process {
        pid_t pid;
        uint64_t start_boottime_ns;
    } * processes;
    size_t count, capacity;
};

/* True the first time that it is asked for this process. */
bool absent_note(struct absent_list *list, pid_t pid, uint64_t start_boottime_ns);
void absent_clear(struct absent_list *list);

/* Writes the process and an empty profile of it. `rejected`: another session has it. */
int absent_write(struct trace_writer *writer, const struct heap_config *config,
                 const struct trace_process *process, bool rejected, int exit_status,
                 const char *remark);

#endif
