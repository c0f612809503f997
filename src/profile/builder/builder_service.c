/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read what a trace says of its recording: from its configuration, whether the programs' own
 * mappings were wanted and which buffers of the tracing service have the heap profiles; from the
 * service's statistics, what these buffers have lost. A loss between packets of samples is seen
 * without it; that of all packets of a process is not.
 */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "trace/config/trace_config.h"

/* Without data_source_stop_timeout_ms. */
#define STOP_TIMEOUT_MS 5000u

/* Return whether a HeapprofdConfig names the heap of the programs' own mappings. */
static bool names_mmap(struct proto_span config)
{
    struct proto_field field;
    while (proto_next(&config, &field) > 0)
        if (field.number == PB_HEAPPROFD_CONFIG_HEAPS && field.type == PROTO_BYTES &&
            proto_length(field.span) == strlen(HEAP_CONFIG_MMAP) &&
            memcmp(field.span.at, HEAP_CONFIG_MMAP, strlen(HEAP_CONFIG_MMAP)) == 0)
            return true;
    return false;
}

static uint64_t interval_of_chromium(struct proto_span config)
{
    struct proto_field field;
    uint64_t bytes = 0;
    while (proto_next(&config, &field) > 0)
        if (field.number == PB_CHROMIUM_SAMPLING_HEAP_PROFILER_CONFIG_SAMPLING_INTERVAL_BYTES)
            bytes = field.value;
    return bytes;
}

/* Return the buffer of a DataSource, as a bit, if it is a heap profile; else 0. */
static uint64_t read_source(struct builder *builder, struct proto_span source)
{
    struct proto_field field, inner;
    struct proto_span name = {0};
    uint64_t buffer = 0;
    while (proto_next(&source, &field) > 0) {
        if (field.number != PB_TRACE_CONFIG_DATA_SOURCE_CONFIG)
            continue;
        while (proto_next(&field.span, &inner) > 0) {
            if (inner.number == PB_DATA_SOURCE_CONFIG_NAME)
                name = inner.span;
            else if (inner.number == PB_DATA_SOURCE_CONFIG_TARGET_BUFFER)
                buffer = inner.value;
            else if (inner.number == PB_DATA_SOURCE_CONFIG_CHROMIUM_SAMPLING_HEAP_PROFILER)
                builder->service.chromium_interval_bytes = interval_of_chromium(inner.span);
            else if (inner.number == PB_DATA_SOURCE_CONFIG_HEAPPROFD_CONFIG)
                builder->profile->wants_mmap |= names_mmap(inner.span);
        }
    }
    bool is_heap = heap_config_is_source((const char *)name.at, proto_length(name));
    return is_heap && buffer < BUILDER_BUFFERS_MAX ? UINT64_C(1) << buffer : 0;
}

int builder_trace_config(struct builder *builder, struct proto_span config)
{
    struct proto_field field;
    int status;
    uint64_t buffers = 0;
    builder->service.stop_timeout_ms = STOP_TIMEOUT_MS;
    while ((status = proto_next(&config, &field)) > 0) {
        if (field.number == PB_TRACE_CONFIG_DATA_SOURCES)
            buffers |= read_source(builder, field.span);
        if (field.number == PB_TRACE_CONFIG_DATA_SOURCE_STOP_TIMEOUT_MS && field.value != 0)
            builder->service.stop_timeout_ms = (uint32_t)field.value;
    }
    builder->service.heap_buffers = buffers;
    return status < 0 ? -EBADMSG : 0;
}

#define LOSS(name, member)                                                                         \
    PROTO_MEMBER(PB_TRACE_STATS_BUFFER_STATS_##name, struct builder_buffer, member)

int builder_trace_stats(struct builder *builder, struct proto_span stats)
{
    static const struct proto_member members[] = {
        LOSS(CHUNKS_OVERWRITTEN, overwritten),
        LOSS(CHUNKS_DISCARDED, discarded),
        LOSS(TRACE_WRITER_PACKET_LOSS, lost),
    };
    struct builder_service *service = &builder->service;
    struct proto_field field;
    int status;
    memset(service->buffers, 0, sizeof(service->buffers));
    service->has_ended = true;
    size_t count = 0;
    while ((status = proto_next(&stats, &field)) > 0)
        if (field.number == PB_TRACE_STATS_BUFFER_STATS && count < BUILDER_BUFFERS_MAX &&
            proto_read_members(PROTO_MEMBERS(members), field.span, &service->buffers[count++]) < 0)
            return -EBADMSG;
    return status < 0 ? -EBADMSG : 0;
}

struct builder_buffer builder_service_losses(const struct builder *builder)
{
    struct builder_buffer sum = {0};
    for (size_t i = 0; i < BUILDER_BUFFERS_MAX; i++) {
        if ((builder->service.heap_buffers >> i & 1) == 0)
            continue;
        sum.overwritten += builder->service.buffers[i].overwritten;
        sum.discarded += builder->service.buffers[i].discarded;
        sum.lost += builder->service.buffers[i].lost;
    }
    return sum;
}
