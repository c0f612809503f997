/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a collector that runs, read anew: whether it is right, and what changes. */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_RELOAD_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_RELOAD_H

#include <stdbool.h>

#include "production/continuous/collector_config.h"

/* Check what collector_config_read() leaves to others: sinks, metrics, and settings that nobody
 * knows. Return the number of sinks, or a negative errno with a message. */
int reload_check(struct collector_config *config, struct error *error);

struct reload_changes {
    bool session; /* the session has to begin anew */
    bool sinks, metrics;
};

struct reload_changes reload_compare(const struct collector_config *old,
                                     const struct collector_config *next);

#endif
