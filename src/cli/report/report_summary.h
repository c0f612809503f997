/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first lines of a heap's section: what its profile says, in sentences. They name what holds
 * most, what made the peak, who churns and what part of the process's memory the heaps are, each
 * with its figure, and only where it matters. The tables below them have the same figures.
 */
#ifndef HEAPPROFD_CLI_REPORT_REPORT_SUMMARY_H
#define HEAPPROFD_CLI_REPORT_REPORT_SUMMARY_H

#include "cli/report/report_tables.h"

/* Print the sentences. `has_process`: also those about the whole process. */
void report_summary_print(const struct printer *printer, bool has_process);

#endif
