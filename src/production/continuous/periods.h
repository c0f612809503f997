/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes periods (period.h) of the dumps in a fragment. Dumps are cumulative since the profile of a
 * process began; a period is the difference to the heap's last dump. What each callsite had then is
 * remembered by a hash of its stack, until the profile of the process ends.
 *
 * The hash is of the physical frames, by build id and offset (or name, if a frame has no mapping):
 * so it is the same whether symbols were found or not.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_PERIODS_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_PERIODS_H

#include <stddef.h>

#include "production/continuous/period.h"
#include "profile/profile.h"

struct periods;

struct periods *periods_new(void);
void periods_free(struct periods *periods);

/* Return the periods of the profile's dumps without labels, valid until the next call and as long
 * as the profile. boottime_to_realtime_ns: to add to its times. Heaps that nobody saw, and heaps in
 * which nothing was sampled since the last period and before, have none. An incomplete dump has
 * none: its allocations are in the next period. *lost is increased by 1 for it. Return NULL without
 * memory. */
struct period *periods_make(struct periods *periods, const struct profile *profile,
                            int64_t boottime_to_realtime_ns, size_t *count, uint64_t *lost);

#endif
