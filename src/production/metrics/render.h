/* SPDX-License-Identifier: Apache-2.0 */
/* The collector's status and the sums over its programs as metrics. docs/metrics.md lists them. */
#ifndef HEAPPROFD_PRODUCTION_METRICS_RENDER_H
#define HEAPPROFD_PRODUCTION_METRICS_RENDER_H

#include "production/metrics/exposition.h"
#include "production/metrics/program_totals.h"

/* Write everything. Errors of the stream are the caller's to check. */
void metrics_render(struct exposition *exposition, const struct collector_status *status,
                    const struct program_totals *totals);

#endif
