/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's core: opens and closes a trace, and writes each packet with one system call, so that
 * the trace of a killed writer contains all packets.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "pb_field_numbers.h"
#include "trace/write/writer_state.h"
#include "util/write_all.h"

#define SEQUENCE_CLEARED 1u
#define SEQUENCE_NEEDS_STATE 2u

struct trace_writer *trace_writer_open(int fd)
{
    struct trace_writer *writer = calloc(1, sizeof(*writer));
    if (writer != NULL) {
        writer->fd = fd;
        writer->sequence = TRACE_SEQUENCE_MAIN;
        writer->start = lseek(fd, 0, SEEK_CUR);
        writer->bytes_max = UINT64_MAX;
        writer->files = &writer->own_files;
    }
    return writer;
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
    intern_free(&writer->build_ids);
    intern_free(&writer->mappings);
    intern_free(&writer->frames);
    intern_free(&writer->callstacks);
    intern_free(&writer->heap_names);
    intern_free(&writer->heap_contexts);
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

uint64_t boottime_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void packet_begin(struct trace_writer *writer, uint64_t boottime_ns, enum sequence_use use)
{
    struct proto_buffer *packet = &writer->packet;
    uint32_t flags = use == SEQUENCE_NEEDS_INTERNED ? SEQUENCE_NEEDS_STATE : 0;
    packet->length = 0;
    proto_put_uint(packet, PB_TRACE_PACKET_TIMESTAMP, boottime_ns);
    proto_put_uint(packet, PB_TRACE_PACKET_TRUSTED_UID, getuid());
    proto_put_uint(packet, PB_TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID, writer->sequence);
    proto_put_uint(packet, PB_TRACE_PACKET_TRUSTED_PID, (uint64_t)getpid());
    if (!writer->sequence_begun) {
        flags |= SEQUENCE_CLEARED;
        proto_put_uint(packet, PB_TRACE_PACKET_FIRST_PACKET_ON_SEQUENCE, 1);
        writer->sequence_begun = true;
    }
    if (flags != 0)
        proto_put_uint(packet, PB_TRACE_PACKET_SEQUENCE_FLAGS, flags);
}

int packet_end(struct trace_writer *writer)
{
    struct proto_buffer *packet = &writer->packet;
    if (writer->error == 0 && packet->failed)
        writer->error = -ENOMEM;
    if (writer->error < 0)
        return writer->error;
    uint8_t head[1 + PROTO_VARINT_BYTES_MAX] = {PB_TRACE_PACKET << 3 | 2};
    size_t head_length = 1 + proto_encode_varint(head + 1, packet->length);
    struct iovec parts[] = {{head, head_length}, {packet->bytes, packet->length}};
    if (writer->bytes + head_length + packet->length > writer->bytes_max)
        writer->error = -EFBIG;
    else
        writer->error = write_all_parts(writer->fd, parts, 2);
    if (writer->error == 0)
        writer->bytes += head_length + packet->length;
    return writer->error;
}

int packet_write_message(struct trace_writer *writer, uint32_t field,
                         const ProtobufCMessage *message)
{
    packet_begin(writer, boottime_now_ns(), SEQUENCE_PLAIN);
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
    packet_begin(writer, boottime_now_ns(), SEQUENCE_NEEDS_INTERNED);
    packet_put_interned(writer);
    return packet_end(writer);
}
