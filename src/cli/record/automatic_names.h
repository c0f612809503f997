/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds names to the trace at the end of a run: functions, files and lines from the files of this
 * machine and of PERFETTO_BINARY_PATH, and Java names from PERFETTO_PROGUARD_MAP.
 *
 * raw-trace stays unchanged. Beside it `symbols` and `deobfuscation-packets` are written if they
 * are not empty, and then symbolized-trace, the concatenation of all of them. No server is
 * contacted. A child does the work, so that its failure cannot harm the profile.
 */
#ifndef HEAPPROFD_CLI_RECORD_AUTOMATIC_NAMES_H
#define HEAPPROFD_CLI_RECORD_AUTOMATIC_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/files/output_directory.h"
#include "profile/profile.h"

struct automatic_names {
    bool added; /* symbolized-trace was written */
    /* By mapping of the profile: 1 + enum symbol_reason, why it has frames without names; 0: it has
     * no such frames. */
    uint8_t *reasons; /* NULL: unknown */
    size_t reason_count;
};

/* Add names; `profile` is raw-trace's, and may be unfinished (profile_read.h). Errors are printed
 * to standard error. Return a descriptor of symbolized-trace, where the part with the names begins;
 * -1: no names were added. */
int automatic_names_add(const struct output *output, const struct profile *profile, bool quiet,
                        struct automatic_names *names);
void automatic_names_clear(struct automatic_names *names);

#endif
