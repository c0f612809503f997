/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See query_table.h: our own tables of what a process has in memory over time, of the looks at it
 * that say what its RSS consists of, and of streamed events.
 */
#include <string.h>

#include "query/query_table.h"

#define INT "INTEGER"
#define REAL "REAL"
#define TEXT "TEXT"
#define COLUMNS(array) (array), sizeof(array) / sizeof((array)[0])

/* --- the timeline --- */

static const struct query_column timeline_columns[] = {
    {"ts", INT, "in ns", QUERY_BY_LOOKING},
    {"upid", INT, "process", QUERY_INDEXED},
    {"live_size", INT, "bytes live in all its profiled heaps; NULL: not told", QUERY_BY_LOOKING},
    {"rss_size", INT, "resident bytes; NULL: not told", QUERY_BY_LOOKING},
    {"rss_anon_size", INT, "of these, of no file", QUERY_BY_LOOKING},
    {"vm_size", INT, "bytes of address space", QUERY_BY_LOOKING},
};

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

static struct query_value timeline_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile *profile = trace->profile;
    size_t process = 0;
    while (row >= profile->processes[process].timeline_count)
        row -= profile->processes[process++].timeline_count;
    const struct profile_memory_point *point = &profile->processes[process].timeline[row];
    switch (column) {
    case 0:
        return query_integer((int64_t)point->boottime_ns);
    case 1:
        return query_id(trace->bases.process, trace->process_rows[process]);
    case 2:
        return size_or_null(point->heap_bytes);
    case 3:
        return size_or_null(point->rss_bytes);
    case 4:
        return size_or_null(point->rss_anon_bytes);
    default:
        return size_or_null(point->vm_bytes);
    }
}

/* --- looks --- */

static const struct query_column look_columns[] = {
    {"id", INT, "number of the look", QUERY_INDEXED},
    {"ts", INT, "when, in ns", QUERY_BY_LOOKING},
    {"upid", INT, "process", QUERY_INDEXED},
    {"dump_id", INT, "the next dump of the process, heap_profile.id; NULL: none", QUERY_INDEXED},
    {"rss_size", INT, "resident bytes: the sum of hp_memory_part", QUERY_BY_LOOKING},
    {"swap_size", INT, "bytes swapped out: the same sum", QUERY_BY_LOOKING},
    {"live_size", REAL, "of malloc's heap: bytes live, an estimate", QUERY_BY_LOOKING},
    {"live_size_variance", REAL, "its variance", QUERY_BY_LOOKING},
    {"live_count", REAL, "allocations live, an estimate", QUERY_BY_LOOKING},
    {"rounding_size", REAL, "what the allocator takes for them beside that; NULL: not known",
     QUERY_BY_LOOKING},
    {"rounding_rule", TEXT, "whose rule that is by; NULL: not known", QUERY_BY_LOOKING},
    {"untouched_size", REAL, "of the live bytes: never touched; NULL: not known", QUERY_BY_LOOKING},
    {"swapped_size", REAL, "of the live bytes: swapped out; NULL: not known", QUERY_BY_LOOKING},
    {"allocator", TEXT, "file with the real malloc; NULL: unknown", QUERY_BY_LOOKING},
    {"duration_us", INT, "that the look took", QUERY_BY_LOOKING},
};

static size_t look_count(struct query_trace *trace)
{
    return trace->profile->look_count;
}

static struct query_value dump_of(const struct query_trace *trace,
                                  const struct profile_memory_snapshot *look)
{
    for (size_t i = look->order; i < trace->dump_count; i++)
        if (query_trace_heap(trace, i)->process == look->process)
            return query_integer(trace->bases.dump + (int64_t)i);
    return query_null();
}

static struct memory_part sum_of(const struct memory_snapshot *look)
{
    struct memory_part sum = {0};
    for (size_t i = 0; i < MEMORY_KINDS; i++) {
        sum.rss_bytes += look->parts[i].rss_bytes;
        sum.swap_bytes += look->parts[i].swap_bytes;
    }
    return sum;
}

