/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the call stacks of a difference's rows, as reports show them. */
#ifndef HEAPPROFD_TOOLS_PRINT_COMPARE_STACKS_H
#define HEAPPROFD_TOOLS_PRINT_COMPARE_STACKS_H

#include <stdio.h>

#include "profile/compare/diff.h"
#include "tools/print/row_stacks.h"

/* How the stacks of both sides are printed. */
struct compare_stacks {
    const struct profile *profiles[2]; /* the first may be NULL */
    struct folding foldings[2];
    bool all_frames, lines;
    bool simple;    /* names without parameters, even if the profiles have them */
    size_t columns; /* of a line; 0: unlimited */
};
/* Set the other members from all_frames and profiles. */
void compare_stacks_make(struct compare_stacks *stacks);
void compare_stacks_clear(struct compare_stacks *stacks);
/* Return the format for rows of a profile, after the given number of columns for figures. */
struct stack_format compare_stacks_format(const struct compare_stacks *stacks,
                                          const struct profile *profile, size_t figures);
/* The stacks of a row on the side that is printed: after a growth the later one. */
struct compare_row_stacks {
    const struct profile *profile;
    /* Those that changed the row's way, by how much: the most changed is the first. */
    struct row_stack *items;
    size_t count;
};
/* Return the stacks of a row by callsite, whose pair lists them; the caller frees .items. */
struct compare_row_stacks compare_row_stacks_of(const struct compare_stacks *stacks,
                                                const struct diff_pair *pair,
                                                const struct diff_row *row, enum export_view view);

/* Print a row by callsite after `figures` columns, as a report does. If the pair lists stacks,
 * print the one that changed most in the view. With `whole`, print its frames below the row. */
void compare_print_row(const struct compare_stacks *stacks, const struct diff_pair *pair,
                       const struct diff_row *row, enum export_view view, bool whole,
                       size_t figures, FILE *out);

#endif
