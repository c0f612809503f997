/* SPDX-License-Identifier: Apache-2.0 */
/* Cut packets into fragments, and fill chunks with them. */
#include "recorder/tracing/producer/chunk_writer.h"

#include <string.h>

#include "pb_field_numbers.h"
#include "trace/proto_buffer.h"

/* The size of a fragment is a varint. A chunk has less than 2^21 bytes. */
#define SIZE_BYTES 3u
/* A fragment is not begun with less room than this: it would mostly be a size. */
#define FRAGMENT_ROOM_MIN (SIZE_BYTES + 8u)

/* In place of a fragment's size: the rest of the packet is missing. It has the four bytes that a
 * size may have. */
static const uint8_t dropped_size[] = {0xff, 0xff, 0xff, 0x7f};

/* TracePacket.previous_packet_dropped = true, before the packet's own fields. */
static const uint8_t loss_field[] = {
    (PB_TRACE_PACKET_PREVIOUS_PACKET_DROPPED << 3 & 0x7f) | 0x80,
    PB_TRACE_PACKET_PREVIOUS_PACKET_DROPPED >> 4,
    1,
};

/* --- chunks --- */

static bool begin_chunk(struct chunk_writer *writer, size_t wanted, unsigned flags)
{
    if (!shared_buffer_acquire(writer->buffer, wanted, &writer->chunk))
        return false;
    writer->has_chunk = true;
    writer->used = sizeof(struct chunk_header);
    writer->fragments = 0;
    writer->flags = flags;
    return true;
}

bool chunk_writer_flush(struct chunk_writer *writer)
{
    if (!writer->has_chunk)
        return true;
    const struct chunk_header header = {
        .chunk_id = writer->next_chunk_id++,
        .writer_id = writer->id,
        .packets = (uint16_t)(writer->fragments | writer->flags << CHUNK_FLAGS_SHIFT),
    };
    memcpy(writer->chunk.bytes, &header, sizeof(header));
    writer->has_chunk = false;
    if (!shared_buffer_complete(writer->buffer, &writer->chunk))
        return false;
    writer->user->completed(writer->user->context, &writer->chunk, writer->used,
                            writer->target_buffer);
    return true;
}

/* Tell the service that the packet that ended the last chunk is not continued. It would wait for
 * the rest otherwise. */
static enum chunk_writer_result end_cut_packet(struct chunk_writer *writer)
{
    if (!begin_chunk(writer, sizeof(dropped_size), CHUNK_FIRST_CONTINUES))
        return PACKET_WAITS;
    memcpy(writer->chunk.bytes + writer->used, dropped_size, sizeof(dropped_size));
    writer->used += (uint32_t)sizeof(dropped_size);
    writer->fragments = 1;
    writer->was_cut = false;
    return chunk_writer_flush(writer) ? PACKET_WRITTEN : PACKET_BROKEN;
}

/* Make sure that there is a chunk with room for a fragment. */
static enum chunk_writer_result find_room(struct chunk_writer *writer, size_t ahead)
{
    enum chunk_writer_result result = PACKET_WRITTEN;
    if (writer->has_chunk &&
        (writer->chunk.size - writer->used < FRAGMENT_ROOM_MIN ||
         writer->fragments == CHUNK_FRAGMENTS_MAX) &&
        !chunk_writer_flush(writer))
        return PACKET_BROKEN;
    if (writer->has_chunk)
        return PACKET_WRITTEN;
    if (writer->was_cut)
        result = end_cut_packet(writer);
    if (result == PACKET_WRITTEN &&
        !begin_chunk(writer, ahead, writer->done > 0 ? CHUNK_FIRST_CONTINUES : 0))
        result = PACKET_WAITS;
    return result;
}

/* --- packets --- */

/* Copy bytes [from, from + length) of the packet with its prefix. */
static void copy_part(uint8_t *to, size_t prefix, const uint8_t *packet, size_t from, size_t length)
{
    if (from < prefix) {
        size_t count = prefix - from < length ? prefix - from : length;
        memcpy(to, loss_field + from, count);
        to += count;
        from += count;
        length -= count;
    }
    if (length > 0)
        memcpy(to, packet + (from - prefix), length);
}

enum chunk_writer_result chunk_writer_put(struct chunk_writer *writer, const uint8_t *packet,
                                          size_t length, size_t ahead)
{
    size_t prefix = writer->has_lost ? sizeof(loss_field) : 0, whole = prefix + length;
    while (writer->done < whole) {
        enum chunk_writer_result result =
            find_room(writer, ahead + prefix + SIZE_BYTES + 1 - writer->done);
        if (result != PACKET_WRITTEN)
            return result;
        size_t room = writer->chunk.size - writer->used - SIZE_BYTES;
        size_t part = whole - writer->done < room ? whole - writer->done : room;
        writer->used += (uint32_t)proto_encode_varint(writer->chunk.bytes + writer->used, part);
        copy_part(writer->chunk.bytes + writer->used, prefix, packet, writer->done, part);
        writer->used += (uint32_t)part;
        writer->fragments++;
        writer->done += part;
        if (writer->done == whole)
            break;
        writer->flags |= CHUNK_LAST_CONTINUES;
        if (!chunk_writer_flush(writer))
            return PACKET_BROKEN;
    }
    writer->has_lost = false;
    writer->done = 0;
    return PACKET_WRITTEN;
}

void chunk_writer_give_up(struct chunk_writer *writer)
{
    writer->was_cut |= writer->done > 0;
    writer->done = 0;
    writer->has_lost = true;
    writer->lost_packets++;
}
