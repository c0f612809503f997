/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which heaps of two profiles are compared with each other; see diff.h. */
#ifndef HEAPPROFD_PROFILE_COMPARE_DIFF_PAIRS_H
#define HEAPPROFD_PROFILE_COMPARE_DIFF_PAIRS_H

#include "profile/compare/diff.h"

/* Fill diff->pairs, except for their rows. Return 0 or -ENOMEM. */
int diff_pairs_make(const struct diff_side *before, const struct diff_side *after,
                    enum diff_pairing by, struct diff *diff);

/* Set the program's base name on each side, if one program has two names; else set both NULL. */
void diff_pairs_programs(const struct diff_side *before, const struct diff_side *after,
                         const struct diff *diff, const char *programs[2]);

#endif
