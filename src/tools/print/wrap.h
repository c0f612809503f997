/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks sentences at spaces, so that they fit the width of the terminal. Tables do not need it:
 * they shorten names instead (stack_format.h). */
#ifndef HEAPPROFD_TOOLS_PRINT_WRAP_H
#define HEAPPROFD_TOOLS_PRINT_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Text that is collected until wrap_end(). */
struct wrap {
    FILE *out, *page; /* the same if nothing is wrapped */
    char *text;
    size_t length, columns;
};

/* Return the stream to write to instead of `out`. It collects what is written, for lines of at most
 * `columns` (0: any). */
FILE *wrap_begin(struct wrap *wrap, FILE *out, size_t columns);

/* Write the collected lines. The continuation of a broken line is indented by `indent`. A word that
 * is wider than a line stays whole. */
void wrap_end(struct wrap *wrap, size_t indent);

#endif
