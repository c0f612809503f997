/* SPDX-License-Identifier: Apache-2.0 */
/* What the tracing service says of the session that it recorded. */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_SERVICE_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/proto_cursor.h"

struct builder;

/* A session of the tracing service has a few. */
#define BUILDER_BUFFERS_MAX 64u

struct builder_service {
    uint64_t chromium_interval_bytes; /* of its heap profiler; 0: not in the trace */
    uint64_t heap_buffers;            /* a bit for each buffer with a heap profile */
    uint32_t stop_timeout_ms;         /* that it waits for the last dumps */
    bool has_ended;                   /* the session: the trace has its statistics */
    struct builder_buffer {
        uint64_t overwritten, discarded; /* chunks that nobody read */
        uint64_t lost;                   /* packets, or runs of packets */
    } buffers[BUILDER_BUFFERS_MAX];
};

/* Read a TraceConfig, TraceStats. Return -EBADMSG if they are malformed. */
int builder_trace_config(struct builder *builder, struct proto_span config);
int builder_trace_stats(struct builder *builder, struct proto_span stats);
/* Return what the buffers with heap profiles have lost. */
struct builder_buffer builder_service_losses(const struct builder *builder);

#endif
