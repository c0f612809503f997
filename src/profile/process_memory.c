/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the readings of a process's memory that belong to a dump. */
#include "profile/process_memory.h"

struct process_peak process_memory_peak(const struct profile_process *process)
{
    struct process_peak peak = {0, PROFILE_UNKNOWN_BYTES};
    for (size_t i = 0; i < process->timeline_count; i++) {
        const struct profile_memory_point *point = &process->timeline[i];
        bool was_known = peak.profiler_bytes != PROFILE_UNKNOWN_BYTES;
        bool is_known = point->profiler_bytes != PROFILE_UNKNOWN_BYTES;
        /* The first readings may come before the profiler's mappings are known. */
        if (point->rss_bytes == 0 || (was_known && !is_known))
            continue;
        if ((is_known && !was_known) || point->rss_bytes > peak.bytes)
            peak = (struct process_peak){point->rss_bytes, point->profiler_bytes};
    }
    return peak;
}

const struct memory_snapshot *process_memory_snapshot(const struct profile *profile,
                                                      uint32_t process,
                                                      const struct profile_dump *dump)
{
    const struct memory_snapshot *found = NULL;
    for (size_t i = 0; i < profile->memory_snapshot_count; i++) {
        const struct profile_memory_snapshot *snapshot = &profile->memory_snapshots[i];
        if (snapshot->process == process && snapshot->order <= dump->order)
            found = &snapshot->values;
    }
    return found;
}

uint64_t process_memory_of_timeline(const struct profile_process *process,
                                    const struct profile_dump *dump)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < process->timeline_count; i++) {
        const struct profile_memory_point *point = &process->timeline[i];
        if (point->boottime_ns <= dump->boottime_ns && point->rss_bytes > 0)
            bytes = point->rss_bytes;
    }
    return bytes;
}

uint64_t process_memory_at(const struct profile *profile, uint32_t process,
                           const struct profile_dump *dump)
{
    const struct memory_snapshot *snapshot = process_memory_snapshot(profile, process, dump);
    return snapshot != NULL ? memory_snapshot_sum(snapshot).rss_bytes
                            : process_memory_of_timeline(&profile->processes[process], dump);
}
