/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See query_table.h: our own tables, for what Perfetto's have no place for. Ids of processes and
 * callsites are those of Perfetto's tables; dump_id is heap_profile.id.
 */
#include <string.h>

#include "profile/interval.h"
#include "profile/rollup.h"
#include "profile/unseen.h"
#include "query/query_table.h"

#define INT "INTEGER"
#define REAL "REAL"
#define TEXT "TEXT"
#define COLUMNS(array) (array), sizeof(array) / sizeof((array)[0])

/* --- the traces --- */

static const struct query_column trace_columns[] = {
    {"id", INT, "trace_id of the other tables", QUERY_INDEXED},
    {"path", TEXT, "file", QUERY_BY_LOOKING},
    {"boottime_to_realtime_ns", INT, "add to a ts for ns since 1970; NULL: unknown",
     QUERY_BY_LOOKING},
    {"warning", TEXT, "what was wrong with the file; NULL: nothing", QUERY_BY_LOOKING},
};

static size_t one(struct query_trace *trace)
{
    (void)trace;
    return 1;
}

static struct query_value trace_value(struct query_trace *trace, size_t row, unsigned column)
{
    (void)row;
    switch (column) {
    case 1:
        return query_text(trace->path);
    case 2:
        return trace->profile->boottime_to_realtime_ns == 0
                   ? query_null()
                   : query_integer(trace->profile->boottime_to_realtime_ns);
    default:
        return query_text_or_null(trace->profile->warning);
    }
}

/* --- samples of a dump: a flat row number, found again by the dumps' ends --- */

struct place {
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    size_t dump_row, at;
};

