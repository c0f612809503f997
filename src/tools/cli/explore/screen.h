/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A browser for a profile on the terminal: on the left the path taken so far, on the right its
 * breakdown (tools/explore/breakdown.h). docs/explore.md lists the keys.
 *
 * Promises: names from the profile never control the terminal; nothing is printed except on the
 * screen; and however the screen ends, the terminal is restored.
 */
#ifndef HEAPPROFD_TOOLS_CLI_EXPLORE_SCREEN_H
#define HEAPPROFD_TOOLS_CLI_EXPLORE_SCREEN_H

#include <stdio.h>

#include "tools/cli/compare/compare_source.h"
#include "tools/explore/breakdown.h"

struct screen_request {
    /* Dumps shown side by side, with their profiles; the user may choose other dumps of
     * `traces`. */
    struct compare_source *columns;
    size_t column_count;
    /* All traces, each once. */
    const struct compare_source *traces;
    size_t trace_count;
    struct compare_choice choice;
    enum diff_figure figure;
    enum breakdown_mode mode;
    bool figure_chosen; /* false: if it is 0 everywhere, show another figure */
    bool sort_by_count, full_names, colours;
    FILE *in, *out; /* the terminal */
};

/* Run until the user quits. Return 0, or a negative errno with *error set; -EINTR: *ended_by is the
 * signal that is to end the program. */
int screen_run(const struct screen_request *request, int *ended_by, struct error *error);

#endif
