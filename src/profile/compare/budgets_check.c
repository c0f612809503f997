/* SPDX-License-Identifier: Apache-2.0 */
/* Judges budgets: sums up the figures that a budget limits, with their confidence intervals, and
 * compares them with its limit. budgets_growth.c does so with the growth between two runs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/agreement.h"
#include "profile/compare/baseline_file.h"
#include "profile/compare/budget_reasons.h"
#include "profile/compare/budgets_judge.h"
#include "profile/compare/diff.h"
#include "profile/compare/estimates.h"
#include "profile/compare/stack_pattern.h"
#include "profile/confidence_interval.h"
#include "profile/folding.h"
#include "profile/partial.h"
#include "profile/rollup.h"
#include "profile/unseen.h"
#include "trace/intern.h"
#include "util/array.h"

/*
 * Finds the rows of stacks that hold most of a sum. A row has all stacks that a table shows alike:
 * the function that they are charged to, and its callers, each with its line. The profile has each
 * text once, so that its address stands for it.
 */

struct culprits {
    const struct profile *profile;
    const struct folding *folding; /* NULL: nothing is folded */
    struct intern_table ids;
    struct culprit {
        uint32_t callsite; /* of the heaviest stack */
        double bytes, heaviest_bytes;
    } * rows; /* by id */
    size_t capacity;
    bool failed; /* no memory */
};

struct shown_frame {
    uint64_t name, source_file, line;
};

static struct shown_frame shown_frame(const struct profile *profile,
                                      const struct folding_step *step)
{
    const struct profile_frame *frame = &profile->frames[profile->callsites[step->callsite].frame];
    bool is_named = *frame->name != '\0';
    if (step->nameless > 0)
        return (struct shown_frame){.name = step->nameless, .source_file = frame->mapping};
    return (struct shown_frame){
        .name = (uint64_t)(uintptr_t)frame->name,
        .source_file = is_named ? (uint64_t)(uintptr_t)frame->source_file : frame->mapping,
        .line = is_named ? frame->line : frame->function_start,
    };
}

/* Return the id of a stack's row, from 1; 0: no memory. */
static uint64_t budgets_check_row_of(struct culprits *culprits, uint32_t callsite, bool *added)
{
    const struct profile *profile = culprits->profile;
    struct {
        uint64_t module, goes_on;
        struct shown_frame frames[FOLDING_STEPS_MAX];
    } key = {0};
    struct folding_row row;
    folding_row_of(culprits->folding, profile, callsite, &row);
    key.module = profile->frames[profile->callsites[row.steps[0].callsite].frame].mapping;
    for (uint32_t i = 0; i < row.count; i++)
        key.frames[i] = shown_frame(profile, &row.steps[i]);
    key.goes_on = row.next != PROFILE_NONE;
    return intern_bytes(&culprits->ids, &key, sizeof(key), added);
}

static void culprits_add(struct culprits *culprits, uint32_t callsite, double bytes)
{
    bool added = false;
    if (callsite == PROFILE_NONE || !(bytes > 0))
        return;
    uint64_t id = budgets_check_row_of(culprits, callsite, &added);
    if (id == 0 || (added && ARRAY_RESERVE(&culprits->rows, &culprits->capacity, id - 1, 1) < 0)) {
        culprits->failed = true;
        return;
    }
    struct culprit *row = &culprits->rows[id - 1];
    if (added)
        *row = (struct culprit){.callsite = callsite};
    row->bytes += bytes;
    if (bytes > row->heaviest_bytes) {
        row->heaviest_bytes = bytes;
        row->callsite = callsite;
    }
}

/* Get the heaviest rows, the heaviest first. The callsite PROFILE_NONE ends a list that has fewer.
 * Only rows above 0 are in it. Return 0 or -ENOMEM. */
static int culprits_heaviest(const struct culprits *culprits, uint32_t *callsites, double *bytes,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        callsites[i] = PROFILE_NONE;
        bytes[i] = 0;
    }
    for (size_t i = 0; i < culprits->ids.count && !culprits->failed; i++) {
        struct culprit row = culprits->rows[i];
        for (size_t j = 0; j < count; j++) {
            if (!(row.bytes > bytes[j]))
                continue;
            struct culprit lighter = {.callsite = callsites[j], .bytes = bytes[j]};
            callsites[j] = row.callsite;
            bytes[j] = row.bytes;
            row = lighter;
        }
    }
    return culprits->failed ? -ENOMEM : 0;
}

