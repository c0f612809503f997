/* SPDX-License-Identifier: Apache-2.0 */
/* What the stacks that a row adds up have in common, and the callers at which they part. */
#ifndef HEAPPROFD_TOOLS_PRINT_ROW_STACKS_H
#define HEAPPROFD_TOOLS_PRINT_ROW_STACKS_H

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

/* Limit of the source lines of a row's function. With more, the row shows none. */
#define ROW_LINES_MAX 64u

/* The source lines of a row's first function of the program, added up over its stacks. */
struct row_lines {
    struct row_line {
        const char *file;
        uint32_t number;
        double change, heaviest; /* of its stacks */
        uint32_t callsite;       /* of the heaviest one; PROFILE_NONE: none can be printed */
    } known[ROW_LINES_MAX];
    uint32_t count;
    bool is_unknown; /* a stack has no line, or there are too many lines */
};

/* Add a stack. change: its bytes or count. weight: the stack with the greatest is printed for its
 * line; below 0: it cannot be printed, as it is of the other side. */
void row_lines_add(struct row_lines *lines, const struct folding *folding,
                   const struct profile *profile, uint32_t callsite, double change, double weight);

/* Return the number of lines that can be printed, and set *callsite to the one with the greatest
 * change in the direction (1 or -1). Return 0 and leave it alone if lines are unknown. */
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
 * callers are those at which they part; its source line is the one with most of the memory,
 * followed by the number of other lines. `callsite`: of the heaviest stack, printed if lines are
 * unknown. */
void row_stacks_print(const struct stack_format *format, uint32_t callsite,
                      const struct row_stack *stacks, size_t count, FILE *out);

#endif
