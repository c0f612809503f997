/* SPDX-License-Identifier: Apache-2.0 */
/* Print the fields of messages. */
#include "trace/text/text_print.h"

#include <string.h>

#include "trace/text/text_number.h"

/* Deeper messages are printed as bytes. text_format.c reads this depth. */
#define DEPTH_MAX 60
/* The same limit for unknown fields that only look like messages. */
#define GUESSED_DEPTH_MAX 10

/* --- pieces of a line --- */

static void put_text(struct proto_buffer *out, const char *text)
{
    proto_put_raw(out, text, strlen(text));
}

/* Write the beginning of a line: " name", or the number. */
static void put_name(struct proto_buffer *out, unsigned depth,
                     const ProtobufCFieldDescriptor *known, uint32_t number)
{
    size_t indent = (size_t)depth * 2, length = known == NULL ? 0 : strlen(known->name);
    char *at = (char *)proto_buffer_reserve(out, indent + length + TEXT_NUMBER_BYTES);
    if (at == NULL)
        return;
    memset(at, ' ', indent);
    if (known != NULL)
        memcpy(at + indent, known->name, length);
    else
        length = text_number_of_uint(number, at + indent);
    out->length += indent + length;
}

static void put_uint(struct proto_buffer *out, uint64_t value)
{
    char *at = (char *)proto_buffer_reserve(out, TEXT_NUMBER_BYTES);
    if (at != NULL)
        out->length += text_number_of_uint(value, at);
}

static void put_int(struct proto_buffer *out, int64_t value)
{
    if (value < 0)
        put_text(out, "-");
    put_uint(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void put_hex(struct proto_buffer *out, uint64_t value, unsigned digits)
{
    char text[18] = "0x";
    for (unsigned i = 0; i < digits; i++)
        text[2 + i] = "0123456789abcdef"[value >> (4 * (digits - 1 - i)) & 15];
    proto_put_raw(out, text, 2 + digits);
}

/* Return whether a byte is printed unescaped between quotes. */
static bool is_plain(uint8_t byte)
{
    return byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\' && byte != '\'';
}

static size_t escape(uint8_t byte, char *to)
{
    static const char names[] = "n\nr\rt\t\"\"\\\\''";
    *to++ = '\\';
    for (size_t i = 0; i + 1 < sizeof(names); i += 2) {
        if ((uint8_t)names[i + 1] == byte) {
            *to = names[i];
            return 2;
        }
    }
    *to++ = (char)('0' + (byte >> 6));
    *to++ = (char)('0' + (byte >> 3 & 7));
    *to = (char)('0' + (byte & 7));
    return 4;
}

static void put_quoted(struct proto_buffer *out, struct proto_span bytes)
{
    put_text(out, "\"");
    while (bytes.at < bytes.end) {
        const uint8_t *plain = bytes.at;
        char escaped[4];
        while (bytes.at < bytes.end && is_plain(*bytes.at))
            bytes.at++;
        proto_put_raw(out, plain, (size_t)(bytes.at - plain));
        if (bytes.at < bytes.end)
            proto_put_raw(out, escaped, escape(*bytes.at++, escaped));
    }
    put_text(out, "\"");
}

/* --- values --- */

/* Write a varint as a field of this type. */
static void put_scalar(struct proto_buffer *out, const ProtobufCFieldDescriptor *field,
                       uint64_t value)
{
    const ProtobufCEnumValue *named;
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
        put_uint(out, (uint32_t)value);
        return;
    case PROTOBUF_C_TYPE_INT32:
        put_int(out, (int32_t)value);
        return;
    case PROTOBUF_C_TYPE_INT64:
        put_int(out, (int64_t)value);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        put_text(out, value != 0 ? "true" : "false");
        return;
    case PROTOBUF_C_TYPE_ENUM:
        named = protobuf_c_enum_descriptor_get_value(field->descriptor, (int32_t)value);
        if (named != NULL)
            put_text(out, named->name);
        else
            put_int(out, (int32_t)value);
        return;
    default:
        put_uint(out, value);
    }
}

static void put_double(struct proto_buffer *out, uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    char *at = (char *)proto_buffer_reserve(out, TEXT_NUMBER_BYTES);
    if (at != NULL)
        out->length += text_number_of_double(value, at);
}

static void print_number(const ProtobufCFieldDescriptor *known, uint64_t value,
                         struct proto_buffer *out)
{
    put_text(out, ": ");
    if (known->type == PROTOBUF_C_TYPE_DOUBLE)
        put_double(out, value);
    else
        put_scalar(out, known, value);
    put_text(out, "\n");
}

/* Write a list of numbers in one field. Return false if it is not a list; the caller removes what
 * was appended. */
static bool print_packed(const ProtobufCFieldDescriptor *known, struct proto_span rest,
                         struct proto_buffer *out)
{
    put_text(out, ": [");
    for (const char *separator = ""; rest.at < rest.end; separator = ", ") {
        uint64_t value;
        put_text(out, separator);
        if (known->type == PROTOBUF_C_TYPE_DOUBLE) {
            if (proto_length(rest) < sizeof(value))
                return false;
            memcpy(&value, rest.at, sizeof(value));
            rest.at += sizeof(value);
            put_double(out, value);
        } else {
            if (!proto_read_varint(&rest, &value))
                return false;
            put_scalar(out, known, value);
        }
    }
    put_text(out, "]\n");
    return true;
}

/* --- messages --- */

static bool print_fields(const ProtobufCMessageDescriptor *message, struct proto_span fields,
                         unsigned depth, unsigned guessed, struct proto_buffer *out);

static void put_indent(struct proto_buffer *out, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++)
        put_text(out, "  ");
}

