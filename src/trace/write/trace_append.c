/* SPDX-License-Identifier: Apache-2.0 */
/* Copies packets, and replaces one field in each. */
#include "trace/write/trace_append.h"

#include <errno.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "trace/proto_buffer.h"
#include "trace/read/trace_reader.h"
#include "util/write_all.h"

#define OUT_BYTES ((size_t)1 << 20)

/* Append a packet. A malformed one stays as it is: readers count it. */
static void put_packet(struct proto_buffer *out, struct proto_buffer *changed,
                       struct proto_span packet)
{
    struct proto_span rest = packet;
    const uint8_t *copied = packet.at;
    struct proto_field field;
    changed->length = 0;
    for (const uint8_t *at = rest.at; proto_next(&rest, &field) > 0; at = rest.at) {
        if (field.number != PB_TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID ||
            field.type != PROTO_VARINT)
            continue;
        proto_put_raw(changed, copied, (size_t)(at - copied));
        proto_put_uint(changed, field.number, (uint32_t)field.value + TRACE_APPEND_SEQUENCES);
        copied = rest.at;
    }
    proto_put_raw(changed, copied, (size_t)(packet.end - copied));
    proto_put_bytes(out, PB_TRACE_PACKET, changed->bytes, changed->length);
}

static int trace_append_flush(int to, struct proto_buffer *out, struct trace_appended *appended,
                              struct error *error)
{
    int code = out->failed ? -ENOMEM : write_all(to, out->bytes, out->length);
    if (code < 0)
        return error_set(error, code, "cannot append to the trace: %s", strerror(-code));
    appended->bytes += out->length;
    out->length = 0;
    return 0;
}

int trace_append(int to, const char *path, struct trace_appended *appended, struct error *error)
{
    struct trace_reader *reader = trace_reader_open(path, error);
    struct proto_buffer out = {0}, changed = {0};
    struct proto_span packet;
    int code = reader == NULL ? error->code : 1, written = 0;
    *appended = (struct trace_appended){0};
    while (code > 0 && written == 0 && (code = trace_reader_next(reader, &packet, error)) > 0) {
        put_packet(&out, &changed, packet);
        out.failed |= changed.failed;
        appended->packets++;
        if (out.length >= OUT_BYTES || out.failed)
            written = trace_append_flush(to, &out, appended, error);
    }
    struct error problem = *error; /* what ended the reading; trace_append_flush() may replace it */
    if (written == 0)
        written = trace_append_flush(to, &out, appended, error);
    if (written == 0 && code < 0)
        *error = problem;
    trace_reader_close(reader);
    proto_buffer_free(&out);
    proto_buffer_free(&changed);
    return written < 0 ? written : code;
}
