/* SPDX-License-Identifier: Apache-2.0 */
/* Why a profile's figures cannot decide a budget, in words for people. */
#ifndef HEAPPROFD_PROFILE_COMPARE_BUDGET_REASONS_H
#define HEAPPROFD_PROFILE_COMPARE_BUDGET_REASONS_H

#include "profile/profile.h"

/* Return why the exact totals may miss a part of the process's allocations, or NULL if they
 * cannot. */
const char *budget_why_totals_partial(const struct profile_heap *heap,
                                      const struct profile_dump *dump);

/* Return why the estimates may miss a part, or NULL if they cannot. */
const char *budget_why_partial(const struct profile_heap *heap, const struct profile_dump *dump);

extern const char budget_unknown_reason[], budget_lost_frees[];

#endif
