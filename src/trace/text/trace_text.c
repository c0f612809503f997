/* SPDX-License-Identifier: Apache-2.0 */
/* Convert traces to text and back, packet by packet. */
#include "trace/text/trace_text.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/proto_cursor.h"
#include "trace/read/trace_reader.h"
#include "trace/read/trace_source.h"
#include "trace/text/text_format.h"
#include "trace/text/text_print.h"
#include "trace/write/trace_writer.h"
#include "util/write_all.h"

#define WRITE_BYTES ((size_t)256 << 10)
/* The text of one packet may have a gigabyte, the next one a line. A larger buffer is freed. */
#define KEPT_BYTES ((size_t)64 << 20)

struct output {
    int fd;
    struct proto_buffer buffer;
    const struct trace_text_progress *progress;
    struct error *error;
};

/* Write the buffer. Return 0 or a negative errno. */
static int trace_text_flush(struct output *output, uint64_t input_bytes)
{
    if (output->buffer.failed)
        return error_set(output->error, -ENOMEM, "no memory to convert the trace");
    int code = write_all(output->fd, output->buffer.bytes, output->buffer.length);
    if (code < 0)
        return error_set(output->error, code, "the output cannot be written: %s", strerror(-code));
    output->buffer.length = 0;
    if (output->buffer.capacity > KEPT_BYTES)
        proto_buffer_free(&output->buffer);
    if (output->progress != NULL)
        output->progress->tell(output->progress->context, input_bytes);
    return 0;
}

static int flush_if_full(struct output *output, uint64_t input_bytes)
{
    bool is_full = output->buffer.length >= WRITE_BYTES || output->buffer.failed;
    return is_full ? trace_text_flush(output, input_bytes) : 0;
}

/* Write the rest of the buffer and free it. An earlier error takes precedence. */
static int trace_text_finish(struct output *output, int code, uint64_t input_bytes)
{
    struct error last = {0}, *error = output->error;
    output->error = code < 0 ? &last : error;
    int flushed = trace_text_flush(output, input_bytes);
    proto_buffer_free(&output->buffer);
    return code < 0 ? code : flushed;
}

/* --- from a trace --- */

/* Write all fields of a trace, as text or unchanged. */
static int convert_fields(struct trace_reader *reader, bool as_text, struct output *output)
{
    struct proto_span raw;
    int code;
    while ((code = trace_reader_next_raw(reader, &raw, output->error)) > 0) {
        uint64_t offset = trace_reader_offset(reader);
        if (!as_text)
            proto_put_raw(&output->buffer, raw.at, proto_length(raw));
        else if (!text_print_fields(&perfetto__protos__trace__descriptor, raw, &output->buffer))
            return error_set(output->error, -EBADMSG,
                             "the field at offset %llu cannot be written as protobuf text",
                             (unsigned long long)offset);
        code = flush_if_full(output, offset + proto_length(raw));
        if (code < 0)
            return code;
    }
    return code;
}

static int convert_trace(const char *path, int fd, bool as_text,
                         const struct trace_text_progress *progress, struct error *error)
{
    struct output output = {.fd = fd, .progress = progress, .error = error};
    struct trace_reader *reader = trace_reader_open(path, error);
    if (reader == NULL)
        return error->code;
    int code = convert_fields(reader, as_text, &output);
    code = trace_text_finish(&output, code, trace_reader_offset(reader));
    trace_reader_close(reader);
    return code;
}

int trace_text_print(const char *path, int fd, const struct trace_text_progress *progress,
                     struct error *error)
{
    return convert_trace(path, fd, true, progress, error);
}

int trace_text_unpack(const char *path, int fd, const struct trace_text_progress *progress,
                      struct error *error)
{
    return convert_trace(path, fd, false, progress, error);
}

/* --- from a text --- */

static ssize_t read_text(void *context, char *buffer, size_t size, struct error *error)
{
    return trace_source_read(context, buffer, size, error);
}

static bool must_know(const ProtobufCMessageDescriptor *message)
{
    (void)message;
    return true;
}

static bool is_bytes(const struct proto_field *field, uint32_t number)
{
    return field->number == number && field->type == PROTO_BYTES;
}

/* If the field from `begin` on is a single packet, the head of a checkpoint with what it withdraws,
 * write its lengths in the size that they have in our traces. */
static void restore_checkpoint_head(struct proto_buffer *buffer, size_t begin)
{
    if (buffer->length == begin) /* an empty list */
        return;
    struct proto_span rest = {buffer->bytes + begin, buffer->bytes + buffer->length};
    struct proto_field packet, field;
    if (proto_next(&rest, &packet) <= 0 || !is_bytes(&packet, PB_TRACE_PACKET) ||
        proto_next(&packet.span, &field) <= 0 || !is_bytes(&field, PB_TRACE_PACKET_WITHDRAWN) ||
        proto_length(packet.span) > 0 || proto_length(rest) > 0)
        return;
    size_t at = (size_t)(field.span.at - buffer->bytes), length = proto_length(field.span);
    if (proto_buffer_reserve(buffer, TRACE_CHECKPOINT_HEAD_BYTES) == NULL)
        return;
    memmove(buffer->bytes + begin + TRACE_CHECKPOINT_HEAD_BYTES, buffer->bytes + at, length);
    trace_checkpoint_make_head(buffer->bytes + begin, length);
    buffer->length = begin + TRACE_CHECKPOINT_HEAD_BYTES + length;
}

int trace_text_read(const char *path, int fd, const struct trace_text_progress *progress,
                    struct error *error)
{
    static const struct text_format_reader exact = {.must_know = must_know, .is_exact = true};
    struct text_format_parser parser = {.reader = &exact};
    struct output output = {.fd = fd, .progress = progress, .error = error};
    struct trace_source *source = trace_source_open(path, error);
    if (source == NULL)
        return error->code;
    text_scanner_open_stream(&parser.scanner, read_text, source, error);
    int code = parser.scanner.code;
    while (code == 0) {
        size_t begin = output.buffer.length;
        code =
            text_format_read_field(&parser, &perfetto__protos__trace__descriptor, &output.buffer);
        if (code <= 0)
            break;
        restore_checkpoint_head(&output.buffer, begin);
        code = flush_if_full(&output, text_scanner_offset(&parser.scanner));
    }
    /* After an error the buffer ends with half a field. */
    if (code < 0)
        output.buffer.length = 0;
    code = trace_text_finish(&output, code, text_scanner_offset(&parser.scanner));
    text_scanner_close(&parser.scanner);
    trace_source_close(source);
    return code;
}
