/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the collector last gave a dump to the sinks, in a file of the spool directory, so that the
 * next one knows what was lost if this one was killed.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_LAST_DUMP_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_LAST_DUMP_H

#include <stdint.h>

#include "util/error.h"

/* Return the time of the last dump, ns since 1970; 0: unknown. */
int64_t last_dump_read(const char *directory);
/* Return 0 or a negative errno with a message. */
int last_dump_write(const char *directory, int64_t time_ns, struct error *error);

#endif
