/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own tables, for data that Perfetto's tables have no columns for. Ids of processes and
 * callsites are those of Perfetto's tables; dump_id is heap_profile.id.
 */
#include <math.h>

#include "profile/compare/estimates.h"
#include "profile/partial.h"
#include "profile/rollup.h"
#include "tools/query/query_table.h"
#include "trace/process_end.h"
#include "util/sorted_search.h"

/* --- the traces --- */

static size_t one(struct query_trace *trace)
{
    (void)trace;
    return 1;
}

QUERY_GETTER(trace_path, const void *unused, query_text(row->trace->path))
QUERY_GETTER(trace_boottime_to_realtime_ns, const void *unused,
             row->trace->profile->boottime_to_realtime_ns == 0
                 ? query_null()
                 : query_integer(row->trace->profile->boottime_to_realtime_ns))
QUERY_GETTER(trace_warning, const void *unused, query_text_or_null(row->trace->profile->warning))

static const struct query_column trace_columns[] = {
    {"id", INT, "trace_id of the other tables", .lookup = QUERY_INDEXED},
    {"path", TEXT, "file", .get = trace_path},
    {"boottime_to_realtime_ns", INT, "add to a ts for ns since 1970; NULL: unknown",
     .get = trace_boottime_to_realtime_ns},
    {"warning", TEXT, "damage of the file; NULL: none", .get = trace_warning},
};

/* --- samples of all dumps, one after the other --- */

/* Set the row's dump: the last one whose first row is not after it. Return the row's place in the
 * dump. */
static size_t find_dump(struct query_row *row, const size_t *firsts)
{
    size_t dump = SORTED_SEARCH(row->trace->dump_count, i, firsts[i] <= row->number) - 1;
    query_row_set_dump(row, dump);
    return row->number - firsts[dump];
}

