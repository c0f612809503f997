/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile on the terminal, to be walked through: on the left the path that was taken into it, on
 * the right what that is made of (explore/breakdown.h). docs/explore.md has the keys.
 *
 * Promises: names from the profile command nothing; nothing is printed but on the screen; however
 * the screen ends, the terminal is as it was.
 */
#ifndef HEAPPROFD_CLI_EXPLORE_SCREEN_H
#define HEAPPROFD_CLI_EXPLORE_SCREEN_H

#include <stdio.h>

#include "cli/compare/compare_source.h"
#include "explore/breakdown.h"

struct screen_request {
    /* Dumps side by side, with their profiles; those of `traces` may be chosen instead. */
    struct compare_source *columns;
    size_t column_count;
    /* The traces, each once. */
    const struct compare_source *traces;
    size_t trace_count;
    struct compare_choice choice;
    enum diff_figure figure;
    enum breakdown_mode mode;
    bool figure_chosen; /* false: another figure may replace it if it is 0 everywhere */
    bool sort_by_count, full_names, colours;
    FILE *in, *out; /* the terminal */
};

/* Until the user ends it. 0, or a negative errno with a message; -EINTR: *ended_by is the signal
 * that is to end the program, too. */
int screen_run(const struct screen_request *request, int *ended_by, struct error *error);

#endif
