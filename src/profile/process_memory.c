/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the readings of a process's memory that belong to a dump. */
#include "profile/process_memory.h"

/* The kernel's own count includes the profiler's memory, of which the last reading is known. It may
 * be a little below a reading: the kernel sums up its counters of each processor now and then. */
static void take_most(struct process_peak *peak, const struct profile_process *process)
{
    uint64_t most = process->has_end ? process->end.most_rss_bytes : 0;
    uint64_t own = process->end.profiler_rss_bytes;
    if (own == 0 && peak->profiler_bytes != PROFILE_UNKNOWN_BYTES)
        own = peak->profiler_bytes;
    if (most <= own || own == 0)
        return;
    peak->is_at_least = false;
    if (peak->profiler_bytes != PROFILE_UNKNOWN_BYTES && most - own < peak->bytes)
        return;
    peak->bytes = most - own;
    peak->profiler_bytes = own;
}

struct process_peak process_memory_peak(const struct profile_process *process)
{
    struct process_peak peak = {0, PROFILE_UNKNOWN_BYTES, 0, true};
    for (size_t i = 0; i < process->timeline_count; i++) {
        const struct profile_memory_point *point = &process->timeline[i];
        bool was_known = peak.profiler_bytes != PROFILE_UNKNOWN_BYTES;
        bool is_known = point->profiler_bytes != PROFILE_UNKNOWN_BYTES;
        /* The first readings may come before the profiler's mappings are known. */
        if (point->rss_bytes == 0 || (was_known && !is_known))
            continue;
        if ((is_known && !was_known) || peak.bytes == 0)
            peak.first_bytes = point->rss_bytes;
        if ((is_known && !was_known) || point->rss_bytes > peak.bytes) {
            peak.bytes = point->rss_bytes;
            peak.profiler_bytes = point->profiler_bytes;
        }
    }
    take_most(&peak, process);
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

const struct memory_snapshot *process_memory_most(const struct profile *profile, uint32_t process,
                                                  const struct profile_dump *dump)
{
    const struct memory_snapshot *found = NULL;
    for (size_t i = 0; i < profile->memory_snapshot_count; i++) {
        const struct profile_memory_snapshot *snapshot = &profile->memory_snapshots[i];
        if (snapshot->process == process && snapshot->order <= dump->order &&
            (found == NULL || memory_snapshot_sum(&snapshot->values).rss_bytes >=
                                  memory_snapshot_sum(found).rss_bytes))
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
