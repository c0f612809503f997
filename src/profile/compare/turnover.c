/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the old part of what is live with the young one. */
#include "profile/compare/turnover.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "profile/compare/estimate_change.h"
#include "profile/rollup.h"

#define LEVEL 0.01
#define RATIO_LEAST                                                                                \
    0.125               /* r in turnover.h: with fewer old blocks per young one, a row turns over */
#define FREED_PART 0.1  /* of a row; below it, the lifetimes of what was freed do not count */
#define FREED_MOST 0.5  /* above it, most of a row was freed */
#define SLICES_LEAST 3u /* in each part; with fewer, the parts are not compared */
#define COUNT_MOST 1e6  /* samples that are compared: more take long and change no verdict */
#define STRETCHES 8u
#define SAMPLES_FOR_PACE 24 /* three for each */
#define STEPS_PART 0.1

void turnover_facts_add(struct turnover_facts *facts, const struct profile_sample *sample)
{
    trace_figures_add(&facts->figures, &sample->figures);
    live_times_sum_add(&facts->times, sample);
}

/* --- probabilities --- */

/* Return the probability of k or more of n, each with the probability p. */
static double at_least(double k, double n, double p)
{
    if (k <= 0)
        return 1;
    bool is_upper = k > n * p;
    double from = is_upper ? k : k - 1, sum = 0, ratio = p / (1 - p);
    double term = exp(lgamma(n + 1) - lgamma(from + 1) - lgamma(n - from + 1) + from * log(p) +
                      (n - from) * log1p(-p));
    for (double i = from; i >= 0 && i <= n && term > 0x1p-60 * sum; i += is_upper ? 1 : -1) {
        sum += term;
        term *= is_upper ? (n - i) / (i + 1) * ratio : i / (n - i + 1) / ratio;
    }
    return is_upper ? fmin(sum, 1) : fmax(1 - sum, 0);
}

/* Return whether k of n are less than half of them, beyond chance. */
static bool is_less(double k, double n)
{
    return at_least(n - k, n, 0.5) <= LEVEL;
}

/* --- the parts --- */

struct parts {
    double old, young;            /* o and y */
    double first_half, last_half; /* all samples of both halves */
    double bytes;                 /* of o and y */
    uint32_t width;               /* slices of each part; 0: too few to compare */
};

/* The interval may have been widened, so that samples of one part stand for more than those of the
 * other: count both in those that stand for more. */
static double count_of(double bytes, double samples, double other_bytes, double other_samples)
{
    double each = samples > 0 ? bytes / samples : 0;
    double other = other_samples > 0 ? other_bytes / other_samples : 0;
    return other > each ? round(bytes / other) : samples;
}

static struct parts parts_of(const struct trace_live_times *times, uint64_t end_ms)
{
    struct parts parts = {0};
    uint64_t whole = end_ms / times->slice_ms;
    uint32_t half = (uint32_t)(whole < TRACE_TIME_SLICES ? whole : TRACE_TIME_SLICES) / 2;
    double samples[2] = {0}, bytes[2] = {0};
    parts.width = half > SLICES_LEAST ? half - 1 : 0;
    for (uint32_t i = 0; i < TRACE_TIME_SLICES; i++) {
        *(i < half ? &parts.first_half : &parts.last_half) += times->samples[i];
        if (i < 1 || i > 2 * parts.width)
            continue;
        samples[i > parts.width] += times->samples[i];
        bytes[i > parts.width] += times->bytes[i];
    }
    parts.bytes = bytes[0] + bytes[1];
    parts.old = count_of(bytes[0], samples[0], bytes[1], samples[1]);
    parts.young = count_of(bytes[1], samples[1], bytes[0], samples[0]);
    double n = parts.old + parts.young;
    if (n > COUNT_MOST) {
        parts.old = round(parts.old * COUNT_MOST / n);
        parts.young = COUNT_MOST - parts.old;
    }
    return parts;
}

