/* SPDX-License-Identifier: Apache-2.0 */
/* Formats the parts of a budget's result that all report formats share. */
#ifndef HEAPPROFD_CLI_COMPARE_CHECK_FORMAT_H
#define HEAPPROFD_CLI_COMPARE_CHECK_FORMAT_H

#include "cli/compare/check_report.h"
#include "cli/print/format.h"

const char *check_state_name(enum budget_state state);
/* Write the budget, for example "max-leak parse_*=64k". */
void check_title(const struct budget_result *result, char *buffer, size_t size);
/* Write the finding, for example "70.1 kB (95 %: 60 kB to 80 kB); ...". */
void check_finding(const struct budget_result *result, char *buffer, size_t size);
/* Write the subject, for example "example 4711, libc.malloc". */
void check_subject(const struct profile *profile, const struct budget_result *result, char *buffer,
                   size_t size);
#endif
