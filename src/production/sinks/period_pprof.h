/* SPDX-License-Identifier: Apache-2.0 */
/* A period as a gzipped pprof file in memory, and its labels. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_PERIOD_PPROF_H
#define HEAPPROFD_PRODUCTION_SINKS_PERIOD_PPROF_H

#include "production/continuous/period.h"
#include "tools/export/pprof.h"

/* The names of the sample types that Go's heap profiles have, and most stores know. */
#define PERIOD_PPROF_TYPES                                                                         \
    {                                                                                              \
        "alloc_objects", "alloc_space", "inuse_objects", "inuse_space"                             \
    }

struct period_pprof {
    uint8_t *bytes;
    size_t length;
};

/* Fill in the times and the interval of `file` from the period, and make the pprof file. Return 0
 * or a negative errno with a message. */
int period_pprof_make(struct period_pprof *made, const struct period *period,
                      struct pprof_period file, struct error *error);
void period_pprof_free(struct period_pprof *made);

/* Return a label's value, or `fallback`. */
const char *period_label(const struct period *period, const char *name, const char *fallback);

#endif
