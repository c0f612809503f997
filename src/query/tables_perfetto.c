/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See query_table.h: the tables that Perfetto's trace processor has of heap profiles, with its
 * ids, NULLs and order of rows. docs/sql.md says where a row could differ.
 */
#include <string.h>

#include "query/query_table.h"

#define INT "INTEGER"
#define TEXT "TEXT"
#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- processes and threads --- */

static size_t process_count(struct query_trace *trace)
{
    return trace->process_count;
}

static void find_process(struct query_row *row)
{
    row->item = &row->trace->processes[row->number];
}

/* NULL: the trace says nothing but the pid. */
static const struct profile_process *known_process(const struct query_row *row)
{
    const struct query_process *process = row->item;
    if (process->process == PROFILE_NONE)
        return NULL;
    const struct profile_process *known = &row->trace->profile->processes[process->process];
    return known->first_argument == NULL ? NULL : known;
}

#define PROCESS(column, expression)                                                                \
    static struct query_value process_##column(const struct query_row *row)                        \
    {                                                                                              \
        const struct query_process *process = row->item;                                           \
        const struct profile_process *known = known_process(row);                                  \
        (void)known, (void)process;                                                                \
        return expression;                                                                         \
    }

PROCESS(upid, query_integer(row->trace->bases.process + (int64_t)row->number))
PROCESS(pid, query_integer(process->pid))
PROCESS(name, known == NULL
                  ? query_null()
                  : query_text(known->title != NULL ? known->title : known->first_argument))
PROCESS(cmdline, known == NULL ? query_null() : query_text(known->arguments))
PROCESS(uid, known == NULL || !known->has_uid ? query_null() : query_integer((uint32_t)known->uid))
PROCESS(start_ts, known == NULL || !known->has_start
                      ? query_null()
                      : query_integer((int64_t)known->start_boottime_ns))
PROCESS(parent_upid, query_id(row->trace->bases.process, process->parent))
#undef PROCESS

static const struct query_column process_columns[] = {
    {"id", INT, "the same as upid", QUERY_INDEXED, NULL, 0},
    {"upid", INT, "number of the process in the trace", QUERY_INDEXED, process_upid, 0},
    {"pid", INT, "process id", QUERY_BY_LOOKING, process_pid, 0},
    {"name", TEXT, "its first argument; NULL if the trace does not say", QUERY_BY_LOOKING,
     process_name, 0},
    {"cmdline", TEXT, "all its arguments", QUERY_BY_LOOKING, process_cmdline, 0},
    {"uid", INT, "user id", QUERY_BY_LOOKING, process_uid, 0},
    {"start_ts", INT, "when it began, in ns; NULL: the trace does not say", QUERY_BY_LOOKING,
     process_start_ts, 0},
    {"parent_upid", INT, "its parent", QUERY_INDEXED, process_parent_upid, 0},
};

static size_t thread_count(struct query_trace *trace)
{
    return trace->thread_count;
}

static void find_thread(struct query_row *row)
{
    row->item = &row->trace->threads[row->number];
}

#define THREAD(column, expression)                                                                 \
    static struct query_value thread_##column(const struct query_row *row)                         \
    {                                                                                              \
        const struct query_thread *thread = row->item;                                             \
        (void)thread;                                                                              \
        return expression;                                                                         \
    }

THREAD(utid, query_integer(row->trace->bases.thread + (int64_t)row->number))
THREAD(tid, query_integer(thread->tid))
THREAD(name, query_text_or_null(thread->name))
THREAD(upid, query_id(row->trace->bases.process, thread->process))
#undef THREAD

static const struct query_column thread_columns[] = {
    {"id", INT, "the same as utid", QUERY_INDEXED, NULL, 0},
    {"utid", INT, "number of the thread in the trace", QUERY_INDEXED, thread_utid, 0},
    {"tid", INT, "thread id", QUERY_BY_LOOKING, thread_tid, 0},
    {"name", TEXT, "its name; NULL if the trace does not say", QUERY_BY_LOOKING, thread_name, 0},
    {"upid", INT, "its process", QUERY_INDEXED, thread_upid, 0},
};

/* --- stacks --- */

static size_t mapping_count(struct query_trace *trace)
{
    return trace->profile->mapping_count;
}

static void find_mapping(struct query_row *row)
{
    row->item = &row->trace->profile->mappings[row->number];
}

