/* SPDX-License-Identifier: Apache-2.0 */
/* Split a trace into packets, and unpack compressed ones. */
#include "trace/read/trace_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "trace/proto_buffer.h"
#include "trace/read/trace_source.h"

#define BUFFER_BYTES (512u * 1024u)
/* Maximum bytes of a field before its contents: its key and its length. */
#define HEAD_BYTES_MAX (2u * PROTO_VARINT_BYTES_MAX)
/* n bytes may unpack to UNPACKED_BASE_BYTES + n * UNPACKED_TIMES. Recorders pack half a MB at a
 * time, and rarely to less than a tenth. */
#define UNPACKED_BASE_BYTES ((size_t)16 << 20)
#define UNPACKED_TIMES 64u

struct trace_reader {
    struct trace_source *source;
    uint8_t *buffer;
    size_t at, length, capacity;
    uint64_t offset;    /* of buffer[at] in the file */
    uint64_t large_end; /* where the last packet ended that needed a larger buffer */
    uint64_t packet_offset;
    bool ended;
    int source_error;
    struct error source_message;
    /* Contents of a packet of compressed packets. */
    uint8_t *unpacked;
    struct proto_span unpacked_left; /* or of a withdrawn checkpoint, in `buffer` */
    struct proto_span raw;           /* the last field that was read, including its key */
    bool takes_withdrawn;
};

struct trace_reader *trace_reader_open_source(struct trace_source *source, struct error *error)
{
    if (source == NULL)
        return NULL;
    struct trace_reader *reader = calloc(1, sizeof(*reader));
    if (reader != NULL)
        reader->buffer = malloc(BUFFER_BYTES);
    if (reader == NULL || reader->buffer == NULL) {
        error_set(error, -ENOMEM, "no memory to read the trace");
        trace_source_close(source);
        free(reader);
        return NULL;
    }
    reader->source = source;
    reader->capacity = BUFFER_BYTES;
    return reader;
}

struct trace_reader *trace_reader_open(const char *path, struct error *error)
{
    return trace_reader_open_source(trace_source_open(path, error), error);
}

void trace_reader_close(struct trace_reader *reader)
{
    if (reader == NULL)
        return;
    trace_source_close(reader->source);
    free(reader->buffer);
    free(reader->unpacked);
    free(reader);
}

int trace_reader_check(const struct trace_reader *reader, struct error *error)
{
    return trace_source_check(reader->source, error);
}

uint64_t trace_reader_offset(const struct trace_reader *reader)
{
    return reader->packet_offset;
}

static void consume(struct trace_reader *reader, size_t bytes)
{
    reader->at += bytes;
    reader->offset += bytes;
}

/* Return the memory of a buffer that has grown for a large packet, after as many bytes of packets
 * that did not need it: traces begin with their tables. */
static void shrink(struct trace_reader *reader, size_t wanted)
{
    size_t left = reader->length - reader->at;
    if (wanted > BUFFER_BYTES || left > BUFFER_BYTES) {
        reader->large_end = reader->offset + wanted;
        return;
    }
    if (reader->capacity == BUFFER_BYTES || reader->at > 0 ||
        reader->offset < reader->large_end + reader->capacity)
        return;
    uint8_t *small = realloc(reader->buffer, BUFFER_BYTES);
    if (small == NULL)
        return;
    reader->buffer = small;
    reader->capacity = BUFFER_BYTES;
}

/* Read until the buffer contains `wanted` bytes from `at` on, or all that are left. The buffer only
 * grows with bytes that were really read, so a false length costs nothing. */
static int trace_reader_fill(struct trace_reader *reader, size_t wanted, struct error *error)
{
    while (reader->length - reader->at < wanted && !reader->ended) {
        if (reader->at > 0) {
            memmove(reader->buffer, reader->buffer + reader->at, reader->length - reader->at);
            reader->length -= reader->at;
            reader->at = 0;
        }
        shrink(reader, wanted);
        if (reader->length == reader->capacity) {
            uint8_t *grown = realloc(reader->buffer, reader->capacity * 2);
            if (grown == NULL)
                return error_set(error, -ENOMEM, "no memory to read the trace");
            reader->buffer = grown;
            reader->capacity *= 2;
        }
        ssize_t got = trace_source_read(reader->source, reader->buffer + reader->length,
                                        reader->capacity - reader->length, &reader->source_message);
        if (got <= 0) {
            reader->ended = true;
            reader->source_error = (int)got;
        } else {
            reader->length += (size_t)got;
        }
    }
    return 0;
}

/* trace_reader_fill(), fast for small packets: most are in the buffer. */
static inline int trace_reader_reserve(struct trace_reader *reader, size_t wanted,
                                       struct error *error)
{
    return reader->length - reader->at >= wanted ? 0 : trace_reader_fill(reader, wanted, error);
}

/* Report that the source failed or ended inside a packet. */
static int cut_off(struct trace_reader *reader, struct error *error)
{
    if (reader->source_error < 0)
        return error_set(error, reader->source_error, "at offset %llu: %s",
                         (unsigned long long)(reader->offset + reader->length - reader->at),
                         reader->source_message.message);
    return error_set(error, -EBADMSG, "the trace is cut off in the packet at offset %llu",
                     (unsigned long long)reader->packet_offset);
}

static int damaged(struct trace_reader *reader, const char *reason, struct error *error)
{
    const char *what =
        reader->packet_offset > 0 ? "the trace is" : "it is no trace, or one that is";
    return error_set(error, -EBADMSG, "%s damaged at offset %llu: %s", what,
                     (unsigned long long)reader->packet_offset, reason);
}

