/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 95 % limits of a dump's figures. The page calls a figure exact if both limits are equal to
 * it. So limits are unknown (NAN) if every allocation was to be recorded, but some are missing, and
 * if the program drew the samples itself.
 */
#ifndef HEAPPROFD_VIEW_LIMITS_H
#define HEAPPROFD_VIEW_LIMITS_H

#include "profile/compare/estimates.h"
#include "profile/confidence_interval.h"
#include "profile/view.h"
#include "util/json_writer.h"

struct profile_interval view_limits(const struct profile_estimate *figure, bool counts,
                                    const struct export_dump *at);
/* Return the bytes or count of a whole heap in a view, as estimate_total(). */
struct estimate_shown view_total(const struct export_dump *at, enum export_view view, bool counts);

/* Write a calibration as an array, for page/interval.ts. */
void view_write_calibration(struct json_writer *json, const char *name,
                            const struct profile_calibration *calibration);

/* Return the sampling interval from which the limits follow; 0: they are unknown. */
uint64_t view_limits_interval(const struct profile_heap *heap);

#endif