#define MAPPING(column, expression)                                                                \
    static struct query_value mapping_##column(const struct query_row *row)                        \
    {                                                                                              \
        const struct profile_mapping *mapping = row->item;                                         \
        return expression;                                                                         \
    }

MAPPING(build_id, query_text(mapping->build_id))
MAPPING(exact_offset, query_integer((int64_t)mapping->exact_offset))
MAPPING(start_offset, query_integer((int64_t)mapping->start_offset))
MAPPING(start, query_integer((int64_t)mapping->start))
MAPPING(end, query_integer((int64_t)mapping->end))
MAPPING(load_bias, query_integer((int64_t)mapping->load_bias))
MAPPING(name, query_text(mapping->path))
#undef MAPPING

static const struct query_column mapping_columns[] = {
    {"id", INT, "number of the mapping", QUERY_INDEXED, NULL, 0},
    {"build_id", TEXT, "build id of the file, in lower-case hex", QUERY_BY_LOOKING,
     mapping_build_id, 0},
    {"exact_offset", INT, "offset in the file", QUERY_BY_LOOKING, mapping_exact_offset, 0},
    {"start_offset", INT, "offset in the file of what was mapped first of it", QUERY_BY_LOOKING,
     mapping_start_offset, 0},
    {"start", INT, "first address", QUERY_BY_LOOKING, mapping_start, 0},
    {"end", INT, "address behind the last", QUERY_BY_LOOKING, mapping_end, 0},
    {"load_bias", INT, "of the ELF file", QUERY_BY_LOOKING, mapping_load_bias, 0},
    {"name", TEXT, "path of the file", QUERY_BY_LOOKING, mapping_name, 0},
};

static size_t frame_count(struct query_trace *trace)
{
    return trace->profile->frame_count;
}

static void find_frame(struct query_row *row)
{
    row->item = &row->trace->profile->frames[row->number];
}

#define FRAME(column, expression)                                                                  \
    static struct query_value frame_##column(const struct query_row *row)                          \
    {                                                                                              \
        const struct profile_frame *frame = row->item;                                             \
        return expression;                                                                         \
    }

FRAME(name, frame->is_unnamed ? query_null() : query_text(frame->linkage_name))
FRAME(mapping, query_id(row->trace->bases.mapping, frame->mapping))
FRAME(rel_pc, query_integer((int64_t)frame->rel_pc))
FRAME(symbol_set_id, frame->symbol_count == 0
                         ? query_null()
                         : query_id(row->trace->bases.symbol, frame->symbol_first))
FRAME(deobfuscated_name, *frame->obfuscated_name == '\0' ? query_null() : query_text(frame->name))
FRAME(type, frame->kind == TRACE_FRAME_NATIVE ? query_text("native")
                                              : query_text_or_null(profile_frame_kind(frame)))
#undef FRAME

static const struct query_column frame_columns[] = {
    {"id", INT, "number of the frame", QUERY_INDEXED, NULL, 0},
    {"name", TEXT, "function, as the trace has it (mangled, or obfuscated); NULL: none",
     QUERY_BY_LOOKING, frame_name, 0},
    {"mapping", INT, "stack_profile_mapping.id", QUERY_INDEXED, frame_mapping, 0},
    {"rel_pc", INT, "address in the ELF file", QUERY_BY_LOOKING, frame_rel_pc, 0},
    {"symbol_set_id", INT, "lines of stack_profile_symbol; NULL: none", QUERY_INDEXED,
     frame_symbol_set_id, 0},
    {"deobfuscated_name", TEXT, "what the function was called before; NULL: unknown",
     QUERY_BY_LOOKING, frame_deobfuscated_name, 0},
    {"type", TEXT, "native, jit, interpreted, kernel, gc, runtime, or another; NULL: not told",
     QUERY_BY_LOOKING, frame_type, 0},
};

static size_t callsite_count(struct query_trace *trace)
{
    return trace->profile->callsite_count;
}

static void find_callsite(struct query_row *row)
{
    row->item = &row->trace->profile->callsites[row->number];
}

#define CALLSITE(column, expression)                                                               \
    static struct query_value callsite_##column(const struct query_row *row)                       \
    {                                                                                              \
        const struct profile_callsite *callsite = row->item;                                       \
        return expression;                                                                         \
    }