/* Read the next field of the file's outermost message, as a span in the buffer. */
static int next_in_file(struct trace_reader *reader, struct proto_field *field, struct error *error)
{
    reader->packet_offset = reader->offset;
    int code = trace_reader_reserve(reader, HEAD_BYTES_MAX, error);
    if (code < 0)
        return code;
    struct proto_span span = {reader->buffer + reader->at, reader->buffer + reader->length};
    if (span.at == span.end)
        return reader->source_error < 0 ? cut_off(reader, error) : 0;
    const uint8_t *begin = span.at;
    struct proto_span head = span;
    uint64_t key, length = 0;
    if (!proto_read_varint(&head, &key))
        return proto_length(span) < PROTO_VARINT_BYTES_MAX
                   ? cut_off(reader, error)
                   : damaged(reader, "not a protobuf field", error);
    if ((key & 7) != PROTO_BYTES) {
        if (proto_next(&span, field) < 0)
            return damaged(reader, "not a protobuf field", error);
        reader->raw = (struct proto_span){begin, span.at};
        consume(reader, (size_t)(span.at - begin));
        return 1;
    }
    const uint8_t *length_at = head.at;
    if (!proto_read_varint(&head, &length))
        return head.end - length_at < PROTO_VARINT_BYTES_MAX
                   ? cut_off(reader, error)
                   : damaged(reader, "not a length", error);
    if (length > TRACE_READER_PACKET_BYTES_MAX)
        return damaged(reader, "a packet of more than 256 MiB", error);
    size_t head_length = (size_t)(head.at - begin);
    code = trace_reader_reserve(reader, head_length + length, error);
    if (code < 0)
        return code;
    span = (struct proto_span){reader->buffer + reader->at, reader->buffer + reader->length};
    if (proto_length(span) < head_length + length)
        return cut_off(reader, error);
    if (key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return damaged(reader, "not a protobuf field", error);
    span.end = span.at + head_length + length;
    *field = (struct proto_field){
        .number = (uint32_t)(key >> 3),
        .type = PROTO_BYTES,
        .span = {span.at + head_length, span.end},
    };
    reader->raw = span;
    consume(reader, head_length + length);
    return 1;
}

void trace_reader_take_withdrawn(struct trace_reader *reader)
{
    reader->takes_withdrawn = true;
}

/* Unpack a packet if it contains packets. Return 0 or a negative errno. */
static int unpack(struct trace_reader *reader, struct proto_span packet, struct error *error)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&packet, &field)) > 0) {
        if (reader->takes_withdrawn && field.type == PROTO_BYTES &&
            field.number == PB_TRACE_PACKET_WITHDRAWN) {
            reader->unpacked_left = field.span;
            return 0;
        }
        if (field.type != PROTO_BYTES || (field.number != PB_TRACE_PACKET_COMPRESSED_PACKETS &&
                                          field.number != PB_TRACE_PACKET_ZSTD_COMPRESSED_PACKETS))
            continue;
        enum trace_packing packing =
            field.number == PB_TRACE_PACKET_COMPRESSED_PACKETS ? TRACE_DEFLATE : TRACE_ZSTD;
        size_t length;
        free(reader->unpacked);
        reader->unpacked = NULL;
        size_t packed = proto_length(field.span);
        size_t most = packed < TRACE_READER_PACKET_BYTES_MAX / UNPACKED_TIMES
                          ? UNPACKED_BASE_BYTES + packed * UNPACKED_TIMES
                          : TRACE_READER_PACKET_BYTES_MAX;
        int code = trace_unpack(packing, field.span.at, packed, most, &reader->unpacked, &length);
        if (code == -ENOMEM)
            return error_set(error, code, "no memory to unpack the packets at offset %llu",
                             (unsigned long long)reader->packet_offset);
        if (code == -E2BIG) {
            char reason[80];
            snprintf(reason, sizeof(reason),
                     "%zu bytes of compressed packets become more than %zu MB", packed,
                     most / 1000000);
            return damaged(reader, reason, error);
        }
        if (code < 0)
            return damaged(reader, "compressed packets that cannot be unpacked", error);
        reader->unpacked_left = (struct proto_span){reader->unpacked, reader->unpacked + length};
        return 0;
    }
    return 0;
}

static bool is_packet(const struct proto_field *field)
{
    return field->number == PB_TRACE_PACKET && field->type == PROTO_BYTES;
}

/* Read the next field: from unpacked packets if there are any, else from the file. */
static int next_unpacked(struct trace_reader *reader, struct proto_field *field,
                         struct error *error)
{
    for (;;) {
        const uint8_t *begin = reader->unpacked_left.at;
        if (begin < reader->unpacked_left.end) {
            if (proto_next(&reader->unpacked_left, field) < 0) {
                reader->unpacked_left.at = reader->unpacked_left.end;
                return damaged(reader, "compressed packets with garbage inside", error);
            }
            reader->raw = (struct proto_span){begin, reader->unpacked_left.at};
            return 1;
        }
        int code = next_in_file(reader, field, error);
        if (code <= 0 || !is_packet(field))
            return code;
        code = unpack(reader, field->span, error);
        if (code < 0)
            return code;
        if (reader->unpacked_left.at == reader->unpacked_left.end)
            return 1;
    }
}

int trace_reader_next(struct trace_reader *reader, struct proto_span *packet, struct error *error)
{
    struct proto_field field;
    int code;
    while ((code = next_unpacked(reader, &field, error)) > 0 && !is_packet(&field))
        ;
    if (code > 0)
        *packet = field.span;
    return code;
}

int trace_reader_next_raw(struct trace_reader *reader, struct proto_span *raw, struct error *error)
{
    struct proto_field field;
    int code = next_unpacked(reader, &field, error);
    if (code > 0)
        *raw = reader->raw;
    return code;
}
