/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the results of budgets for people, scripts and CI systems. */
#ifndef HEAPPROFD_TOOLS_PRINT_CHECK_REPORT_H
#define HEAPPROFD_TOOLS_PRINT_CHECK_REPORT_H

#include <stdio.h>

#include "profile/compare/budgets.h"
#include "profile/folding.h"

struct check_page {
    const struct profile *profile;
    const struct budgets *budgets;
    const struct budget_report *report;
    const char *budgets_path; /* NULL: no budget file */
    bool undecided_passes;
    struct folding folding;
    size_t columns; /* of a line of text; 0: unlimited */
};

void check_report_text(const struct check_page *page, FILE *out);
void check_report_json(const struct check_page *page, FILE *out);
void check_report_junit(const struct check_page *page, FILE *out);
/* Print ::error and ::warning lines, which GitHub shows beside the source. */
void check_report_github(const struct check_page *page, FILE *out);
/* Print a summary in GitHub's Markdown. */
void check_report_markdown(const struct check_page *page, FILE *out);

/* Return the number of results in a state. */
size_t check_report_count(const struct budget_report *report, enum budget_state state);

/* --- parts of a result, as all formats write them --- */

const char *check_state_name(enum budget_state state);
/* Write the budget, for example "max-leak parse_*=64k". */
void check_title(const struct budget_result *result, char *buffer, size_t size);
/* Write the finding, for example "70.1 kB (60.3 to 85.2 kB); ...". */
void check_finding(const struct budget_result *result, char *buffer, size_t size);
/* Write the subject, for example "example 4711, libc.malloc", or without pids. */
void check_subject(const struct profile *profile, const struct budget_result *result, bool pids,
                   char *buffer, size_t size);

/* Return whether the result's culprits are worth printing. */
bool check_has_culprits(const struct budget_result *result);
/* Print a culprit, "400 kB function [module] < caller ...". columns: of the line, or 0. */
void check_print_culprit(const struct check_page *page, const struct budget_result *result,
                         int index, size_t columns, FILE *out);

#endif