CALLSITE(depth, query_integer(callsite->depth))
CALLSITE(parent_id, query_id(row->trace->bases.callsite, callsite->parent))
CALLSITE(frame_id, query_id(row->trace->bases.frame, callsite->frame))
#undef CALLSITE

static const struct query_column callsite_columns[] = {
    {"id", INT, "number of the callsite", QUERY_INDEXED, NULL, 0},
    {"depth", INT, "0: the outermost frame", QUERY_BY_LOOKING, callsite_depth, 0},
    {"parent_id", INT, "the caller; NULL: outermost", QUERY_INDEXED, callsite_parent_id, 0},
    {"frame_id", INT, "stack_profile_frame.id", QUERY_INDEXED, callsite_frame_id, 0},
};

static size_t symbol_count(struct query_trace *trace)
{
    return trace->profile->symbol_line_count;
}

static void find_symbol(struct query_row *row)
{
    row->item = &row->trace->profile->symbol_lines[row->number];
}

#define SYMBOL(column, expression)                                                                 \
    static struct query_value symbol_##column(const struct query_row *row)                         \
    {                                                                                              \
        const struct profile_symbol_line *line = row->item;                                        \
        return expression;                                                                         \
    }

SYMBOL(symbol_set_id, query_id(row->trace->bases.symbol, line->set))
SYMBOL(name, query_text(line->name))
SYMBOL(source_file, query_text_or_null(line->source_file))
SYMBOL(line_number, line->has_line ? query_integer(line->line) : query_null())
SYMBOL(inlined, line->has_inlined ? query_integer(line->inlined) : query_null())
#undef SYMBOL

static const struct query_column symbol_columns[] = {
    {"id", INT, "number of the line", QUERY_INDEXED, NULL, 0},
    {"symbol_set_id", INT, "lines of one address, the innermost first: id of the first",
     QUERY_INDEXED, symbol_symbol_set_id, 0},
    {"name", TEXT, "function", QUERY_BY_LOOKING, symbol_name, 0},
    {"source_file", TEXT, "NULL: unknown", QUERY_BY_LOOKING, symbol_source_file, 0},
    {"line_number", INT, "NULL: unknown", QUERY_BY_LOOKING, symbol_line_number, 0},
    {"inlined", INT, "1: into the function of the next line; NULL: not told by deobfuscation",
     QUERY_BY_LOOKING, symbol_inlined, 0},
};

/* --- dumps --- */

static size_t dump_count(struct query_trace *trace)
{
    return trace->dump_count;
}

static void find_heap_profile(struct query_row *row)
{
    query_row_set_dump(row, row->number);
}

#define HEAP_PROFILE(column, expression)                                                           \
    static struct query_value heap_profile_##column(const struct query_row *row)                   \
    {                                                                                              \
        return expression;                                                                         \
    }

HEAP_PROFILE(ts, query_integer((int64_t)row->dump->start_boottime_ns))
HEAP_PROFILE(dur, query_integer((int64_t)(row->dump->boottime_ns - row->dump->start_boottime_ns)))
HEAP_PROFILE(heap_name, row->heap->unnamed ? query_null() : query_text(row->heap->name))
#undef HEAP_PROFILE

