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

/* Lines of one function in a row: more tell nobody where to look. */
#define ROW_LINES_MAX 64u

/* The lines at which a row's first function of the program stands. */
struct row_lines {
    struct row_line {
        const char *file;
        uint32_t number;
        double change, heaviest; /* of its stacks */
        uint32_t callsite;       /* of the heaviest one that may be shown; PROFILE_NONE: none may */
    } known[ROW_LINES_MAX];
    uint32_t count;
    bool is_unknown; /* of a stack, or there are too many */
};

/* Add a stack with what changed in it, and the weight by which it is shown; below 0: it is not. */
void row_lines_add(struct row_lines *lines, const struct folding *folding,
                   const struct profile *profile, uint32_t callsite, double change, double weight);

/* Return the number of lines that may be shown. Set the callsite to that of the line with the
 * greatest change in the direction (1 or -1). 0: they are unknown, and the callsite stays. */
uint32_t row_lines_most(const struct row_lines *lines, double direction, uint32_t *callsite);

/* Return the frame of the function of the run time that most of the row's memory is for
 * (folding_run_time()), or PROFILE_NONE. */
uint32_t row_stacks_run_time(const struct folding *folding, const struct profile *profile,
                             const struct row_stack *stacks, size_t count);

/* Print the callers at which the stacks part, further out than the row shows, with their shares of
 * it: "cmd_log 62 %, cmd_diff 30 %, 3 others". Return false without a word if they do not part. */
bool row_stacks_print_parts(const struct folding *folding, const struct profile *profile,
                            const struct row_stack *stacks, size_t count, FILE *out);

/* Print a row's function and its callers, and end the line. If it adds up several stacks, its last
 * callers are those at which they part, and its source line is that of most of them, with the
 * number of the others. `callsite`: of the heaviest stack, which is shown if the lines are unknown.
 */
void row_stacks_print(const struct stack_format *format, uint32_t callsite,
                      const struct row_stack *stacks, size_t count, FILE *out);

#endif
