/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's core: opens and closes a trace, and writes each packet with one system call, so that
 * the trace of a killed writer contains all packets.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pb_field_numbers.h"
#include "trace/write/writer_state.h"
#include "util/clock.h"
#include "util/write_all.h"

/* Packets that wait for others are written before they exceed this size. */
#define WAITING_BYTES_MAX (64u * 1024u)

#define SEQUENCE_CLEARED 1u
#define SEQUENCE_NEEDS_STATE 2u

struct trace_writer *trace_writer_open(int fd)
{
    struct trace_writer *writer = calloc(1, sizeof(*writer));
    if (writer != NULL) {
        writer->fd = fd;
        writer->sequence = TRACE_SEQUENCE_MAIN;
        writer->begin_ns = clock_read_ns(CLOCK_BOOTTIME);
        writer->start = lseek(fd, 0, SEEK_CUR);
        writer->bytes_max = UINT64_MAX;
        writer->files = &writer->own_files;
    }
    return writer;
}

struct trace_writer *trace_writer_open_for_collector(int fd)
{
    struct trace_writer *writer = trace_writer_open(fd);
    if (writer != NULL)
        writer->omits_trusted = true;
    return writer;
}

struct trace_writer *trace_writer_open_for_service(int fd)
{
    struct trace_writer *writer = trace_writer_open_for_collector(fd);
    if (writer != NULL)
        writer->for_service = true;
    return writer;
}

int packet_forget_interned(struct trace_writer *writer)
{
    struct intern_table *tables[] = {
        &writer->strings,          &writer->paths,
        &writer->source_paths,     &writer->build_ids,
        &writer->mappings,         &writer->frames,
        &writer->callstacks,       &writer->heap_names,
        &writer->heap_contexts,    &writer->event_names,
        &writer->event_categories,
    };
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && writer->error == 0; i++)
        writer->error = intern_forget(tables[i]);
    return writer->error;
}

int trace_writer_restart(struct trace_writer *writer)
{
    if (writer->for_service)
        return trace_writer_stream_flush(writer);
    packet_flush_interned(writer);
    trace_writer_stream_flush(writer);
    packet_forget_interned(writer);
    writer->sequence_begun = false;
    /* Trace processor forgets the last packet's index with the rest of the state. */
    writer->profile_packets = 0;
    return writer->error;
}

int trace_writer_close(struct trace_writer *writer)
{
    if (writer == NULL)
        return 0;
    if (writer->in_dump)
        trace_writer_dump_end(writer);
    packet_flush_interned(writer);
    trace_writer_stream_flush(writer);
    int error = writer->error;
    proto_buffer_free(&writer->packet);
    proto_buffer_free(&writer->waiting);
    proto_buffer_free(&writer->interned);
    proto_buffer_free(&writer->key);
    proto_buffer_free(&writer->scratch);
    proto_buffer_free(&writer->dump_head);
    proto_buffer_free(&writer->dump_again);
    proto_buffer_free(&writer->dump_samples);
    proto_buffer_free(&writer->stream_allocations);
    proto_buffer_free(&writer->stream_frees);
    intern_free(&writer->strings);
    intern_free(&writer->paths);
    intern_free(&writer->source_paths);
    intern_free(&writer->build_ids);
    intern_free(&writer->mappings);
    intern_free(&writer->frames);
    intern_free(&writer->callstacks);
    intern_free(&writer->heap_names);
    intern_free(&writer->heap_contexts);
    intern_free(&writer->event_names);
    intern_free(&writer->event_categories);
    intern_free(&writer->own_files.files);
    intern_free(&writer->own_files.places);
    trace_peaks_free(&writer->peaks);
    free(writer);
    return error;
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
    return writer->bytes;
}

uint64_t packet_time_ns(const struct trace_writer *writer)
{
    if (writer->time_ns != 0)
        return writer->time_ns;
    return clock_read_ns(CLOCK_BOOTTIME);
}

