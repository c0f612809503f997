/* SPDX-License-Identifier: Apache-2.0 */
/* Judges which differences are beyond chance; see estimate_change.h. */
#ifndef HEAPPROFD_PROFILE_COMPARE_DIFF_SIGNIFICANCE_H
#define HEAPPROFD_PROFILE_COMPARE_DIFF_SIGNIFICANCE_H

#include "profile/compare/diff.h"

/* Set the bounds of a pair, and the changes and marks of its total and rows, from their parts.
 * Return 0 or -ENOMEM. */
int diff_judge_significance(const struct diff_options *options, struct diff_pair *pair);

#endif
