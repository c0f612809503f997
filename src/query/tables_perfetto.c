/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See query_table.h: the tables that Perfetto's trace processor has of heap profiles, with its
 * ids, NULLs and order of rows. docs/sql.md says where a row could differ.
 */
#include <string.h>

#include "query/query_table.h"

#define INT "INTEGER"
#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- processes and threads --- */

static const struct query_column process_columns[] = {
    {"id", INT, "the same as upid", QUERY_INDEXED},
    {"upid", INT, "number of the process in the trace", QUERY_INDEXED},
    {"pid", INT, "process id", QUERY_BY_LOOKING},
    {"name", "TEXT", "its first argument; NULL if the trace does not say", QUERY_BY_LOOKING},
    {"cmdline", "TEXT", "all its arguments", QUERY_BY_LOOKING},
    {"uid", INT, "user id", QUERY_BY_LOOKING},
    {"start_ts", INT, "when it began, in ns; NULL: the trace does not say", QUERY_BY_LOOKING},
    {"parent_upid", INT, "its parent", QUERY_INDEXED},
};

static size_t process_count(struct query_trace *trace)
{
    return trace->process_count;
}

static struct query_value process_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct query_process *process = &trace->processes[row];
    const struct profile_process *told =
        process->process == PROFILE_NONE ? NULL : &trace->profile->processes[process->process];
    if (told != NULL && told->first_argument == NULL)
        told = NULL;
    switch (column) {
    case 2:
        return query_integer(process->pid);
    case 3:
        return told == NULL ? query_null()
                            : query_text(told->title != NULL ? told->title : told->first_argument);
    case 4:
        return told == NULL ? query_null() : query_text(told->arguments);
    case 5:
        return told == NULL || !told->has_uid ? query_null() : query_integer((uint32_t)told->uid);
    case 6:
        return told == NULL || !told->has_start ? query_null()
                                                : query_integer((int64_t)told->start_boottime_ns);
    case 7:
        return query_id(trace->bases.process, process->parent);
    default:
        return query_integer(trace->bases.process + (int64_t)row);
    }
}

static const struct query_column thread_columns[] = {
    {"id", INT, "the same as utid", QUERY_INDEXED},
    {"utid", INT, "number of the thread in the trace", QUERY_INDEXED},
    {"tid", INT, "thread id", QUERY_BY_LOOKING},
    {"name", "TEXT", "its name; NULL if the trace does not say", QUERY_BY_LOOKING},
    {"upid", INT, "its process", QUERY_INDEXED},
};

static size_t thread_count(struct query_trace *trace)
{
    return trace->thread_count;
}

static struct query_value thread_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct query_thread *thread = &trace->threads[row];
    switch (column) {
    case 2:
        return query_integer(thread->tid);
    case 3:
        return query_text_or_null(thread->name);
    case 4:
        return query_id(trace->bases.process, thread->process);
    default:
        return query_integer(trace->bases.thread + (int64_t)row);
    }
}

/* --- stacks --- */

static const struct query_column mapping_columns[] = {
    {"id", INT, "number of the mapping", QUERY_INDEXED},
    {"build_id", "TEXT", "build id of the file, in lower-case hex", QUERY_BY_LOOKING},
    {"exact_offset", INT, "offset in the file", QUERY_BY_LOOKING},
    {"start_offset", INT, "offset in the file of what was mapped first of it", QUERY_BY_LOOKING},
    {"start", INT, "first address", QUERY_BY_LOOKING},
    {"end", INT, "address behind the last", QUERY_BY_LOOKING},
    {"load_bias", INT, "of the ELF file", QUERY_BY_LOOKING},
    {"name", "TEXT", "path of the file", QUERY_BY_LOOKING},
};

static size_t mapping_count(struct query_trace *trace)
{
    return trace->profile->mapping_count;
}

static struct query_value mapping_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_mapping *mapping = &trace->profile->mappings[row];
    switch (column) {
    case 1:
        return query_text(mapping->build_id);
    case 2:
        return query_integer((int64_t)mapping->exact_offset);
    case 3:
        return query_integer((int64_t)mapping->start_offset);
    case 4:
        return query_integer((int64_t)mapping->start);
    case 5:
        return query_integer((int64_t)mapping->end);
    case 6:
        return query_integer((int64_t)mapping->load_bias);
    default:
        return query_text(mapping->path);
    }
}

