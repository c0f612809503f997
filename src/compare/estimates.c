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
    struct profile_estimate estimate = estimate_of_view(&total, view);
    if (diff_figure_of(view) == DIFF_PEAK) {
        estimate.highest_bytes = dump->peak_highest_bytes;
        estimate.highest_count = dump->peak_highest_count;
    }
    return estimate;
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
    const struct profile_calibration all = rollup_calibration_of(heap, dump);
    interval = profile_interval_calibrated(interval, figure, counts, &all);
    return profile_interval_cut(interval, rollup_most(heap, dump, counts));
}

/* Return the estimate of a peak, raised by a part of the bias that was taken from it: the moments
 * that the halves of the samples chose had less than the true peak (daemon/ledger/split_peak.h). In
 * simulations of four kinds of programs at four intervals, this part makes the upper limit hold the
 * peak as often as it should (docs/sampling.md). */
static struct profile_estimate raised_peak(const struct profile_estimate *peak)
{
    const double part = 0.6;
    struct profile_estimate raised = *peak;
    double bytes = fmax(peak->highest_bytes - peak->bytes, 0) * part;
    double count = fmax(peak->highest_count - peak->count, 0) * part;
    raised.bytes += bytes;
    raised.count += count;
    if (peak->bytes > 0)
        raised.bytes_variance *= raised.bytes / peak->bytes;
    if (peak->count > 0) {
        raised.count_variance *= raised.count / peak->count;
        raised.samples *= raised.count / peak->count;
    }
    return raised;
}

struct profile_interval estimate_total_interval(const struct profile_estimate *figure, bool counts,
                                                const struct profile_heap *heap,
                                                const struct profile_dump *dump)
{
    struct profile_interval interval = estimate_interval(figure, counts, heap, dump);
    if (heap->interval_bytes == 0)
        return interval;
    if (figure->highest_bytes > 0) {
        const struct profile_estimate raised = raised_peak(figure);
        interval.high =
            fmax(interval.high, estimate_interval(&raised, counts, heap, dump).high);
    }
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