static void culprits_free(struct culprits *culprits)
{
    intern_free(&culprits->ids);
    free(culprits->rows);
}

/* Standard normal quantile of 97.5 %. */
#define DEVIATIONS 1.959964
/* Relative rounding error of sums of doubles that are not integers. */
#define ROUNDING 1e-9

/* --- sums --- */

/* Return the suppression that matches the callsite, or NULL. */
static struct budget_suppression *suppression_of(const struct budgets *budgets,
                                                 const struct profile *profile, uint32_t callsite)
{
    for (size_t i = 0; i < budgets->suppression_count; i++)
        if (stack_pattern_matches(profile, callsite, budgets->suppressions[i].pattern))
            return &budgets->suppressions[i];
    return NULL;
}

struct sum {
    struct profile_estimate all;
    struct culprits culprits;
};

static void sum_begin(struct sum *sum, const struct budget_subject *subject)
{
    *sum = (struct sum){
        .culprits = {.profile = subject->profile, .folding = subject->folding},
    };
}

static void sum_add(struct sum *sum, const struct profile_sample *sample, enum diff_figure figure)
{
    struct rollup_values values = rollup_values_of(sample);
    struct profile_estimate one = diff_estimate_of(&values, figure);
    profile_estimate_add(&sum->all, &one);
    culprits_add(&sum->culprits, sample->callsite, one.bytes);
}

/* Free the sum, and give the result its culprits. Return 0 or -ENOMEM. */
static int sum_end(struct sum *sum, struct budget_result *result)
{
    int code =
        culprits_heaviest(&sum->culprits, result->culprits, result->culprit_bytes, BUDGET_CULPRITS);
    culprits_free(&sum->culprits);
    return code;
}

/* Sum up the live bytes of a dump in stacks that match the pattern (NULL: all), less the suppressed
 * ones. */
static void sum_live(const struct budgets *budgets, const struct profile *profile,
                     const struct profile_dump *dump, const char *pattern, struct sum *sum)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t callsite = dump->samples[i]->callsite;
        if ((pattern == NULL || stack_pattern_matches(profile, callsite, pattern)) &&
            suppression_of(budgets, profile, callsite) == NULL)
            sum_add(sum, dump->samples[i], DIFF_LIVE);
    }
}

static void sum_of(const struct profile_dump *dump, enum diff_figure figure, struct sum *sum)
{
    for (size_t i = 0; i < dump->sample_count; i++)
        sum_add(sum, dump->samples[i], figure);
}

static void count_suppressed(struct budgets *budgets, const struct budget_subject *subject)
{
    for (size_t i = 0; i < subject->dump_count && budgets->suppression_count > 0; i++) {
        const struct profile_dump *dump = subject->dumps[i].dump;
        for (size_t j = 0; j < dump->sample_count; j++) {
            const struct profile_sample *sample = dump->samples[j];
            struct budget_suppression *found =
                suppression_of(budgets, subject->profile, sample->callsite);
            if (found != NULL) {
                found->bytes += rollup_live_bytes(&sample->figures);
                found->count += rollup_live_count(&sample->figures);
            }
        }
    }
}

/* --- judging --- */

static bool all_is_recorded(const struct profile_heap *heap)
{
    return heap->interval_bytes == 1;
}

/* Return whether no sample contributes to the limited figure. A growth can be 0 although there are
 * samples. */
static bool is_nothing(const struct budget_result *result)
{
    return result->budget->kind != BUDGET_TEMPORARY && !(result->value > 0) &&
           (!budget_is_growth(result->budget->kind) || !(result->after > 0));
}

/* Return the sampling interval that would decide the budget, rounded down to a power of two. The
 * confidence limits approach the estimate with the square root of the interval, or, if nothing was
 * sampled, in proportion to it. */
