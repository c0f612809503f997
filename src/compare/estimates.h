/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimates of the five views, as every report of a dump shows them: of one callsite or sum of
 * callsites, of a whole heap, and the 95 % limits of each.
 */
#ifndef HEAPPROFD_COMPARE_ESTIMATES_H
#define HEAPPROFD_COMPARE_ESTIMATES_H

#include "export/view.h"
#include "profile/rollup.h"

/* Return the estimates in a view. */
struct profile_estimate estimate_of_view(const struct rollup_values *values, enum export_view view);

/* Return the sum over a dump in a view, including what a filter left out. */
struct profile_estimate estimate_of_dump(const struct profile_dump *dump, enum export_view view);

/* Return the value that the view ranks by: bytes or count. */
double estimate_rank(const struct profile_estimate *figure, enum export_view view);

/* Return the 95 % interval of a figure's bytes or count; NAN if the sampling interval is
 * unknown. */
struct profile_interval estimate_interval(const struct profile_estimate *figure, bool counts,
                                          const struct profile_heap *heap,
                                          const struct profile_dump *dump);
/* The same for a sum over the whole heap, which leaves room for sizes without samples. */
struct profile_interval estimate_total_interval(const struct profile_estimate *figure, bool counts,
                                                const struct profile_heap *heap,
                                                const struct profile_dump *dump);

/* Return the bytes of the heap at its peak before this dump. */
double estimate_peak_bytes(const struct profile_heap *heap, const struct profile_dump *dump);

#endif
