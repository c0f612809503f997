/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the totals of v1 dumps to self values. An entry there has what a frame and all that it
 * called have, of one type or of all; entries below a threshold are left out, types and frames
 * alike.
 *
 * What a frame has beside what its callees are said to have is its own: the viewer calls that
 * `<other>` where callees were left out. Of a frame whose types were left out in part, the rest is
 * shared out by the types that its caller has left, in proportion. So the totals that the file
 * tells hold for every frame, and for types as far as that leaves them. An entry that is not there,
 * but has callees, is taken to have what they have.
 */
#ifndef HEAPPROFD_IMPORT_MEMORY_INFRA_TOTALS_H
#define HEAPPROFD_IMPORT_MEMORY_INFRA_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* A row of totals, and of what comes out. */
struct heap_site {
    uint32_t callsite; /* PROFILE_NONE: the whole heap; behind it, what no frame is known of */
    uint32_t type;     /* of the caller's; TOTALS_ALL_TYPES: the sum, and behind it, unknown */
    double bytes, count;
};
#define TOTALS_ALL_TYPES UINT32_MAX

/* *selves is malloc'd, in order of callsite and type. 0, -ENOMEM, or -E2BIG: too many types of too
 * many frames. */
int totals_to_selves(const struct profile_callsite *callsites, const struct heap_site *totals,
                     size_t count, struct heap_site **selves, size_t *self_count);

#endif