static struct place find_place(const struct query_trace *trace, size_t row, const size_t *firsts)
{
    size_t low = 0, high = trace->dump_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (firsts[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return (struct place){query_trace_heap(trace, low), query_trace_dump(trace, low), low,
                          row - firsts[low]};
}

static size_t sample_count(struct query_trace *trace)
{
    return trace->sample_firsts[trace->dump_count];
}

static size_t first_sample(struct query_trace *trace, size_t dump)
{
    return trace->sample_firsts[dump];
}

static size_t part_count(struct query_trace *trace)
{
    return trace->part_firsts[trace->dump_count];
}

static size_t first_part(struct query_trace *trace, size_t dump)
{
    return trace->part_firsts[dump];
}

/* --- figures of a callsite at a dump --- */

static const struct query_column stats_columns[] = {
    {"dump_id", INT, "heap_profile.id", QUERY_OF_DUMP},
    {"ts", INT, "when the dump was taken, in ns", QUERY_OF_DUMP},
    {"upid", INT, "process", QUERY_OF_DUMP},
    {"heap_name", TEXT, "heap", QUERY_BY_LOOKING},
    {"callsite_id", INT, "stack_profile_callsite.id", QUERY_INDEXED},
    {"samples", INT, "samples that the figures are of", QUERY_BY_LOOKING},
    {"freed_samples", INT, "of these, freed since", QUERY_BY_LOOKING},
    {"alloc_size", REAL, "bytes allocated since the start, an estimate", QUERY_BY_LOOKING},
    {"alloc_size_variance", REAL, "its variance", QUERY_BY_LOOKING},
    {"alloc_count", REAL, "allocations since the start, an estimate", QUERY_BY_LOOKING},
    {"alloc_count_variance", REAL, "its variance", QUERY_BY_LOOKING},
    {"free_size", REAL, "bytes freed", QUERY_BY_LOOKING},
    {"free_count", REAL, "allocations freed", QUERY_BY_LOOKING},
    {"live_size", REAL, "bytes live", QUERY_BY_LOOKING},
    {"live_size_variance", REAL, "its variance", QUERY_BY_LOOKING},
    {"live_size_low", REAL, "lower end of its 95 % interval", QUERY_BY_LOOKING},
    {"live_size_high", REAL, "upper end", QUERY_BY_LOOKING},
    {"live_count", REAL, "allocations live", QUERY_BY_LOOKING},
    {"live_count_variance", REAL, "its variance", QUERY_BY_LOOKING},
    {"live_count_low", REAL, "lower end of its 95 % interval", QUERY_BY_LOOKING},
    {"live_count_high", REAL, "upper end", QUERY_BY_LOOKING},
    {"peak_size", REAL, "bytes live when the heap was largest", QUERY_BY_LOOKING},
    {"peak_count", REAL, "allocations live then", QUERY_BY_LOOKING},
    {"temporary_size", REAL, "bytes freed by their thread before it allocated again",
     QUERY_BY_LOOKING},
    {"temporary_count", REAL, "allocations of that kind", QUERY_BY_LOOKING},
    {"mean_lifetime_ms", REAL, "of what was freed; NULL: nothing was", QUERY_BY_LOOKING},
};

static struct profile_estimate live_estimate(const struct trace_figures *figures)
{
    return (struct profile_estimate){
        .bytes = rollup_live_bytes(figures),
        .count = rollup_live_count(figures),
        .bytes_variance = rollup_live_bytes_variance(figures),
        .count_variance = rollup_live_count_variance(figures),
        .samples = figures->samples > figures->freed_samples
                       ? (double)(figures->samples - figures->freed_samples)
                       : 0,
    };
}

static struct profile_interval live_interval(const struct place *place,
                                             const struct profile_estimate *live, bool counts)
{
    struct profile_interval interval =
        counts ? profile_interval_of_count(live, place->heap->interval_bytes)
               : profile_interval_of_bytes(live);
    return profile_interval_cut(interval, rollup_most(place->heap, place->dump, counts));
}

/* Whether the file does not tell what a column of hp_callsite_stats or hp_total is about. */
static bool is_untold(const struct profile_heap *heap, const struct query_column *column)
{
    static const struct {
        const char *prefix;
        uint32_t untold;
    } columns[] = {{"alloc_size", PROFILE_UNTOLD_ALLOCATED},
                   {"alloc_count", PROFILE_UNTOLD_ALLOCATED | PROFILE_UNTOLD_COUNTS},
                   {"free_size", PROFILE_UNTOLD_ALLOCATED},
                   {"free_count", PROFILE_UNTOLD_ALLOCATED | PROFILE_UNTOLD_COUNTS},
                   {"live_size", PROFILE_UNTOLD_LIVE},
                   {"live_count", PROFILE_UNTOLD_LIVE | PROFILE_UNTOLD_COUNTS},
                   {"peak_size", PROFILE_UNTOLD_PEAK},
                   {"peak_count", PROFILE_UNTOLD_PEAK | PROFILE_UNTOLD_COUNTS},
                   {"temporary_", PROFILE_UNTOLD_TEMPORARY},
                   {"mean_lifetime", PROFILE_UNTOLD_TEMPORARY}};
    for (size_t i = 0; heap->untold != 0 && i < sizeof(columns) / sizeof(columns[0]); i++)
        if (strncmp(column->name, columns[i].prefix, strlen(columns[i].prefix)) == 0)
            return (heap->untold & columns[i].untold) != 0;
    return false;
}

static struct query_value stats_value(struct query_trace *trace, size_t row, unsigned column)
{
    struct place place = find_place(trace, row, trace->sample_firsts);
    const struct profile_sample *sample = place.dump->samples[place.at];
    const struct trace_figures *figures = &sample->figures;
    struct profile_estimate live = live_estimate(figures);
    if (is_untold(place.heap, &stats_columns[column]))
        return query_null();
    switch (column) {
    case 0:
        return query_integer(trace->bases.dump + (int64_t)place.dump_row);
    case 1:
        return query_integer((int64_t)place.dump->boottime_ns);
    case 2:
        return query_id(trace->bases.process, trace->process_rows[place.heap->process]);
    case 3:
        return query_text(place.heap->name);
    case 4:
        return query_id(trace->bases.callsite, sample->callsite);
    case 5:
        return query_integer((int64_t)figures->samples);
    case 6:
        return query_integer((int64_t)figures->freed_samples);
    case 15:
        return query_real(live_interval(&place, &live, false).low);
    case 16:
        return query_real(live_interval(&place, &live, false).high);
    case 19:
        return query_real(live_interval(&place, &live, true).low);
    case 20:
        return query_real(live_interval(&place, &live, true).high);
    case 25:
        return figures->freed_count > 0
                   ? query_real(figures->lifetime_ms_sum / figures->freed_count)
                   : query_null();
    }
    const double numbers[] = {
        figures->allocated_bytes,
        figures->allocated_bytes_variance,
        figures->allocated_count,
        figures->allocated_count_variance,
        figures->freed_bytes,
        figures->freed_count,
        live.bytes,
        live.bytes_variance,
        0,
        0,
        live.count,
        live.count_variance,
        0,
        0,
        sample->peak.bytes,
        sample->peak.count,
        figures->temporary_bytes,
        figures->temporary_count,
    };
    return query_real(numbers[column - 7]);
}

/* --- by thread, type and context --- */

static const struct query_column part_columns[] = {
    {"dump_id", INT, "heap_profile.id", QUERY_OF_DUMP},
    {"ts", INT, "when the dump was taken, in ns", QUERY_OF_DUMP},
    {"upid", INT, "process", QUERY_OF_DUMP},
    {"heap_name", TEXT, "heap", QUERY_BY_LOOKING},
    {"callsite_id", INT, "stack_profile_callsite.id", QUERY_INDEXED},
    {"tid", INT, "thread", QUERY_INDEXED},
    {"thread_name", TEXT, "its name; NULL: unknown", QUERY_BY_LOOKING},
    {"type_name", TEXT, "type of the object; NULL: none was told", QUERY_BY_LOOKING},
    {"context", TEXT, "names of scopes, the outermost first, with ';'; NULL: none",
     QUERY_BY_LOOKING},
    {"alloc_size", REAL, "bytes allocated since the start", QUERY_BY_LOOKING},
    {"alloc_count", REAL, "allocations", QUERY_BY_LOOKING},
    {"live_size", REAL, "bytes live", QUERY_BY_LOOKING},
    {"live_size_variance", REAL, "its variance", QUERY_BY_LOOKING},
    {"live_count", REAL, "allocations live", QUERY_BY_LOOKING},
    {"temporary_count", REAL, "freed by their thread before it allocated again", QUERY_BY_LOOKING},
    {"peak_size", REAL,
     "bytes live when the heap was largest; NULL: not known by thread, where several share the "
     "callsite",
     QUERY_BY_LOOKING},
};

/* The sample with a part, and the part's place in it: rows are mostly asked for in their order. */
static const struct profile_sample *sample_of_part(struct query_trace *trace,
                                                   const struct place *place, size_t *part)
{
    if (trace->cursor.dump != place->dump_row || trace->cursor.part > place->at) {
        trace->cursor.dump = place->dump_row;
        trace->cursor.sample = trace->cursor.part = 0;
    }
    size_t sample = trace->cursor.sample, first = trace->cursor.part;
    while (first + place->dump->samples[sample]->part_count <= place->at)
        first += place->dump->samples[sample++]->part_count;
    trace->cursor.sample = sample;
    trace->cursor.part = first;
    *part = place->at - first;
    return place->dump->samples[sample];
}

static struct query_value part_value(struct query_trace *trace, size_t row, unsigned column)
{
    struct place place = find_place(trace, row, trace->part_firsts);
    size_t number;
    const struct profile_sample *sample = sample_of_part(trace, &place, &number);
    const struct profile_part *part = &sample->parts[number];
    const struct profile_process *process = &trace->profile->processes[place.heap->process];
    switch (column) {
    case 0:
        return query_integer(trace->bases.dump + (int64_t)place.dump_row);
    case 1:
        return query_integer((int64_t)place.dump->boottime_ns);
    case 2:
        return query_id(trace->bases.process, trace->process_rows[place.heap->process]);
    case 3:
        return query_text(place.heap->name);
    case 4:
        return query_id(trace->bases.callsite, sample->callsite);
    case 5:
        return query_integer(part->tid);
    case 6:
        return query_text_or_null(profile_thread_name(trace->profile, process->pid, part->tid));
    case 7:
        return query_text_or_null(part->type);
    case 8:
        return query_text_or_null(part->context);
    case 9:
        return query_real(part->figures.allocated_bytes);
    case 10:
        return query_real(part->figures.allocated_count);
    case 11:
        return query_real(rollup_live_bytes(&part->figures));
    case 12:
        return query_real(rollup_live_bytes_variance(&part->figures));
    case 13:
        return query_real(rollup_live_count(&part->figures));
    case 14:
        return query_real(part->figures.temporary_count);
    default:
        if (sample->tagged)
            return query_real(part->peak.bytes);
        return sample->part_count == 1 ? query_real(sample->peak.bytes) : query_null();
    }
}

/* --- totals of a dump --- */

static const struct query_column total_columns[] = {
    {"dump_id", INT, "heap_profile.id", QUERY_INDEXED},
    {"ts", INT, "when the dump was taken, in ns", QUERY_BY_LOOKING},
    {"upid", INT, "process", QUERY_INDEXED},
    {"heap_name", TEXT, "heap", QUERY_BY_LOOKING},
    {"final", INT, "1: the last one, as the process or the session ended", QUERY_BY_LOOKING},
    {"incomplete", INT, "1: samples of it are missing from the trace", QUERY_BY_LOOKING},
    {"interval_bytes", INT, "sampling interval", QUERY_BY_LOOKING},
    {"exact_alloc_size", INT, "bytes allocated, exactly; NULL: not counted", QUERY_BY_LOOKING},
    {"exact_alloc_count", INT, "allocations, exactly; NULL: not counted", QUERY_BY_LOOKING},
    {"alloc_size", REAL, "bytes allocated, estimated", QUERY_BY_LOOKING},
    {"alloc_count", REAL, "allocations, estimated", QUERY_BY_LOOKING},
    {"live_size", REAL, "bytes live, estimated", QUERY_BY_LOOKING},
    {"live_count", REAL, "allocations live, estimated", QUERY_BY_LOOKING},
    {"live_size_variance", REAL, "variance of live_size", QUERY_BY_LOOKING},
    {"temporary_size", REAL, "bytes freed by their thread before it allocated again",
     QUERY_BY_LOOKING},
    {"temporary_count", REAL, "allocations of that kind", QUERY_BY_LOOKING},
    {"live_size_low", REAL, "lower end of the 95 % interval of live_size", QUERY_BY_LOOKING},
    {"live_size_high", REAL, "upper end, with what no sample shows", QUERY_BY_LOOKING},
    {"live_count_low", REAL, "lower end of the 95 % interval of live_count", QUERY_BY_LOOKING},
    {"live_count_high", REAL, "upper end, with what no sample shows", QUERY_BY_LOOKING},
};

/* Limits of a dump's live bytes or count; NULL: the file does not tell the interval of sampling. */
static struct query_value total_limit(const struct profile_heap *heap,
                                      const struct profile_dump *dump,
                                      const struct trace_figures *total, bool counts, bool high)
{
    struct profile_estimate live = live_estimate(total);
    const struct place place = {.heap = heap, .dump = dump};
    if (heap->interval_bytes == 0)
        return query_null();
    struct profile_interval limits =
        unseen_raise(live_interval(&place, &live, counts), counts ? live.count : live.bytes,
                     unseen_of(heap, dump, counts));
    limits = profile_interval_cut(limits, rollup_most(heap, dump, counts));
    return query_real(high ? limits.high : limits.low);
}

static size_t total_count(struct query_trace *trace)
{
    return query_trace_need_totals(trace) < 0 ? 0 : trace->dump_count;
}

static size_t estimate_totals(const struct query_trace *trace)
{
    return trace->dump_count;
}

#define TOTAL_FIRST_FIGURE 7u /* among the columns of hp_total */

static struct query_value total_value(struct query_trace *trace, size_t row, unsigned column)
{
    const struct profile_heap *heap = query_trace_heap(trace, row);
    const struct profile_dump *dump = query_trace_dump(trace, row);
    const struct trace_figures *total = &trace->totals[row];
    if ((heap->unseen && column >= TOTAL_FIRST_FIGURE) || is_untold(heap, &total_columns[column]))
        return query_null();
    switch (column) {
    case 0:
        return query_integer(trace->bases.dump + (int64_t)row);
    case 1:
        return query_integer((int64_t)dump->boottime_ns);
    case 2:
        return query_id(trace->bases.process, trace->process_rows[heap->process]);
    case 3:
        return query_text(heap->name);
    case 4:
        return query_integer(dump->final);
    case 5:
        return query_integer(dump->incomplete);
    case 6:
        return query_integer((int64_t)heap->interval_bytes);
    case 7:
        return dump->exact_calls == 0 ? query_null() : query_integer((int64_t)dump->exact_bytes);
    case 8:
        return dump->exact_calls == 0 ? query_null() : query_integer((int64_t)dump->exact_calls);
    case 9:
        return query_real(total->allocated_bytes);
    case 10:
        return query_real(total->allocated_count);
    case 11:
        return query_real(rollup_live_bytes(total));
    case 12:
        return query_real(rollup_live_count(total));
    case 13:
        return query_real(rollup_live_bytes_variance(total));
    case 14:
        return query_real(total->temporary_bytes);
    case 15:
        return query_real(total->temporary_count);
    default:
        return total_limit(heap, dump, total, column >= 18, column % 2 == 1);
    }
}

const struct query_table query_own_tables[] = {
    {"hp_trace", "the files", COLUMNS(trace_columns), true, one, NULL, trace_value, NULL},
    {"hp_callsite_stats",
     "figures of each callsite at each dump: variances, intervals, lifetimes, temporary ones",
     COLUMNS(stats_columns), false, sample_count, NULL, stats_value, first_sample},
    {"hp_part", "the same by thread, type and context", COLUMNS(part_columns), false, part_count,
     NULL, part_value, first_part},
    {"hp_total", "totals of each dump, exact ones too", COLUMNS(total_columns), false, total_count,
     estimate_totals, total_value, NULL},
    {0},
};
