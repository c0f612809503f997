/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the report for people consists of below its head: tables of callsites, functions, threads,
 * groups, and the tree; and the words that head and tables share.
 */
#ifndef HEAPPROFD_CLI_REPORT_REPORT_TABLES_H
#define HEAPPROFD_CLI_REPORT_REPORT_TABLES_H

#include "cli/print/format.h"
#include "cli/print/stack_format.h"
#include "cli/report/report.h"
#include "cli/report/report_gaps.h"

#define PRINTER_COMMAND_WIDTH 4096 /* as much as the profile keeps */
#define PRINTER_MODULE_WIDTH 255

/* Lines of the sections that follow the main table, and of what is in a group. */
#define PRINTER_SECTION_LINES 5

struct printer {
    const struct profile *profile;
    struct rollup_tables *tables;   /* what all heaps share */
    struct report_gap_finder *gaps; /* likewise */
    const struct report_options *options;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    struct stack_format words;
    bool is_narrow; /* no room for all figures */
    FILE *out;
};

/* Whether allocations are missing from the figures (not only stacks or frees). */
bool printer_is_partial(const struct printer *printer);
bool printer_is_exact(const struct printer *printer);

/* "± 12 kB"; "-8 kB +20 kB" where the two sides differ by a quarter, which they do for few
 * samples; or "exact": at interval 1 what was recorded has no error, but is not all. */
struct formatted printer_margin(const struct printer *printer, const struct report_figure *figure,
                                bool counts);
/* The same for a sum over the whole heap. */
struct formatted printer_total_margin(const struct printer *printer,
                                      const struct report_figure *total, bool counts);

/* The command line; the program's name where it is empty, as a kernel thread's is, and that of a
 * program that has overwritten its arguments. */
const char *report_process_title(const struct profile_process *process);

const char *printer_view_title(enum report_view view);
void printer_title(const struct printer *printer, const char *title);

/* Print the head of a table of the figures below. `what` is its last column. */
void printer_columns(const struct printer *printer, enum report_view view, const char *what);
/* Print a line's figures, up to where its last column begins. */
void printer_figures(const struct printer *printer, const struct report_figure *figure,
                     double total, enum report_view view);
/* Print a frame's function and module, or its address, after `used` columns of a row's text. */
void printer_frame(const struct printer *printer, uint32_t index, size_t used);

/* Print the table. with_stacks: also print the whole stacks of its first rows. */
void printer_callsites(const struct printer *printer, enum report_view view, size_t top,
                       const char *title, bool with_stacks);
/* Choose the columns of tables by the width of the output. folding NULL: fold nothing. */
void printer_set_words(struct printer *printer, const struct folding *folding);
void printer_temporary(const struct printer *printer);
void printer_rollup(const struct printer *printer, enum rollup_key key, const char *title);
void printer_groups(const struct printer *printer);
/* report_tree.c */
void printer_tree(const struct printer *printer);

#endif
