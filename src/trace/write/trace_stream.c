/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's stream of events: StreamingAllocation and StreamingFree. These messages consist of
 * parallel arrays, not packed, as Perfetto's readers expect. So the fields of each event are
 * appended one after the other, and no array is kept.
 */
#include <errno.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "trace/write/writer_state.h"

/* A packet of events is written before it exceeds this size. */
#define STREAM_BYTES_MAX (64u * 1024u)

static void write_packet(struct trace_writer *writer, uint32_t field, struct proto_buffer *events)
{
    if (events->length == 0)
        return;
    packet_begin(writer, packet_time_ns(writer), SEQUENCE_PLAIN);
    proto_put_bytes(&writer->packet, field, events->bytes, events->length);
    writer->packet.failed |= events->failed;
    events->length = 0;
    packet_end(writer);
}

int trace_writer_stream_flush(struct trace_writer *writer)
{
    write_packet(writer, PB_TRACE_PACKET_STREAMING_ALLOCATION, &writer->stream_allocations);
    write_packet(writer, PB_TRACE_PACKET_STREAMING_FREE, &writer->stream_frees);
    return packet_write_waiting(writer);
}

/* Make room for an event of this process. Return whether it begins a message. */
static bool begin_event(struct trace_writer *writer, struct proto_buffer *events, int32_t pid)
{
    bool is_full =
        writer->stream_allocations.length + writer->stream_frees.length >= STREAM_BYTES_MAX;
    if (is_full || writer->stream_pid != pid)
        trace_writer_stream_flush(writer);
    writer->stream_pid = pid;
    if (events->length > 0)
        return false;
    bool is_allocation = events == &writer->stream_allocations;
    proto_put_uint(events, is_allocation ? PB_STREAMING_ALLOCATION_PID : PB_STREAMING_FREE_PID,
                   (uint64_t)(int64_t)pid);
    return true;
}

static int end_event(struct trace_writer *writer, const struct proto_buffer *events)
{
    if (events->failed && writer->error == 0)
        writer->error = -ENOMEM;
    return writer->error;
}

static void put_double(struct proto_buffer *buffer, uint32_t field, double value)
{
    uint8_t bytes[PROTO_VARINT_BYTES_MAX + sizeof(value)];
    size_t length = proto_encode_varint(bytes, (uint64_t)field << 3 | 1);
    memcpy(bytes + length, &value, sizeof(value));
    proto_put_raw(buffer, bytes, length + sizeof(value));
}

static uint64_t round_size(double bytes)
{
    if (!(bytes > 0))
        return 0;
    return bytes >= 0x1p63 ? UINT64_C(1) << 63 : (uint64_t)(bytes + 0.5);
}

int trace_writer_stream_allocation(struct trace_writer *writer,
                                   const struct trace_stream_event *event)
{
    struct proto_buffer *events = &writer->stream_allocations;
    /* Either all events of a message have a count, or none of them. */
    bool has_count = event->count != 1;
    if (has_count && events->length > 0 && !writer->stream_has_counts)
        trace_writer_stream_flush(writer);
    if (begin_event(writer, events, event->pid))
        writer->stream_has_counts = has_count;
    proto_put_uint(events, PB_STREAMING_ALLOCATION_ADDRESS, event->address);
    proto_put_uint(events, PB_STREAMING_ALLOCATION_SIZE, event->size);
    proto_put_uint(events, PB_STREAMING_ALLOCATION_SAMPLE_SIZE,
                   round_size(event->count * (double)event->size));
    proto_put_uint(events, PB_STREAMING_ALLOCATION_CLOCK_MONOTONIC_COARSE_TIMESTAMP,
                   event->timestamp_ns);
    proto_put_uint(events, PB_STREAMING_ALLOCATION_HEAP_ID, event->heap);
    proto_put_uint(events, PB_STREAMING_ALLOCATION_SEQUENCE_NUMBER, event->sequence);
    if (writer->stream_has_counts)
        put_double(events, PB_STREAMING_ALLOCATION_COUNT, event->count);
    return end_event(writer, events);
}

int trace_writer_stream_free(struct trace_writer *writer, const struct trace_stream_event *event)
{
    struct proto_buffer *events = &writer->stream_frees;
    begin_event(writer, events, event->pid);
    proto_put_uint(events, PB_STREAMING_FREE_ADDRESS, event->address);
    proto_put_uint(events, PB_STREAMING_FREE_HEAP_ID, event->heap);
    proto_put_uint(events, PB_STREAMING_FREE_SEQUENCE_NUMBER, event->sequence);
    return end_event(writer, events);
}

int trace_writer_stream_undone(struct trace_writer *writer, const struct trace_stream_event *event)
{
    struct proto_buffer *events = &writer->stream_frees;
    begin_event(writer, events, event->pid);
    proto_put_uint(events, PB_STREAMING_FREE_UNDONE_ADDRESS, event->address);
    proto_put_uint(events, PB_STREAMING_FREE_UNDONE_HEAP_ID, event->heap);
    proto_put_uint(events, PB_STREAMING_FREE_UNDONE_SEQUENCE_NUMBER, event->sequence);
    return end_event(writer, events);
}