static struct query_value look_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_memory_snapshot *told = &trace->profile->looks[row];
    const struct memory_snapshot *look = &told->look;
    switch (column) {
    case 1:
        return query_integer((int64_t)look->boottime_ns);
    case 2:
        return query_id(trace->bases.process, trace->process_rows[told->process]);
    case 3:
        return dump_of(trace, told);
    case 4:
        return query_integer((int64_t)sum_of(look).rss_bytes);
    case 5:
        return query_integer((int64_t)sum_of(look).swap_bytes);
    case 6:
        return query_real(look->live_bytes);
    case 7:
        return query_real(look->live_bytes_variance);
    case 8:
        return query_real(look->live_count);
    case 9:
        return look->rounding_rule == NULL ? query_null() : query_real(look->rounding_bytes);
    case 10:
        return query_text_or_null(look->rounding_rule);
    case 11:
        return look->pages_unknown ? query_null() : query_real(look->untouched_bytes);
    case 12:
        return look->pages_unknown ? query_null() : query_real(look->swapped_bytes);
    case 13:
        return query_text_or_null(look->allocator);
    default:
        return query_integer((int64_t)look->duration_us);
    }
}

static const struct query_column look_part_columns[] = {
    {"look_id", INT, "hp_memory_snapshot.id", QUERY_INDEXED},
    {"kind", TEXT, "what the mappings are, as report --rss --json has it", QUERY_BY_LOOKING},
    {"rss_size", INT, "resident bytes", QUERY_BY_LOOKING},
    {"swap_size", INT, "bytes swapped out", QUERY_BY_LOOKING},
    {"mapped_size", INT, "bytes of address space", QUERY_BY_LOOKING},
    {"mappings", INT, "how many there are", QUERY_BY_LOOKING},
};

static size_t look_part_count(struct query_trace *trace)
{
    return trace->profile->look_count * MEMORY_KINDS;
}

static struct query_value look_part_value(struct query_trace *trace, size_t row, unsigned column)
{
    static const char *const kinds[MEMORY_KINDS] = {
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
    size_t look = row / MEMORY_KINDS, kind = row % MEMORY_KINDS;
    const struct memory_part *part = &trace->profile->looks[look].look.parts[kind];
    switch (column) {
    case 0:
        return query_integer(trace->bases.look + (int64_t)look);
    case 1:
        return query_text(kinds[kind]);
    case 2:
        return query_integer((int64_t)part->rss_bytes);
    case 3:
        return query_integer((int64_t)part->swap_bytes);
    case 4:
        return query_integer((int64_t)part->mapped_bytes);
    default:
        return query_integer((int64_t)part->mappings);
    }
}

/* --- streams --- */

static const struct query_column stream_columns[] = {
    {"upid", INT, "process; NULL: the trace does not say", QUERY_INDEXED},
    {"heap_id", INT, "0: malloc", QUERY_BY_LOOKING},
    {"allocations", INT, "events of allocations", QUERY_BY_LOOKING},
    {"frees", INT, "events of frees", QUERY_BY_LOOKING},
    {"undone_frees", INT, "of these, did not happen after all", QUERY_BY_LOOKING},
    {"alloc_size", REAL, "bytes that the allocations stand for", QUERY_BY_LOOKING},
    {"alloc_count", REAL, "allocations that they stand for", QUERY_BY_LOOKING},
};

static size_t stream_count(struct query_trace *trace)
{
    return trace->profile->stream_count;
}

static struct query_value stream_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_stream *stream = &trace->profile->streams[row];
    switch (column) {
    case 0:
        return stream->process == PROFILE_NONE
                   ? query_null()
                   : query_id(trace->bases.process, trace->process_rows[stream->process]);
    case 1:
        return query_integer(stream->heap_id);
    case 2:
        return query_integer((int64_t)stream->allocations);
    case 3:
        return query_integer((int64_t)stream->frees);
    case 4:
        return query_integer((int64_t)stream->undone_frees);
    case 5:
        return query_real(stream->allocated_bytes);
    default:
        return query_real(stream->allocated_count);
    }
}

const struct query_table query_memory_tables[] = {
    {"hp_timeline", "live bytes and RSS over time", COLUMNS(timeline_columns), false,
     timeline_count, NULL, timeline_value, NULL},
    {"hp_memory_snapshot", "looks at what a process has in memory (report --rss)",
     COLUMNS(look_columns), true, look_count, NULL, look_value, NULL},
    {"hp_memory_part", "of each look, its parts: they add up to the RSS",
     COLUMNS(look_part_columns), false, look_part_count, NULL, look_part_value, NULL},
    {"hp_stream", "sums of what was streamed event by event", COLUMNS(stream_columns), false,
     stream_count, NULL, stream_value, NULL},
    {0},
};
