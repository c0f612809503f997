/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the estimates of the views, and their limits. */
#include "compare/estimates.h"

#include <math.h>

#include "compare/diff.h"
#include "profile/unseen.h"

struct profile_estimate estimate_of_view(const struct rollup_values *values, enum export_view view)
{
    return diff_estimate_of(values, diff_figure_of(view));
}

struct profile_estimate estimate_of_dump(const struct profile_dump *dump, enum export_view view)
{
    struct rollup_values total = rollup_total_of(dump);
    return estimate_of_view(&total, view);
}

double estimate_rank(const struct profile_estimate *figure, enum export_view view)
{
    return export_view_counts_calls(view) ? figure->count : figure->bytes;
}

struct profile_interval estimate_interval(const struct profile_estimate *figure, bool counts,
                                          const struct profile_heap *heap,
                                          const struct profile_dump *dump)
{
    if (heap->interval_bytes == 0)
        return (struct profile_interval){NAN, NAN};
    struct profile_interval interval = counts
                                           ? profile_interval_of_count(figure, heap->interval_bytes)
                                           : profile_interval_of_bytes(figure);
    return profile_interval_cut(interval, rollup_most(heap, dump, counts));
}

struct profile_interval estimate_total_interval(const struct profile_estimate *figure, bool counts,
                                                const struct profile_heap *heap,
                                                const struct profile_dump *dump)
{
    struct profile_interval interval = estimate_interval(figure, counts, heap, dump);
    if (heap->interval_bytes == 0)
        return interval;
    interval = unseen_raise(interval, counts ? figure->count : figure->bytes,
                            unseen_of(heap, dump, counts));
    return profile_interval_cut(interval, rollup_most(heap, dump, counts));
}

double estimate_peak_bytes(const struct profile_heap *heap, const struct profile_dump *dump)
{
    /* The status is as of the last dump; earlier dumps precede that peak. */
    return dump == &heap->dumps[heap->dump_count - 1] ? heap->status.peak_live_bytes
                                                      : estimate_of_dump(dump, EXPORT_MAX).bytes;
}
