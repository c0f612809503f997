/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own tables about memory: the size of each process over time, snapshots of the parts of its
 * RSS, and streamed events.
 */
#include "tools/query/query_table.h"

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

static struct query_value part_or_null(uint64_t bytes)
{
    return bytes == PROFILE_UNKNOWN_BYTES ? query_null() : query_integer((int64_t)bytes);
}

/* Set row->part to the process, too. */
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
    QUERY_GETTER(timeline_##column, const struct profile_memory_point *point, expression)

TIMELINE(upid, query_id(row->trace->bases.process, row->trace->process_rows[row->part]))
TIMELINE(live_size, size_or_null(point->heap_bytes))
TIMELINE(rss_size, size_or_null(point->rss_bytes))
TIMELINE(rss_anon_size, size_or_null(point->rss_anon_bytes))
TIMELINE(rss_file_size, part_or_null(point->rss_file_bytes))
TIMELINE(rss_shmem_size, part_or_null(point->rss_shmem_bytes))
TIMELINE(swap_size, part_or_null(point->swap_bytes))
TIMELINE(vm_size, size_or_null(point->vm_bytes))
TIMELINE(profiler_size, part_or_null(point->profiler_bytes))
#undef TIMELINE

static const struct query_column timeline_columns[] = {
    {QUERY_MEMBER("ts", "in ns", struct profile_memory_point, boottime_ns)},
    {"upid", INT, "process", .get = timeline_upid, .lookup = QUERY_INDEXED},
    {"live_size", INT, "live bytes of all its profiled heaps; NULL: unknown",
     .get = timeline_live_size},
    {"rss_size", INT, "resident bytes of the program; NULL: unknown", .get = timeline_rss_size},
    {"rss_anon_size", INT, "part of these without a file", .get = timeline_rss_anon_size},
    {"vm_size", INT, "bytes of address space", .get = timeline_vm_size},
    {"rss_file_size", INT, "resident bytes of files; NULL: unknown", .get = timeline_rss_file_size},
    {"rss_shmem_size", INT, "resident shared memory; NULL: unknown",
     .get = timeline_rss_shmem_size},
    {"swap_size", INT, "bytes swapped out; NULL: unknown", .get = timeline_swap_size},
    {"profiler_size", INT,
     "resident bytes of the profiler beside these; NULL: unknown, and part of them",
     .get = timeline_profiler_size},
};

/* --- snapshots --- */

QUERY_ARRAY(snapshot, profile->memory_snapshots, profile->memory_snapshot_count)
static struct query_value dump_of(const struct query_trace *trace,
                                  const struct profile_memory_snapshot *snapshot)
{
    for (size_t i = snapshot->order; i < trace->dump_count; i++)
        if (query_trace_heap(trace, i)->process == snapshot->process)
            return query_integer(trace->bases.dump + (int64_t)i);
    return query_null();
}

#define SNAPSHOT(column, expression)                                                               \
    static struct query_value snapshot_##column(const struct query_row *row)                       \
    {                                                                                              \
        const struct profile_memory_snapshot *snapshot = row->item;                                \
        const struct memory_snapshot *values = &snapshot->values;                                  \
        (void)values;                                                                              \
        return expression;                                                                         \
    }

SNAPSHOT(upid, query_id(row->trace->bases.process, row->trace->process_rows[snapshot->process]))
SNAPSHOT(dump_id, dump_of(row->trace, snapshot))
SNAPSHOT(rss_size, query_integer((int64_t)memory_snapshot_sum(values).rss_bytes))
SNAPSHOT(swap_size, query_integer((int64_t)memory_snapshot_sum(values).swap_bytes))
SNAPSHOT(rounding_size,
         values->rounding_rule == NULL ? query_null() : query_real(values->rounding_bytes))
SNAPSHOT(rounding_rule, query_text_or_null(values->rounding_rule))
SNAPSHOT(untouched_size, values->pages_unknown ? query_null() : query_real(values->untouched_bytes))
SNAPSHOT(swapped_size, values->pages_unknown ? query_null() : query_real(values->swapped_bytes))
SNAPSHOT(allocator, query_text_or_null(values->allocator))
#undef SNAPSHOT

#define SNAPSHOT_MEMBER(name, description, member)                                                 \
    QUERY_MEMBER(name, description, struct profile_memory_snapshot, values.member)

static const struct query_column snapshot_columns[] = {
    {"id", INT, "number of the snapshot", .lookup = QUERY_INDEXED},
    {SNAPSHOT_MEMBER("ts", "when, in ns", boottime_ns)},
    {"upid", INT, "process", .get = snapshot_upid, .lookup = QUERY_INDEXED},
    {"dump_id", INT, "the next dump of the process, heap_profile.id; NULL: none",
     .get = snapshot_dump_id, .lookup = QUERY_INDEXED},
    {"rss_size", INT, "resident bytes of the program: the sum of hp_memory_part but for profiler",
     .get = snapshot_rss_size},
    {"swap_size", INT, "bytes swapped out: the same sum", .get = snapshot_swap_size},
    {SNAPSHOT_MEMBER("live_size", "live bytes of malloc's heap, an estimate", live_bytes)},
    {SNAPSHOT_MEMBER("live_size_variance", "its variance", live_bytes_variance)},
    {SNAPSHOT_MEMBER("live_count", "allocations live, an estimate", live_count)},
    {"rounding_size", REAL, "the allocator's rounding of these; NULL: unknown",
     .get = snapshot_rounding_size},
    {"rounding_rule", TEXT, "allocator with these size classes; NULL: unknown",
     .get = snapshot_rounding_rule},
    {"untouched_size", REAL, "untouched part of the live bytes; NULL: unknown",
     .get = snapshot_untouched_size},
    {"swapped_size", REAL, "swapped part of the live bytes; NULL: unknown",
     .get = snapshot_swapped_size},
    {"allocator", TEXT, "file with the real malloc; NULL: unknown", .get = snapshot_allocator},
    {SNAPSHOT_MEMBER("duration_us", "duration of the snapshot", duration_us)},
};

static size_t snapshot_part_count(struct query_trace *trace)
{
    return trace->profile->memory_snapshot_count * MEMORY_KINDS;
}

static void find_snapshot_part(struct query_row *row)
{
    const struct memory_snapshot *values =
        &row->trace->profile->memory_snapshots[row->number / MEMORY_KINDS].values;
    row->item = &values->parts[row->number % MEMORY_KINDS];
}

#define SNAPSHOT_PART(column, expression)                                                          \
    QUERY_GETTER(snapshot_part_##column, const struct memory_part *part, expression)

SNAPSHOT_PART(look_id, query_integer(row->trace->bases.memory_snapshot +
                                     (int64_t)(row->number / MEMORY_KINDS)))
SNAPSHOT_PART(kind, query_text(memory_kind_names[row->number % MEMORY_KINDS]))
#undef SNAPSHOT_PART

static const struct query_column snapshot_part_columns[] = {
    {"look_id", INT, "hp_memory_snapshot.id", .get = snapshot_part_look_id,
     .lookup = QUERY_INDEXED},
    {"kind", TEXT, "kind of the mappings, as in report --rss --json", .get = snapshot_part_kind},
    {QUERY_MEMBER("rss_size", "resident bytes", struct memory_part, rss_bytes)},
    {QUERY_MEMBER("swap_size", "bytes swapped out", struct memory_part, swap_bytes)},
    {QUERY_MEMBER("mapped_size", "bytes of address space", struct memory_part, mapped_bytes)},
    {QUERY_MEMBER("mappings", "number of mappings", struct memory_part, mappings)},
};

/* --- streams --- */

QUERY_ARRAY(stream, profile->streams, profile->stream_count)

QUERY_GETTER(stream_upid, const struct profile_stream *stream,
             stream->process == PROFILE_NONE
                 ? query_null()
                 : query_id(row->trace->bases.process, row->trace->process_rows[stream->process]))

#define STREAM_MEMBER(name, description, member)                                                   \
    QUERY_MEMBER(name, description, struct profile_stream, member)

static const struct query_column stream_columns[] = {
    {"upid", INT, "process; NULL: the trace does not say", .get = stream_upid,
     .lookup = QUERY_INDEXED},
    {STREAM_MEMBER("heap_id", "0: malloc", heap_id)},
    {STREAM_MEMBER("allocations", "events of allocations", allocations)},
    {STREAM_MEMBER("frees", "events of frees", frees)},
    {STREAM_MEMBER("undone_frees", "frees among these that were undone", undone_frees)},
    {STREAM_MEMBER("alloc_size", "bytes that the allocations represent", allocated_bytes)},
    {STREAM_MEMBER("alloc_count", "allocations that they represent", allocated_count)},
    {STREAM_MEMBER("missing", "events of the process that the trace has lost", missing)},
};

const struct query_table query_memory_tables[] = {
    {"hp_timeline", "live bytes and RSS over time", QUERY_COLUMNS(timeline_columns), false,
     timeline_count, NULL, find_timeline, NULL},
    {"hp_memory_snapshot", "snapshots of a process's memory (report --rss)",
     QUERY_COLUMNS(snapshot_columns), true, snapshot_count, NULL, find_snapshot, NULL},
    {"hp_memory_part", "the parts of each snapshot, which add up to the RSS",
     QUERY_COLUMNS(snapshot_part_columns), false, snapshot_part_count, NULL, find_snapshot_part,
     NULL},
    {"hp_stream", "sums of the streamed events", QUERY_COLUMNS(stream_columns), false, stream_count,
     NULL, find_stream, NULL},
    {0},
};
