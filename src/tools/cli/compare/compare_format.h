/* SPDX-License-Identifier: Apache-2.0 */
/* Formats what tables of differences share: changes, their margins, and what was left out. */
#ifndef HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_FORMAT_H
#define HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_FORMAT_H

#include <stdio.h>

#include "profile/compare/diff.h"
#include "tools/print/compare_stacks.h"
#include "tools/print/format.h"
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

/* Print a line about what the filter left out of both sides. Without a filter print nothing. */
void compare_print_filter(FILE *out, const char *filter, const struct diff_pair *pair,
                          enum export_view view);

#endif