static uint64_t deciding_interval(const struct budget_result *result, uint64_t interval_bytes)
{
    double gap = fabs(result->limit - result->value);
    double width =
        result->value > result->limit ? result->value - result->low : result->high - result->value;
    double ratio = width > 0 ? gap / width : 0;
    double needed = (double)interval_bytes * (is_nothing(result) ? ratio : ratio * ratio);
    if (!(needed >= 2))
        return 1;
    return UINT64_C(1) << (unsigned)floor(log2(fmin(needed, 0x1p62)));
}

bool budget_totals_decide_nothing(enum budget_state state, const char *partial, bool disagree)
{
    return disagree || (partial != NULL && state == BUDGET_HOLDS);
}

/* Return why frees that were lost may turn the state into another, or NULL. Live memory was at most
 * what the profile has, temporary allocations at least. Growth has live memory on both sides. */
static const char *why_frees_matter(const struct budget_result *result,
                                    const struct profile_heap *heap)
{
    enum budget_kind kind = result->budget->kind;
    bool is_allocated = kind == BUDGET_ALLOCATED || kind == BUDGET_ALLOCATIONS;
    bool is_live = kind != BUDGET_TEMPORARY && !budget_is_growth(kind) && !is_allocated;
    bool matters = (result->state == BUDGET_FAILS && is_live) ||
                   (result->state == BUDGET_HOLDS && kind == BUDGET_TEMPORARY);
    return matters && profile_lacks_frees(heap) ? budget_lost_frees : NULL;
}

void budget_judge(struct budget_result *result, const char *partial, uint64_t interval_bytes)
{
    bool whole = trunc(result->value) == result->value && fabs(result->value) < 0x1p53;
    double slack = whole ? 0 : ROUNDING * fmax(fabs(result->value), result->limit);
    if (fabs(result->value - result->limit) <= slack && result->exact)
        result->value = result->low = result->high = result->limit;
    if (interval_bytes == 0 && !result->exact && result->budget->kind != BUDGET_TEMPORARY) {
        result->state = BUDGET_UNDECIDABLE;
        result->reason = "the sampling interval is not in the file";
    } else if (result->low > result->limit + slack &&
               (partial == NULL || result->budget->kind != BUDGET_TEMPORARY)) {
        /* A partial sum is a lower bound, so it can fail. A partial share is not: the missing part
         * could lower it. */
        result->state = BUDGET_FAILS;
    } else if (result->high <= result->limit + slack && partial == NULL) {
        result->state = BUDGET_HOLDS;
    } else {
        result->state = BUDGET_UNDECIDABLE;
        if (partial != NULL) {
            result->reason = partial;
            return;
        }
        result->deciding_interval_bytes = deciding_interval(result, interval_bytes);
        result->reason = is_nothing(result) ? "nothing was sampled, which may be chance"
                                            : "the limit is inside the 95 % interval";
    }
}

static void judge_heap(struct budget_result *result)
{
    const char *partial = budget_why_partial(result->heap, result->dump);
    budget_judge(result, partial, result->heap->interval_bytes);
    const char *frees = why_frees_matter(result, result->heap);
    if (frees != NULL) {
        result->state = BUDGET_UNDECIDABLE;
        result->reason = frees;
    }
}

static void set_estimate(struct budget_result *result, const struct sum *sum,
                         const struct profile_heap *heap, const struct profile_dump *dump)
{
    const struct estimate_shown shown = estimate_total_of(&sum->all, false, heap, dump);
    struct profile_interval interval = shown.interval;
    result->value = shown.value;
    result->low = interval.low;
    result->high = interval.high;
    result->exact = profile_dump_is_exact(heap, dump);
    if (all_is_recorded(heap))
        result->low = result->high = result->value;
}

void budget_set_exact(struct budget_result *result, double value)
{
    result->value = result->low = result->high = value;
    result->exact = true;
}

/*
 * Set the share of temporary allocations and its limits. It is a ratio R = t/a of two sums, and t
 * is a part of a. Its variance is the variance of the sum over samples of (temporary - R) w,
 * divided by a^2 (Cochran, 1977, 2.29). The profile does not record how the variance divides
 * between temporary and other samples, but that sum's variance is at most max(R, 1 - R)^2 times the
 * variance of a.
 */