static const struct query_column heap_profile_columns[] = {
    {"id", INT, "number of the dump", QUERY_INDEXED, NULL, 0},
    {"ts", INT, "what it tells begins here: at the dump before or the start, if told, in ns",
     QUERY_INDEXED, heap_profile_ts, 0},
    {"ts_end", INT, "when it was taken, in ns", QUERY_INDEXED, query_row_ts, 0},
    {"dur", INT, "ts_end - ts", QUERY_BY_LOOKING, heap_profile_dur, 0},
    {"upid", INT, "process", QUERY_INDEXED, query_row_upid, 0},
    {"heap_name", TEXT, "libc.malloc, or a heap of the program's own; NULL: without a name",
     QUERY_BY_LOOKING, heap_profile_heap_name, 0},
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

static void find_allocation(struct query_row *row)
{
    row->item = &row->trace->allocations[row->number];
}

#define CHANGE(column, expression)                                                                 \
    static struct query_value change_##column(const struct query_row *row)                         \
    {                                                                                              \
        const struct query_allocation *change = row->item;                                         \
        return expression;                                                                         \
    }

CHANGE(ts, query_integer((int64_t)query_trace_dump(row->trace, change->dump)->boottime_ns))
CHANGE(upid,
       query_id(row->trace->bases.process,
                row->trace->process_rows[query_trace_heap(row->trace, change->dump)->process]))
CHANGE(heap_name, query_text(query_trace_heap(row->trace, change->dump)->name))
CHANGE(callsite_id, query_id(row->trace->bases.callsite, change->callsite))
CHANGE(count, query_integer(change->count))
CHANGE(size, query_integer(change->size))
#undef CHANGE

static const struct query_column allocation_columns[] = {
    {"id", INT, "number of the row", QUERY_INDEXED, NULL, 0},
    {"ts", INT, "when the dump was taken, in ns", QUERY_OF_DUMP, change_ts, 0},
    {"upid", INT, "process", QUERY_OF_DUMP, change_upid, 0},
    {"heap_name", TEXT, "libc.malloc, or a heap of the program's own; or unknown", QUERY_BY_LOOKING,
     change_heap_name, 0},
    {"callsite_id", INT, "stack_profile_callsite.id, the innermost", QUERY_INDEXED,
     change_callsite_id, 0},
    {"count", INT, "allocations since the dump before; frees are negative", QUERY_BY_LOOKING,
     change_count, 0},
    {"size", INT, "bytes since the dump before; what was freed is negative", QUERY_BY_LOOKING,
     change_size, 0},
};

/* --- smaps and stats --- */

static size_t smaps_count(struct query_trace *trace)
{
    return trace->profile->smaps_count;
}

static void find_smaps(struct query_row *row)
{
    row->item = &row->trace->profile->smaps[row->number];
}

#define SMAPS(column, expression)                                                                  \
    static struct query_value smaps_##column(const struct query_row *row)                          \
    {                                                                                              \
        const struct profile_smaps *smaps = row->item;                                             \
        return expression;                                                                         \
    }

SMAPS(upid, query_id(row->trace->bases.process, row->trace->process_rows[smaps->process]))
SMAPS(ts, query_integer((int64_t)smaps->boottime_ns))
SMAPS(path, query_text(smaps->path))
SMAPS(size_kb, query_integer((int64_t)smaps->size_kb))
SMAPS(private_dirty_kb, query_integer((int64_t)smaps->private_dirty_kb))
SMAPS(swap_kb, query_integer((int64_t)smaps->swap_kb))
SMAPS(file_name, query_text(smaps->file_name))
SMAPS(start_address, query_integer((int64_t)smaps->start_address))
SMAPS(module_timestamp, query_integer((int64_t)smaps->module_timestamp))
SMAPS(module_debugid, query_text(smaps->module_debugid))
SMAPS(module_debug_path, query_text(smaps->module_debug_path))
SMAPS(protection_flags, query_integer((int64_t)smaps->protection_flags))
SMAPS(private_clean_resident_kb, query_integer((int64_t)smaps->private_clean_resident_kb))
SMAPS(shared_dirty_resident_kb, query_integer((int64_t)smaps->shared_dirty_resident_kb))
SMAPS(shared_clean_resident_kb, query_integer((int64_t)smaps->shared_clean_resident_kb))
SMAPS(locked_kb, query_integer((int64_t)smaps->locked_kb))
SMAPS(proportional_resident_kb, query_integer((int64_t)smaps->proportional_resident_kb))
#undef SMAPS

static const struct query_column smaps_columns[] = {
    {"id", INT, "number of the row", QUERY_INDEXED, NULL, 0},
    {"upid", INT, "process", QUERY_INDEXED, smaps_upid, 0},
    {"ts", INT, "when, in ns", QUERY_INDEXED, smaps_ts, 0},
    {"path", TEXT, "file, or [heap], [stack] and the like", QUERY_BY_LOOKING, smaps_path, 0},
    {"size_kb", INT, "size", QUERY_BY_LOOKING, smaps_size_kb, 0},
    {"private_dirty_kb", INT, "written to, of this process alone", QUERY_BY_LOOKING,
     smaps_private_dirty_kb, 0},
    {"swap_kb", INT, "swapped out", QUERY_BY_LOOKING, smaps_swap_kb, 0},
    {"file_name", TEXT, "file without its directory, where it is told", QUERY_BY_LOOKING,
     smaps_file_name, 0},
    {"start_address", INT, "first address", QUERY_BY_LOOKING, smaps_start_address, 0},
    {"module_timestamp", INT, "of the module", QUERY_BY_LOOKING, smaps_module_timestamp, 0},
    {"module_debugid", TEXT, "of the module", QUERY_BY_LOOKING, smaps_module_debugid, 0},
    {"module_debug_path", TEXT, "of the module", QUERY_BY_LOOKING, smaps_module_debug_path, 0},
    {"protection_flags", INT, "read, write, execute", QUERY_BY_LOOKING, smaps_protection_flags, 0},
    {"private_clean_resident_kb", INT, "not written to, of this process alone", QUERY_BY_LOOKING,
     smaps_private_clean_resident_kb, 0},
    {"shared_dirty_resident_kb", INT, "written to, shared", QUERY_BY_LOOKING,
     smaps_shared_dirty_resident_kb, 0},
    {"shared_clean_resident_kb", INT, "not written to, shared", QUERY_BY_LOOKING,
     smaps_shared_clean_resident_kb, 0},
    {"locked_kb", INT, "locked in memory", QUERY_BY_LOOKING, smaps_locked_kb, 0},
    {"proportional_resident_kb", INT, "resident, its share of what is shared", QUERY_BY_LOOKING,
     smaps_proportional_resident_kb, 0},
};

static size_t stat_count(struct query_trace *trace)
{
    return query_trace_need_stats(trace) < 0 ? 0 : trace->stat_count;
}

static size_t estimate_stats(const struct query_trace *trace)
{
    return 4 + 6 * trace->profile->heap_count;
}

static void find_stat(struct query_row *row)
{
    row->item = &row->trace->stats[row->number];
}

#define STAT(column, expression)                                                                   \
    static struct query_value stat_##column(const struct query_row *row)                           \
    {                                                                                              \
        const struct query_stat *stat = row->item;                                                 \
        return expression;                                                                         \
    }

STAT(name, query_text(stat->name))
STAT(idx, stat->indexed ? query_integer(stat->index) : query_null())
STAT(severity, query_text(stat->severity))
STAT(value, query_integer(stat->value))
#undef STAT

static const struct query_column stats_columns[] = {
    {"name", TEXT, "what is counted", QUERY_BY_LOOKING, stat_name, 0},
    {"idx", INT, "pid (of heapprofd_malformed_packet: upid); NULL: of the whole trace",
     QUERY_BY_LOOKING, stat_idx, 0},
    {"severity", TEXT, "info, data_loss or error", QUERY_BY_LOOKING, stat_severity, 0},
    {"value", INT, "the count", QUERY_BY_LOOKING, stat_value, 0},
};

#define COLUMNS(array) (array), ARRAY_LENGTH(array)

const struct query_table query_perfetto_tables[] = {
    {"process", "processes; row 0 is pid 0", COLUMNS(process_columns), true, process_count, NULL,
     find_process, NULL},
    {"thread", "threads; row 0 is tid 0", COLUMNS(thread_columns), true, thread_count, NULL,
     find_thread, NULL},
    {"stack_profile_mapping", "files and other memory that frames are in", COLUMNS(mapping_columns),
     true, mapping_count, NULL, find_mapping, NULL},
    {"stack_profile_frame", "places in code", COLUMNS(frame_columns), true, frame_count, NULL,
     find_frame, NULL},
    {"stack_profile_callsite", "call stacks, as a tree", COLUMNS(callsite_columns), true,
     callsite_count, NULL, find_callsite, NULL},
    {"stack_profile_symbol", "functions and lines of frames", COLUMNS(symbol_columns), true,
     symbol_count, NULL, find_symbol, NULL},
    {"heap_profile", "dumps", COLUMNS(heap_profile_columns), true, dump_count, NULL,
     find_heap_profile, NULL},
    {"heap_profile_allocation", "what each callsite allocated and freed from dump to dump",
     COLUMNS(allocation_columns), true, allocation_count, estimate_allocations, find_allocation,
     first_allocation},
    {"profiler_smaps", "mappings of processes, from /proc/PID/smaps", COLUMNS(smaps_columns), true,
     smaps_count, NULL, find_smaps, NULL},
    {"stats", "what was lost, and how the profiles ended", COLUMNS(stats_columns), false,
     stat_count, estimate_stats, find_stat, NULL},
    {0},
};
