/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self values from the totals of version 1. An entry there is the sum of a frame and all its
 * callees, of one type or of all; entries below a threshold are left out, types and frames alike.
 *
 * A frame's own part is the remainder after its callees: the viewer calls that `<other>` if callees
 * were left out. If some types of a frame were left out, the remainder is distributed in proportion
 * to the remaining types of its caller. So the totals of the file hold for every frame, and for
 * types as far as possible. A missing entry with callees is the sum of these callees.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_TOTALS_H
#define HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* A row of totals, or of self values. */
struct heap_site {
    uint32_t callsite; /* PROFILE_NONE: the whole heap; as self value, memory without a frame */
    uint32_t type;     /* the caller's; TOTALS_ALL_TYPES: the sum; as self value, without a type */
    double bytes, count;
};
#define TOTALS_ALL_TYPES UINT32_MAX

/* Compare by callsite, then by type, for qsort(). */
int heap_site_compare(const void *left, const void *right);

/* *selves is malloc'd, in order of callsite and type. Return 0, -ENOMEM, or -E2BIG: too many types
 * of too many frames. */
int totals_to_selves(const struct profile_callsite *callsites, const struct heap_site *totals,
                     size_t count, struct heap_site **selves, size_t *self_count);

#endif
