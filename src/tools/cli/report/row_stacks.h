/* SPDX-License-Identifier: Apache-2.0 */
/* What the stacks that a row adds up have in common, and the callers at which they part. */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_ROW_STACKS_H
#define HEAPPROFD_TOOLS_CLI_REPORT_ROW_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/folding.h"
#include "tools/print/stack_format.h"

struct row_stack {
    uint32_t callsite;
    double rank;
    const struct profile_sample *sample; /* in a row of one dump */
};

/* Return at how many lines the row's first function of the program stands in them. 0: unknown, for
 * one of them, or too many. */
uint32_t row_stacks_lines(const struct folding *folding, const struct profile *profile,
                          const struct row_stack *stacks, size_t count);

/* Return the frame of the function of the run time that most of the row's memory is for
 * (folding_run_time()), or PROFILE_NONE. */
uint32_t row_stacks_run_time(const struct folding *folding, const struct profile *profile,
                             const struct row_stack *stacks, size_t count);

/* Print the callers at which the stacks part, further out than the row shows, with their shares of
 * it: "cmd_log 62 %, cmd_diff 30 %, 3 others". Return false without a word if they do not part. */
bool row_stacks_print_parts(const struct folding *folding, const struct profile *profile,
                            const struct row_stack *stacks, size_t count, FILE *out);

/* Print a row's function and its callers, and end the line. If it adds up several stacks, its last
 * callers are those at which they part, and its source line is that of the heaviest, whose callsite
 * is `callsite`, with the number of the others. */
void row_stacks_print(const struct stack_format *format, uint32_t callsite,
                      const struct row_stack *stacks, size_t count, FILE *out);

#endif
