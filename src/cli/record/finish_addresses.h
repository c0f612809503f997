/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a profile's code addresses those that a file of this machine may say more of than the trace
 * does. The profiler has read each module's own symbols; so a module is left out where nothing but
 * these can be found, and looking costs as little as opening its file.
 */
#ifndef HEAPPROFD_CLI_RECORD_FINISH_ADDRESSES_H
#define HEAPPROFD_CLI_RECORD_FINISH_ADDRESSES_H

#include <stdint.h>

#include "profile/profile.h"
#include "symbolize/symbolize.h"

struct finish_addresses {
    struct trace_addresses found; /* modules of which there is more */
    uint32_t *module_of;          /* by mapping of the profile; PROFILE_NONE: none of these */
    size_t mapping_count;
};

/* reasons: by mapping, 1 + enum symbol_reason for those that are left out. 0 or a negative errno;
 * *addresses lives as long as the process does. */
int finish_addresses_collect(struct finish_addresses *addresses, const struct profile *profile,
                             struct symbol_finder *finder, uint8_t *reasons, struct error *error);

/* The same of those that were looked up. */
void finish_addresses_tell(const struct finish_addresses *addresses,
                           const struct symbolize_report *report, uint8_t *reasons);

#endif
