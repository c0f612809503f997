/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks in the report's JSON. Version 1 repeats the frames in each callsite. The compact form,
 * version 2, has each frame and each stack once, in lists at the end; a callsite has its number.
 */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_REPORT_JSON_STACKS_H
#define HEAPPROFD_TOOLS_CLI_REPORT_REPORT_JSON_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "util/json_writer.h"

/* Items of the profile in the order of their first use. */
struct json_numbers {
    uint32_t *number; /* by item, plus one; 0: not used yet */
    uint32_t *order;
    size_t count;
};

struct json_stacks {
    const struct profile *profile;
    bool compact;
    /* Many stacks share a frame, so its text is cached. */
    char **texts; /* by frame; NULL: not cached */
    size_t *lengths;
    size_t kept_bytes;
    struct json_numbers frames, nodes; /* compact; a node is a frame and its callers */
};

void json_stacks_begin(struct json_stacks *stacks, const struct profile *profile, bool compact);
void json_stacks_end(struct json_stacks *stacks);

/* Write the member "frames", or compactly "stack", of an object. */
void json_stacks_print(struct json_stacks *stacks, struct json_writer *json, uint32_t callsite);

/* Write the compact form's lists "stacks" and "frames". */
void json_stacks_print_lists(struct json_stacks *stacks, struct json_writer *json);

#endif