static const struct query_column frame_columns[] = {
    {"id", INT, "number of the frame", QUERY_INDEXED},
    {"name", "TEXT", "function, as the trace has it (mangled, or obfuscated); NULL: none",
     QUERY_BY_LOOKING},
    {"mapping", INT, "stack_profile_mapping.id", QUERY_INDEXED},
    {"rel_pc", INT, "address in the ELF file", QUERY_BY_LOOKING},
    {"symbol_set_id", INT, "lines of stack_profile_symbol; NULL: none", QUERY_INDEXED},
    {"deobfuscated_name", "TEXT", "what the function was called before; NULL: unknown",
     QUERY_BY_LOOKING},
    {"type", "TEXT", "native, jit, interpreted, kernel, gc, runtime, or another; NULL: not told",
     QUERY_BY_LOOKING},
};

static size_t frame_count(struct query_trace *trace)
{
    return trace->profile->frame_count;
}

static struct query_value frame_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_frame *frame = &trace->profile->frames[row];
    switch (column) {
    case 1:
        return frame->is_unnamed ? query_null() : query_text(frame->linkage_name);
    case 2:
        return query_id(trace->bases.mapping, frame->mapping);
    case 3:
        return query_integer((int64_t)frame->rel_pc);
    case 4:
        return frame->symbol_count == 0 ? query_null()
                                        : query_id(trace->bases.symbol, frame->symbol_first);
    case 5:
        return *frame->obfuscated_name == '\0' ? query_null() : query_text(frame->name);
    default:
        return frame->kind == TRACE_FRAME_NATIVE ? query_text("native")
                                                 : query_text_or_null(profile_frame_kind(frame));
    }
}

static const struct query_column callsite_columns[] = {
    {"id", INT, "number of the callsite", QUERY_INDEXED},
    {"depth", INT, "0: the outermost frame", QUERY_BY_LOOKING},
    {"parent_id", INT, "the caller; NULL: outermost", QUERY_INDEXED},
    {"frame_id", INT, "stack_profile_frame.id", QUERY_INDEXED},
};

static size_t callsite_count(struct query_trace *trace)
{
    return trace->profile->callsite_count;
}

static struct query_value callsite_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_callsite *callsite = &trace->profile->callsites[row];
    switch (column) {
    case 1:
        return query_integer(callsite->depth);
    case 2:
        return query_id(trace->bases.callsite, callsite->parent);
    default:
        return query_id(trace->bases.frame, callsite->frame);
    }
}

static const struct query_column symbol_columns[] = {
    {"id", INT, "number of the line", QUERY_INDEXED},
    {"symbol_set_id", INT, "lines of one address, the innermost first: id of the first",
     QUERY_INDEXED},
    {"name", "TEXT", "function", QUERY_BY_LOOKING},
    {"source_file", "TEXT", "NULL: unknown", QUERY_BY_LOOKING},
    {"line_number", INT, "NULL: unknown", QUERY_BY_LOOKING},
    {"inlined", INT, "1: into the function of the next line; NULL: not told by deobfuscation",
     QUERY_BY_LOOKING},
};

static size_t symbol_count(struct query_trace *trace)
{
    return trace->profile->symbol_line_count;
}

static struct query_value symbol_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_symbol_line *line = &trace->profile->symbol_lines[row];
    switch (column) {
    case 1:
        return query_id(trace->bases.symbol, line->set);
    case 2:
        return query_text(line->name);
    case 3:
        return query_text_or_null(line->source_file);
    case 4:
        return line->has_line ? query_integer(line->line) : query_null();
    default:
        return line->has_inlined ? query_integer(line->inlined) : query_null();
    }
}

/* --- dumps --- */

static const struct query_column heap_profile_columns[] = {
    {"id", INT, "number of the dump", QUERY_INDEXED},
    {"ts", INT, "what it tells begins here: at the dump before or the start, if told, in ns",
     QUERY_INDEXED},
    {"ts_end", INT, "when it was taken, in ns", QUERY_INDEXED},
    {"dur", INT, "ts_end - ts", QUERY_BY_LOOKING},
    {"upid", INT, "process", QUERY_INDEXED},
    {"heap_name", "TEXT", "libc.malloc, or a heap of the program's own; NULL: without a name",
     QUERY_BY_LOOKING},
};

