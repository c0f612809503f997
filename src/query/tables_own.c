/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See query_table.h: our own tables, for what Perfetto's have no place for. Ids of processes and
 * callsites are those of Perfetto's tables; dump_id is heap_profile.id.
 */
#include <string.h>

#include "profile/confidence_interval.h"
#include "profile/partial.h"
#include "profile/rollup.h"
#include "profile/unseen.h"
#include "query/query_table.h"
#include "util/sorted_search.h"

#define INT "INTEGER"
#define REAL "REAL"
#define TEXT "TEXT"
#define COLUMNS(array) (array), sizeof(array) / sizeof((array)[0])

/* --- the traces --- */

static size_t one(struct query_trace *trace)
{
    (void)trace;
    return 1;
}

#define TRACE(column, expression)                                                                  \
    static struct query_value trace_##column(const struct query_row *row)                          \
    {                                                                                              \
        const struct profile *profile = row->trace->profile;                                       \
        (void)profile;                                                                             \
        return expression;                                                                         \
    }

TRACE(path, query_text(row->trace->path))
TRACE(boottime_to_realtime_ns, profile->boottime_to_realtime_ns == 0
                                   ? query_null()
                                   : query_integer(profile->boottime_to_realtime_ns))
TRACE(warning, query_text_or_null(profile->warning))
#undef TRACE

static const struct query_column trace_columns[] = {
    {"id", INT, "trace_id of the other tables", QUERY_INDEXED, NULL, 0},
    {"path", TEXT, "file", QUERY_BY_LOOKING, trace_path, 0},
    {"boottime_to_realtime_ns", INT, "add to a ts for ns since 1970; NULL: unknown",
     QUERY_BY_LOOKING, trace_boottime_to_realtime_ns, 0},
    {"warning", TEXT, "what was wrong with the file; NULL: nothing", QUERY_BY_LOOKING,
     trace_warning, 0},
};

/* --- samples of a dump: a flat row number, found again by the dumps' ends --- */

/* Find the dump of the row, by the numbers of the dumps' first rows. Return the row's place in it.
 */
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

/* --- figures of a callsite at a dump --- */

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