static struct query_value dump_id(const struct query_row *row)
{
    return query_integer(row->trace->bases.dump + (int64_t)row->dump_number);
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

/* Return the row's dump with the total of all callsites. In the trace, a dump lacks those that did
 * not change. */
static struct profile_dump whole_dump(const struct query_row *row)
{
    struct profile_dump whole = *row->dump;
    whole.total = row->trace->totals[row->dump_number];
    return whole;
}

/* --- figures of a callsite at a dump --- */

static struct profile_interval live_interval(const struct query_row *row,
                                             const struct trace_figures *figures, bool counts)
{
    const struct profile_estimate live = rollup_live_of(figures);
    /* Other dumps with exact totals have all callsites. */
    if (!row->dump->incomplete)
        return estimate_interval(&live, counts, row->heap, row->dump);
    query_trace_need_totals(row->trace);
    const struct profile_dump whole = whole_dump(row);
    return estimate_interval(&live, counts, row->heap, &whole);
}

static void find_stats(struct query_row *row)
{
    size_t at = find_dump(row, row->trace->sample_firsts);
    row->item = row->dump->samples[at];
}

#define STATS(column, expression)                                                                  \
    static struct query_value stats_##column(const struct query_row *row)                          \
    {                                                                                              \
        const struct profile_sample *sample = row->item;                                           \
        const struct trace_figures *figures = &sample->figures;                                    \
        (void)figures;                                                                             \
        return expression;                                                                         \
    }

STATS(callsite_id, query_id(row->trace->bases.callsite, sample->callsite))
STATS(live_size, query_real(rollup_live_bytes(figures)))
STATS(live_size_variance, query_real(rollup_live_bytes_variance(figures)))
STATS(live_size_low, query_real(live_interval(row, figures, false).low))
STATS(live_size_high, query_real(live_interval(row, figures, false).high))
STATS(live_count, query_real(rollup_live_count(figures)))
STATS(live_count_variance, query_real(rollup_live_count_variance(figures)))
STATS(live_count_low, query_real(live_interval(row, figures, true).low))
STATS(live_count_high, query_real(live_interval(row, figures, true).high))
STATS(mean_lifetime_ms, figures->freed_count > 0
                            ? query_real(figures->lifetime_ms_sum / figures->freed_count)
                            : query_null())
#undef STATS

#define STATS_MEMBER(name, description, member)                                                    \
    QUERY_MEMBER(name, description, struct profile_sample, member)

static const struct query_column stats_columns[] = {
    {"dump_id", INT, "heap_profile.id", .get = dump_id, .lookup = QUERY_OF_DUMP},
    {"ts", INT, "when the dump was taken, in ns", .get = query_row_ts, .lookup = QUERY_OF_DUMP},
    {"upid", INT, "process", .get = query_row_upid, .lookup = QUERY_OF_DUMP},
    {"heap_name", TEXT, "heap", .get = query_row_heap_name},
    {"callsite_id", INT, "stack_profile_callsite.id", .get = stats_callsite_id,
     .lookup = QUERY_INDEXED},
    {STATS_MEMBER("samples", "number of samples in the figures", figures.samples)},
    {STATS_MEMBER("freed_samples", "freed ones among these", figures.freed_samples)},
    {STATS_MEMBER("alloc_size", "bytes allocated since the start, an estimate",
                  figures.allocated_bytes),
     .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_SIZES},
    {STATS_MEMBER("alloc_size_variance", "its variance", figures.allocated_bytes_variance),
     .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_SIZES},
    {STATS_MEMBER("alloc_count", "allocations since the start, an estimate",
                  figures.allocated_count),
     .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {STATS_MEMBER("alloc_count_variance", "its variance", figures.allocated_count_variance),
     .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {STATS_MEMBER("free_size", "bytes freed", figures.freed_bytes),
     .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_SIZES},
    {STATS_MEMBER("free_count", "allocations freed", figures.freed_count),
     .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {"live_size", REAL, "bytes live", .get = stats_live_size,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {"live_size_variance", REAL, "its variance", .get = stats_live_size_variance,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {"live_size_low", REAL, "lower end of its 95 % interval", .get = stats_live_size_low,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {"live_size_high", REAL, "upper end", .get = stats_live_size_high,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {"live_count", REAL, "allocations live", .get = stats_live_count,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_variance", REAL, "its variance", .get = stats_live_count_variance,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_low", REAL, "lower end of its 95 % interval", .get = stats_live_count_low,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_high", REAL, "upper end", .get = stats_live_count_high,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {STATS_MEMBER("peak_size", "live bytes at the heap's peak", peak.bytes),
     .figures = PROFILE_UNKNOWN_PEAK | PROFILE_UNKNOWN_SIZES},
    {STATS_MEMBER("peak_count", "allocations live then", peak.count),
     .figures = PROFILE_UNKNOWN_PEAK | PROFILE_UNKNOWN_COUNTS},
    {STATS_MEMBER("temporary_size", "bytes freed by their thread before it allocated again",
                  figures.temporary_bytes),
     .figures = PROFILE_UNKNOWN_TEMPORARY},
    {STATS_MEMBER("temporary_count", "allocations of that kind", figures.temporary_count),
     .figures = PROFILE_UNKNOWN_TEMPORARY},
    {"mean_lifetime_ms", REAL, "of the freed allocations; NULL: none",
     .get = stats_mean_lifetime_ms, .figures = PROFILE_UNKNOWN_TEMPORARY},
};

/* --- by thread, type and context --- */

/* Return the sample that contains part `at` of the dump, and set *part to its place in the sample.
 * Continue from the previous part: rows are mostly read in order. */
static const struct profile_sample *sample_of_part(const struct query_row *row, size_t at,
                                                   size_t *part)
{
    struct query_trace *trace = row->trace;
    if (trace->cursor.dump != row->dump_number || trace->cursor.part > at) {
        trace->cursor.dump = row->dump_number;
        trace->cursor.sample = trace->cursor.part = 0;
    }
    size_t sample = trace->cursor.sample, first = trace->cursor.part;
    while (first + row->dump->samples[sample]->part_count <= at)
        first += row->dump->samples[sample++]->part_count;
    trace->cursor.sample = sample;
    trace->cursor.part = first;
    *part = at - first;
    return row->dump->samples[sample];
}

/* row->item: the sample; row->part: the part's number in it. */
static void find_part(struct query_row *row)
{
    size_t at = find_dump(row, row->trace->part_firsts);
    row->item = sample_of_part(row, at, &row->part);
}

static const char *thread_name(const struct query_row *row, int32_t tid)
{
    const struct profile *profile = row->trace->profile;
    return profile_thread_name(profile, profile->processes[row->heap->process].pid, tid);
}

static struct query_value part_peak(const struct profile_sample *sample,
                                    const struct profile_part *part)
{
    if (sample->tagged)
        return query_real(part->peak.bytes);
    return sample->part_count == 1 ? query_real(sample->peak.bytes) : query_null();
}

#define PART(column, expression)                                                                   \
    static struct query_value part_##column(const struct query_row *row)                           \
    {                                                                                              \
        const struct profile_sample *sample = row->item;                                           \
        const struct profile_part *part = &sample->parts[row->part];                               \
        (void)part;                                                                                \
        return expression;                                                                         \
    }

PART(callsite_id, query_id(row->trace->bases.callsite, sample->callsite))
PART(tid, query_integer(part->tid))
PART(thread_name, query_text_or_null(thread_name(row, part->tid)))
PART(type_name, query_text_or_null(part->type))
PART(context, query_text_or_null(part->context))
PART(alloc_size, query_real(part->figures.allocated_bytes))
PART(alloc_count, query_real(part->figures.allocated_count))
PART(live_size, query_real(rollup_live_bytes(&part->figures)))
PART(live_size_variance, query_real(rollup_live_bytes_variance(&part->figures)))
PART(live_count, query_real(rollup_live_count(&part->figures)))
PART(temporary_count, query_real(part->figures.temporary_count))
PART(peak_size, part_peak(sample, part))
#undef PART

static const struct query_column part_columns[] = {
    {"dump_id", INT, "heap_profile.id", .get = dump_id, .lookup = QUERY_OF_DUMP},
    {"ts", INT, "when the dump was taken, in ns", .get = query_row_ts, .lookup = QUERY_OF_DUMP},
    {"upid", INT, "process", .get = query_row_upid, .lookup = QUERY_OF_DUMP},
    {"heap_name", TEXT, "heap", .get = query_row_heap_name},
    {"callsite_id", INT, "stack_profile_callsite.id", .get = part_callsite_id,
     .lookup = QUERY_INDEXED},
    {"tid", INT, "thread", .get = part_tid, .lookup = QUERY_INDEXED},
    {"thread_name", TEXT, "its name; NULL: unknown", .get = part_thread_name},
    {"type_name", TEXT, "type of the object; NULL: none", .get = part_type_name},
    {"context", TEXT, "names of scopes, the outermost first, with ';'; NULL: none",
     .get = part_context},
    {"alloc_size", REAL, "bytes allocated since the start", .get = part_alloc_size},
    {"alloc_count", REAL, "allocations", .get = part_alloc_count},
    {"live_size", REAL, "bytes live", .get = part_live_size},
    {"live_size_variance", REAL, "its variance", .get = part_live_size_variance},
    {"live_count", REAL, "allocations live", .get = part_live_count},
    {"temporary_count", REAL, "freed by their thread before it allocated again",
     .get = part_temporary_count},
    {"peak_size", REAL,
     "live bytes at the heap's peak; NULL: unknown by thread, if several threads share the "
     "callsite",
     .get = part_peak_size},
};

/* --- totals of a dump --- */

static struct estimate_shown total_of(const struct query_row *row, enum export_view view)
{
    const struct profile_dump whole = whole_dump(row);
    return estimate_total(row->heap, &whole, view, export_view_counts_calls(view));
}

/* Return a limit of a dump's live bytes or count; NULL if the file does not contain the sampling
 * interval. */
static struct query_value total_limit(const struct query_row *row, enum export_view view, bool high)
{
    const struct profile_interval limits = total_of(row, view).interval;
    return row->heap->interval_bytes == 0 ? query_null()
                                          : query_real(high ? limits.high : limits.low);
}

static size_t total_count(struct query_trace *trace)
{
    query_trace_need_totals(trace);
    return trace->dump_count;
}

static size_t estimate_totals(const struct query_trace *trace)
{
    return trace->dump_count;
}

static void find_total(struct query_row *row)
{
    row->item = &row->trace->totals[row->number];
    query_row_set_dump(row, row->number);
}

#define TOTAL(column, expression)                                                                  \
    QUERY_GETTER(total_##column, const struct trace_figures *total, expression)

TOTAL(final, query_integer(row->dump->final))
TOTAL(cause, query_text_or_null(dump_cause_name(row->dump->cause)))
TOTAL(incomplete, query_integer(row->dump->incomplete))
TOTAL(interval_bytes, query_integer((int64_t)row->heap->interval_bytes))
TOTAL(exact_alloc_size, profile_has_totals(row->heap, row->dump)
                            ? query_integer((int64_t)row->dump->exact_bytes)
                            : query_null())
TOTAL(exact_alloc_count, profile_has_totals(row->heap, row->dump)
                             ? query_integer((int64_t)row->dump->exact_calls)
                             : query_null())
TOTAL(totals_partial, query_integer(profile_totals_why_partial(row->heap, row->dump) != NULL))
TOTAL(unexplained_size, row->dump->unexplained.of_bytes == 0
                            ? query_null()
                            : query_integer((int64_t)row->dump->unexplained.bytes))
TOTAL(anonymous_size, row->dump->unexplained.of_bytes == 0
                          ? query_null()
                          : query_integer((int64_t)row->dump->unexplained.of_bytes))
TOTAL(alloc_size, query_real(total_of(row, EXPORT_ALLOC_SPACE).value))
TOTAL(alloc_count, query_real(total_of(row, EXPORT_ALLOC_OBJECTS).value))
TOTAL(live_size, query_real(total_of(row, EXPORT_SPACE).value))
TOTAL(live_count, query_real(total_of(row, EXPORT_OBJECTS).value))
TOTAL(live_size_variance, query_real(rollup_live_bytes_variance(total)))
TOTAL(live_size_low, total_limit(row, EXPORT_SPACE, false))
TOTAL(live_size_high, total_limit(row, EXPORT_SPACE, true))
TOTAL(live_count_low, total_limit(row, EXPORT_OBJECTS, false))
TOTAL(live_count_high, total_limit(row, EXPORT_OBJECTS, true))
#undef TOTAL

static const struct query_column total_columns[] = {
    {"dump_id", INT, "heap_profile.id", .get = dump_id, .lookup = QUERY_INDEXED},
    {"ts", INT, "when the dump was taken, in ns", .get = query_row_ts},
    {"upid", INT, "process", .get = query_row_upid, .lookup = QUERY_INDEXED},
    {"heap_name", TEXT, "heap", .get = query_row_heap_name},
    {"final", INT, "1: the last dump of the process or the session", .get = total_final},
    {"incomplete", INT, "1: samples of it are missing from the trace", .get = total_incomplete},
    {"interval_bytes", INT, "sampling interval", .get = total_interval_bytes},
    {"exact_alloc_size", INT, "bytes allocated, exact; NULL: unknown",
     .get = total_exact_alloc_size},
    {"exact_alloc_count", INT, "allocations, exact; NULL: unknown", .get = total_exact_alloc_count},
    {"alloc_size", REAL, "bytes allocated: exact_alloc_size, or else the estimate",
     .get = total_alloc_size, .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_SIZES},
    {"alloc_count", REAL, "allocations: exact_alloc_count, or else the estimate",
     .get = total_alloc_count, .figures = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {"live_size", REAL, "bytes live, estimated", .get = total_live_size,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {"live_count", REAL, "allocations live, estimated", .get = total_live_count,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_size_variance", REAL, "variance of live_size", .get = total_live_size_variance,
     .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {QUERY_MEMBER("temporary_size", "bytes freed by their thread before it allocated again",
                  struct trace_figures, temporary_bytes),
     .figures = PROFILE_UNKNOWN_TEMPORARY},
    {QUERY_MEMBER("temporary_count", "allocations of that kind", struct trace_figures,
                  temporary_count),
     .figures = PROFILE_UNKNOWN_TEMPORARY},
    {"live_size_low", REAL, "lower end of the 95 % interval of live_size",
     .get = total_live_size_low, .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {"live_size_high", REAL, "upper end, with room for unsampled memory",
     .get = total_live_size_high, .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES},
    {"live_count_low", REAL, "lower end of the 95 % interval of live_count",
     .get = total_live_count_low, .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_high", REAL, "upper end, with room for unsampled memory",
     .get = total_live_count_high, .figures = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"totals_partial", INT, "1: the exact totals lack calls, for instance after an early end",
     .get = total_totals_partial},
    {"unexplained_size", INT,
     "most anonymous memory of the process until then that was in no heap; NULL: unknown",
     .get = total_unexplained_size},
    {"anonymous_size", INT, "all anonymous memory at that moment; NULL: unknown",
     .get = total_anonymous_size},
    {"cause", TEXT,
     "near_limit, memory_high or pressure: it was taken because the cgroup's memory ran short; "
     "NULL: not so",
     .get = total_cause},
};

const struct query_table query_own_tables[] = {
    {"hp_trace", "the files", QUERY_COLUMNS(trace_columns), true, one, NULL, NULL, NULL},
    {"hp_callsite_stats",
     "figures of each callsite at each dump: variances, intervals, lifetimes, temporary ones",
     QUERY_COLUMNS(stats_columns), false, sample_count, NULL, find_stats, first_sample},
    {"hp_part", "the same by thread, type and context", QUERY_COLUMNS(part_columns), false,
     part_count, NULL, find_part, first_part},
    {"hp_total", "totals of each dump, exact ones too", QUERY_COLUMNS(total_columns), false,
     total_count, estimate_totals, find_total, NULL},
    {0},
};
