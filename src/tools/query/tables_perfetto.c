/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto's tables for heap profiles, with the ids, NULLs and order of rows that its trace
 * processor gives them. docs/sql.md lists where a row can differ.
 */
#include "tools/query/query_table.h"

/* --- processes and threads --- */

QUERY_ARRAY(process, processes, process_count)

/* Return the description of the row's process; NULL if the trace contains only its pid. */
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
PROCESS(name, known == NULL
                  ? query_null()
                  : query_text(known->title != NULL ? known->title : known->first_argument))
PROCESS(cmdline, known == NULL ? query_null() : query_text(known->arguments))
PROCESS(uid, known == NULL || !known->has_uid ? query_null() : query_integer((uint32_t)known->uid))
PROCESS(start_ts, known == NULL || !known->has_start
                      ? query_null()
                      : query_integer((int64_t)known->start_boottime_ns))
PROCESS(end_ts, process->end_ns == 0 ? query_null() : query_integer((int64_t)process->end_ns))
PROCESS(parent_upid, query_id(row->trace->bases.process, process->parent))
#undef PROCESS

static const struct query_column process_columns[] = {
    {"id", INT, "the same as upid", .lookup = QUERY_INDEXED},
    {"upid", INT, "number of the process in the trace", .get = process_upid,
     .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("pid", "process id", struct query_process, pid)},
    {"name", TEXT, "its first argument; NULL if the trace does not say", .get = process_name},
    {"cmdline", TEXT, "all its arguments", .get = process_cmdline},
    {"uid", INT, "user id", .get = process_uid},
    {"start_ts", INT, "when it began, in ns; NULL: the trace does not say",
     .get = process_start_ts},
    {"parent_upid", INT, "its parent", .get = process_parent_upid, .lookup = QUERY_INDEXED},
    {"end_ts", INT, "when it ended; NULL: the trace does not say", .get = process_end_ts},
};

QUERY_ARRAY(thread, threads, thread_count)

