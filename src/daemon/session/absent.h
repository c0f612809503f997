/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that a session wanted but did not profile. Each appears once in the trace, as an empty
 * profile with the reason.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_ABSENT_H
#define HEAPPROFD_DAEMON_SESSION_ABSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "trace/config/trace_config.h"
#include "trace/write/trace_writer.h"

/* Further processes are not written, so that the trace stays bounded. */
#define ABSENT_MAX 4096u

struct absent_list {
    struct absent_process {
        pid_t pid;
        uint64_t start_boottime_ns;
    } * processes;
    size_t count, capacity;
};

/* Return true at the first call for this process, if it could be noted. */
bool absent_note(struct absent_list *list, pid_t pid, uint64_t start_boottime_ns);
void absent_clear(struct absent_list *list);

/* Write the process and an empty profile of it. `rejected`: another session profiles it. Return 0
 * or a negative errno. */
int absent_write(struct trace_writer *writer, const struct heap_config *config,
                 const struct trace_process *process, bool rejected, int exit_status,
                 const char *remark);

#endif
