/* SPDX-License-Identifier: Apache-2.0 */
/* What came of budgets, for people, scripts and CI systems, from the same results. */
#ifndef HEAPPROFD_CLI_COMPARE_CHECK_REPORT_H
#define HEAPPROFD_CLI_COMPARE_CHECK_REPORT_H

#include <stdio.h>

#include "compare/budgets.h"
#include "profile/folding.h"

struct check_page {
    const struct profile *profile;
    const struct budgets *budgets;
    const struct budget_report *report;
    const char *budgets_path; /* NULL: there is no file of them */
    bool undecided_passes;
    struct folding folding;
};

void check_report_text(const struct check_page *page, FILE *out);
void check_report_json(const struct check_page *page, FILE *out);
void check_report_junit(const struct check_page *page, FILE *out);
/* ::error and ::warning lines, which GitHub shows beside the source. */
void check_report_github(const struct check_page *page, FILE *out);

/* How many results are so. */
size_t check_report_count(const struct budget_report *report, enum budget_state state);

#endif
