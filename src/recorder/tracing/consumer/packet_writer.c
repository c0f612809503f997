/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the replies in place: each byte is copied once into its packet and once into the output. */
#include "recorder/tracing/consumer/packet_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "trace/proto_cursor.h"
#include "util/write_all.h"

/* Field numbers of ReadBuffersResponse, of its Slice, and of Trace. */
enum { RESPONSE_SLICES = 2, SLICE_DATA = 1, SLICE_IS_LAST = 2, TRACE_PACKET = 1 };

void packet_writer_init(struct packet_writer *writer, int fd, uint64_t bytes_max)
{
    *writer = (struct packet_writer){.fd = fd, .bytes_max = bytes_max};
}

void packet_writer_clear(struct packet_writer *writer)
{
    proto_buffer_free(&writer->packet);
    proto_buffer_free(&writer->out);
}

static int add_slice(struct packet_writer *writer, struct proto_span slice, struct error *error)
{
    struct proto_field field;
    struct proto_span data = {0};
    bool is_last = false;
    int more;
    while ((more = proto_next(&slice, &field)) > 0) {
        if (field.number == SLICE_DATA && field.type == PROTO_BYTES)
            data = field.span;
        else if (field.number == SLICE_IS_LAST && field.type == PROTO_VARINT)
            is_last = field.value != 0;
    }
    if (more < 0)
        return error_set(error, -EPROTO, "the tracing service sent a malformed slice of a packet");
    if (proto_length(data) > PACKET_WRITER_BYTES_MAX - writer->packet.length)
        return error_set(error, -EPROTO, "the tracing service sent a packet of more than %zu bytes",
                         PACKET_WRITER_BYTES_MAX);
    proto_put_raw(&writer->packet, data.at, proto_length(data));
    if (!is_last || writer->packet.failed)
        return 0;
    proto_put_bytes(&writer->out, TRACE_PACKET, writer->packet.bytes, writer->packet.length);
    writer->packet.length = 0;
    writer->packets++;
    return 0;
}

int packet_writer_add(struct packet_writer *writer, const uint8_t *response, size_t length,
                      struct error *error)
{
    if (length == 0)
        return 0;
    struct proto_span rest = {response, response + length};
    struct proto_field field;
    int more, code = 0;
    while (code == 0 && (more = proto_next(&rest, &field)) != 0) {
        if (more < 0)
            code = error_set(error, -EPROTO, "the tracing service sent malformed packets");
        else if (field.number == RESPONSE_SLICES && field.type == PROTO_BYTES)
            code = add_slice(writer, field.span, error);
    }
    if (writer->packet.failed || writer->out.failed)
        return error_set(error, -ENOMEM, "no memory for a packet of the trace");
    if (writer->out.length > writer->bytes_max - writer->bytes)
        return error_set(error, -EFBIG,
                         "the tracing service sent more than %llu bytes, which its buffers cannot "
                         "hold",
                         (unsigned long long)writer->bytes_max);
    int written = write_all(writer->fd, writer->out.bytes, writer->out.length);
    if (written < 0)
        return error_set(error, written, "cannot write the trace: %s", strerror(-written));
    writer->bytes += writer->out.length;
    writer->out.length = 0;
    return code;
}
