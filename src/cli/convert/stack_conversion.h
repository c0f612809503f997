/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What conversions to stacks with numbers share: the options that choose among processes, heaps
 * and dumps, where they read and write, and what they say if nothing answers.
 */
#ifndef HEAPPROFD_CLI_CONVERT_STACK_CONVERSION_H
#define HEAPPROFD_CLI_CONVERT_STACK_CONVERSION_H

#include <stdbool.h>
#include <stdio.h>

#include "export/view.h"

struct stack_conversion {
    const char *help;
    bool has_view;       /* the option --view */
    bool largest_first;  /* the order of heaps: a viewer opens on the first; else the profile's */
    bool shares_callers; /* a caller is written once, whatever it calls; else each whole stack */
    /* How much it has written, 0: the view has nothing; or -ENOMEM. `name` is the trace's. */
    int64_t (*write)(const struct profile *profile, const struct export_dump *dumps, size_t count,
                     enum export_view view, const char *name, FILE *out);
};

/* The exit code. argv[0] is the verb. */
int stack_conversion_run(int argc, char **argv, const struct stack_conversion *conversion);

#endif
