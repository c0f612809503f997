/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the text report (callsites, functions, threads, groups, and the tree), and texts
 * that they share with its header. */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_REPORT_TABLES_H
#define HEAPPROFD_TOOLS_CLI_REPORT_REPORT_TABLES_H

#include "tools/cli/report/report.h"
#include "tools/cli/report/unwind_gaps.h"
#include "tools/print/format.h"
#include "tools/print/stack_format.h"

#define PRINTER_FACT_INDENT 16u /* columns before the text of a fact */

/* Rows of the sections that follow the main table, and of each group's contents. */
#define PRINTER_SECTION_LINES 5

struct printer {
    const struct profile *profile;
    struct sums_tables *tables;     /* shared by all heaps */
    struct unwind_gap_finder *gaps; /* shared by all heaps */
    const struct report_options *options;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    struct stack_format stacks;
    bool is_narrow; /* the line has no room for all figures */
    FILE *out;
};

/* Return whether allocations are missing from the figures (not only stacks or frees). */
bool printer_is_partial(const struct printer *printer);
bool printer_is_exact(const struct printer *printer);

/* Return the command line, or the program's name if it is empty: for kernel threads and programs
 * that have overwritten their arguments. */
const char *report_process_title(const struct profile_process *process);

const char *printer_view_title(enum export_view view);
void printer_title(const struct printer *printer, const char *title);

/* Print the head of a table of the figures below. `what` is its last column. */
void printer_columns(const struct printer *printer, enum export_view view, const char *what);
/* Print a line's figures, up to where its last column begins. */
void printer_figures(const struct printer *printer, const struct profile_estimate *figure,
                     double total, enum export_view view);
/* Print a frame's function and module, or its address, after `used` columns of a row's text. */
void printer_frame(const struct printer *printer, uint32_t index, size_t used);

/* Print the table. with_stacks: also print the whole stacks of its first rows. */
void printer_callsites(const struct printer *printer, enum export_view view, size_t top,
                       const char *title, bool with_stacks);
/* Choose the columns of tables by the width of the output. folding NULL: fold nothing. */
void printer_set_format(struct printer *printer, const struct folding *folding);
void printer_temporary(const struct printer *printer);
void printer_functions(const struct printer *printer);
void printer_threads(const struct printer *printer);
void printer_groups(const struct printer *printer);

/* Print the tree of callers and callees (report_tree.c). */
void printer_tree(const struct printer *printer);

#endif
