/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of one side of a growth: stacks that a table shows alike, as in budgets_check.c, but without
 * lines, so that two builds of a program have the same rows. A row is known by its text,
 * "function [module] < caller < caller", which a baseline file can keep.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_GROWTH_ROWS_H
#define HEAPPROFD_PROFILE_COMPARE_GROWTH_ROWS_H

#include "profile/compare/growth_side.h"
#include "profile/folding.h"
#include "trace/intern.h"

#define GROWTH_ROW_BYTES 512 /* of a text, with its zero */

struct growth_row {
    char *text;
    uint32_t callsite; /* of the heaviest stack */
    double heaviest;
    double amounts[GROWTH_FIGURES];
};

struct growth_rows {
    struct intern_table ids;
    struct growth_row *rows; /* by id - 1 */
    size_t count, capacity;
};

/* Add up the rows of what the side has chosen; the heaviest stack is that of `figure`. Return 0 or
 * -ENOMEM. */
int growth_rows_make(const struct growth_side *side, enum growth_figure figure,
                     struct growth_rows *rows);
void growth_rows_clear(struct growth_rows *rows);

/* Return the row of this text, or NULL. */
const struct growth_row *growth_rows_find(const struct growth_rows *rows, const char *text);

#endif