/* Write a message in { }. Return false if it is not one; the caller removes what was appended. */
static bool print_message(const ProtobufCMessageDescriptor *message, struct proto_span fields,
                          unsigned depth, unsigned guessed, struct proto_buffer *out)
{
    put_text(out, " {\n");
    if (!print_fields(message, fields, depth + 1, guessed, out))
        return false;
    put_indent(out, depth);
    put_text(out, "}\n");
    return true;
}

static bool is_text(struct proto_span bytes)
{
    for (; bytes.at < bytes.end; bytes.at++)
        if (!is_plain(*bytes.at) && *bytes.at != '\n' && *bytes.at != '\t')
            return false;
    return true;
}

/* Return whether a field that begins at `at` has the encoding that text_format.h gives it. */
static bool is_canonical(const uint8_t *at, const struct proto_field *field)
{
    uint8_t head[2 * PROTO_VARINT_BYTES_MAX];
    size_t length = proto_encode_varint(head, (uint64_t)field->number << 3 | field->type);
    if (field->type == PROTO_VARINT)
        length += proto_encode_varint(head + length, field->value);
    else if (field->type == PROTO_BYTES)
        length += proto_encode_varint(head + length, proto_length(field->span));
    return memcmp(at, head, length) == 0;
}

/* Return whether the bytes of an unknown field are a message: they consist of fields and are not
 * text. Because this is a guess, the same bytes must come back. */
static bool looks_like_message(struct proto_span bytes)
{
    const uint8_t *at = bytes.at;
    struct proto_field field;
    int status;
    if (is_text(bytes))
        return false;
    for (; (status = proto_next(&bytes, &field)) > 0; at = bytes.at)
        if (!is_canonical(at, &field))
            return false;
    return status == 0;
}

static void print_bytes(struct proto_span bytes, struct proto_buffer *out)
{
    put_text(out, ": ");
    put_quoted(out, bytes);
    put_text(out, "\n");
}

/* Write a field by its number. */
static void print_unknown(const struct proto_field *field, unsigned depth, unsigned guessed,
                          struct proto_buffer *out)
{
    put_name(out, depth, NULL, field->number);
    size_t after_name = out->length;
    switch (field->type) {
    case PROTO_BYTES:
        if (depth < DEPTH_MAX && guessed < GUESSED_DEPTH_MAX && looks_like_message(field->span) &&
            print_message(NULL, field->span, depth, guessed + 1, out))
            return;
        out->length = after_name;
        print_bytes(field->span, out);
        return;
    case PROTO_VARINT:
        put_text(out, ": ");
        put_uint(out, field->value);
        break;
    default:
        put_text(out, ": ");
        put_hex(out, field->value, field->type == PROTO_FIXED64 ? 16 : 8);
    }
    put_text(out, "\n");
}

/* Return whether a field has the encoding of its type. Other types than these are printed by
 * number. */
static bool fits(const ProtobufCFieldDescriptor *known, const struct proto_field *field,
                 unsigned depth)
{
    bool is_list =
        field->type == PROTO_BYTES && known->label == PROTOBUF_C_LABEL_REPEATED; /* of numbers */
    switch (known->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return field->type == PROTO_BYTES && depth < DEPTH_MAX;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return field->type == PROTO_BYTES;
    case PROTOBUF_C_TYPE_DOUBLE:
        return field->type == PROTO_FIXED64 || is_list;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        return field->type == PROTO_VARINT || is_list;
    default:
        return false;
    }
}

/* Write a field by its name if it fits the descriptor. Return false if it does not. */
static bool print_known(const ProtobufCFieldDescriptor *known, const struct proto_field *field,
                        unsigned depth, struct proto_buffer *out)
{
    size_t begin = out->length;
    bool good = true;
    if (!fits(known, field, depth))
        return false;
    put_name(out, depth, known, known->id);
    if (known->type == PROTOBUF_C_TYPE_MESSAGE)
        good = print_message(known->descriptor, field->span, depth, 0, out);
    else if (known->type == PROTOBUF_C_TYPE_STRING || known->type == PROTOBUF_C_TYPE_BYTES)
        print_bytes(field->span, out);
    else if (field->type == PROTO_BYTES)
        good = print_packed(known, field->span, out);
    else
        print_number(known, field->value, out);
    if (!good)
        out->length = begin;
    return good;
}

static bool print_fields(const ProtobufCMessageDescriptor *message, struct proto_span fields,
                         unsigned depth, unsigned guessed, struct proto_buffer *out)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&fields, &field)) > 0) {
        const ProtobufCFieldDescriptor *known =
            message == NULL ? NULL : protobuf_c_message_descriptor_get_field(message, field.number);
        if (known == NULL || !print_known(known, &field, depth, out))
            print_unknown(&field, depth, guessed, out);
    }
    return status == 0;
}

bool text_print_fields(const ProtobufCMessageDescriptor *message, struct proto_span fields,
                       struct proto_buffer *out)
{
    size_t begin = out->length;
    bool good = print_fields(message, fields, 0, 0, out);
    if (!good)
        out->length = begin;
    return good;
}
