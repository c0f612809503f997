/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the estimates of the views, and their limits. */
#include "profile/compare/estimates.h"

#include <math.h>

#include "profile/compare/diff.h"
#include "profile/partial.h"
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

static double amount_of(const struct profile_estimate *figure, bool counts)
{
    return counts ? figure->count : figure->bytes;
}

/* Return an estimate at the peak, raised by a part of the bias that was taken from it: the moments
 * that the halves of the samples chose had less than the true peak (recorder/ledger/split_peak.h).
 * In simulations of four kinds of programs at five intervals, this part makes the upper limits of
 * the peak and of its rows hold the truth as often as they should (docs/sampling.md). */
static struct profile_estimate raised_peak(const struct profile_estimate *peak,
                                           const struct profile_calibration *all)
{
    const double part = 0.6;
    struct profile_estimate raised = *peak;
    raised.bytes += part * all->peak_bytes_bias * peak->bytes_variance;
    raised.count += part * all->peak_count_bias * peak->count_variance;
    if (peak->bytes > 0)
        raised.bytes_variance *= raised.bytes / peak->bytes;
    if (peak->count > 0) {
        raised.count_variance *= raised.count / peak->count;
        raised.samples *= raised.count / peak->count;
    }
    return raised;
}

/* Return the interval before what is certain cuts it; NAN if the sampling interval is unknown. */
static struct profile_interval interval_of(const struct profile_estimate *figure, bool counts,
                                           const struct profile_heap *heap,
                                           const struct profile_dump *dump)
{
    if (heap->interval_bytes == 0)
        return (struct profile_interval){NAN, NAN};
    const struct profile_calibration all = rollup_calibration_of(heap, dump);
    struct profile_interval interval =
        profile_interval_of_part(figure, counts, heap->interval_bytes, &all);
    if (!figure->is_peak || !(all.peak_bytes_bias > 0))
        return interval;
    const struct profile_estimate raised = raised_peak(figure, &all);
    double high = profile_interval_of_part(&raised, counts, heap->interval_bytes, &all).high;
    return (struct profile_interval){interval.low, fmax(interval.high, high)};
}

struct profile_interval estimate_interval(const struct profile_estimate *figure, bool counts,
                                          const struct profile_heap *heap,
                                          const struct profile_dump *dump)
{
    struct profile_interval interval = interval_of(figure, counts, heap, dump);
    if (heap->interval_bytes == 0)
        return interval;
    return profile_interval_cut(interval, rollup_most(heap, dump, counts),
                                amount_of(figure, counts));
}

struct estimate_shown estimate_total_of(const struct profile_estimate *figure, bool counts,
                                        const struct profile_heap *heap,
                                        const struct profile_dump *dump)
{
    double most = rollup_most(heap, dump, counts), value = amount_of(figure, counts);
    struct estimate_shown total = {most > 0 ? fmin(value, most) : value,
                                   interval_of(figure, counts, heap, dump)};
    if (heap->interval_bytes == 0)
        return total;
    total.interval = unseen_raise(total.interval, value, unseen_of(heap, dump, counts));
    total.interval = profile_interval_cut(total.interval, most, total.value);
    return total;
}

bool estimate_is_counted(const struct profile_heap *heap, const struct profile_dump *dump,
                         enum export_view view)
{
    return (view == EXPORT_ALLOC_SPACE || view == EXPORT_ALLOC_OBJECTS) &&
           rollup_most(heap, dump, false) > 0 && rollup_most(heap, dump, true) > 0;
}

struct estimate_shown estimate_total(const struct profile_heap *heap,
                                     const struct profile_dump *dump, enum export_view view,
                                     bool counts)
{
    /* Of this dump alone: rollup_most() also has what came before a period. */
    double counted = counts ? (double)dump->exact_calls : (double)dump->exact_bytes;
    if (estimate_is_counted(heap, dump, view)) {
        double limit = profile_totals_why_partial(heap, dump) == NULL ? counted : NAN;
        return (struct estimate_shown){counted, {limit, limit}};
    }
    const struct profile_estimate figure = estimate_of_dump(dump, view);
    return estimate_total_of(&figure, counts, heap, dump);
}
