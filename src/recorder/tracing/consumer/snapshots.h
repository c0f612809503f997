/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: triggers that save what a session has while it goes on (CLONE_SNAPSHOT). The service
 * reports each such trigger; a consumer of its own then clones the session and reads the clone.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_CONSUMER_SNAPSHOTS_H
#define HEAPPROFD_RECORDER_TRACING_CONSUMER_SNAPSHOTS_H

#include <tracing_service.pb-c.h>

#include "recorder/tracing/consumer/consumer.h"

/* Reports that may wait. */
#define SNAPSHOTS_DUE_MAX 16

struct snapshots {
    struct snapshot_due {
        uint64_t session_id, boot_time_ns, delay_ms;
        uint32_t producer_uid;
        char trigger[64], producer[64];
    } due[SNAPSHOTS_DUE_MAX];
    size_t due_count;
    unsigned missed; /* reports for which there was no room */
};

/* Ask the service to report triggers to *snapshots, as long as the consumer lasts. */
int snapshots_observe(struct snapshots *snapshots, struct consumer *consumer, struct error *error);

/* Take the first report. Return false if none waits. */
bool snapshots_take(struct snapshots *snapshots, struct snapshot_due *due);

/* Bind a new consumer to a copy of the session as it is now. */
int snapshots_clone(const struct snapshot_due *due, struct consumer *consumer, struct error *error);

#endif