static void set_temporary(struct budget_result *result, const struct profile_heap *heap,
                          const struct profile_dump *dump)
{
    const struct trace_figures *all = &dump->total;
    double share = all->allocated_count > 0 ? all->temporary_count / all->allocated_count : 0;
    double deviation =
        all->allocated_count > 0 ? sqrt(all->allocated_count_variance) / all->allocated_count : 0;
    double width = DEVIATIONS * fmax(share, 1 - share) * deviation;
    result->value = share;
    result->low = fmax(share - width, 0);
    result->high = fmin(share + width, 1);
    result->exact = profile_dump_is_exact(heap, dump);
    if (all_is_recorded(heap))
        result->low = result->high = share;
    else if (all->samples == 0)
        result->high = profile_has_totals(heap, dump) && dump->exact_calls == 0 ? 0 : 1;
}

void budget_set_unknown(struct budget_result *result, const char *reason)
{
    result->state = BUDGET_UNDECIDABLE;
    result->reason = reason;
    result->unknown = true;
}

/* Return whether the profile does not contain the budget's figure: imported files contain fewer. */
static bool is_unknown(const struct profile_heap *heap, const struct profile_dump *dump,
                       enum budget_kind kind)
{
    switch (kind) {
    case BUDGET_PEAK:
        return export_view_is_unknown(heap, EXPORT_MAX);
    case BUDGET_ALLOCATED:
        return !profile_has_totals(heap, dump) && export_view_is_unknown(heap, EXPORT_ALLOC_SPACE);
    case BUDGET_ALLOCATIONS:
        return !profile_has_totals(heap, dump) &&
               export_view_is_unknown(heap, EXPORT_ALLOC_OBJECTS);
    case BUDGET_TEMPORARY:
        return (heap->unknown & PROFILE_UNKNOWN_TEMPORARY) != 0;
    default:
        return export_view_is_unknown(heap, EXPORT_SPACE);
    }
}

static int check_heap(const struct budgets *budgets, const struct budget_subject *subject,
                      struct budget_result *result)
{
    const struct budget *budget = result->budget;
    const struct profile_dump *dump = result->dump;
    struct sum sum;
    bool is_judged = true;
    if (result->heap->unseen) {
        budget_set_unknown(result, profile_heap_why_unseen(result->heap));
        return 0;
    }
    if (is_unknown(result->heap, dump, budget->kind)) {
        budget_set_unknown(result, budget_unknown_reason);
        return 0;
    }
    sum_begin(&sum, subject);
    switch (budget->kind) {
    case BUDGET_PEAK:
        sum_of(dump, DIFF_PEAK, &sum);
        set_estimate(result, &sum, result->heap, dump);
        break;
    case BUDGET_ALLOCATED:
    case BUDGET_ALLOCATIONS:
        sum_of(dump, DIFF_ALLOCATED, &sum);
        set_estimate(result, &sum, result->heap, dump);
        if (budget->kind == BUDGET_ALLOCATIONS && !profile_has_totals(result->heap, dump)) {
            struct profile_interval interval =
                profile_interval_of_count(&sum.all, result->heap->interval_bytes);
            result->value = sum.all.count;
            result->low = interval.low;
            result->high =
                unseen_raise(interval, sum.all.count, unseen_of(result->heap, dump, true)).high;
        } else if (profile_has_totals(result->heap, dump)) {
            budget_set_exact(result, budget->kind == BUDGET_ALLOCATIONS
                                         ? (double)dump->exact_calls
                                         : (double)dump->exact_bytes);
            result->state = result->value > result->limit ? BUDGET_FAILS : BUDGET_HOLDS;
            const char *partial = budget_why_totals_partial(result->heap, dump);
            result->exact = partial == NULL;
            if (budget_totals_decide_nothing(result->state, partial,
                                             profile_disagrees(result->heap, dump))) {
                result->state = BUDGET_UNDECIDABLE;
                result->reason = partial;
            }
            is_judged = false;
        }
        break;
    case BUDGET_TEMPORARY:
        set_temporary(result, result->heap, dump);
        break;
    default:
        sum_live(budgets, subject->profile, dump, budget->pattern, &sum);
        set_estimate(result, &sum, result->heap, dump);
        break;
    }
    if (is_judged)
        judge_heap(result);
    int code = sum_end(&sum, result);
    /* The heaviest rows by bytes need not be those with most calls. */
    if (budget->kind == BUDGET_ALLOCATIONS && !is_judged)
        result->culprits[0] = PROFILE_NONE;
    return code;
}

