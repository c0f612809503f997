/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the changes between dumps (query_trace.h). It walks through each heap's dumps in order,
 * and compares each callsite's counters with its previous ones.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/query/query_trace.h"
#include "util/xmalloc.h"

/* --- counters --- */

/* Larger than any counter, and exact in a double. */
#define COUNTER_MAX 0x1p62

/* Round to the nearest, halves up, like llround() for nonnegative numbers. */
static int64_t whole(double value)
{
    if (!(value > 0))
        return 0;
    if (value >= COUNTER_MAX)
        return (int64_t)COUNTER_MAX;
    int64_t floor = (int64_t)value;
    return floor + (value - (double)floor >= 0.5);
}

/* Return a sample's counters, as the whole numbers of Perfetto's fields. */
static struct query_counters counters_of(const struct profile_heap *heap,
                                         const struct profile_sample *sample)
{
    if (!heap->status.dump_at_max)
        return (struct query_counters){
            .allocated_bytes = whole(sample->figures.allocated_bytes),
            .allocated_count = whole(sample->figures.allocated_count),
            .freed_bytes = whole(sample->figures.freed_bytes),
            .freed_count = whole(sample->figures.freed_count),
        };
    return (struct query_counters){
        .allocated_bytes = whole(sample->peak.bytes),
        /* Older recorders wrote other values there. */
        .allocated_count = heap->status.first_interval_bytes != 0 ? whole(sample->peak.count) : 0,
    };
}

/* Return sums that only grow, from figures that may decrease: a decrease counts as freed. The trace
 * writer does the same for Perfetto's readers (trace_peaks.c). */
static struct query_counters with_falls(const struct query_counters *now,
                                        const struct query_counters *last)
{
    struct query_counters sums = *now;
    int64_t bytes = last->allocated_bytes - last->freed_bytes;
    int64_t count = last->allocated_count - last->freed_count;
    sums.freed_bytes =
        last->freed_bytes + (bytes > now->allocated_bytes ? bytes - now->allocated_bytes : 0);
    sums.freed_count =
        last->freed_count + (count > now->allocated_count ? count - now->allocated_count : 0);
    sums.allocated_bytes += sums.freed_bytes;
    sums.allocated_count += sums.freed_count;
    return sums;
}

static struct query_counters less(const struct query_counters *now,
                                  const struct query_counters *last)
{
    return (struct query_counters){
        now->allocated_bytes - last->allocated_bytes,
        now->allocated_count - last->allocated_count,
        now->freed_bytes - last->freed_bytes,
        now->freed_count - last->freed_count,
    };
}

static bool is_below_zero(const struct query_counters *counters)
{
    return counters->allocated_bytes < 0 || counters->allocated_count < 0 ||
           counters->freed_bytes < 0 || counters->freed_count < 0;
}

/* --- walk through dumps --- */

/* The previous counters of a callsite of the heap. */
struct last {
    struct query_counters counters;
    const struct profile_sample *sample; /* NULL: not named yet */
};

struct walk {
    struct query_trace *trace;
    struct last *last; /* by callsite, of one heap at a time */
    /* Callsites with a frame that is not in the trace: Perfetto leaves their samples out. */
    bool *unplaced;
    uint64_t *malformed; /* number of samples whose counters went down; NULL: do not count */
};

/* Called with the increase of a sample since the callsite's previous one, `before`. */
typedef void walk_function(struct walk *walk, size_t dump, const struct profile_sample *sample,
                           const struct profile_sample *before, const struct query_counters *grown);

static bool *find_unplaced(const struct profile *profile)
{
    bool *unplaced = xcalloc(profile->callsite_count + 1, sizeof(*unplaced));
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        unplaced[i] = profile->frames[callsite->frame].mapping == PROFILE_NONE ||
                      (callsite->parent != PROFILE_NONE && unplaced[callsite->parent]);
    }
    return unplaced;
}

