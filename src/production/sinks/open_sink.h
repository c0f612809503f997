/* SPDX-License-Identifier: Apache-2.0 */
/* One sink, as open_sink.c makes it from its section and sinks.c drives it. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_OPEN_SINK_H
#define HEAPPROFD_PRODUCTION_SINKS_OPEN_SINK_H

#include "production/sinks/backoff.h"
#include "production/sinks/sender.h"
#include "production/sinks/spool.h"

#define SINK_NAME_BYTES_MAX 64u

struct sink {
    const struct sink_kind *kind;
    void *state;
    char name[SINK_NAME_BYTES_MAX + 1];
    struct spool spool;
    struct backoff backoff;
    uint64_t last_tried;             /* sequence */
    unsigned compression;            /* of enum sink_compression; 0: none */
    struct sender_link *link;        /* NULL: the kind delivers */
    struct spool_message on_its_way; /* while the link is busy */
    struct sink_figures figures;
    struct error error; /* the last one */
};

/* What the links of all sinks share. */
struct sink_connections {
    int descriptor;        /* of epoll */
    struct sender *sender; /* NULL: no sink needs it yet */
};

/* Open a sink. Without a spool_directory, only check its section. Return 0 or a negative errno with
 * a message; close the sink in any case. */
int open_sink(struct sink *sink, struct sink_connections *connections,
              struct settings_section *section, const char *spool_directory, struct error *error);
void close_sink(struct sink *sink);

#endif
