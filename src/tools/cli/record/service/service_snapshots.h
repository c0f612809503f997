/* SPDX-License-Identifier: Apache-2.0 */
/* Saves snapshots of a session of the tracing service: TRACE.0, TRACE.1, ... */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_SERVICE_SNAPSHOTS_H
#define HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_SERVICE_SNAPSHOTS_H

#include "recorder/tracing/consumer/snapshots.h"

struct service_snapshots {
    struct snapshots snapshots;
    const char *trace_path;
    unsigned count; /* saved */
    bool quiet;
};

/* Save each snapshot that is due. Return 0, or a negative errno with a message. */
int service_snapshots_save(struct service_snapshots *snapshots, const struct session_config *config,
                           const struct tracing_socket *socket, const struct consumer_user *user,
                           struct error *error);

#endif
