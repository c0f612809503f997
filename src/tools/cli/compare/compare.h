/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a difference as text and as JSON, from the same figures. */
#ifndef HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_H
#define HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_H

#include <stdio.h>

#include "tools/cli/compare/compare_source.h"
#include "util/json_writer.h"

struct compare_stacks;

struct compare_options {
    struct diff_options diff;
    enum export_view view;              /* EXPORT_VIEWS: of text, the one that answers first */
    uint64_t top;                       /* rows of a table; 0: all */
    bool stacks;                        /* whole stacks under each callsite */
    const struct compare_stacks *shown; /* for text: how stacks are shown */
    bool colours;
};

void compare_print_text(const struct diff *diff, const struct compare_source sources[2],
                        const struct compare_options *options, FILE *out);
void compare_print_json(const struct diff *diff, const struct compare_source sources[2],
                        const struct compare_options *options, FILE *out);

/* Print a row's change and its limits, under these names. What is unknown is null. */
void compare_json_change(struct json_writer *json, const struct diff_pair *pair,
                         enum export_view view, const struct diff_row *row,
                         const char *const names[3]);
/* Print "stackframes":[...]: the names on a stack, the innermost first. */
void compare_json_stack(struct json_writer *json, const struct profile *profile, uint32_t callsite);
/* Print "untold":[...]: the views that are missing from the file of either side. Their figures mean
 * nothing. */
void compare_print_unknown(struct json_writer *json, const struct diff_pair *pair);
/* Print "left_out":{"before":{...},"after":{...}}: by view, the figures that the filter left out.
 * Without a filter print nothing. */
void compare_print_left_out(struct json_writer *json, const char *filter,
                            const struct diff_pair *pair);

#endif
