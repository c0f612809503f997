/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own tables about memory: what a process has over time, snapshots of what its RSS consists of,
 * and streamed events.
 */
#include <string.h>

#include "query/query_table.h"

#define INT "INTEGER"
#define REAL "REAL"
#define TEXT "TEXT"
#define COLUMNS(array) (array), sizeof(array) / sizeof((array)[0])

/* --- the timeline --- */

static size_t timeline_count(struct query_trace *trace)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->profile->process_count; i++)
        count += trace->profile->processes[i].timeline_count;
    return count;
}

static struct query_value size_or_null(uint64_t bytes)
{
    return bytes == 0 ? query_null() : query_integer((int64_t)bytes);
}

/* row->part: the process. */
static void find_timeline(struct query_row *row)
{
    const struct profile *profile = row->trace->profile;
    size_t process = 0, at = row->number;
    while (at >= profile->processes[process].timeline_count)
        at -= profile->processes[process++].timeline_count;
    row->part = process;
    row->item = &profile->processes[process].timeline[at];
}

#define TIMELINE(column, expression)                                                               \
    static struct query_value timeline_##column(const struct query_row *row)                       \
    {                                                                                              \
        const struct profile_memory_point *point = row->item;                                      \
        (void)point;                                                                               \
        return expression;                                                                         \
    }

TIMELINE(ts, query_integer((int64_t)point->boottime_ns))
TIMELINE(upid, query_id(row->trace->bases.process, row->trace->process_rows[row->part]))
TIMELINE(live_size, size_or_null(point->heap_bytes))
TIMELINE(rss_size, size_or_null(point->rss_bytes))
TIMELINE(rss_anon_size, size_or_null(point->rss_anon_bytes))
TIMELINE(vm_size, size_or_null(point->vm_bytes))
#undef TIMELINE

static const struct query_column timeline_columns[] = {
    {"ts", INT, "in ns", QUERY_BY_LOOKING, timeline_ts, 0},
    {"upid", INT, "process", QUERY_INDEXED, timeline_upid, 0},
    {"live_size", INT, "bytes live in all its profiled heaps; NULL: not told", QUERY_BY_LOOKING,
     timeline_live_size, 0},
    {"rss_size", INT, "resident bytes; NULL: not told", QUERY_BY_LOOKING, timeline_rss_size, 0},
    {"rss_anon_size", INT, "of these, of no file", QUERY_BY_LOOKING, timeline_rss_anon_size, 0},
    {"vm_size", INT, "bytes of address space", QUERY_BY_LOOKING, timeline_vm_size, 0},
};

/* --- snapshots --- */

static size_t snapshot_count(struct query_trace *trace)
{
    return trace->profile->memory_snapshot_count;
}

static struct query_value dump_of(const struct query_trace *trace,
                                  const struct profile_memory_snapshot *snapshot)
{
    for (size_t i = snapshot->order; i < trace->dump_count; i++)
        if (query_trace_heap(trace, i)->process == snapshot->process)
            return query_integer(trace->bases.dump + (int64_t)i);
    return query_null();
}

static struct memory_part sum_of(const struct memory_snapshot *values)
{
    struct memory_part sum = {0};
    for (size_t i = 0; i < MEMORY_KINDS; i++) {
        sum.rss_bytes += values->parts[i].rss_bytes;
        sum.swap_bytes += values->parts[i].swap_bytes;
    }
    return sum;
}

static void find_snapshot(struct query_row *row)
{
    row->item = &row->trace->profile->memory_snapshots[row->number];
}

#define SNAPSHOT(column, expression)                                                               \
    static struct query_value snapshot_##column(const struct query_row *row)                       \
    {                                                                                              \
        const struct profile_memory_snapshot *snapshot = row->item;                                \
        const struct memory_snapshot *values = &snapshot->values;                                  \
        (void)values;                                                                              \
        return expression;                                                                         \
    }

