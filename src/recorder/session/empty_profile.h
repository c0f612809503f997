/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empty profiles of processes that a session wanted but could not profile. Each such process
 * appears once in the trace, with the reason.
 */
#ifndef HEAPPROFD_RECORDER_SESSION_EMPTY_PROFILE_H
#define HEAPPROFD_RECORDER_SESSION_EMPTY_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "trace/config/trace_config.h"
#include "trace/write/trace_writer.h"

/* Further processes are not written, so that the trace stays bounded. */
#define EMPTY_PROFILES_MAX 4096u

struct empty_profile_list {
    struct empty_profile_process {
        pid_t pid;
        uint64_t start_boottime_ns;
    } * processes;
    size_t count, capacity;
};

/* Return true at the first call for this process, if it could be noted. */
bool empty_profile_note(struct empty_profile_list *list, pid_t pid, uint64_t start_boottime_ns);
void empty_profiles_clear(struct empty_profile_list *list);

/* Write the process and an empty profile of it. `rejected`: another session profiles it. Return 0
 * or a negative errno. */
int empty_profile_write(struct trace_writer *writer, const struct heap_config *config,
                        const struct trace_process *process, bool rejected, int exit_status,
                        const char *remark);

#endif
