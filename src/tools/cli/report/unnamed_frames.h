/* SPDX-License-Identifier: Apache-2.0 */
/* Reports frames without a name, by module: the share of the profile with such frames on its
 * stacks, the reason, and the remedy. */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_UNNAMED_FRAMES_H
#define HEAPPROFD_TOOLS_CLI_REPORT_UNNAMED_FRAMES_H

#include "tools/cli/report/report.h"
#include "util/json_writer.h"

struct unnamed_module {
    const char *path;     /* "": in no file */
    const char *build_id; /* hex, or "" */
    size_t frames;        /* distinct addresses */
    double weight;        /* in the view's unit: samples with such a frame on the stack */
    const char *reason, *remedy;
};

struct unnamed_modules {
    struct unnamed_module *items; /* the heaviest first */
    size_t count;
    double total; /* weight of all samples */
};

/* Collect from all dumps that the options ask for. `reasons` as in automatic_names.h; NULL: from
 * the profile itself. */
void unnamed_collect(struct unnamed_modules *unnamed, const struct profile *profile,
                     const struct report_options *options, const uint8_t *reasons);
void unnamed_clear(struct unnamed_modules *unnamed);

/* Print up to `most` modules (0: all), a line each, under a title. Print nothing if there are
 * none. */
void unnamed_print_text(FILE *out, const struct unnamed_modules *unnamed,
                        const struct report_options *options, size_t most);
/* Write them as the array "unnamed". */
void unnamed_print_json(struct json_writer *json, const struct unnamed_modules *unnamed);

#endif
