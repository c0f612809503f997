/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the result of a budget, which all forms of the report share. */
#ifndef HEAPPROFD_CLI_COMPARE_CHECK_FORMAT_H
#define HEAPPROFD_CLI_COMPARE_CHECK_FORMAT_H

#include "cli/compare/check_report.h"
#include "cli/print/format.h"

const char *check_state_name(enum budget_state state);
/* A value in the unit of the budget. */
struct formatted check_amount(const struct budget_result *result, double value);
/* "max-leak parse_*=64k" */
void check_title(const struct budget_result *result, char *buffer, size_t size);
/* "70.1 kB (95 %: 60 kB to 80 kB); ..." */
void check_finding(const struct budget_result *result, char *buffer, size_t size);
/* "example 4711, libc.malloc" */
void check_subject(const struct profile *profile, const struct budget_result *result, char *buffer,
                   size_t size);
#endif
