/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames without a name, summed up by module: how much of the profile has one on its stack, why it
 * has no name, and what to do about it.
 */
#ifndef HEAPPROFD_CLI_REPORT_UNNAMED_FRAMES_H
#define HEAPPROFD_CLI_REPORT_UNNAMED_FRAMES_H

#include "cli/report/report.h"

struct unnamed_module {
    const char *path;     /* "": in no file */
    const char *build_id; /* hex, or "" */
    size_t frames;        /* distinct addresses */
    double weight;        /* what the view ranks by: of samples with such a frame on the stack */
    const char *reason, *remedy;
};

struct unnamed_modules {
    struct unnamed_module *items; /* the heaviest first */
    size_t count;
    double total; /* of all samples */
};

/* Of all dumps that the options ask for. reasons as in finish_names.h, or NULL: what the profile
 * itself knows. 0 or -ENOMEM. */
int unnamed_collect(struct unnamed_modules *unnamed, const struct profile *profile,
                    const struct report_options *options, const uint8_t *reasons);
void unnamed_clear(struct unnamed_modules *unnamed);

/* Up to `most` modules, a line each, under a title; nothing where there are none. 0: all. */
void unnamed_print_text(FILE *out, const struct unnamed_modules *unnamed,
                        const struct report_options *options, size_t most);
/* An array. */
void unnamed_print_json(FILE *out, const struct unnamed_modules *unnamed);

#endif
