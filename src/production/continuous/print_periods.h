/* SPDX-License-Identifier: Apache-2.0 */
/* Writes periods as lines of JSON, for people who try a configuration, and for tests. */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_PRINT_PERIODS_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_PRINT_PERIODS_H

#include <stdio.h>

#include "production/continuous/period.h"

/* Write the periods, each with its sums and its largest callsites. Errors of the stream are the
 * caller's to check. */
void print_periods(FILE *out, const struct period *periods, size_t count);

#endif