/* --- all budgets --- */

static struct budget_result *add_result(struct budget_report *report, const struct budget *budget,
                                        const struct export_dump *dump)
{
    if (ARRAY_RESERVE(&report->results, &report->capacity, report->count, 1) < 0)
        return NULL;
    struct budget_result *result = &report->results[report->count++];
    *result = (struct budget_result){.budget = budget, .limit = budget->limit, .reason = ""};
    for (int i = 0; i < BUDGET_CULPRITS; i++)
        result->culprits[i] = PROFILE_NONE;
    if (dump != NULL) {
        result->heap = dump->heap;
        result->dump = dump->dump;
    }
    return result;
}

bool budget_counts_unprofiled(const struct budget_subject *subject, size_t index)
{
    /* Unprofiled processes do not count if the user named the processes to profile. */
    const struct profile_unprofiled *process = &subject->profile->unprofiled[index];
    /* Neither does a program that could load the library and never allocated. */
    return !subject->only_profiled && !process->by_choice && strcmp(process->kind, "quiet") != 0;
}

/* Add an undecidable result if processes ran unprofiled: they may exceed any limit. */
static int check_unprofiled(const struct budget *budget, const struct budget_subject *subject,
                            struct budget_report *report)
{
    struct budget_result *result = NULL;
    for (size_t i = 0; i < subject->profile->unprofiled_count; i++) {
        if (!budget_counts_unprofiled(subject, i))
            continue;
        if (result == NULL) {
            result = add_result(report, budget, NULL);
            if (result == NULL)
                return -ENOMEM;
            budget_set_unknown(result, subject->profile->unprofiled[i].reason);
            result->unprofiled = &subject->profile->unprofiled[i];
        }
        /* The number of processes in an entry may be unknown (0): count one. */
        uint64_t count = subject->profile->unprofiled[i].count;
        result->unprofiled_count += count > 0 ? (size_t)count : 1;
    }
    return 0;
}

/* Processes of the baseline that ran unprofiled may have had any part of the growth. A trace
 * compared with itself has its own result for them. */
static void apply_unprofiled_before(const struct budget_subject *subject,
                                    const struct budget_subject *baseline,
                                    struct budget_result *result)
{
    const struct baseline_file *saved = baseline->saved;
    bool found = saved != NULL && saved->unprofiled && !baseline->only_profiled;
    size_t count = saved != NULL || subject->is_baseline ? 0 : baseline->profile->unprofiled_count;
    for (size_t i = 0; i < count; i++)
        found |= budget_counts_unprofiled(baseline, i);
    if (found) {
        result->state = BUDGET_UNDECIDABLE;
        result->exact = false;
        result->deciding_interval_bytes = 0;
        result->reason = "processes of the baseline ran and were not profiled (--only-profiled "
                         "leaves them out)";
    }
}

int budgets_check(struct budgets *budgets, const struct budget_subject *subject,
                  const struct budget_subject *baseline, struct budget_report *report)
{
    count_suppressed(budgets, subject);
    for (size_t i = 0; i < budgets->count; i++) {
        const struct budget *budget = &budgets->items[i];
        if (budget_is_growth(budget->kind) && baseline == NULL)
            continue;
        if (check_unprofiled(budget, subject, report) < 0)
            return -ENOMEM;
        if (budget_is_growth(budget->kind)) {
            struct budget_result *result = add_result(report, budget, NULL);
            if (result == NULL)
                return -ENOMEM;
            if (budget_check_growth(budgets, subject, baseline, result) < 0)
                return -ENOMEM;
            apply_unprofiled_before(subject, baseline, result);
            continue;
        }
        for (size_t j = 0; j < subject->dump_count; j++) {
            struct budget_result *result = add_result(report, budget, &subject->dumps[j]);
            if (result == NULL || check_heap(budgets, subject, result) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

void budget_report_clear(struct budget_report *report)
{
    free(report->results);
    *report = (struct budget_report){0};
}
