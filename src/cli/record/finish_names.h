/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that a run's end adds to its trace: functions, files and lines from the files of this
 * machine and of PERFETTO_BINARY_PATH, Java's own names from PERFETTO_PROGUARD_MAP.
 *
 * raw-trace stays as it is. Beside it stand `symbols` and `deobfuscation-packets`, each only if
 * there is something in it, and then symbolized-trace, which is all of them one after the other.
 * No server is asked. The work is done by a child: whatever becomes of that, the profile is there.
 */
#ifndef HEAPPROFD_CLI_RECORD_FINISH_NAMES_H
#define HEAPPROFD_CLI_RECORD_FINISH_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/files/output.h"
#include "profile/profile.h"

struct finish_names {
    bool added; /* there is a symbolized-trace */
    /* By mapping of the profile: 0, or 1 + enum symbol_reason: why it has frames without names. */
    uint8_t *reasons; /* NULL: unknown */
    size_t reason_count;
};

/* profile is that of raw-trace. What fails is said on standard error. */
void finish_names_add(const struct output *output, const struct profile *profile, bool quiet,
                      struct finish_names *names);
void finish_names_clear(struct finish_names *names);

#endif
