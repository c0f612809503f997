/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up what a run had, with the limits of the sum. */
#include "profile/compare/growth_side.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/agreement.h"
#include "profile/compare/budget_reasons.h"
#include "profile/compare/diff.h"
#include "profile/compare/stack_pattern.h"
#include "profile/partial.h"
#include "profile/unseen.h"

const char *growth_heap_pattern(const char *pattern)
{
    static const char heap[] = "heap:";
    bool is_heap = pattern != NULL && strncmp(pattern, heap, strlen(heap)) == 0;
    return is_heap ? pattern + strlen(heap) : NULL;
}

int growth_side_open(struct growth_side *side, const struct budgets *budgets,
                     const struct budget_subject *subject)
{
    const struct profile *profile = subject->profile;
    *side = (struct growth_side){.subject = subject};
    for (size_t i = 0; i < budgets->suppression_count; i++) {
        bool *matches = stack_pattern_callsites(profile, budgets->suppressions[i].pattern);
        if (matches == NULL) {
            growth_side_close(side);
            return -ENOMEM;
        }
        for (size_t j = 0; j < profile->callsite_count && side->suppressed != NULL; j++)
            matches[j] |= side->suppressed[j];
        free(side->suppressed);
        side->suppressed = matches;
    }
    return 0;
}

void growth_side_close(struct growth_side *side)
{
    free(side->suppressed);
    free(side->chosen);
    *side = (struct growth_side){0};
}

int growth_side_choose(struct growth_side *side, const char *pattern)
{
    free(side->chosen);
    side->chosen = NULL;
    side->heap_pattern = growth_heap_pattern(pattern);
    if (pattern == NULL || side->heap_pattern != NULL)
        return 0;
    side->chosen = stack_pattern_callsites(side->subject->profile, pattern);
    return side->chosen == NULL ? -ENOMEM : 0;
}

bool growth_side_has_heap(const struct growth_side *side, const struct profile_heap *heap)
{
    return side->heap_pattern == NULL || strcmp(side->heap_pattern, heap->name) == 0 ||
           fnmatch(side->heap_pattern, heap->name, 0) == 0;
}

static bool has_sample(const struct growth_side *side, const struct profile_sample *sample,
                       enum growth_figure figure)
{
    if (sample->callsite == PROFILE_NONE)
        return side->chosen == NULL;
    return (side->chosen == NULL || side->chosen[sample->callsite]) &&
           (side->suppressed == NULL || figure != GROWTH_LIVE ||
            !side->suppressed[sample->callsite]);
}

static struct profile_estimate estimate_of(const struct profile_sample *sample,
                                           enum growth_figure figure)
{
    static const enum diff_figure figures[GROWTH_FIGURES] = {
        [GROWTH_LIVE] = DIFF_LIVE,
        [GROWTH_PEAK] = DIFF_PEAK,
        [GROWTH_ALLOCATED] = DIFF_ALLOCATED,
        [GROWTH_CALLS] = DIFF_ALLOCATED,
    };
    const struct rollup_values values = rollup_values_of(sample);
    return diff_estimate_of(&values, figures[figure]);
}

static double amount_of(const struct profile_estimate *estimate, enum growth_figure figure)
{
    return figure == GROWTH_CALLS ? estimate->count : estimate->bytes;
}

double growth_side_of_sample(const struct growth_side *side, const struct profile_sample *sample,
                             enum growth_figure figure)
{
    const struct profile_estimate estimate = estimate_of(sample, figure);
    return has_sample(side, sample, figure) ? amount_of(&estimate, figure) : 0;
}

/* Return whether the profile does not contain the figure: imported files contain fewer. */
static bool is_unknown(const struct profile_heap *heap, const struct profile_dump *dump,
                       enum growth_figure figure, bool counted)
{
    static const enum export_view views[GROWTH_FIGURES] = {
        [GROWTH_LIVE] = EXPORT_SPACE,
        [GROWTH_PEAK] = EXPORT_MAX,
        [GROWTH_ALLOCATED] = EXPORT_ALLOC_SPACE,
        [GROWTH_CALLS] = EXPORT_ALLOC_OBJECTS,
    };
    return counted ? !profile_has_totals(heap, dump) : export_view_is_unknown(heap, views[figure]);
}

static const char *partial_baseline(const struct export_dump *dump)
{
    if (profile_dump_is_partial(dump->heap, dump->dump))
        return "samples are missing from the baseline";
    return "the baseline has no last dump: its profiler was killed, or still ran";
}