static int compare_bytes(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* Return how even the growth is, over eight stretches of both parts. In steps, half of them have
 * hardly a part of it. */
static enum turnover_pace pace_of(const struct trace_live_times *times, const struct parts *parts)
{
    double bytes[STRETCHES] = {0}, less = 0;
    if (parts->old + parts->young < SAMPLES_FOR_PACE)
        return TURNOVER_PACE_UNKNOWN;
    for (uint32_t i = 0; i < 2 * parts->width; i++)
        bytes[i * STRETCHES / (2 * parts->width)] += times->bytes[i + 1];
    qsort(bytes, STRETCHES, sizeof(*bytes), compare_bytes);
    for (size_t i = 0; i < STRETCHES / 2; i++)
        less += bytes[i];
    return less < STEPS_PART * parts->bytes ? TURNOVER_IN_STEPS : TURNOVER_STEADY;
}

/* Return the median age by bytes. The samples of a slice are spread evenly in it. */
static double median_of(const struct trace_live_times *times, uint64_t end_ms)
{
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < TRACE_TIME_SLICES; i++)
        total += times->bytes[i];
    for (uint32_t i = TRACE_TIME_SLICES; i-- > 0;) {
        if (times->bytes[i] <= 0 || (sum += times->bytes[i]) < total / 2)
            continue;
        double end = fmin((double)((i + 1) * times->slice_ms), (double)end_ms);
        double start = fmax((double)(i * times->slice_ms), (double)times->oldest_ms);
        double part = (sum - total / 2) / times->bytes[i];
        return fmax((double)end_ms - (start + (end - start) * part), 0);
    }
    return NAN;
}

/* Return the frees per millisecond that a sample was live. */
static double risk_of(const struct turnover_facts *facts, double lifetime_ms, double end_ms)
{
    const struct trace_live_times *times = &facts->times.times;
    double ages = 0, seen = 0, freed = (double)facts->figures.freed_samples;
    double live = (double)trace_figures_live_samples(&facts->figures);
    for (uint32_t i = 0; i < TRACE_TIME_SLICES; i++) {
        double age = end_ms - ((double)i + 0.5) * (double)times->slice_ms;
        ages += times->samples[i] * fmax(age, 0);
        seen += times->samples[i];
    }
    return freed / (freed * lifetime_ms + ages / seen * live);
}

/* --- a row --- */

static uint64_t start_of_process(const struct profile *profile, const struct profile_heap *heap)
{
    uint64_t start_ns = heap->start_boottime_ns;
    for (size_t i = 0; i < profile->heap_count; i++)
        if (profile->heaps[i].process == heap->process &&
            profile->heaps[i].start_boottime_ns < start_ns)
            start_ns = profile->heaps[i].start_boottime_ns;
    return start_ns;
}

static double share_freed(const struct trace_figures *figures, const struct profile_heap *heap)
{
    bool known = (heap->unknown & (PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_LIVE)) == 0 &&
                 !heap->unseen && (int64_t)figures->freed_samples >= 0;
    return known && figures->allocated_bytes > 0
               ? fmin(figures->freed_bytes / figures->allocated_bytes, 1)
               : (double)NAN;
}

/* Return what the row is unless it grows. */
static enum turnover_kind kind_of(const struct turnover *row, const struct parts *parts)
{
    double n = parts->old + parts->young;
    if (row->freed >= FREED_PART && parts->first_half == 0)
        return TURNOVER_TURNS_OVER;
    if (row->freed >= FREED_MOST && is_less(parts->old, n))
        return TURNOVER_TURNS_OVER;
    if (parts->last_half == 0 || is_less(parts->young, n))
        return TURNOVER_STAYS;
    return TURNOVER_UNCLEAR;
}

