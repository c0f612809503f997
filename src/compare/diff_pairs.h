/* SPDX-License-Identifier: Apache-2.0 */
/* Which heaps of two profiles are compared with which; see diff.h. */
#ifndef HEAPPROFD_COMPARE_DIFF_PAIRS_H
#define HEAPPROFD_COMPARE_DIFF_PAIRS_H

#include "compare/diff.h"

/* Fills diff->pairs, all but their rows. 0 or -ENOMEM. */
int diff_pairs_make(const struct diff_side *before, const struct diff_side *after,
                    enum diff_pairing by, struct diff *diff);

/* The names of the program on both sides, if it is one program under two names; else both NULL. */
void diff_pairs_programs(const struct diff_side *before, const struct diff_side *after,
                         const struct diff *diff, const char *programs[2]);

#endif
