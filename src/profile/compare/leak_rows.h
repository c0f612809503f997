/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a heap that hold memory, or have grown, with how each lives: potential leaks first.
 * Reports and the page show the same rows. */
#ifndef HEAPPROFD_PROFILE_COMPARE_LEAK_ROWS_H
#define HEAPPROFD_PROFILE_COMPARE_LEAK_ROWS_H

#include "profile/compare/growth.h"
#include "profile/compare/turnover.h"

struct leak_rows {
    const struct diff_pair *pair;
    struct growth_list grown, shrunk;
    struct turnover *turnovers; /* by row of the pair */
    bool has_trends;            /* of a row it is known whether it grows */
    size_t leak_count;          /* potential leaks in `grown` */
    double growing;             /* bytes of entries that grow */
};

/* What a pair is of: the profile of its later side, and whether it has an earlier side to compare
 * with. Without one, all that is live has grown. */
struct leak_rows_of {
    const struct profile *after;
    bool is_difference;
};

/* Make the rows of a pair, which must list its stacks (struct diff_options). Return 0 or -ENOMEM.
 * leak_rows_clear() frees them in any case. */
int leak_rows_make(struct leak_rows *rows, const struct diff_pair *pair,
                   const struct leak_rows_of *of, const struct growth_options *options);
void leak_rows_clear(struct leak_rows *rows);

static inline const struct turnover *leak_rows_turnover(const struct leak_rows *rows,
                                                        const struct diff_row *row)
{
    return &rows->turnovers[row - rows->pair->rows];
}

/* If the profile is only too short to tell a leak, return the time that it needs. Else return 0. */
uint64_t leak_rows_lack_ms(const struct leak_rows *rows, const struct leak_rows_of *of);

#endif
