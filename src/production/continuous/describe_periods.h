/* SPDX-License-Identifier: Apache-2.0 */
/* What a dump says of the collector's processes, and the labels of the periods made from it. */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_DESCRIBE_PERIODS_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_DESCRIBE_PERIODS_H

#include "production/continuous/period.h"
#include "production/continuous/programs.h"

/* Note what the profile says of each of its processes. */
void describe_processes(struct programs *programs, const struct profile *profile);

/* Give labels to the periods. Return their memory, which the caller frees after the periods' use;
 * NULL: there is none. */
struct period_label *describe_periods(struct programs *programs, struct period *periods,
                                      size_t count);

#endif
