/* SPDX-License-Identifier: Apache-2.0 */
/* Judges budgets of growth: what a run has beyond a baseline, which is a profile or a baseline
 * file. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/baseline_file.h"
#include "profile/compare/budget_reasons.h"
#include "profile/compare/budgets_judge.h"
#include "profile/compare/estimate_change.h"
#include "profile/compare/growth_rows.h"

static enum growth_figure budgets_growth_figure_of(enum budget_kind kind)
{
    switch (kind) {
    case BUDGET_PEAK_GROWTH:
        return GROWTH_PEAK;
    case BUDGET_ALLOCATED_GROWTH:
        return GROWTH_ALLOCATED;
    case BUDGET_ALLOCATIONS_GROWTH:
        return GROWTH_CALLS;
    default:
        return GROWTH_LIVE;
    }
}

static const char *why_unseen(const struct budget_subject *subject)
{
    for (size_t i = 0; i < subject->dump_count; i++)
        if (subject->dumps[i].heap->unseen)
            return profile_heap_why_unseen(subject->dumps[i].heap);
    return NULL;
}

/* --- the rows that grew --- */

struct grown {
    uint32_t callsite;
    double least, most;
};

/* Keep the rows that grew most, the one that certainly grew most first. */
static void keep_largest(struct grown grown[BUDGET_CULPRITS], struct grown one)
{
    for (int i = 0; i < BUDGET_CULPRITS; i++) {
        if (!(one.least > grown[i].least))
            continue;
        struct grown lighter = grown[i];
        grown[i] = one;
        one = lighter;
    }
}

/* Find the rows that grew most. `before` is NULL if the baseline is a file. */
static int find_culprits(const struct growth_side *after, const struct growth_side *before,
                         const struct baseline_file *saved, enum growth_figure figure,
                         struct budget_result *result)
{
    struct grown grown[BUDGET_CULPRITS] = {0};
    struct growth_rows old = {0}, new;
    if (before != NULL && growth_rows_make(before, figure, &old) < 0)
        return -ENOMEM;
    if (growth_rows_make(after, figure, &new) < 0) {
        growth_rows_clear(&old);
        return -ENOMEM;
    }
    for (size_t i = 0; i < new.count; i++) {
        const struct growth_row *row = &new.rows[i];
        const struct growth_row *found = growth_rows_find(&old, row->text);
        double had = found != NULL ? found->amounts[figure] : 0, most = had;
        if (saved != NULL)
            had = baseline_file_stack(saved, row->text, figure, &most);
        const struct grown one = {row->callsite, row->amounts[figure] - most,
                                  row->amounts[figure] - had};
        keep_largest(grown, one);
    }
    for (int i = 0; i < BUDGET_CULPRITS && grown[i].least > 0; i++) {
        result->culprits[i] = grown[i].callsite;
        result->culprit_bytes[i] = grown[i].most;
        result->culprit_at_most[i] = grown[i].most > grown[i].least;
    }
    growth_rows_clear(&new);
    growth_rows_clear(&old);
    return 0;
}

/* --- verdicts --- */

/* Judge the growth of a total that is counted at any interval. */
static void judge_counted(const struct growth_amount *before, const struct growth_amount *after,
                          bool is_baseline, struct budget_result *result)
{
    budget_set_exact(result, is_baseline ? 0 : after->value - before->value);
    result->exact = before->partial_before == NULL && after->partial == NULL;
    result->state = result->value > result->limit ? BUDGET_FAILS : BUDGET_HOLDS;
    if (before->partial_before != NULL ||
        budget_totals_decide_nothing(result->state, after->partial, after->disagrees)) {
        result->state = BUDGET_UNDECIDABLE;
        result->reason = before->partial_before != NULL ? before->partial_before : after->partial;
    }
}

/* Judge after - before, whose limits are MOVER's (estimate_change.h). For a limit that is a share
 * of the baseline, the margin covers after - (1 + share) before. */