SNAPSHOT(ts, query_integer((int64_t)values->boottime_ns))
SNAPSHOT(upid, query_id(row->trace->bases.process, row->trace->process_rows[snapshot->process]))
SNAPSHOT(dump_id, dump_of(row->trace, snapshot))
SNAPSHOT(rss_size, query_integer((int64_t)sum_of(values).rss_bytes))
SNAPSHOT(swap_size, query_integer((int64_t)sum_of(values).swap_bytes))
SNAPSHOT(live_size, query_real(values->live_bytes))
SNAPSHOT(live_size_variance, query_real(values->live_bytes_variance))
SNAPSHOT(live_count, query_real(values->live_count))
SNAPSHOT(rounding_size,
         values->rounding_rule == NULL ? query_null() : query_real(values->rounding_bytes))
SNAPSHOT(rounding_rule, query_text_or_null(values->rounding_rule))
SNAPSHOT(untouched_size, values->pages_unknown ? query_null() : query_real(values->untouched_bytes))
SNAPSHOT(swapped_size, values->pages_unknown ? query_null() : query_real(values->swapped_bytes))
SNAPSHOT(allocator, query_text_or_null(values->allocator))
SNAPSHOT(duration_us, query_integer((int64_t)values->duration_us))
#undef SNAPSHOT

static const struct query_column snapshot_columns[] = {
    {"id", INT, "number of the snapshot", QUERY_INDEXED, NULL, 0},
    {"ts", INT, "when, in ns", QUERY_BY_LOOKING, snapshot_ts, 0},
    {"upid", INT, "process", QUERY_INDEXED, snapshot_upid, 0},
    {"dump_id", INT, "the next dump of the process, heap_profile.id; NULL: none", QUERY_INDEXED,
     snapshot_dump_id, 0},
    {"rss_size", INT, "resident bytes: the sum of hp_memory_part", QUERY_BY_LOOKING,
     snapshot_rss_size, 0},
    {"swap_size", INT, "bytes swapped out: the same sum", QUERY_BY_LOOKING, snapshot_swap_size, 0},
    {"live_size", REAL, "of malloc's heap: bytes live, an estimate", QUERY_BY_LOOKING,
     snapshot_live_size, 0},
    {"live_size_variance", REAL, "its variance", QUERY_BY_LOOKING, snapshot_live_size_variance, 0},
    {"live_count", REAL, "allocations live, an estimate", QUERY_BY_LOOKING, snapshot_live_count, 0},
    {"rounding_size", REAL, "what the allocator takes for them beside that; NULL: not known",
     QUERY_BY_LOOKING, snapshot_rounding_size, 0},
    {"rounding_rule", TEXT, "whose rule that is by; NULL: not known", QUERY_BY_LOOKING,
     snapshot_rounding_rule, 0},
    {"untouched_size", REAL, "of the live bytes: never touched; NULL: not known", QUERY_BY_LOOKING,
     snapshot_untouched_size, 0},
    {"swapped_size", REAL, "of the live bytes: swapped out; NULL: not known", QUERY_BY_LOOKING,
     snapshot_swapped_size, 0},
    {"allocator", TEXT, "file with the real malloc; NULL: unknown", QUERY_BY_LOOKING,
     snapshot_allocator, 0},
    {"duration_us", INT, "time that taking it took", QUERY_BY_LOOKING, snapshot_duration_us, 0},
};

static size_t snapshot_part_count(struct query_trace *trace)
{
    return trace->profile->memory_snapshot_count * MEMORY_KINDS;
}

static const char *const kind_names[MEMORY_KINDS] = {
    [MEMORY_UNKNOWN] = "unknown",
    [MEMORY_ALLOCATOR] = "allocator",
    [MEMORY_ANONYMOUS] = "anonymous",
    [MEMORY_THREAD_STACKS] = "thread_stacks",
    [MEMORY_MAIN_STACK] = "main_stack",
    [MEMORY_FILES_CLEAN] = "files_clean",
    [MEMORY_FILES_WRITTEN] = "files_written",
    [MEMORY_SHARED] = "shared",
    [MEMORY_PROFILER] = "profiler",
    [MEMORY_KERNEL] = "kernel",
};

static void find_snapshot_part(struct query_row *row)
{
    const struct memory_snapshot *values =
        &row->trace->profile->memory_snapshots[row->number / MEMORY_KINDS].values;
    row->item = &values->parts[row->number % MEMORY_KINDS];
}

#define SNAPSHOT_PART(column, expression)                                                          \
    static struct query_value snapshot_part_##column(const struct query_row *row)                  \
    {                                                                                              \
        const struct memory_part *part = row->item;                                                \
        (void)part;                                                                                \
        return expression;                                                                         \
    }

