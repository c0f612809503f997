/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the judges of budgets: budgets_check.c has those of a run, budgets_growth.c those of
 * the growth between two. */
#ifndef HEAPPROFD_PROFILE_COMPARE_BUDGETS_JUDGE_H
#define HEAPPROFD_PROFILE_COMPARE_BUDGETS_JUDGE_H

#include "profile/compare/budgets.h"

/* Judge a result whose value, low, high and limit are set. `partial`: why the figure may lack
 * something, or NULL. */
void budget_judge(struct budget_result *result, const char *partial, uint64_t interval_bytes);

void budget_set_exact(struct budget_result *result, double value);
void budget_set_unknown(struct budget_result *result, const char *reason);

/* Return whether the exact totals cannot decide a budget that they put into this state: a total
 * that lacks calls can only fail, and one that disagrees with the samples cannot do that, either.
 */
bool budget_totals_decide_nothing(enum budget_state state, const char *partial, bool disagree);

/* Judge the growth of `subject` beyond `baseline`. Return 0 or -ENOMEM. */
int budget_check_growth(const struct budgets *budgets, const struct budget_subject *subject,
                        const struct budget_subject *baseline, struct budget_result *result);

#endif
