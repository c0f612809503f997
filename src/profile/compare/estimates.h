/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimates of the five views, as every report of a dump shows them: of one callsite or sum of
 * callsites, of a whole heap, and the 95 % limits of each. All surfaces take their figures here, so
 * that one figure is the same on all of them.
 *
 * A figure is inside its interval. What is certain cuts the interval: no figure of a heap exceeds
 * what was allocated in it, which is counted. An estimate may exceed that by chance. The total of a
 * heap is then the limit itself. A row keeps its estimate, so that rows add up in every format, and
 * its interval ends there.
 *
 * What a whole heap ever allocated is counted, too: where the count is known, the total is exact.
 * If the count lacks calls (profile_totals_why_partial()), how many is unknown, and so are the
 * limits.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_ESTIMATES_H
#define HEAPPROFD_PROFILE_COMPARE_ESTIMATES_H

#include "profile/rollup.h"
#include "profile/view.h"

/* A figure with its 95 % interval, which contains it; NAN: the sampling interval is unknown, or the
 * figure is a count that lacks calls. */
struct estimate_shown {
    double value;
    struct profile_interval interval;
};

/* Return the estimates in a view. */
struct profile_estimate estimate_of_view(const struct rollup_values *values, enum export_view view);

/* Return the sum over a dump in a view, including what a filter left out. The shares of rows are
 * those of this sum. */
struct profile_estimate estimate_of_dump(const struct profile_dump *dump, enum export_view view);

/* Return the value that the view ranks by: bytes or count. */
double estimate_rank(const struct profile_estimate *figure, enum export_view view);

/* Return the 95 % interval of a row's bytes or count; NAN if the sampling interval is unknown. */
struct profile_interval estimate_interval(const struct profile_estimate *figure, bool counts,
                                          const struct profile_heap *heap,
                                          const struct profile_dump *dump);

/* Return the figure of a sum over a whole heap, or over all of it but what is suppressed. The
 * interval leaves room for sizes without samples. */
struct estimate_shown estimate_total_of(const struct profile_estimate *figure, bool counts,
                                        const struct profile_heap *heap,
                                        const struct profile_dump *dump);
/* Return whether the whole heap's figures of a view are counted, not estimated. */
bool estimate_is_counted(const struct profile_heap *heap, const struct profile_dump *dump,
                         enum export_view view);
/* Return the bytes or count of a whole heap in a view. */
struct estimate_shown estimate_total(const struct profile_heap *heap,
                                     const struct profile_dump *dump, enum export_view view,
                                     bool counts);

#endif
