/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds names to the trace at the end of a run: functions, files and lines from the files of this
 * machine and of PERFETTO_BINARY_PATH, and Java names from PERFETTO_PROGUARD_MAP.
 *
 * raw-trace stays unchanged. Beside it `symbols` and `deobfuscation-packets` are written if they
 * are not empty, and symbolized-trace, the concatenation of all of them. No server is contacted. A
 * child does the work, so that its failure cannot harm the profile.
 *
 * Errors are printed to standard error.
 */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_AUTOMATIC_NAMES_H
#define HEAPPROFD_TOOLS_CLI_RECORD_AUTOMATIC_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "tools/cli/files/output_directory.h"

#define AUTOMATIC_NAMES_FILES 2

struct automatic_names {
    /* Which files were written: `symbols` and `deobfuscation-packets`. */
    bool has_file[AUTOMATIC_NAMES_FILES];
    unsigned next; /* the next file that automatic_names_next() tries */
    /* By mapping of the profile: 1 + enum symbol_reason, why it has frames without names; 0: it has
     * no such frames. */
    uint8_t *reasons; /* NULL: unknown */
    size_t reason_count;
};

/* Find names, and write them to files. `profile` is raw-trace's, and may be unfinished
 * (profile_read.h). */
void automatic_names_find(const struct output *output, const struct profile *profile, bool quiet,
                          struct automatic_names *names);

/* Return a descriptor of the next file of packets with names; -1: there are no more. */
int automatic_names_next(const struct output *output, struct automatic_names *names);

/* Write symbolized-trace if there are names. Return whether it was written. */
bool automatic_names_write(const struct output *output, const struct automatic_names *names);

void automatic_names_clear(struct automatic_names *names);

#endif
