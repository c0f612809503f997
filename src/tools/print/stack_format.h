/* SPDX-License-Identifier: Apache-2.0 */
/* Prints call stacks for people: as rows of tables (a function with some of its callers, fitted to
 * the width) and as whole stacks. Frames that are not the program's own are folded. */
#ifndef HEAPPROFD_TOOLS_PRINT_STACK_FORMAT_H
#define HEAPPROFD_TOOLS_PRINT_STACK_FORMAT_H

#include <stdio.h>

#include "profile/folding.h"

struct stack_format {
    const struct profile *profile;
    const struct folding *folding; /* NULL: nothing is folded */
    bool lines;                    /* show source lines */
    bool python_lines;             /* show those of Python's functions even without `lines` */
    uint32_t own_lines;            /* number of source lines of a row's first function of the
                                      program, of which one is shown; 0: none is */
    uint32_t run_time_frame;       /* 1 + the function behind a row's first one; 0: none */
    bool simple;                   /* show names without parameters even if the profile has them */
    size_t columns;                /* for a row's text; 0: unlimited */
    size_t line_columns;           /* of a whole line; 0: unlimited */
};

/* Return the width of lines written to `out`: COLUMNS, or the width of the terminal. Return 0 if it
 * is not a terminal: lines may then have any length. */
size_t stack_format_columns(FILE *out);

/* Return the columns left for a row's text after its figures. */
size_t stack_format_room(size_t columns, size_t figures);

/* Print a frame's function or address, with its line and module if asked for. */
void stack_format_print_frame(const struct stack_format *format, uint32_t frame, size_t columns,
                              bool lines, bool module, FILE *out);

/* Print "function [module] < caller < caller < ...". */
void stack_format_print_row(const struct stack_format *format, uint32_t callsite, FILE *out);

/* Print all frames, one a line, with source lines. A group of folded frames is one line with their
 * number. If a stack has more than `most` lines (0: no limit), one line replaces those in the
 * middle. */
void stack_format_print_stack(const struct stack_format *format, uint32_t callsite, size_t most,
                              const char *indent, FILE *out);

#endif
