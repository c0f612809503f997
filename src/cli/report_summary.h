/*
 * Which sections a report for people has, and in what order: the process with the largest heap
 * first, and of a process its largest heap first. Of many processes a table comes before them.
 */
#ifndef HEAPPROFD_CLI_REPORT_SUMMARY_H
#define HEAPPROFD_CLI_REPORT_SUMMARY_H

#include "cli/report_tables.h"

struct report_section {
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    double rank;             /* in the report's view */
    struct rollup_size size; /* where the view does not decide */
    bool unseen;             /* the process was never profiled: a reason stands there */
    size_t process;          /* place of its process in the order, from 0 */
    bool hidden;             /* beyond what a report has room for */
};

struct report_sections {
    struct report_section *items;
    size_t count, process_count;           /* of processes: those that were profiled */
    size_t hidden_heaps, hidden_processes; /* heaps: of processes that are shown */
    size_t hidden_wrappers;                /* heaps from before an exec, likewise */
};

/* All sections that the options ask for. 0 or -ENOMEM. */
int report_sections_make(struct report_sections *sections, const struct profile *profile,
                         const struct report_options *options);
void report_sections_clear(struct report_sections *sections);

/* Print the table of processes, where there are several; and after the sections, what was left
 * out. */
void report_summary_print(const struct report_sections *sections, const struct profile *profile,
                          const struct report_options *options, FILE *out);
void report_summary_print_hidden(const struct report_sections *sections,
                                 const struct report_options *options, FILE *out);

#endif