static void judge_estimates(const struct growth_amount *before, const struct growth_amount *after,
                            bool is_baseline, struct budget_result *result)
{
    double scale = 1 + (result->budget->share ? result->budget->limit : 0), old = before->value;
    result->value = after->value - old;
    /* The baseline's margin scaled by 1 + share, but around its own value. */
    struct profile_interval down = {old - scale * (old - before->interval.low),
                                    old + scale * (before->interval.high - old)};
    struct profile_interval interval = change_interval(after->value, after->interval, old, down);
    result->low = interval.low;
    result->high = interval.high;
    result->exact = after->exact && before->exact;
    if (before->partial_before != NULL) {
        result->state = BUDGET_UNDECIDABLE;
        result->reason = before->partial_before;
    } else if (is_baseline) {
        budget_set_exact(result, 0);
        result->state = BUDGET_HOLDS;
    } else if (before->lacks_frees || after->lacks_frees) {
        result->state = BUDGET_UNDECIDABLE;
        result->reason = budget_lost_frees;
    } else {
        uint64_t interval_bytes = after->interval_bytes;
        if (before->interval_bytes == 0 ||
            (interval_bytes > 0 && before->interval_bytes > interval_bytes))
            interval_bytes = before->interval_bytes;
        budget_judge(result, after->partial, interval_bytes);
    }
}

static void judge_growth(const struct growth_amount *before, const struct growth_amount *after,
                         const struct budget_subject *subject, struct budget_result *result)
{
    const struct budget *budget = result->budget;
    const char *unknown = before->unknown != NULL ? before->unknown : after->unknown;
    if (unknown == NULL && before->absent && after->absent && growth_heap_pattern(budget->pattern))
        unknown = "neither run has a heap of this name";
    if (unknown != NULL) {
        budget_set_unknown(result, unknown);
        return;
    }
    result->limit = budget->share ? budget->limit * before->value : budget->limit;
    result->before = before->value;
    result->after = after->value;
    /* One side may have no such heap: its zero is exact. */
    if (before->counted || after->counted)
        judge_counted(before, after, subject->is_baseline, result);
    else
        judge_estimates(before, after, subject->is_baseline, result);
}

/* Measure both sides. `old` is not opened if the baseline is a file. */
static int check_sides(struct growth_side *new, struct growth_side *old,
                       const struct budgets *budgets, const struct budget_subject *baseline,
                       struct budget_result *result)
{
    const char *pattern = result->budget->pattern;
    enum growth_figure figure = budgets_growth_figure_of(result->budget->kind);
    bool is_file = baseline->saved != NULL;
    if (growth_side_choose(new, pattern) < 0 || (!is_file && growth_side_choose(old, pattern) < 0))
        return -ENOMEM;
    const struct growth_amount after = growth_side_measure(new, figure);
    const struct growth_amount before =
        is_file ? baseline_file_find(baseline->saved, budgets, baseline, pattern, figure)
                : growth_side_measure(old, figure);
    judge_growth(&before, &after, new->subject, result);
    if (result->unknown || result->state == BUDGET_HOLDS || !(result->value > 0))
        return 0;
    return find_culprits(new, is_file ? NULL : old, baseline->saved, figure, result);
}

int budget_check_growth(const struct budgets *budgets, const struct budget_subject *subject,
                        const struct budget_subject *baseline, struct budget_result *result)
{
    struct growth_side new, old = {0};
    const char *unseen = why_unseen(baseline);
    if (unseen == NULL)
        unseen = why_unseen(subject);
    if (unseen != NULL) {
        budget_set_unknown(result, unseen);
        return 0;
    }
    if (growth_side_open(&new, budgets, subject) < 0)
        return -ENOMEM;
    int code = baseline->saved == NULL ? growth_side_open(&old, budgets, baseline) : 0;
    if (code == 0)
        code = check_sides(&new, &old, budgets, baseline, result);
    growth_side_close(&new);
    growth_side_close(&old);
    return code;
}