static size_t dump_count(struct query_trace *trace)
{
    return trace->dump_count;
}

static struct query_value heap_profile_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_heap *heap = query_trace_heap(trace, row);
    const struct profile_dump *dump = query_trace_dump(trace, row);
    uint64_t begin = dump->start_boottime_ns;
    switch (column) {
    case 1:
        return query_integer((int64_t)begin);
    case 2:
        return query_integer((int64_t)dump->boottime_ns);
    case 3:
        return query_integer((int64_t)(dump->boottime_ns - begin));
    case 4:
        return query_id(trace->bases.process, trace->process_rows[heap->process]);
    default:
        return heap->unnamed ? query_null() : query_text(heap->name);
    }
}

static const struct query_column allocation_columns[] = {
    {"id", INT, "number of the row", QUERY_INDEXED},
    {"ts", INT, "when the dump was taken, in ns", QUERY_OF_DUMP},
    {"upid", INT, "process", QUERY_OF_DUMP},
    {"heap_name", "TEXT", "libc.malloc, or a heap of the program's own; or unknown",
     QUERY_BY_LOOKING},
    {"callsite_id", INT, "stack_profile_callsite.id, the innermost", QUERY_INDEXED},
    {"count", INT, "allocations since the dump before; frees are negative", QUERY_BY_LOOKING},
    {"size", INT, "bytes since the dump before; what was freed is negative", QUERY_BY_LOOKING},
};

static size_t allocation_count(struct query_trace *trace)
{
    return query_trace_need_allocations(trace) < 0 ? 0 : trace->allocation_count;
}

static size_t estimate_allocations(const struct query_trace *trace)
{
    size_t rows = 0;
    for (size_t i = 0; i < trace->dump_count; i++)
        rows += query_trace_dump(trace, i)->sample_count;
    return rows;
}

static size_t first_allocation(struct query_trace *trace, size_t dump)
{
    return trace->allocation_firsts[dump];
}

static struct query_value allocation_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct query_allocation *allocation = &trace->allocations[row];
    switch (column) {
    case 1:
        return query_integer((int64_t)query_trace_dump(trace, allocation->dump)->boottime_ns);
    case 2:
        return query_id(trace->bases.process,
                        trace->process_rows[query_trace_heap(trace, allocation->dump)->process]);
    case 3:
        return query_text(query_trace_heap(trace, allocation->dump)->name);
    case 4:
        return query_id(trace->bases.callsite, allocation->callsite);
    default:
        return query_integer(column == 5 ? allocation->count : allocation->size);
    }
}

/* --- smaps and stats --- */

static const struct query_column smaps_columns[] = {
    {"id", INT, "number of the row", QUERY_INDEXED},
    {"upid", INT, "process", QUERY_INDEXED},
    {"ts", INT, "when, in ns", QUERY_INDEXED},
    {"path", "TEXT", "file, or [heap], [stack] and the like", QUERY_BY_LOOKING},
    {"size_kb", INT, "size", QUERY_BY_LOOKING},
    {"private_dirty_kb", INT, "written to, of this process alone", QUERY_BY_LOOKING},
    {"swap_kb", INT, "swapped out", QUERY_BY_LOOKING},
    {"file_name", "TEXT", "file without its directory, where it is told", QUERY_BY_LOOKING},
    {"start_address", INT, "first address", QUERY_BY_LOOKING},
    {"module_timestamp", INT, "of the module", QUERY_BY_LOOKING},
    {"module_debugid", "TEXT", "of the module", QUERY_BY_LOOKING},
    {"module_debug_path", "TEXT", "of the module", QUERY_BY_LOOKING},
    {"protection_flags", INT, "read, write, execute", QUERY_BY_LOOKING},
    {"private_clean_resident_kb", INT, "not written to, of this process alone", QUERY_BY_LOOKING},
    {"shared_dirty_resident_kb", INT, "written to, shared", QUERY_BY_LOOKING},
    {"shared_clean_resident_kb", INT, "not written to, shared", QUERY_BY_LOOKING},
    {"locked_kb", INT, "locked in memory", QUERY_BY_LOOKING},
    {"proportional_resident_kb", INT, "resident, its share of what is shared", QUERY_BY_LOOKING},
};