static void walk_begin(struct walk *walk, struct query_trace *trace)
{
    *walk = (struct walk){
        .trace = trace,
        .last = xcalloc(trace->profile->callsite_count + 1, sizeof(*walk->last)),
        .unplaced = find_unplaced(trace->profile),
    };
}

static void walk_end(struct walk *walk)
{
    free(walk->last);
    free(walk->unplaced);
}

/* Return whether it is Android's Java heap, which has no frees: values in their fields are ignored.
 */
static bool is_art(const struct profile_heap *heap)
{
    return strcmp(heap->name, "com.android.art") == 0;
}

/* Take one dump of a heap, after all previous ones. Samples whose counters went down are
 * ignored. */
static void walk_dump(struct walk *walk, size_t dump, walk_function *take)
{
    const struct profile_heap *heap = query_trace_heap(walk->trace, dump);
    const struct profile_dump *now = query_trace_dump(walk->trace, dump);
    bool art = is_art(heap);
    for (size_t i = 0; i < now->sample_count; i++) {
        const struct profile_sample *sample = now->samples[i];
        struct last *last = &walk->last[sample->callsite];
        struct query_counters counters = counters_of(heap, sample);
        if (heap->status.dump_at_max && !heap->is_perfettos)
            counters = with_falls(&counters, &last->counters);
        struct query_counters grown = less(&counters, &last->counters);
        if (walk->unplaced[sample->callsite])
            continue;
        if (is_below_zero(&grown)) {
            if (walk->malformed != NULL)
                ++*walk->malformed;
            continue;
        }
        if (art)
            grown.freed_bytes = grown.freed_count = 0;
        take(walk, dump, sample, last->sample, &grown);
        *last = (struct last){counters, sample};
    }
}

/* Begin the next heap. */
static void forget_heap(struct walk *walk, const struct profile_heap *heap)
{
    for (size_t i = 0; i < heap->dump_count; i++)
        for (size_t j = 0; j < heap->dumps[i].sample_count; j++)
            walk->last[heap->dumps[i].samples[j]->callsite] = (struct last){0};
}

/* --- rows of heap_profile_allocation --- */

static void take_row(struct walk *walk, size_t dump, const struct profile_sample *sample,
                     const struct profile_sample *before, const struct query_counters *grown)
{
    struct query_trace *trace = walk->trace;
    size_t *end = &trace->allocation_firsts[dump];
    struct query_allocation row = {grown->allocated_bytes, grown->allocated_count, sample->callsite,
                                   (uint32_t)dump};
    (void)before;
    if (row.size != 0 || row.count != 0)
        trace->allocations[(*end)++] = row;
    row.size = -grown->freed_bytes;
    row.count = -grown->freed_count;
    if (row.size != 0 || row.count != 0)
        trace->allocations[(*end)++] = row;
}

/* Move the rows of all dumps together, in the order of the trace. They were written with room for
 * the most rows that each dump can have. */
static void close_gaps(struct query_trace *trace)
{
    size_t first = 0;
    for (size_t i = 0; i < trace->dump_count; i++) {
        size_t room = 2 * trace->sample_firsts[i], count = trace->allocation_firsts[i] - room;
        memmove(trace->allocations + first, trace->allocations + room,
                count * sizeof(*trace->allocations));
        trace->allocation_firsts[i] = first;
        first += count;
    }
    trace->allocation_firsts[trace->dump_count] = trace->allocation_count = first;
    trace->allocations = xreallocarray(trace->allocations, first + 1, sizeof(*trace->allocations));
}

static void fill_allocations(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    struct walk walk;
    size_t most = 2 * trace->sample_firsts[trace->dump_count];
    walk_begin(&walk, trace);
    trace->allocation_firsts = xcalloc(trace->dump_count + 1, sizeof(*trace->allocation_firsts));
    for (size_t i = 0; i < trace->dump_count; i++)
        trace->allocation_firsts[i] = 2 * trace->sample_firsts[i];
    trace->allocations = xreallocarray(NULL, most + 1, sizeof(*trace->allocations));
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++)
            walk_dump(&walk, heap->dumps[j].order, take_row);
        forget_heap(&walk, heap);
    }
    close_gaps(trace);
    walk_end(&walk);
}