/* Take the facts of a dump that limit what the sum can decide. */
static void add_facts(struct growth_amount *amount, const struct export_dump *dump)
{
    const struct profile_heap *heap = dump->heap;
    bool exact = profile_dump_is_exact(heap, dump->dump);
    if (amount->counted) {
        bool disagrees = profile_disagrees(heap, dump->dump);
        if (amount->partial == NULL || (disagrees && !amount->disagrees))
            amount->partial = budget_why_totals_partial(heap, dump->dump);
        amount->disagrees |= disagrees;
        amount->exact = amount->partial == NULL;
        if (!amount->exact)
            amount->partial_before = "the baseline's totals may lack calls";
        return;
    }
    const char *partial = budget_why_partial(heap, dump->dump);
    if (amount->partial == NULL && partial != NULL) {
        amount->partial = partial;
        amount->partial_before = partial_baseline(dump);
    }
    amount->exact &= exact;
    amount->lacks_frees |= profile_lacks_frees(heap);
    bool is_known = amount->interval_bytes > 0 && (heap->interval_bytes > 0 || exact);
    if (!is_known)
        amount->interval_bytes = 0;
    else if (heap->interval_bytes > amount->interval_bytes)
        amount->interval_bytes = heap->interval_bytes;
}

/* Set the sum of estimates and its interval. */
static void measure_estimates(const struct growth_side *side, enum growth_figure figure,
                              struct growth_amount *amount)
{
    bool counts = figure == GROWTH_CALLS, most_is_known = true;
    struct profile_estimate sum = {0};
    struct profile_calibration calibration = {0};
    struct unseen unseen = {0};
    double most = 0;
    for (size_t i = 0; i < side->subject->dump_count; i++) {
        const struct export_dump *dump = &side->subject->dumps[i];
        if (!growth_side_has_heap(side, dump->heap))
            continue;
        for (size_t j = 0; j < dump->dump->sample_count; j++) {
            const struct profile_sample *sample = dump->dump->samples[j];
            const struct profile_estimate one = estimate_of(sample, figure);
            if (has_sample(side, sample, figure))
                profile_estimate_add(&sum, &one);
        }
        const struct profile_calibration all = rollup_calibration_of(dump->heap, dump->dump);
        profile_calibration_add(&calibration, &all);
        unseen = unseen_add(unseen, unseen_of(dump->heap, dump->dump, counts));
        double limit = rollup_most(dump->heap, dump->dump, counts);
        most += limit;
        most_is_known &= limit > 0;
    }
    most = most_is_known ? most : 0;
    double value = amount_of(&sum, figure);
    struct profile_interval interval = counts
                                           ? profile_interval_of_count(&sum, amount->interval_bytes)
                                           : profile_interval_of_bytes(&sum);
    amount->value = most > 0 ? fmin(value, most) : value;
    interval = profile_interval_calibrated(interval, &sum, counts, &calibration);
    interval = unseen_raise(interval, value, unseen);
    amount->interval = profile_interval_cut(interval, most, amount->value);
    if (amount->interval_bytes == 1)
        amount->interval.low = amount->interval.high = amount->value;
}

struct growth_amount growth_side_measure(const struct growth_side *side, enum growth_figure figure)
{
    const struct budget_subject *subject = side->subject;
    bool is_total = figure == GROWTH_ALLOCATED || figure == GROWTH_CALLS;
    struct growth_amount amount = {
        .exact = true,
        .counted = is_total && side->chosen == NULL,
        .absent = true,
        .interval_bytes = 1,
    };
    for (size_t i = 0; i < subject->dump_count; i++)
        amount.absent &= !growth_side_has_heap(side, subject->dumps[i].heap);
    /* Why a run has no such heap may be what it lost of the others. */
    for (size_t i = 0; i < subject->dump_count; i++) {
        const struct export_dump *dump = &subject->dumps[i];
        if (!amount.absent && !growth_side_has_heap(side, dump->heap))
            continue;
        add_facts(&amount, dump);
        if (!amount.absent && is_unknown(dump->heap, dump->dump, figure, amount.counted))
            amount.unknown = budget_unknown_reason;
        if (amount.counted && !amount.absent)
            amount.value += (double)(figure == GROWTH_CALLS ? dump->dump->exact_calls
                                                            : dump->dump->exact_bytes);
    }
    if (amount.counted || amount.absent)
        amount.interval.low = amount.interval.high = amount.value;
    else
        measure_estimates(side, figure, &amount);
    return amount;
}
