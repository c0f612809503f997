/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sum up the counters of Perfetto's recorder. They count from the first use of a callstack's id.
 * The recorder drops a callstack that is at rest (everything freed). When it returns, its counters
 * restart at zero, usually under a new id. So the figures of a callsite are the sum of the
 * increases of its ids.
 *
 * Our own traces do not need this: a callsite's figures exist as long as its heap.
 */
#include <string.h>

#include "profile/builder/builder_sequence.h"
#include "util/array.h"

static struct counter_values counters_of(const struct trace_figures *figures)
{
    return (struct counter_values){figures->allocated_bytes, figures->freed_bytes,
                                   figures->allocated_count, figures->freed_count};
}

static struct counter_values growth(const struct counter_values *now,
                                    const struct counter_values *last)
{
    return (struct counter_values){
        now->allocated_bytes - last->allocated_bytes, now->freed_bytes - last->freed_bytes,
        now->allocated_count - last->allocated_count, now->freed_count - last->freed_count};
}

static void grow(struct counter_values *sum, const struct counter_values *more)
{
    sum->allocated_bytes += more->allocated_bytes;
    sum->freed_bytes += more->freed_bytes;
    sum->allocated_count += more->allocated_count;
    sum->freed_count += more->freed_count;
}

static bool any_below_zero(const struct counter_values *values)
{
    return values->allocated_bytes < 0 || values->freed_bytes < 0 || values->allocated_count < 0 ||
           values->freed_count < 0;
}

static bool at_rest(const struct counter_values *values)
{
    return values->allocated_bytes == values->freed_bytes &&
           values->allocated_count == values->freed_count;
}

/* Find or add the callsite's sum in its heap. Return NULL: no memory. */
static struct counter_sum *find_sum(struct builder *builder, const struct builder_counters_key *key)
{
    struct builder_counters *counters = &builder->counters;
    uint64_t where = (uint64_t)key->heap << 32 | key->callsite;
    uint32_t index = id_map_find(&counters->sums_of, where);
    if (index != ID_MAP_NONE)
        return &counters->sums[index];
    size_t used = counters->sum_count;
    if (ARRAY_RESERVE(&counters->sums, &counters->sum_capacity, used, 1) < 0 ||
        id_map_set(&counters->sums_of, where, (uint32_t)used) < 0) {
        builder_fail(builder);
        return NULL;
    }
    counters->sums[used] = (struct counter_sum){0};
    counters->sum_count++;
    return &counters->sums[used];
}

/* Return the last values of these counters, at first zeros. NULL: no memory. */
static struct counter_values *find_last(struct builder *builder,
                                        const struct builder_counters_key *key)
{
    struct builder_counters *counters = &builder->counters;
    uint64_t words[] = {(uint64_t)key->heap << 32 | key->sequence, key->callsite, key->callstack};
    bool added;
    uint64_t id = intern_bytes(&counters->ids, words, sizeof(words), &added);
    if (id == 0 ||
        ARRAY_RESERVE(&counters->last, &counters->last_capacity, (size_t)id - 1, 1) < 0) {
        builder_fail(builder);
        return NULL;
    }
    if (added)
        counters->last[id - 1] = (struct counter_values){0};
    return &counters->last[id - 1];
}

int builder_counters_take(struct builder *builder, const struct builder_counters_key *key,
                          const struct profile_sample *sample)
{
    struct counter_values *last = find_last(builder, key);
    struct counter_sum *sum = last == NULL ? NULL : find_sum(builder, key);
    if (sum == NULL)
        return builder->error;
    struct counter_values now = counters_of(&sample->figures), more = growth(&now, last);
    if (any_below_zero(&more) && builder->as_in_trace) {
        /* The trace processor counts it in a statistic, and makes no row. */
        grow(&sum->decrease, &more);
        return 0;
    }
    if (any_below_zero(&more)) {
        /* The recorder keeps an id that other callstacks continue from, but not its counters. */
        if (!at_rest(last))
            return 0;
        more = now;
    }
    grow(&sum->sum, &more);
    *last = now;
    return 0;
}

void builder_counters_give(struct builder *builder, const struct builder_counters_key *key,
                           struct profile_sample *sample, uint64_t interval_bytes)
{
    struct counter_sum *sum = find_sum(builder, key);
    struct counter_values given = {0};
    if (sum == NULL)
        return;
    if (sum->given != builder->dumps + 1) {
        given = sum->sum;
        grow(&given, &sum->decrease);
        sum->given = builder->dumps + 1;
        sum->decrease = (struct counter_values){0};
    }
    sample->figures = (struct trace_figures){
        .allocated_bytes = given.allocated_bytes,
        .freed_bytes = given.freed_bytes,
        .allocated_count = given.allocated_count,
        .freed_count = given.freed_count,
    };
    builder_estimate_figures(&sample->figures, interval_bytes);
}

void builder_counters_free(struct builder_counters *counters)
{
    intern_free(&counters->ids);
    id_map_free(&counters->sums_of);
    free(counters->last);
    free(counters->sums);
}
