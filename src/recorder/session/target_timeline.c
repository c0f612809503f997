/* SPDX-License-Identifier: Apache-2.0 */
/* What is recorded of a target beside its heap: points of its memory, its faults and its threads.
 */
#include <errno.h>
#include <stdlib.h>

#include "recorder/session/target.h"
#include "util/clock.h"

/* Return the part of the ring's data that the process has written at least once. */
static uint64_t touched_bytes(const struct target *target)
{
    const struct ring_reader *reader = &target->reader;
    uint64_t written = target->has_ring ? ring_reader_end(reader) : reader->consumed;
    return written < reader->data_bytes ? written : reader->data_bytes;
}

/* Keep the last reading, for a process that ends. */
static void note_rss(struct target *target, const struct trace_memory_point *point)
{
    uint64_t own =
        point->profiler_anon_bytes == TRACE_UNKNOWN
            ? 0
            : point->profiler_anon_bytes + point->profiler_file_bytes + point->profiler_shmem_bytes;
    uint64_t all = point->vm_rss_kb * 1024;
    target->profiler_rss_bytes = own < all ? own : 0;
    target->rss_bytes = all - target->profiler_rss_bytes;
    target->read_at_touched = touched_bytes(target);
}

uint64_t target_profiler_rss(const struct target *target)
{
    uint64_t touched = touched_bytes(target);
    if (target->profiler_rss_bytes == 0 || touched < target->read_at_touched)
        return target->profiler_rss_bytes;
    return target->profiler_rss_bytes + touched - target->read_at_touched;
}

void target_write_memory_point(struct target *target, struct trace_writer *writer,
                               bool process_stats)
{
    struct trace_memory_point point;
    /* Also without the figures of the system: a process without memory has ended. */
    if (target->exec == TARGET_EXEC_AWAY || !process_watch_memory(&target->process, &point))
        return;
    if (process_stats)
        memory_watch_read_own(&target->memory, &point);
    note_rss(target, &point);
    point.heap_bytes = (uint64_t)ledger_live_bytes(target->ledger);
    target_announce(target, writer);
    /* The time must be later than that of the packet that names the process: readers order by
     * time. */
    point.boottime_ns = clock_read_ns(CLOCK_BOOTTIME);
    if (!process_stats) {
        trace_writer_heap_size(writer, &point);
        return;
    }
    trace_writer_memory_point(writer, &point);
    process_watch_faults(&target->process, writer);
}

void target_write_threads(struct target *target, struct trace_writer *writer, const char *cgroups)
{
    if (target->exec != TARGET_EXEC_NONE || target->process.directory < 0)
        return;
    target_announce(target, writer);
    process_watch_slowly(&target->process, writer, cgroups);
    /* The last names of threads that have ended meanwhile. */
    target_name_threads(target, writer);
    thread_watch_list(&target->threads, writer, target->info.pid, target->process.directory);
}

int target_name_threads(struct target *target, struct trace_writer *writer)
{
    size_t count;
    const struct ledger_thread *threads = ledger_threads(target->ledger, &count);
    int code = 0;
    /* The first entry is the shared identity of threads beyond the bound, not a thread. */
    for (size_t i = 1; i < count && code == 0; i++)
        code =
            thread_watch_name(&target->threads, writer, target->info.pid, target->process.directory,
                              (int32_t)threads[i].tid, threads[i].name);
    return code;
}

int target_name_threads_for_checkpoint(struct target *target, struct trace_writer *part)
{
    size_t count, named = 0;
    const struct ledger_thread *threads = ledger_threads(target->ledger, &count);
    struct trace_thread *written = calloc(count, sizeof(*written));
    if (written == NULL)
        return -ENOMEM;
    for (size_t i = 1; i < count; i++)
        if (!thread_watch_has_name(&target->threads, (int32_t)threads[i].tid, threads[i].name))
            written[named++] = (struct trace_thread){
                .tid = (int32_t)threads[i].tid, .pid = target->info.pid, .name = threads[i].name};
    int code = trace_writer_process_tree(part, NULL, 0, written, named);
    free(written);
    return code;
}

void target_write_end(struct target *target, struct trace_writer *writer, bool process_ends)
{
    thread_watch_end(&target->threads, writer, target->info.pid, process_ends);
}