static struct profile_interval live_interval(const struct query_row *row,
                                             const struct trace_figures *figures, bool counts)
{
    struct profile_estimate live = live_estimate(figures);
    struct profile_interval interval =
        counts ? profile_interval_of_count(&live, row->heap->interval_bytes)
               : profile_interval_of_bytes(&live);
    return profile_interval_cut(interval, rollup_most(row->heap, row->dump, counts));
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
STATS(samples, query_integer((int64_t)figures->samples))
STATS(freed_samples, query_integer((int64_t)figures->freed_samples))
STATS(alloc_size, query_real(figures->allocated_bytes))
STATS(alloc_size_variance, query_real(figures->allocated_bytes_variance))
STATS(alloc_count, query_real(figures->allocated_count))
STATS(alloc_count_variance, query_real(figures->allocated_count_variance))
STATS(free_size, query_real(figures->freed_bytes))
STATS(free_count, query_real(figures->freed_count))
STATS(live_size, query_real(rollup_live_bytes(figures)))
STATS(live_size_variance, query_real(rollup_live_bytes_variance(figures)))
STATS(live_size_low, query_real(live_interval(row, figures, false).low))
STATS(live_size_high, query_real(live_interval(row, figures, false).high))
STATS(live_count, query_real(rollup_live_count(figures)))
STATS(live_count_variance, query_real(rollup_live_count_variance(figures)))
STATS(live_count_low, query_real(live_interval(row, figures, true).low))
STATS(live_count_high, query_real(live_interval(row, figures, true).high))
STATS(peak_size, query_real(sample->peak.bytes))
STATS(peak_count, query_real(sample->peak.count))
STATS(temporary_size, query_real(figures->temporary_bytes))
STATS(temporary_count, query_real(figures->temporary_count))
STATS(mean_lifetime_ms, figures->freed_count > 0
                            ? query_real(figures->lifetime_ms_sum / figures->freed_count)
                            : query_null())
#undef STATS

static const struct query_column stats_columns[] = {
    {"dump_id", INT, "heap_profile.id", QUERY_OF_DUMP, dump_id, 0},
    {"ts", INT, "when the dump was taken, in ns", QUERY_OF_DUMP, query_row_ts, 0},
    {"upid", INT, "process", QUERY_OF_DUMP, query_row_upid, 0},
    {"heap_name", TEXT, "heap", QUERY_BY_LOOKING, query_row_heap_name, 0},
    {"callsite_id", INT, "stack_profile_callsite.id", QUERY_INDEXED, stats_callsite_id, 0},
    {"samples", INT, "samples that the figures are of", QUERY_BY_LOOKING, stats_samples, 0},
    {"freed_samples", INT, "of these, freed since", QUERY_BY_LOOKING, stats_freed_samples, 0},
    {"alloc_size", REAL, "bytes allocated since the start, an estimate", QUERY_BY_LOOKING,
     stats_alloc_size, PROFILE_UNKNOWN_ALLOCATED},
    {"alloc_size_variance", REAL, "its variance", QUERY_BY_LOOKING, stats_alloc_size_variance,
     PROFILE_UNKNOWN_ALLOCATED},
    {"alloc_count", REAL, "allocations since the start, an estimate", QUERY_BY_LOOKING,
     stats_alloc_count, PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {"alloc_count_variance", REAL, "its variance", QUERY_BY_LOOKING, stats_alloc_count_variance,
     PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {"free_size", REAL, "bytes freed", QUERY_BY_LOOKING, stats_free_size,
     PROFILE_UNKNOWN_ALLOCATED},
    {"free_count", REAL, "allocations freed", QUERY_BY_LOOKING, stats_free_count,
     PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {"live_size", REAL, "bytes live", QUERY_BY_LOOKING, stats_live_size, PROFILE_UNKNOWN_LIVE},
    {"live_size_variance", REAL, "its variance", QUERY_BY_LOOKING, stats_live_size_variance,
     PROFILE_UNKNOWN_LIVE},
    {"live_size_low", REAL, "lower end of its 95 % interval", QUERY_BY_LOOKING, stats_live_size_low,
     PROFILE_UNKNOWN_LIVE},
    {"live_size_high", REAL, "upper end", QUERY_BY_LOOKING, stats_live_size_high,
     PROFILE_UNKNOWN_LIVE},
    {"live_count", REAL, "allocations live", QUERY_BY_LOOKING, stats_live_count,
     PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_variance", REAL, "its variance", QUERY_BY_LOOKING, stats_live_count_variance,
     PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_low", REAL, "lower end of its 95 % interval", QUERY_BY_LOOKING,
     stats_live_count_low, PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_high", REAL, "upper end", QUERY_BY_LOOKING, stats_live_count_high,
     PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"peak_size", REAL, "bytes live when the heap was largest", QUERY_BY_LOOKING, stats_peak_size,
     PROFILE_UNKNOWN_PEAK},
    {"peak_count", REAL, "allocations live then", QUERY_BY_LOOKING, stats_peak_count,
     PROFILE_UNKNOWN_PEAK | PROFILE_UNKNOWN_COUNTS},
    {"temporary_size", REAL, "bytes freed by their thread before it allocated again",
     QUERY_BY_LOOKING, stats_temporary_size, PROFILE_UNKNOWN_TEMPORARY},
    {"temporary_count", REAL, "allocations of that kind", QUERY_BY_LOOKING, stats_temporary_count,
     PROFILE_UNKNOWN_TEMPORARY},
    {"mean_lifetime_ms", REAL, "of what was freed; NULL: nothing was", QUERY_BY_LOOKING,
     stats_mean_lifetime_ms, PROFILE_UNKNOWN_TEMPORARY},
};

/* --- by thread, type and context --- */

/* The sample with a part, and the part's place in it: rows are mostly asked for in their order. */
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
    {"dump_id", INT, "heap_profile.id", QUERY_OF_DUMP, dump_id, 0},
    {"ts", INT, "when the dump was taken, in ns", QUERY_OF_DUMP, query_row_ts, 0},
    {"upid", INT, "process", QUERY_OF_DUMP, query_row_upid, 0},
    {"heap_name", TEXT, "heap", QUERY_BY_LOOKING, query_row_heap_name, 0},
    {"callsite_id", INT, "stack_profile_callsite.id", QUERY_INDEXED, part_callsite_id, 0},
    {"tid", INT, "thread", QUERY_INDEXED, part_tid, 0},
    {"thread_name", TEXT, "its name; NULL: unknown", QUERY_BY_LOOKING, part_thread_name, 0},
    {"type_name", TEXT, "type of the object; NULL: none was told", QUERY_BY_LOOKING, part_type_name,
     0},
    {"context", TEXT, "names of scopes, the outermost first, with ';'; NULL: none",
     QUERY_BY_LOOKING, part_context, 0},
    {"alloc_size", REAL, "bytes allocated since the start", QUERY_BY_LOOKING, part_alloc_size, 0},
    {"alloc_count", REAL, "allocations", QUERY_BY_LOOKING, part_alloc_count, 0},
    {"live_size", REAL, "bytes live", QUERY_BY_LOOKING, part_live_size, 0},
    {"live_size_variance", REAL, "its variance", QUERY_BY_LOOKING, part_live_size_variance, 0},
    {"live_count", REAL, "allocations live", QUERY_BY_LOOKING, part_live_count, 0},
    {"temporary_count", REAL, "freed by their thread before it allocated again", QUERY_BY_LOOKING,
     part_temporary_count, 0},
    {"peak_size", REAL,
     "bytes live when the heap was largest; NULL: not known by thread, where several share the "
     "callsite",
     QUERY_BY_LOOKING, part_peak_size, 0},
};

/* --- totals of a dump --- */

/* Limits of a dump's live bytes or count; NULL: the file does not contain the interval. */
static struct query_value total_limit(const struct query_row *row,
                                      const struct trace_figures *total, bool counts, bool high)
{
    const struct profile_heap *heap = row->heap;
    const struct profile_dump *dump = row->dump;
    if (heap->interval_bytes == 0)
        return query_null();
    struct profile_interval limits =
        unseen_raise(live_interval(row, total, counts),
                     counts ? rollup_live_count(total) : rollup_live_bytes(total),
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

static void find_total(struct query_row *row)
{
    row->item = &row->trace->totals[row->number];
    query_row_set_dump(row, row->number);
}

#define TOTAL(column, expression)                                                                  \
    static struct query_value total_##column(const struct query_row *row)                          \
    {                                                                                              \
        const struct trace_figures *total = row->item;                                             \
        (void)total;                                                                               \
        return expression;                                                                         \
    }

TOTAL(final, query_integer(row->dump->final))
TOTAL(incomplete, query_integer(row->dump->incomplete))
TOTAL(interval_bytes, query_integer((int64_t)row->heap->interval_bytes))
TOTAL(exact_alloc_size,
      row->dump->exact_calls == 0 ? query_null() : query_integer((int64_t)row->dump->exact_bytes))
TOTAL(exact_alloc_count,
      row->dump->exact_calls == 0 ? query_null() : query_integer((int64_t)row->dump->exact_calls))
TOTAL(totals_partial, query_integer(profile_totals_why_partial(row->heap) != NULL))
TOTAL(alloc_size, query_real(total->allocated_bytes))
TOTAL(alloc_count, query_real(total->allocated_count))
TOTAL(live_size, query_real(rollup_live_bytes(total)))
TOTAL(live_count, query_real(rollup_live_count(total)))
TOTAL(live_size_variance, query_real(rollup_live_bytes_variance(total)))
TOTAL(temporary_size, query_real(total->temporary_bytes))
TOTAL(temporary_count, query_real(total->temporary_count))
TOTAL(live_size_low, total_limit(row, total, false, false))
TOTAL(live_size_high, total_limit(row, total, false, true))
TOTAL(live_count_low, total_limit(row, total, true, false))
TOTAL(live_count_high, total_limit(row, total, true, true))
#undef TOTAL

static const struct query_column total_columns[] = {
    {"dump_id", INT, "heap_profile.id", QUERY_INDEXED, dump_id, 0},
    {"ts", INT, "when the dump was taken, in ns", QUERY_BY_LOOKING, query_row_ts, 0},
    {"upid", INT, "process", QUERY_INDEXED, query_row_upid, 0},
    {"heap_name", TEXT, "heap", QUERY_BY_LOOKING, query_row_heap_name, 0},
    {"final", INT, "1: the last one, as the process or the session ended", QUERY_BY_LOOKING,
     total_final, 0},
    {"incomplete", INT, "1: samples of it are missing from the trace", QUERY_BY_LOOKING,
     total_incomplete, 0},
    {"interval_bytes", INT, "sampling interval", QUERY_BY_LOOKING, total_interval_bytes, 0},
    {"exact_alloc_size", INT, "bytes allocated, counted; NULL: not counted", QUERY_BY_LOOKING,
     total_exact_alloc_size, 0},
    {"exact_alloc_count", INT, "allocations, counted; NULL: not counted", QUERY_BY_LOOKING,
     total_exact_alloc_count, 0},
    {"alloc_size", REAL, "bytes allocated, estimated", QUERY_BY_LOOKING, total_alloc_size,
     PROFILE_UNKNOWN_ALLOCATED},
    {"alloc_count", REAL, "allocations, estimated", QUERY_BY_LOOKING, total_alloc_count,
     PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS},
    {"live_size", REAL, "bytes live, estimated", QUERY_BY_LOOKING, total_live_size,
     PROFILE_UNKNOWN_LIVE},
    {"live_count", REAL, "allocations live, estimated", QUERY_BY_LOOKING, total_live_count,
     PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_size_variance", REAL, "variance of live_size", QUERY_BY_LOOKING,
     total_live_size_variance, PROFILE_UNKNOWN_LIVE},
    {"temporary_size", REAL, "bytes freed by their thread before it allocated again",
     QUERY_BY_LOOKING, total_temporary_size, PROFILE_UNKNOWN_TEMPORARY},
    {"temporary_count", REAL, "allocations of that kind", QUERY_BY_LOOKING, total_temporary_count,
     PROFILE_UNKNOWN_TEMPORARY},
    {"live_size_low", REAL, "lower end of the 95 % interval of live_size", QUERY_BY_LOOKING,
     total_live_size_low, PROFILE_UNKNOWN_LIVE},
    {"live_size_high", REAL, "upper end, with what no sample shows", QUERY_BY_LOOKING,
     total_live_size_high, PROFILE_UNKNOWN_LIVE},
    {"live_count_low", REAL, "lower end of the 95 % interval of live_count", QUERY_BY_LOOKING,
     total_live_count_low, PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"live_count_high", REAL, "upper end, with what no sample shows", QUERY_BY_LOOKING,
     total_live_count_high, PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS},
    {"totals_partial", INT, "1: the counted totals lack calls, for instance after an early end",
     QUERY_BY_LOOKING, total_totals_partial, 0},
};

const struct query_table query_own_tables[] = {
    {"hp_trace", "the files", COLUMNS(trace_columns), true, one, NULL, NULL, NULL},
    {"hp_callsite_stats",
     "figures of each callsite at each dump: variances, intervals, lifetimes, temporary ones",
     COLUMNS(stats_columns), false, sample_count, NULL, find_stats, first_sample},
    {"hp_part", "the same by thread, type and context", COLUMNS(part_columns), false, part_count,
     NULL, find_part, first_part},
    {"hp_total", "totals of each dump, exact ones too", COLUMNS(total_columns), false, total_count,
     estimate_totals, find_total, NULL},
    {0},
};