void query_trace_need_allocations(struct query_trace *trace)
{
    if (!trace->has_allocations)
        fill_allocations(trace);
    trace->has_allocations = true;
}

/* --- totals --- */

static void take_total(struct walk *walk, size_t dump, const struct profile_sample *sample,
                       const struct profile_sample *before, const struct query_counters *grown)
{
    struct trace_figures *total = &walk->trace->totals[dump];
    (void)grown;
    trace_figures_add(total, &sample->figures);
    if (before != NULL)
        trace_figures_subtract(total, &before->figures);
}

static void fill_totals(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    struct walk walk;
    walk_begin(&walk, trace);
    trace->totals = xcalloc(trace->dump_count + 1, sizeof(*trace->totals));
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++) {
            /* Our own checkpoint is a separate sequence, and repeats all figures. */
            bool again = j > 0 && !heap->is_perfettos &&
                         heap->dumps[j].sequence != heap->dumps[j - 1].sequence;
            if (again)
                forget_heap(&walk, heap);
            else if (j > 0)
                trace->totals[heap->dumps[j].order] = trace->totals[heap->dumps[j - 1].order];
            walk_dump(&walk, heap->dumps[j].order, take_total);
        }
        forget_heap(&walk, heap);
    }
    walk_end(&walk);
}

void query_trace_need_totals(struct query_trace *trace)
{
    if (!trace->has_totals)
        fill_totals(trace);
    trace->has_totals = true;
}

/* --- sums of callsites --- */

static void take_nothing(struct walk *walk, size_t dump, const struct profile_sample *sample,
                         const struct profile_sample *before, const struct query_counters *grown)
{
    (void)walk, (void)dump, (void)sample, (void)before, (void)grown;
}

/* Add each callsite's last counters once, and forget them. */
static void add_last(struct walk *walk, const struct profile_heap *heap,
                     struct query_counters *sums)
{
    bool art = is_art(heap);
    for (size_t i = 0; i < heap->dump_count; i++) {
        for (size_t j = 0; j < heap->dumps[i].sample_count; j++) {
            uint32_t callsite = heap->dumps[i].samples[j]->callsite;
            const struct query_counters *last = &walk->last[callsite].counters;
            sums[callsite].allocated_bytes += last->allocated_bytes;
            sums[callsite].allocated_count += last->allocated_count;
            sums[callsite].freed_bytes += art ? 0 : last->freed_bytes;
            sums[callsite].freed_count += art ? 0 : last->freed_count;
            walk->last[callsite] = (struct last){0};
        }
    }
}

size_t query_trace_sum(struct query_trace *trace, uint32_t process, int64_t boottime_ns,
                       struct query_counters **sums)
{
    const struct profile *profile = trace->profile;
    struct walk walk;
    size_t dumps = 0;
    *sums = xcalloc(profile->callsite_count + 1, sizeof(**sums));
    walk_begin(&walk, trace);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (process != PROFILE_NONE && trace->process_rows[heap->process] != process)
            continue;
        for (size_t j = 0; j < heap->dump_count; j++) {
            if ((int64_t)heap->dumps[j].boottime_ns > boottime_ns)
                continue;
            walk_dump(&walk, heap->dumps[j].order, take_nothing);
            dumps++;
        }
        add_last(&walk, heap, *sums);
    }
    walk_end(&walk);
    return dumps;
}

/* --- malformed samples --- */

void query_trace_count_malformed(struct query_trace *trace, uint64_t *malformed)
{
    const struct profile *profile = trace->profile;
    struct walk walk;
    walk_begin(&walk, trace);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        walk.malformed = &malformed[trace->process_rows[heap->process]];
        for (size_t j = 0; j < heap->dump_count; j++)
            walk_dump(&walk, heap->dumps[j].order, take_nothing);
        forget_heap(&walk, heap);
    }
    walk_end(&walk);
}
