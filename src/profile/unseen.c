/* SPDX-License-Identifier: Apache-2.0 */
/* Computes bounds of the unsampled memory, by chance and by the exact totals. */
#include "profile/unseen.h"

#include <math.h>

#include "profile/rollup.h"

/* Neither a call was seen, nor one counted. */
static bool is_empty(const struct profile_heap *heap, const struct profile_dump *dump)
{
    return dump->exact_calls == 0 && dump->earlier.exact_calls == 0 && !dump->earlier.unknown &&
           dump->total.samples == 0 && heap->unknown == 0 && !heap->is_perfettos;
}

struct unseen_counted unseen_counted_of(const struct profile_heap *heap,
                                        const struct profile_dump *dump)
{
    struct trace_figures total = dump->total;
    trace_figures_add(&total, &dump->earlier.sampled);
    double bytes = rollup_most(heap, dump, false), calls = rollup_most(heap, dump, true);
    bool empty = is_empty(heap, dump);
    return (struct unseen_counted){
        .bytes = bytes > 0 || empty ? bytes : INFINITY,
        .calls = calls > 0 || empty ? calls : INFINITY,
        .sampled = rollup_allocated_of(&total),
    };
}

bool unseen_is_as_reported(const struct profile_heap *heap)
{
    return heap->status.weighed_samples > 0 &&
           heap->status.weighed_samples == heap->status.heap_samples;
}

static struct unseen unseen_of_counted(const struct profile_heap *heap,
                                       const struct unseen_counted *counted, bool counts)
{
    if (unseen_is_as_reported(heap))
        return (struct unseen){0, 0};
    struct unseen bytes = {
        .chance = profile_floor_bytes(heap->interval_bytes),
        .left = fmax(counted->bytes - profile_interval_seen_bytes(&counted->sampled), 0),
    };
    if (!counts)
        return bytes;
    double calls = fmax(counted->calls - counted->sampled.samples, 0),
           size = PROFILE_CALL_BYTES_MIN;
    if (isfinite(bytes.left) && isfinite(calls) && calls > 0)
        size = fmax(fmin(size, bytes.left / calls), 1);
    return (struct unseen){unseen_most(bytes) / size, calls};
}

struct unseen unseen_of(const struct profile_heap *heap, const struct profile_dump *dump,
                        bool counts)
{
    struct unseen_counted counted = unseen_counted_of(heap, dump);
    return unseen_of_counted(heap, &counted, counts);
}

struct unseen unseen_between(const struct profile_heap *heap, const struct profile_dump *earlier,
                             const struct profile_dump *later, bool counts)
{
    struct unseen_counted before = unseen_counted_of(heap, earlier),
                          counted = unseen_counted_of(heap, later);
    /* If a total is unknown, so are its parts. */
    if (isfinite(counted.bytes))
        counted.bytes -= isfinite(before.bytes) ? before.bytes : 0;
    if (isfinite(counted.calls))
        counted.calls -= isfinite(before.calls) ? before.calls : 0;
    struct profile_estimate *sampled = &counted.sampled;
    sampled->bytes = fmax(sampled->bytes - before.sampled.bytes, 0);
    sampled->count = fmax(sampled->count - before.sampled.count, 0);
    sampled->bytes_variance = fmax(sampled->bytes_variance - before.sampled.bytes_variance, 0);
    sampled->count_variance = fmax(sampled->count_variance - before.sampled.count_variance, 0);
    sampled->samples = fmax(sampled->samples - before.sampled.samples, 0);
    return unseen_of_counted(heap, &counted, counts);
}

struct unseen unseen_add(struct unseen one, struct unseen other)
{
    return (struct unseen){fmax(one.chance, other.chance), one.left + other.left};
}

double unseen_most(struct unseen unseen)
{
    return fmin(unseen.chance, unseen.left);
}

struct profile_interval unseen_raise(struct profile_interval interval, double estimate,
                                     struct unseen unseen)
{
    interval.high = fmax(interval.high, estimate + unseen_most(unseen));
    return interval;
}
