/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over a dump by type, context or callsite (backtrace), and within each group by another of
 * them: the types that hold memory, and the places that allocated them.
 */
#ifndef HEAPPROFD_PROFILE_GROUPING_H
#define HEAPPROFD_PROFILE_GROUPING_H

#include "profile/rollup.h"

enum grouping_key {
    GROUPING_NONE,
    GROUPING_TYPE,
    GROUPING_CONTEXT,
    GROUPING_BACKTRACE,
};

struct grouping_row {
    const char *label; /* type or context, "" for none; NULL by backtrace */
    uint32_t callsite; /* by backtrace; else PROFILE_NONE */
    struct rollup_values values;
    size_t first, count; /* of an outer row: its rows in `inner` */
};

struct grouping {
    struct grouping_row *outer, *inner; /* in no order */
    size_t outer_count, inner_count;
};

/* second may be GROUPING_NONE: no inner rows. alike: by callsite, the one whose row by backtrace it
 * shares; NULL: each has its own. Return NULL without memory. */
struct grouping *grouping_new(const struct profile_dump *dump, enum grouping_key first,
                              enum grouping_key second, const uint32_t *alike);
void grouping_free(struct grouping *grouping);

#endif
