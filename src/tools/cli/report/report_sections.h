/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses and orders the sections of the text report, one for each heap. The process with the
 * largest heap comes first, and within a process its largest heap. If there are several processes,
 * a table of them precedes the sections.
 */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_REPORT_SECTIONS_H
#define HEAPPROFD_TOOLS_CLI_REPORT_REPORT_SECTIONS_H

#include "tools/cli/report/report_tables.h"

struct report_section {
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    double rank;             /* in the report's view */
    struct rollup_size size; /* decides between equal ranks */
    bool unseen;             /* the process was never profiled: the section has the reason */
    size_t process;          /* rank of its process, from 0 */
    bool hidden;             /* left out, because the report is long enough */
};

struct report_sections {
    struct report_section *items;
    size_t count, process_count;           /* processes: only profiled ones */
    size_t hidden_heaps, hidden_processes; /* heaps: only those of processes that are shown */
    size_t hidden_wrappers;                /* heaps from before an exec, of processes shown */
};

/* Collect all sections that the options ask for. */
void report_sections_make(struct report_sections *sections, const struct profile *profile,
                          const struct report_options *options);
void report_sections_clear(struct report_sections *sections);

/* Print the table of processes, if there are several. */
void report_sections_print_processes(const struct report_sections *sections,
                                     const struct profile *profile,
                                     const struct report_options *options, FILE *out);
/* Print how much was left out. Call it after the sections are printed. */
void report_sections_print_hidden(const struct report_sections *sections,
                                  const struct report_options *options, FILE *out);

#endif
