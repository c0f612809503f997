/* SPDX-License-Identifier: Apache-2.0 */
/* Formats what tables of differences share: changes, their margins, and call stacks. */
#ifndef HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_FORMAT_H
#define HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_FORMAT_H

#include <stdio.h>

#include "profile/compare/diff.h"
#include "tools/cli/report/row_stacks.h"
#include "tools/print/format.h"
#include "tools/print/stack_format.h"
#include "tools/print/widened.h"

/* Format the 95 % interval of a change as format_margin(), or "exact". */
struct formatted compare_margin(const struct diff_pair *pair, const struct change *change,
                                bool counts);

/* The columns of a change, its mark and its margin. */
struct compare_columns {
    enum export_view view;
    int value_width, margin_width;
    bool is_signed; /* else it is an amount: the change is from nothing */
    bool marks;     /* a change beyond chance is marked */
};
/* Print these columns of a row. Return whether its change is marked. */
bool compare_print_change(const struct compare_columns *columns, const struct diff_pair *pair,
                          const struct diff_row *row, FILE *out);

/* Format the time of a dump since the start of its heap. */
struct formatted compare_time_of(const struct profile_heap *heap, const struct profile_dump *dump);

/* Return whether a side's figures are unknown, because one of its processes was unseen. */
bool compare_is_unseen(const struct export_dump *dumps, size_t count);

/* Return what is said of the side's heap whose interval was widened most, and print it. */
struct widened_text compare_widened(const struct export_dump *dumps, size_t count);
void compare_print_widened(FILE *out, const struct export_dump *dumps, size_t count);

/* For one side's dumps in a view, compute the amount that a filter left out and the amount without
 * a filter. */
void compare_left_out(const struct export_dump *dumps, size_t count, enum export_view view,
                      double *part, double *whole);

/* How the stacks of both sides are printed. */
struct compare_stacks {
    const struct profile *profiles[2]; /* the first may be NULL */
    struct folding foldings[2];
    bool all_frames, lines;
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

/* Print a line about what the filter left out of both sides. Without a filter print nothing. */
void compare_print_filter(FILE *out, const char *filter, const struct diff_pair *pair,
                          enum export_view view);

#endif
