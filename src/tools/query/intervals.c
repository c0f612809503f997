/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _android_heap_profile_intervals: a row for each process, heap and dump with changes, with the
 * time that the dump covers and the changes in that time. If the trace does not contain the start
 * of that time, it is 1 ns after the previous dump, or the start of the trace. A row's id is the
 * number of the dump's first row in heap_profile_allocation; each trace counts from 0.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/query/query_table.h"
#include "util/xmalloc.h"

/* Return the sum. Figures of a hostile trace may overflow, and then wrap around. */
static int64_t add(int64_t sum, int64_t more)
{
    return (int64_t)((uint64_t)sum + (uint64_t)more);
}

/* Sum up a dump's rows. */
static void sum_rows(const struct query_trace *trace, size_t first, size_t end,
                     struct query_interval *interval)
{
    for (size_t i = first, next; i < end; i = next) {
        const struct query_allocation *row = &trace->allocations[i];
        int64_t size = 0, count = 0;
        for (next = i; next < end && trace->allocations[next].callsite == row->callsite; next++) {
            int64_t changed = trace->allocations[next].size;
            size = add(size, changed);
            count = add(count, trace->allocations[next].count);
            interval->allocated = add(interval->allocated, changed > 0 ? changed : 0);
        }
        interval->delta = add(interval->delta, size);
        interval->retained = add(interval->retained, count > 0 ? size : 0);
    }
}

/* Return the earliest time in Perfetto's tables of memory counters, smaps and dumps. */
static int64_t trace_start(const struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    int64_t start = INT64_MAX;
    for (size_t i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        for (size_t j = 0; j < process->timeline_count; j++) {
            const struct profile_memory_point *point = &process->timeline[j];
            bool is_counter = (point->rss_bytes | point->rss_anon_bytes | point->vm_bytes) != 0;
            if (is_counter && (int64_t)point->boottime_ns < start)
                start = (int64_t)point->boottime_ns;
        }
    }
    for (size_t i = 0; i < profile->smaps_count; i++)
        if ((int64_t)profile->smaps[i].boottime_ns < start)
            start = (int64_t)profile->smaps[i].boottime_ns;
    for (size_t i = 0; i < trace->interval_count; i++)
        if (trace->intervals[i].end_ns < start)
            start = trace->intervals[i].end_ns;
    return start;
}

/* Order by process, then by heap. */
static int compare_heaps(const struct query_interval *left, const struct query_interval *right)
{
    if (left->process != right->process)
        return left->process < right->process ? -1 : 1;
    return strcmp(left->heap_name, right->heap_name);
}

static int compare_intervals(const void *left_pointer, const void *right_pointer)
{
    const struct query_interval *left = left_pointer, *right = right_pointer;
    int order = compare_heaps(left, right);
    if (order != 0)
        return order;
    if (left->end_ns != right->end_ns)
        return left->end_ns < right->end_ns ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static void place(struct query_trace *trace)
{
    int64_t start = trace_start(trace);
    if (trace->interval_count > 0)
        qsort(trace->intervals, trace->interval_count, sizeof(*trace->intervals),
              compare_intervals);
    for (size_t i = 0; i < trace->interval_count; i++) {
        struct query_interval *interval = &trace->intervals[i];
        bool follows = i > 0 && compare_heaps(interval - 1, interval) == 0;
        int64_t before = follows ? interval[-1].end_ns : start;
        if (interval->start_ns >= interval->end_ns)
            interval->start_ns = before < interval->end_ns ? before + 1 : interval->end_ns;
    }
}

static void make_intervals(struct query_trace *trace)
{
    query_trace_need_allocations(trace);
    trace->intervals = xcalloc(trace->dump_count + 1, sizeof(*trace->intervals));
    for (size_t i = 0; i < trace->dump_count; i++) {
        size_t first = trace->allocation_firsts[i], end = trace->allocation_firsts[i + 1];
        const struct profile_dump *dump = query_trace_dump(trace, i);
        const struct profile_heap *heap = query_trace_heap(trace, i);
        if (first == end)
            continue;
        struct query_interval *interval = &trace->intervals[trace->interval_count++];
        *interval = (struct query_interval){
            .id = (int64_t)first,
            .process = trace->process_rows[heap->process],
            .heap_name = heap->name,
            .start_ns = (int64_t)dump->start_boottime_ns,
            .end_ns = (int64_t)dump->boottime_ns,
        };
        sum_rows(trace, first, end, interval);
    }
    place(trace);
}

static size_t interval_count(struct query_trace *trace)
{
    if (trace->intervals == NULL)
        make_intervals(trace);
    return trace->interval_count;
}

static size_t estimate_intervals(const struct query_trace *trace)
{
    return trace->dump_count;
}

static void find_interval(struct query_row *row)
{
    row->item = &row->trace->intervals[row->number];
}

#define INTERVAL(column, expression)                                                               \
    QUERY_GETTER(interval_##column, const struct query_interval *interval, expression)

INTERVAL(upid, query_id(row->trace->bases.process, interval->process))
INTERVAL(dur, query_integer((int64_t)((uint64_t)interval->end_ns - (uint64_t)interval->start_ns)))
#undef INTERVAL

#define INTERVAL_MEMBER(name, description, member)                                                 \
    QUERY_MEMBER(name, description, struct query_interval, member)

static const struct query_column columns[] = {
    {INTERVAL_MEMBER("id", "its first row in heap_profile_allocation", id)},
    {"upid", INT, "process", .get = interval_upid, .lookup = QUERY_INDEXED},
    {INTERVAL_MEMBER("heap_name", "libc.malloc, a custom heap, or unknown", heap_name)},
    {INTERVAL_MEMBER("ts", "begin, in ns", start_ns)},
    {"dur", INT, "until the dump", .get = interval_dur},
    {INTERVAL_MEMBER("retained", "bytes allocated in it and live at its end", retained)},
    {INTERVAL_MEMBER("allocated", "bytes allocated in it", allocated)},
    {INTERVAL_MEMBER("delta", "bytes allocated in it minus bytes freed in it", delta)},
};

const struct query_table query_interval_tables[] = {
    {"_android_heap_profile_intervals", "the time that each dump covers, and its changes",
     QUERY_COLUMNS(columns), false, interval_count, estimate_intervals, find_interval, NULL},
    {0},
};
