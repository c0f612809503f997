/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: one session with all programs, whose dumps become periods, which go to the sinks.
 *
 *   every period   dump ▸ fragment ▸ names ▸ profile ▸ periods ▸ labels ▸ sinks
 *   every second   progress ▸ programs ▸ intervals
 *
 * SIGHUP makes it read its configuration anew. It ends with a last dump. If it or the daemon is
 * killed, what was allocated since the last dump is lost, and the next collector says so.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_COLLECTOR_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_COLLECTOR_H

#include <stdbool.h>

#include "production/continuous/collector_config.h"
#include "production/continuous/collector_status.h"

struct collector_options {
    struct collector_config *config; /* replaced by a reload */
    const char *file;                /* from which a reload reads it */
    bool prints;                     /* periods to standard output, as JSON, instead of sinks */
    void (*log)(const char *line);
};

/* The exit status if the configuration has a mistake: a restart would not help (EX_CONFIG). */
#define COLLECTOR_EXIT_CONFIG 78

/* Run until a signal, or until the daemon is gone. Return the exit status. */
int collector_run(const struct collector_options *options);

#endif
