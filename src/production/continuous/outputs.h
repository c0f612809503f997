/* SPDX-License-Identifier: Apache-2.0 */
/* What the collector gives to others: periods to the sinks (or as lines to standard output), and
 * its status as metrics. */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_OUTPUTS_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_OUTPUTS_H

#include <stdbool.h>

#include "production/continuous/collector_config.h"
#include "production/continuous/collector_status.h"
#include "production/continuous/period.h"
#include "production/continuous/reload.h"

struct outputs {
    bool prints; /* periods to standard output, as JSON, instead of sinks */
    int epoll;   /* the caller's; it wakes up when there is work */
    void (*status)(void *context, struct collector_status *status);
    struct sinks *sinks;     /* NULL: periods are printed */
    struct metrics *metrics; /* NULL: this build has none */
};

/* Open all; `prints`, `epoll` and `status` are set. Return 0 or a negative errno with a message.
 * Close them in any case. */
int outputs_open(struct outputs *outputs, struct collector_config *config, struct error *error);

/* Open those again that have changed. Return 0, or a negative errno with a message: the old ones
 * are open again, or (-EPIPE) cannot be opened any more. */
int outputs_change(struct outputs *outputs, struct collector_config *old,
                   struct collector_config *next, const struct reload_changes *changes,
                   struct error *error);

/* Try for at most patience_ms to send what waits. */
void outputs_close(struct outputs *outputs, unsigned patience_ms);

void outputs_put(struct outputs *outputs, const struct period *periods, size_t count);

/* The status has changed. */
void outputs_note(struct outputs *outputs);

/* Do what is due, without waiting. Return the time until more is due in ms. */
unsigned outputs_work(struct outputs *outputs);

/* Add what the sinks have done. */
void outputs_fill_status(struct outputs *outputs, struct collector_status *status);

#endif