SNAPSHOT_PART(look_id, query_integer(row->trace->bases.memory_snapshot +
                                     (int64_t)(row->number / MEMORY_KINDS)))
SNAPSHOT_PART(kind, query_text(kind_names[row->number % MEMORY_KINDS]))
SNAPSHOT_PART(rss_size, query_integer((int64_t)part->rss_bytes))
SNAPSHOT_PART(swap_size, query_integer((int64_t)part->swap_bytes))
SNAPSHOT_PART(mapped_size, query_integer((int64_t)part->mapped_bytes))
SNAPSHOT_PART(mappings, query_integer((int64_t)part->mappings))
#undef SNAPSHOT_PART

static const struct query_column snapshot_part_columns[] = {
    {"look_id", INT, "hp_memory_snapshot.id", QUERY_INDEXED, snapshot_part_look_id, 0},
    {"kind", TEXT, "what the mappings are, as report --rss --json has it", QUERY_BY_LOOKING,
     snapshot_part_kind, 0},
    {"rss_size", INT, "resident bytes", QUERY_BY_LOOKING, snapshot_part_rss_size, 0},
    {"swap_size", INT, "bytes swapped out", QUERY_BY_LOOKING, snapshot_part_swap_size, 0},
    {"mapped_size", INT, "bytes of address space", QUERY_BY_LOOKING, snapshot_part_mapped_size, 0},
    {"mappings", INT, "how many there are", QUERY_BY_LOOKING, snapshot_part_mappings, 0},
};

/* --- streams --- */

static size_t stream_count(struct query_trace *trace)
{
    return trace->profile->stream_count;
}

static void find_stream(struct query_row *row)
{
    row->item = &row->trace->profile->streams[row->number];
}

#define STREAM(column, expression)                                                                 \
    static struct query_value stream_##column(const struct query_row *row)                         \
    {                                                                                              \
        const struct profile_stream *stream = row->item;                                           \
        return expression;                                                                         \
    }

STREAM(upid, stream->process == PROFILE_NONE
                 ? query_null()
                 : query_id(row->trace->bases.process, row->trace->process_rows[stream->process]))
STREAM(heap_id, query_integer(stream->heap_id))
STREAM(allocations, query_integer((int64_t)stream->allocations))
STREAM(frees, query_integer((int64_t)stream->frees))
STREAM(undone_frees, query_integer((int64_t)stream->undone_frees))
STREAM(alloc_size, query_real(stream->allocated_bytes))
STREAM(alloc_count, query_real(stream->allocated_count))
#undef STREAM

static const struct query_column stream_columns[] = {
    {"upid", INT, "process; NULL: the trace does not say", QUERY_INDEXED, stream_upid, 0},
    {"heap_id", INT, "0: malloc", QUERY_BY_LOOKING, stream_heap_id, 0},
    {"allocations", INT, "events of allocations", QUERY_BY_LOOKING, stream_allocations, 0},
    {"frees", INT, "events of frees", QUERY_BY_LOOKING, stream_frees, 0},
    {"undone_frees", INT, "of these, did not happen after all", QUERY_BY_LOOKING,
     stream_undone_frees, 0},
    {"alloc_size", REAL, "bytes that the allocations stand for", QUERY_BY_LOOKING,
     stream_alloc_size, 0},
    {"alloc_count", REAL, "allocations that they stand for", QUERY_BY_LOOKING, stream_alloc_count,
     0},
};

const struct query_table query_memory_tables[] = {
    {"hp_timeline", "live bytes and RSS over time", COLUMNS(timeline_columns), false,
     timeline_count, NULL, find_timeline, NULL},
    {"hp_memory_snapshot", "snapshots of what a process has in memory (report --rss)",
     COLUMNS(snapshot_columns), true, snapshot_count, NULL, find_snapshot, NULL},
    {"hp_memory_part", "of each snapshot, its parts: they add up to the RSS",
     COLUMNS(snapshot_part_columns), false, snapshot_part_count, NULL, find_snapshot_part, NULL},
    {"hp_stream", "sums of what was streamed event by event", COLUMNS(stream_columns), false,
     stream_count, NULL, find_stream, NULL},
    {0},
};