static void measure(struct turnover *row, const struct turnover_facts *facts, uint64_t end_ms)
{
    const struct trace_live_times *times = &facts->times.times;
    const struct parts parts = parts_of(times, end_ms);
    double n = parts.old + parts.young, ratio = RATIO_LEAST;
    row->slice_ms = (double)times->slice_ms;
    row->oldest_ms = fmax((double)end_ms - (double)times->oldest_ms, 0);
    row->median_ms = median_of(times, end_ms);
    row->kind = TURNOVER_UNCLEAR;
    if (parts.width == 0 || end_ms < TURNOVER_TIME_LEAST_MS)
        return;
    /* Blocks that all live as long as each other are never older than that. */
    bool is_cut_off =
        row->freed >= FREED_PART && row->lifetime_ms >= row->oldest_ms / 2 &&
        pow(row->oldest_ms / (double)end_ms, parts.first_half + parts.last_half) <= LEVEL;
    row->kind = is_cut_off ? TURNOVER_TURNS_OVER : kind_of(row, &parts);
    if (is_cut_off || n == 0)
        return;
    row->bytes_per_second = parts.bytes * 1000 / (2 * parts.width * row->slice_ms);
    if (row->freed >= FREED_PART && row->lifetime_ms >= row->slice_ms)
        ratio = fmax(ratio, exp(-risk_of(facts, row->lifetime_ms, (double)end_ms) * parts.width *
                                row->slice_ms));
    double share = ratio / (1 + ratio), least = RATIO_LEAST / (1 + RATIO_LEAST);
    row->probability = fmax(at_least(parts.old, n, share), at_least(parts.young, n, least));
    row->probability_least = at_least(ceil(n / 2), n, least);
    row->pace = pace_of(times, &parts);
}

/* Return how long the process had been profiled at the dump; 0: unknown. A program may end within
 * its first millisecond. */
static uint64_t profiled_ms(const struct profile *profile, const struct export_dump *dump)
{
    uint64_t start_ns = start_of_process(profile, dump->heap), end_ns = dump->dump->boottime_ns;
    if (end_ns < start_ns)
        return 0;
    return end_ns < start_ns + 1000000 ? 1 : (end_ns - start_ns) / 1000000;
}

static bool has_times(const struct profile_dump *dump)
{
    for (size_t i = 0; i < dump->sample_count; i++)
        if (dump->samples[i]->times != NULL)
            return true;
    return false;
}

uint64_t turnover_lacks_ms(const struct profile *profile, const struct export_dump *dump)
{
    uint64_t time_ms = profiled_ms(profile, dump);
    return time_ms > 0 && time_ms < TURNOVER_TIME_LEAST_MS && has_times(dump->dump)
               ? TURNOVER_TIME_LEAST_MS
               : 0;
}

bool turnover_can_judge(const struct profile *profile, const struct export_dump *dump)
{
    return has_times(dump->dump) && turnover_lacks_ms(profile, dump) == 0;
}

struct turnover turnover_of(const struct turnover_facts *facts, const struct profile *profile,
                            const struct export_dump *dump, bool known)
{
    const struct trace_figures *figures = &facts->figures;
    const struct trace_live_times *times = &facts->times.times;
    struct turnover row = {
        .kind = TURNOVER_UNKNOWN,
        .freed = dump != NULL ? share_freed(figures, dump->heap) : (double)NAN,
        .lifetime_ms = NAN,
        .median_ms = NAN,
        .oldest_ms = NAN,
        .slice_ms = NAN,
        .bytes_per_second = NAN,
        .probability = 1,
        .probability_least = 1,
    };
    if (figures->freed_count > 0 && figures->lifetime_ms_sum > 0)
        row.lifetime_ms = figures->lifetime_ms_sum / figures->freed_count;
    if (!known || times->slice_ms == 0 || facts->times.unknown)
        return row;
    uint64_t end_ms = profiled_ms(profile, dump);
    if (end_ms > 0)
        measure(&row, facts, end_ms);
    return row;
}

int turnover_judge(struct turnover *rows, size_t count)
{
    struct change *changes = calloc(count + 1, sizeof(*changes));
    bool *marks = calloc(count + 1, sizeof(*marks));
    int code = changes == NULL || marks == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < count && code == 0; i++)
        changes[i] = (struct change){.value = 1,
                                     .probability = rows[i].probability,
                                     .probability_least = rows[i].probability_least};
    if (code == 0)
        code = change_mark(changes, count, marks);
    for (size_t i = 0; i < count && code == 0; i++)
        if (marks[i])
            rows[i].kind = TURNOVER_GROWS;
    free(changes);
    free(marks);
    return code;
}
