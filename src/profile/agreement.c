/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how far samples and exact totals can differ by chance. */
#include "profile/agreement.h"

#include <math.h>

#include "wire/sampling.h"

#define EVENTS 6

/* Sums of fractional doubles have a relative error below this, */
#define ROUNDING 1e-9
/* and sums of whole numbers an error below one. */
#define WHOLE 0.5

static double most_by_chance(double variance_seen, double total, double interval_bytes, double term)
{
    double events = log(EVENTS / PROFILE_AGREEMENT_PROBABILITY);
    double half = interval_bytes * interval_bytes * events / 2;
    double deviation = sqrt(half) + sqrt(fmax(variance_seen, 0) + half);
    double variance = fmin(deviation * deviation, interval_bytes * total);
    double linear = term * events / 3;
    return linear + sqrt(linear * linear + 2 * events * variance);
}

static struct profile_gap gap_of(double exact, double estimate, double variance,
                                 double interval_bytes, double largest_missed)
{
    struct profile_gap gap = {.missing = exact - estimate,
                              .chance = WHOLE + ROUNDING * fmax(exact, estimate)};
    if (interval_bytes > 1)
        gap.chance += most_by_chance(variance, exact, interval_bytes,
                                     gap.missing > 0 ? largest_missed : interval_bytes);
    return gap;
}

struct profile_agreement profile_agreement_of(const struct profile_heap *heap,
                                              const struct profile_dump *dump)
{
    struct profile_agreement agreement = {0};
    /* If a process waits for the profiler too often, its interval is doubled during the session. */
    uint64_t interval_bytes = heap->interval_bytes > heap->first_interval_bytes
                                  ? heap->interval_bytes
                                  : heap->first_interval_bytes;
    if (dump->exact_calls == 0 || interval_bytes == 0 || heap->unknown != 0)
        return agreement;
    const struct trace_figures *total = &dump->total;
    bool is_calibrated = dump->sampled_calls > 0;
    double bytes = is_calibrated ? dump->sampled_bytes : total->allocated_bytes;
    double calls = is_calibrated ? dump->sampled_calls : total->allocated_count;
    agreement.known = true;
    agreement.bytes =
        gap_of((double)dump->exact_bytes, bytes, total->allocated_bytes_variance,
               (double)interval_bytes, (double)sampling_certain_bytes(interval_bytes));
    agreement.calls = gap_of((double)dump->exact_calls, calls, total->allocated_count_variance,
                             (double)interval_bytes, 1);
    return agreement;
}

bool profile_gap_is_real(const struct profile_gap *gap)
{
    return fabs(gap->missing) > gap->chance;
}

bool profile_disagrees(const struct profile_heap *heap, const struct profile_dump *dump)
{
    struct profile_agreement agreement = profile_agreement_of(heap, dump);
    if (dump->disagrees)
        return true;
    return agreement.known &&
           (profile_gap_is_real(&agreement.bytes) || profile_gap_is_real(&agreement.calls));
}
