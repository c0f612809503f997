/* SPDX-License-Identifier: Apache-2.0 */
/* The files that check writes. Each function returns 0, or a negative errno after printing a
 * message. */
#ifndef HEAPPROFD_TOOLS_CLI_COMPARE_CHECK_OUTPUTS_H
#define HEAPPROFD_TOOLS_CLI_COMPARE_CHECK_OUTPUTS_H

#include "tools/print/check_report.h"

int check_write_junit(const struct check_page *page, const char *path);
/* Append the summary to the file: several steps of a job may share it. */
int check_write_summary(const struct check_page *page, const char *path);
/* Write the run as a baseline file, and say what will be undecidable with it. */
int check_write_baseline(const struct budgets *budgets, const struct budget_subject *subject,
                         const char *path);

#endif