static size_t smaps_count(struct query_trace *trace)
{
    return trace->profile->smaps_count;
}

static struct query_value smaps_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_smaps *smaps = &trace->profile->smaps[row];
    const uint64_t numbers[] = {
        smaps->protection_flags,
        smaps->private_clean_resident_kb,
        smaps->shared_dirty_resident_kb,
        smaps->shared_clean_resident_kb,
        smaps->locked_kb,
        smaps->proportional_resident_kb,
    };
    switch (column) {
    case 1:
        return query_id(trace->bases.process, trace->process_rows[smaps->process]);
    case 2:
        return query_integer((int64_t)smaps->boottime_ns);
    case 3:
        return query_text(smaps->path);
    case 4:
        return query_integer((int64_t)smaps->size_kb);
    case 5:
        return query_integer((int64_t)smaps->private_dirty_kb);
    case 6:
        return query_integer((int64_t)smaps->swap_kb);
    case 7:
        return query_text(smaps->file_name);
    case 8:
        return query_integer((int64_t)smaps->start_address);
    case 9:
        return query_integer((int64_t)smaps->module_timestamp);
    case 10:
        return query_text(smaps->module_debugid);
    case 11:
        return query_text(smaps->module_debug_path);
    default:
        return query_integer((int64_t)numbers[column - 12]);
    }
}

static const struct query_column stats_columns[] = {
    {"name", "TEXT", "what is counted", QUERY_BY_LOOKING},
    {"idx", INT, "pid (of heapprofd_malformed_packet: upid); NULL: of the whole trace",
     QUERY_BY_LOOKING},
    {"severity", "TEXT", "info, data_loss or error", QUERY_BY_LOOKING},
    {"value", INT, "the count", QUERY_BY_LOOKING},
};

static size_t stat_count(struct query_trace *trace)
{
    return query_trace_need_stats(trace) < 0 ? 0 : trace->stat_count;
}

static size_t estimate_stats(const struct query_trace *trace)
{
    return 4 + 6 * trace->profile->heap_count;
}

static struct query_value stat_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct query_stat *stat = &trace->stats[row];
    switch (column) {
    case 0:
        return query_text(stat->name);
    case 1:
        return stat->indexed ? query_integer(stat->index) : query_null();
    case 2:
        return query_text(stat->severity);
    default:
        return query_integer(stat->value);
    }
}

#define COLUMNS(array) (array), ARRAY_LENGTH(array)

const struct query_table query_perfetto_tables[] = {
    {"process", "processes; row 0 is pid 0", COLUMNS(process_columns), true, process_count, NULL,
     process_value, NULL},
    {"thread", "threads; row 0 is tid 0", COLUMNS(thread_columns), true, thread_count, NULL,
     thread_value, NULL},
    {"stack_profile_mapping", "files and other memory that frames are in", COLUMNS(mapping_columns),
     true, mapping_count, NULL, mapping_value, NULL},
    {"stack_profile_frame", "places in code", COLUMNS(frame_columns), true, frame_count, NULL,
     frame_value, NULL},
    {"stack_profile_callsite", "call stacks, as a tree", COLUMNS(callsite_columns), true,
     callsite_count, NULL, callsite_value, NULL},
    {"stack_profile_symbol", "functions and lines of frames", COLUMNS(symbol_columns), true,
     symbol_count, NULL, symbol_value, NULL},
    {"heap_profile", "dumps", COLUMNS(heap_profile_columns), true, dump_count, NULL,
     heap_profile_value, NULL},
    {"heap_profile_allocation", "what each callsite allocated and freed from dump to dump",
     COLUMNS(allocation_columns), true, allocation_count, estimate_allocations, allocation_value,
     first_allocation},
    {"profiler_smaps", "mappings of processes, from /proc/PID/smaps", COLUMNS(smaps_columns), true,
     smaps_count, NULL, smaps_value, NULL},
    {"stats", "what was lost, and how the profiles ended", COLUMNS(stats_columns), false,
     stat_count, estimate_stats, stat_value, NULL},
    {0},
};