void packet_begin(struct trace_writer *writer, uint64_t boottime_ns, enum sequence_use use)
{
    struct proto_buffer *packet = &writer->packet;
    uint32_t flags =
        use == SEQUENCE_NEEDS_INTERNED && !writer->for_service ? SEQUENCE_NEEDS_STATE : 0;
    packet->length = 0;
    proto_put_uint(packet, PB_TRACE_PACKET_TIMESTAMP, boottime_ns);
    if (!writer->omits_trusted) {
        proto_put_uint(packet, PB_TRACE_PACKET_TRUSTED_UID, getuid());
        proto_put_uint(packet, PB_TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID, writer->sequence);
        proto_put_uint(packet, PB_TRACE_PACKET_TRUSTED_PID, (uint64_t)getpid());
    }
    if (!writer->has_first)
        proto_put_uint(packet, PB_TRACE_PACKET_FIRST_PACKET_ON_SEQUENCE, 1);
    if (!writer->sequence_begun)
        flags |= SEQUENCE_CLEARED;
    writer->has_first = writer->sequence_begun = true;
    if (flags != 0)
        proto_put_uint(packet, PB_TRACE_PACKET_SEQUENCE_FLAGS, flags);
}

/* A packet's bytes in the file begin with these. */
struct packet_head {
    uint8_t bytes[1 + PROTO_VARINT_BYTES_MAX];
    size_t length;
};

static struct packet_head head_of(const struct proto_buffer *packet)
{
    struct packet_head head = {.bytes = {PB_TRACE_PACKET << 3 | 2}};
    head.length = 1 + proto_encode_varint(head.bytes + 1, packet->length);
    return head;
}

int packet_end(struct trace_writer *writer)
{
    struct proto_buffer *packet = &writer->packet, *waiting = &writer->waiting;
    if (writer->error == 0 && (packet->failed || waiting->failed))
        writer->error = -ENOMEM;
    if (writer->error < 0)
        return writer->error;
    struct packet_head head = head_of(packet);
    struct iovec parts[] = {{waiting->bytes, waiting->length},
                            {head.bytes, head.length},
                            {packet->bytes, packet->length}};
    uint64_t length = waiting->length + head.length + packet->length;
    if (writer->bytes + length > writer->bytes_max)
        writer->error = -EFBIG;
    else
        writer->error = write_all_parts(writer->fd, parts, 3);
    if (writer->error == 0)
        writer->bytes += length;
    waiting->length = 0;
    return writer->error;
}

int packet_end_soon(struct trace_writer *writer)
{
    const struct proto_buffer *packet = &writer->packet;
    struct proto_buffer *waiting = &writer->waiting;
    if (packet->failed || waiting->length + packet->length >= WAITING_BYTES_MAX)
        return packet_end(writer);
    struct packet_head head = head_of(packet);
    proto_put_raw(waiting, head.bytes, head.length);
    proto_put_raw(waiting, packet->bytes, packet->length);
    return writer->error;
}

int packet_write_waiting(struct trace_writer *writer)
{
    struct proto_buffer *waiting = &writer->waiting;
    if (writer->error == 0 && waiting->failed)
        writer->error = -ENOMEM;
    if (writer->error == 0 && waiting->length > 0)
        writer->error = write_all(writer->fd, waiting->bytes, waiting->length);
    if (writer->error == 0)
        writer->bytes += waiting->length;
    waiting->length = 0;
    return writer->error;
}

int packet_write_message(struct trace_writer *writer, uint32_t field,
                         const ProtobufCMessage *message)
{
    packet_begin(writer, packet_time_ns(writer), SEQUENCE_PLAIN);
    proto_put_message(&writer->packet, field, message);
    return packet_end(writer);
}

void packet_put_interned(struct trace_writer *writer)
{
    if (writer->interned.failed && writer->error == 0)
        writer->error = -ENOMEM;
    if (writer->interned.length == 0)
        return;
    proto_put_bytes(&writer->packet, PB_TRACE_PACKET_INTERNED_DATA, writer->interned.bytes,
                    writer->interned.length);
    writer->interned.length = 0;
}

int packet_flush_interned(struct trace_writer *writer)
{
    if (writer->interned.length == 0)
        return writer->error;
    if (writer->for_service)
        return packet_write_profile(writer, NULL, NULL, true);
    packet_begin(writer, packet_time_ns(writer), SEQUENCE_NEEDS_INTERNED);
    packet_put_interned(writer);
    return packet_end(writer);
}
