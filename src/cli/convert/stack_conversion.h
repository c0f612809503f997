/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of conversions to stacks with figures: the options that choose processes, heaps
 * and dumps, input and output, and the errors if nothing matches. */
#ifndef HEAPPROFD_CLI_CONVERT_STACK_CONVERSION_H
#define HEAPPROFD_CLI_CONVERT_STACK_CONVERSION_H

#include <stdbool.h>
#include <stdio.h>

#include "export/view.h"

struct stack_conversion {
    const char *help;
    bool has_view;       /* takes the option --view */
    bool largest_first;  /* order heaps by size, because a viewer opens on the first; else in the
                            profile's order */
    bool shares_callers; /* writes a caller once for all its callees; else writes each stack in full
                          */
    /* Write the dumps; `name` is the trace's. Return the amount written, 0 if the view is empty, or
     * -ENOMEM. */
    int64_t (*write)(const struct profile *profile, const struct export_dump *dumps, size_t count,
                     enum export_view view, const char *name, FILE *out);
};

/* Run a conversion. argv[0] is the verb. Return the exit code. */
int stack_conversion_run(int argc, char **argv, const struct stack_conversion *conversion);

#endif