#define THREAD(column, expression)                                                                 \
    QUERY_GETTER(thread_##column, const struct query_thread *thread, expression)

THREAD(utid, query_integer(row->trace->bases.thread + (int64_t)row->number))
THREAD(name, query_text_or_null(thread->name))
THREAD(upid, query_id(row->trace->bases.process, thread->process))
THREAD(start_ts, thread->start_ns == 0 ? query_null() : query_integer((int64_t)thread->start_ns))
THREAD(end_ts, thread->end_ns == 0 ? query_null() : query_integer((int64_t)thread->end_ns))
THREAD(is_main_thread,
       thread->process == PROFILE_NONE
           ? query_null()
           : query_integer(row->trace->processes[thread->process].pid == thread->tid))
#undef THREAD

static const struct query_column thread_columns[] = {
    {"id", INT, "the same as utid", .lookup = QUERY_INDEXED},
    {"utid", INT, "number of the thread in the trace", .get = thread_utid, .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("tid", "thread id", struct query_thread, tid)},
    {"name", TEXT, "its name; NULL if the trace does not say", .get = thread_name},
    {"upid", INT, "its process; NULL: the trace does not say", .get = thread_upid,
     .lookup = QUERY_INDEXED},
    {"start_ts", INT, "when it began; NULL: before the trace, or the trace does not say",
     .get = thread_start_ts},
    {"end_ts", INT, "when its end was seen; NULL: the trace does not say", .get = thread_end_ts},
    {"is_main_thread", INT, "1: of its process", .get = thread_is_main_thread},
};

/* --- stacks --- */

QUERY_ARRAY(mapping, profile->mappings, profile->mapping_count)

#define MAPPING(name, description, member)                                                         \
    QUERY_MEMBER(name, description, struct profile_mapping, member)

static const struct query_column mapping_columns[] = {
    {"id", INT, "number of the mapping", .lookup = QUERY_INDEXED},
    {MAPPING("build_id", "build id of the file, in lower-case hex", build_id)},
    {MAPPING("exact_offset", "offset in the file", exact_offset)},
    {MAPPING("start_offset", "offset in the file of its first mapping", start_offset)},
    {MAPPING("start", "first address", start)},
    {MAPPING("end", "end address (exclusive)", end)},
    {MAPPING("load_bias", "of the ELF file", load_bias)},
    {MAPPING("name", "path of the file", path)},
};

QUERY_ARRAY(frame, profile->frames, profile->frame_count)

#define FRAME(column, expression)                                                                  \
    QUERY_GETTER(frame_##column, const struct profile_frame *frame, expression)

FRAME(name, frame->is_unnamed ? query_null() : query_text(frame->linkage_name))
FRAME(mapping, query_id(row->trace->bases.mapping, frame->mapping))
FRAME(symbol_set_id, frame->symbol_count == 0
                         ? query_null()
                         : query_id(row->trace->bases.symbol, frame->symbol_first))
FRAME(deobfuscated_name, *frame->obfuscated_name == '\0' ? query_null() : query_text(frame->name))
FRAME(type, frame->kind == TRACE_FRAME_NATIVE ? query_text("native")
                                              : query_text_or_null(profile_frame_kind(frame)))
#undef FRAME

static const struct query_column frame_columns[] = {
    {"id", INT, "number of the frame", .lookup = QUERY_INDEXED},
    {"name", TEXT, "function, as the trace has it (mangled, or obfuscated); NULL: none",
     .get = frame_name},
    {"mapping", INT, "stack_profile_mapping.id", .get = frame_mapping, .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("rel_pc", "address in the ELF file", struct profile_frame, rel_pc)},
    {"symbol_set_id", INT, "lines of stack_profile_symbol; NULL: none", .get = frame_symbol_set_id,
     .lookup = QUERY_INDEXED},
    {"deobfuscated_name", TEXT, "original name of the function; NULL: unknown",
     .get = frame_deobfuscated_name},
    {"type", TEXT, "native, jit, interpreted, kernel, gc, runtime, or another; NULL: unknown",
     .get = frame_type},
};

QUERY_ARRAY(callsite, profile->callsites, profile->callsite_count)

#define CALLSITE(column, expression)                                                               \
    QUERY_GETTER(callsite_##column, const struct profile_callsite *callsite, expression)

CALLSITE(parent_id, query_id(row->trace->bases.callsite, callsite->parent))
CALLSITE(frame_id, query_id(row->trace->bases.frame, callsite->frame))
#undef CALLSITE

static const struct query_column callsite_columns[] = {
    {"id", INT, "number of the callsite", .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("depth", "0: the outermost frame", struct profile_callsite, depth)},
    {"parent_id", INT, "the caller; NULL: outermost", .get = callsite_parent_id,
     .lookup = QUERY_INDEXED},
    {"frame_id", INT, "stack_profile_frame.id", .get = callsite_frame_id, .lookup = QUERY_INDEXED},
};

QUERY_ARRAY(symbol, profile->symbol_lines, profile->symbol_line_count)

#define SYMBOL(column, expression)                                                                 \
    QUERY_GETTER(symbol_##column, const struct profile_symbol_line *line, expression)

SYMBOL(symbol_set_id, query_id(row->trace->bases.symbol, line->set))
SYMBOL(source_file, query_text_or_null(line->source_file))
SYMBOL(line_number, line->has_line ? query_integer(line->line) : query_null())
SYMBOL(inlined, line->has_inlined ? query_integer(line->inlined) : query_null())
#undef SYMBOL

static const struct query_column symbol_columns[] = {
    {"id", INT, "number of the line", .lookup = QUERY_INDEXED},
    {"symbol_set_id", INT, "lines of one address, the innermost first: id of the first",
     .get = symbol_symbol_set_id, .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("name", "function", struct profile_symbol_line, name)},
    {"source_file", TEXT, "NULL: unknown", .get = symbol_source_file},
    {"line_number", INT, "NULL: unknown", .get = symbol_line_number},
    {"inlined", INT,
     "1: inlined into the function of the next line; NULL: unknown after deobfuscation",
     .get = symbol_inlined},
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
    QUERY_GETTER(heap_profile_##column, const void *unused, expression)

HEAP_PROFILE(ts, query_integer((int64_t)row->dump->start_boottime_ns))
HEAP_PROFILE(dur, query_integer((int64_t)(row->dump->boottime_ns - row->dump->start_boottime_ns)))
HEAP_PROFILE(heap_name, row->heap->unnamed ? query_null() : query_text(row->heap->name))
#undef HEAP_PROFILE

static const struct query_column heap_profile_columns[] = {
    {"id", INT, "number of the dump", .lookup = QUERY_INDEXED},
    {"ts", INT, "start of the covered time, in ns: the previous dump or the start, if known",
     .get = heap_profile_ts, .lookup = QUERY_INDEXED},
    {"ts_end", INT, "when it was taken, in ns", .get = query_row_ts, .lookup = QUERY_INDEXED},
    {"dur", INT, "ts_end - ts", .get = heap_profile_dur},
    {"upid", INT, "process", .get = query_row_upid, .lookup = QUERY_INDEXED},
    {"heap_name", TEXT, "libc.malloc, or a custom heap; NULL: no name",
     .get = heap_profile_heap_name},
};

static size_t allocation_count(struct query_trace *trace)
{
    query_trace_need_allocations(trace);
    return trace->allocation_count;
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
    QUERY_GETTER(change_##column, const struct query_allocation *change, expression)

CHANGE(ts, query_integer((int64_t)query_trace_dump(row->trace, change->dump)->boottime_ns))
CHANGE(upid,
       query_id(row->trace->bases.process,
                row->trace->process_rows[query_trace_heap(row->trace, change->dump)->process]))
CHANGE(heap_name, query_text(query_trace_heap(row->trace, change->dump)->name))
CHANGE(callsite_id, query_id(row->trace->bases.callsite, change->callsite))
#undef CHANGE

static const struct query_column allocation_columns[] = {
    {"id", INT, "number of the row", .lookup = QUERY_INDEXED},
    {"ts", INT, "when the dump was taken, in ns", .get = change_ts, .lookup = QUERY_OF_DUMP},
    {"upid", INT, "process", .get = change_upid, .lookup = QUERY_OF_DUMP},
    {"heap_name", TEXT, "libc.malloc, a custom heap, or unknown", .get = change_heap_name},
    {"callsite_id", INT, "stack_profile_callsite.id, the innermost", .get = change_callsite_id,
     .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("count", "allocations since the previous dump; frees are negative",
                  struct query_allocation, count)},
    {QUERY_MEMBER("size", "bytes since the previous dump; freed ones are negative",
                  struct query_allocation, size)},
};

/* --- smaps and stats --- */

QUERY_ARRAY(smaps, profile->smaps, profile->smaps_count)

QUERY_GETTER(smaps_upid, const struct profile_smaps *smaps,
             query_id(row->trace->bases.process, row->trace->process_rows[smaps->process]))

#define SMAPS_MEMBER(member, description)                                                          \
    QUERY_MEMBER(#member, description, struct profile_smaps, member)

static const struct query_column smaps_columns[] = {
    {"id", INT, "number of the row", .lookup = QUERY_INDEXED},
    {"upid", INT, "process", .get = smaps_upid, .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("ts", "when, in ns", struct profile_smaps, boottime_ns), .lookup = QUERY_INDEXED},
    {SMAPS_MEMBER(path, "file, or [heap], [stack] and the like")},
    {SMAPS_MEMBER(size_kb, "size")},
    {SMAPS_MEMBER(private_dirty_kb, "modified, private")},
    {SMAPS_MEMBER(swap_kb, "swapped out")},
    {SMAPS_MEMBER(file_name, "file without its directory, if known")},
    {SMAPS_MEMBER(start_address, "first address")},
    {SMAPS_MEMBER(module_timestamp, "of the module")},
    {SMAPS_MEMBER(module_debugid, "of the module")},
    {SMAPS_MEMBER(module_debug_path, "of the module")},
    {SMAPS_MEMBER(protection_flags, "read, write, execute")},
    {SMAPS_MEMBER(private_clean_resident_kb, "not modified, private")},
    {SMAPS_MEMBER(shared_dirty_resident_kb, "modified, shared")},
    {SMAPS_MEMBER(shared_clean_resident_kb, "not modified, shared")},
    {SMAPS_MEMBER(locked_kb, "locked in memory")},
    {SMAPS_MEMBER(proportional_resident_kb, "resident, with its share of shared pages")},
};

static size_t stat_count(struct query_trace *trace)
{
    query_trace_need_stats(trace);
    return trace->stat_count;
}

static size_t estimate_stats(const struct query_trace *trace)
{
    return 4 + 6 * trace->profile->heap_count;
}

static void find_stat(struct query_row *row)
{
    row->item = &row->trace->stats[row->number];
}

QUERY_GETTER(stat_idx, const struct query_stat *stat,
             stat->indexed ? query_integer(stat->index) : query_null())

static const struct query_column stats_columns[] = {
    {QUERY_MEMBER("name", "name of the counter", struct query_stat, name)},
    {"idx", INT, "pid (heapprofd_malformed_packet: upid); NULL: whole trace", .get = stat_idx},
    {QUERY_MEMBER("severity", "info, data_loss or error", struct query_stat, severity)},
    {QUERY_MEMBER("value", "the count", struct query_stat, value)},
};

const struct query_table query_perfetto_tables[] = {
    {"process", "processes; row 0 is pid 0", QUERY_COLUMNS(process_columns), true, process_count,
     NULL, find_process, NULL},
    {"thread", "threads; row 0 is tid 0", QUERY_COLUMNS(thread_columns), true, thread_count, NULL,
     find_thread, NULL},
    {"stack_profile_mapping", "files and other memory with frames", QUERY_COLUMNS(mapping_columns),
     true, mapping_count, NULL, find_mapping, NULL},
    {"stack_profile_frame", "places in code", QUERY_COLUMNS(frame_columns), true, frame_count, NULL,
     find_frame, NULL},
    {"stack_profile_callsite", "call stacks, as a tree", QUERY_COLUMNS(callsite_columns), true,
     callsite_count, NULL, find_callsite, NULL},
    {"stack_profile_symbol", "functions and lines of frames", QUERY_COLUMNS(symbol_columns), true,
     symbol_count, NULL, find_symbol, NULL},
    {"heap_profile", "dumps", QUERY_COLUMNS(heap_profile_columns), true, dump_count, NULL,
     find_heap_profile, NULL},
    {"heap_profile_allocation", "allocations and frees of each callsite between dumps",
     QUERY_COLUMNS(allocation_columns), true, allocation_count, estimate_allocations,
     find_allocation, first_allocation},
    {"profiler_smaps", "mappings of processes, from /proc/PID/smaps", QUERY_COLUMNS(smaps_columns),
     true, smaps_count, NULL, find_smaps, NULL},
    {"stats", "losses, and the ends of profiles", QUERY_COLUMNS(stats_columns), false, stat_count,
     estimate_stats, find_stat, NULL},
    {0},
};
