/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line that the page asks for, checked: it begins a recording, and nothing else.
 *
 *     {"arguments": ["host", "-i", "1", "--", "jq", ".", "big.json"], "directory": "/tmp/jq"}
 *     {"arguments": ["-p", "4711", "-d", "10000"]}
 *
 * What the options mean is left to heap_profile. The directory is not among them, because the page
 * must know it; --view would be a page in the page.
 */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_RECORDING_ARGUMENTS_H
#define HEAPPROFD_TOOLS_CLI_VIEW_RECORDING_ARGUMENTS_H

#include <stdbool.h>

#include "tools/view/server/json_parse.h"
#include "util/error.h"

#define RECORDING_WORDS_MAX 512u
#define RECORDING_BYTES_MAX (32u << 10) /* of all words together */

struct recording_arguments {
    const char *words[RECORDING_WORDS_MAX]; /* they stay the document's */
    size_t count;
    size_t option_count; /* words before the command: without the "--" */
    bool is_host;
    const char *directory; /* "": the page chooses one */
};

/* Take a request. Return 0, or -EINVAL or -E2BIG with what is wrong. */
int recording_arguments_take(struct recording_arguments *arguments, const struct json_value *root,
                             struct error *error);

/* Return whether the command line names a command. */
bool recording_arguments_have_command(const struct recording_arguments *arguments);

/* Return whether the user has chosen when dumps are taken (-c). */
bool recording_arguments_have_dumps(const struct recording_arguments *arguments);

/* The command line of heap_profile, with NULL at its end. */
struct recording_command {
    const char *words[RECORDING_WORDS_MAX + 4];
    size_t count;
};

/* Make the command line with one or two more options (NULL: one) before the others. */
void recording_arguments_make(const struct recording_arguments *arguments, const char *option,
                              const char *value, struct recording_command *command);

#endif
