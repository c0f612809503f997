/* SPDX-License-Identifier: Apache-2.0 */
/* Remember the processes, and write their empty profiles. */
#include "recorder/session/empty_profile.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/clock.h"

bool empty_profile_note(struct empty_profile_list *list, pid_t pid, uint64_t start_boottime_ns)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->processes[i].pid == pid &&
            list->processes[i].start_boottime_ns == start_boottime_ns)
            return false;
    }
    if (list->count >= EMPTY_PROFILES_MAX ||
        ARRAY_RESERVE(&list->processes, &list->capacity, list->count, 1) < 0)
        return false;
    list->processes[list->count++] = (struct empty_profile_process){pid, start_boottime_ns};
    return true;
}

void empty_profiles_clear(struct empty_profile_list *list)
{
    free(list->processes);
    memset(list, 0, sizeof(*list));
}

int empty_profile_write(struct trace_writer *writer, const struct heap_config *config,
                        const struct trace_process *process, bool rejected, int exit_status,
                        const char *remark)
{
    uint64_t now = clock_read_ns(CLOCK_MONOTONIC_COARSE);
    struct trace_heap_dump dump = {
        .pid = process->pid,
        .heap_name = "libc.malloc",
        .interval_bytes = heap_config_first_interval(config),
        .first_interval_bytes = heap_config_first_interval(config),
        .timestamp_ns = now,
        .start_timestamp_ns = now,
        .rejected_concurrent = rejected,
        .final = true,
        .exit_status = exit_status,
        .remark = remark,
    };
    trace_writer_process_tree(writer, process, 1, NULL, 0);
    trace_writer_dump_begin(writer, &dump);
    trace_writer_dump_end(writer);
    return trace_writer_dumps_end(writer);
}
