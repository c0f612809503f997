/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a list of rows with what each holds, or has grown by, in bytes and allocations. */
#ifndef HEAPPROFD_TOOLS_CLI_COMPARE_GROWTH_TABLE_H
#define HEAPPROFD_TOOLS_CLI_COMPARE_GROWTH_TABLE_H

#include "profile/compare/growth.h"
#include "tools/cli/compare/compare_format.h"

#define GROWTH_TABLE_INDENT "              " /* of lines below a row */

struct growth_table {
    const struct compare_stacks *stacks;
    const struct diff_pair *pair;
    uint64_t top;                   /* rows; 0: all */
    bool is_growth;                 /* figures have signs; else the rows hold them */
    bool marks_bytes, marks_counts; /* a figure beyond chance is marked */
    bool whole;                     /* whole stacks below the rows */
    /* Print more lines below a row; NULL: print no more. */
    void (*print_below)(const void *context, const struct diff_row *row, FILE *out);
    const void *context;
};

/* Print the table; nothing if the list is empty. Return whether a figure is marked. */
bool growth_table_print(const struct growth_table *table, const struct growth_list *list,
                        FILE *out);

#endif
