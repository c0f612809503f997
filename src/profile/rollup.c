/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a dump's samples, and of the whole dump. */
#include "profile/rollup.h"

#include <math.h>

#include "profile/agreement.h"
#include "profile/partial.h"

/* Sums of calibrated estimates differ from the exact total by less than this part. */
#define CALIBRATION_ROUNDING 1e-6
/* Two sums that should be equal differ by less than this part. */
#define SUMS_ROUNDING 1e-9

double rollup_live_bytes_variance(const struct trace_figures *figures)
{
    double variance = figures->allocated_bytes_variance - figures->freed_bytes_variance;
    return variance > 0 ? variance : 0;
}

double rollup_live_count_variance(const struct trace_figures *figures)
{
    double variance = figures->allocated_count_variance - figures->freed_count_variance;
    return variance > 0 ? variance : 0;
}

struct profile_estimate rollup_live_of(const struct trace_figures *figures)
{
    return (struct profile_estimate){
        .bytes = rollup_live_bytes(figures),
        .count = rollup_live_count(figures),
        .bytes_variance = rollup_live_bytes_variance(figures),
        .count_variance = rollup_live_count_variance(figures),
        .samples = (double)trace_figures_live_samples(figures),
    };
}

/* Return whether the samples of a dump add up to its exact total: few samples do not. */
static bool is_calibrated(const struct profile_dump *dump, double sum, double exact)
{
    /* Sums of files of one period are whole numbers. */
    return dump->sampled_calls + dump->earlier.sampled_calls > 0 &&
           fabs(sum - exact) <= CALIBRATION_ROUNDING * exact + 1;
}

struct profile_calibration rollup_calibration_of(const struct profile_heap *heap,
                                                 const struct profile_dump *dump)
{
    struct trace_figures all = dump->total;
    trace_figures_add(&all, &dump->earlier.sampled);
    const struct trace_figures *total = &all;
    double exact_bytes = (double)(dump->exact_bytes + dump->earlier.exact_bytes);
    double exact_calls = (double)(dump->exact_calls + dump->earlier.exact_calls);
    double interval_bytes = (double)heap->interval_bytes;
    struct profile_calibration calibration = {
        .bytes_variance = total->allocated_bytes_variance,
        .count_variance = total->allocated_count_variance,
        .missed_count = fmax(total->allocated_count - (double)total->samples, 0),
        .ratio = dump->calibration_ratio,
        .peak_bytes_bias = dump->peak_bytes_bias,
        .peak_count_bias = dump->peak_count_bias,
    };
    if (!(total->allocated_bytes_variance > 0))
        return calibration;
    /* A sample with p < 1 adds at most the square of its interval. */
    double uncertain = total->allocated_bytes_variance / (interval_bytes * interval_bytes);
    double samples = fmin(uncertain, (double)total->samples);
    bool bytes = is_calibrated(dump, total->allocated_bytes, exact_bytes);
    bool count = is_calibrated(dump, total->allocated_count, exact_calls);
    calibration.samples = bytes ? samples : NAN;
    calibration.samples_of_counts = count ? samples : NAN;
    return calibration;
}

double rollup_most(const struct profile_heap *heap, const struct profile_dump *dump, bool counts)
{
    /* The exact totals lack samples that the program drew itself, and threads without a slot. */
    if (heap->status.weighed_samples > 0 || heap->status.lost[TRACE_LOST_NO_THREAD_SLOT] > 0 ||
        dump->disagrees || dump->earlier.unknown)
        return 0;
    struct profile_agreement agreement = profile_agreement_of(heap, dump);
    const struct profile_gap *gap = counts ? &agreement.calls : &agreement.bytes;
    if (agreement.known && gap->missing < 0 && profile_gap_is_real(gap))
        return 0; /* the samples show that the total is too low */
    return counts ? (double)(dump->exact_calls + dump->earlier.exact_calls)
                  : (double)(dump->exact_bytes + dump->earlier.exact_bytes);
}

bool rollup_totals_are_exact(const struct profile_heap *heap, const struct profile_dump *dump)
{
    return dump->exact_calls > 0 && profile_totals_why_partial(heap, dump) == NULL &&
           rollup_most(heap, dump, false) > 0 && rollup_most(heap, dump, true) > 0;
}

struct rollup_values rollup_total_of(const struct profile_dump *dump)
{
    struct rollup_values total = {dump->total, dump->left_out.sum.peak};
    for (size_t i = 0; i < dump->sample_count; i++)
        trace_peak_figures_add(&total.peak, &dump->samples[i]->peak);
    return total;
}

static double bias_of(double highest, double estimate, double variance)
{
    double bias = highest - estimate;
    return variance > 0 && bias > SUMS_ROUNDING * highest ? bias / variance : 0;
}

void rollup_find_peak_bias(struct profile_dump *dump)
{
    if (!(dump->peak_highest_bytes > 0))
        return;
    const struct trace_peak_figures peak = rollup_total_of(dump).peak;
    dump->peak_bytes_bias = bias_of(dump->peak_highest_bytes, peak.bytes, peak.bytes_variance);
    dump->peak_count_bias = bias_of(dump->peak_highest_count, peak.count, peak.count_variance);
}

struct rollup_size rollup_size_of(const struct profile_dump *dump)
{
    double live = rollup_live_bytes(&dump->total), peak = 0;
    for (size_t i = 0; i < dump->sample_count; i++)
        peak += dump->samples[i]->peak.bytes;
    return (struct rollup_size){peak > live ? peak : live, dump->total.allocated_bytes};
}

int rollup_size_compare(const struct rollup_size *left, const struct rollup_size *right)
{
    if (left->held != right->held)
        return left->held > right->held ? -1 : 1;
    return left->allocated > right->allocated ? -1 : left->allocated < right->allocated;
}
