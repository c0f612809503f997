/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells others what the collector knows of itself: Prometheus, if the configuration has a section
 * `[metrics]` (listen.h), and `heap_profile status` by a file in the run directory (status_file.h).
 */
#ifndef HEAPPROFD_PRODUCTION_METRICS_METRICS_H
#define HEAPPROFD_PRODUCTION_METRICS_METRICS_H

#include "production/continuous/collector_status.h"
#include "util/settings.h"

struct metrics_source {
    /* Fill in the status; what it points to is valid until the next call. */
    void (*status)(void *context, struct collector_status *status);
    void *context;
};

struct metrics;

/* run_directory: the daemon's. Return NULL with a message. */
struct metrics *metrics_open(struct settings *settings, const char *run_directory,
                             const struct metrics_source *source, struct error *error);

/* Check the section `[metrics]`, if there is one. Return 0 or a negative errno with a message. */
int metrics_check(struct settings *settings, struct error *error);

/* Return where metrics are served, for people; "": nowhere. */
const char *metrics_address(const struct metrics *metrics);

/* Return the descriptor that is readable when there is something to do; -1: metrics are served
 * nowhere. */
int metrics_descriptor(const struct metrics *metrics);

/* Answer what has been asked, and write the status file if it is due, without waiting. *timeout_ms:
 * when to call again at the latest. */
void metrics_work(struct metrics *metrics, unsigned *timeout_ms);

/* Count what the status has now. Call this after each collection, while the status still has the
 * processes that have ended: counters keep what they had. */
void metrics_note(struct metrics *metrics);

/* Serve as these settings say, instead of the old ones. Return 0, or a negative errno with a
 * message: then it serves as before. The descriptor is another one in any case. */
int metrics_reload(struct metrics *metrics, struct settings *settings, struct settings *old,
                   struct error *error);

void metrics_close(struct metrics *metrics);

#endif
