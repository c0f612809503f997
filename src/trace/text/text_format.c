/* SPDX-License-Identifier: Apache-2.0 */
/* Parse text, and write fields while reading them. */
#include "trace/text/text_format.h"

#include <errno.h>
#include <string.h>

#include "trace/proto_buffer.h"
#include "trace/text/text_value.h"

#define DEPTH_MAX 64
#define NAME_BYTES_MAX 128

static void parse_fields(struct text_format_parser *parser,
                         const ProtobufCMessageDescriptor *message, char closing, int depth,
                         struct proto_buffer *out);

/* --- fields with a length --- */

/* Insert a key and a length before the bytes of `out` from `begin` on. */
static void put_head(uint32_t number, struct proto_buffer *out, size_t begin)
{
    uint8_t head[2 * PROTO_VARINT_BYTES_MAX];
    size_t length = out->length - begin;
    size_t added = proto_encode_varint(head, (uint64_t)number << 3 | PROTO_BYTES);
    added += proto_encode_varint(head + added, length);
    if (proto_buffer_reserve(out, added) == NULL)
        return;
    memmove(out->bytes + begin + added, out->bytes + begin, length);
    memcpy(out->bytes + begin, head, added);
    out->length += added;
}

static void parse_string(struct text_format_parser *parser, const char *name, uint32_t number,
                         bool zero_allowed, struct proto_buffer *out)
{
    size_t begin = out->length;
    text_read_strings(&parser->scanner, name, zero_allowed, out);
    put_head(number, out, begin);
}

/* Parse a nested message. `message` NULL: its type is unknown. */
static void parse_nested(struct text_format_parser *parser, const char *name, uint32_t number,
                         const ProtobufCMessageDescriptor *message, int depth,
                         struct proto_buffer *out)
{
    size_t begin = out->length;
    char text[TEXT_FOUND_BYTES], closing = text_scanner_is_sign(&parser->scanner, '<') ? '>' : '}';
    if (!text_scanner_accept(&parser->scanner, '{') &&
        !text_scanner_accept(&parser->scanner, '<')) {
        text_scanner_fail(&parser->scanner, "%s found where %s expects { ... }",
                          text_scanner_found(&parser->scanner, text), name);
        return;
    }
    parse_fields(parser, message, closing, depth + 1, out);
    put_head(number, out, begin);
}

/* --- numbers --- */

static void put_key(struct proto_buffer *out, uint32_t number, enum proto_type type)
{
    proto_put_varint(out, (uint64_t)number << 3 | type);
}

static void put_value(enum proto_type type, uint64_t value, struct proto_buffer *out)
{
    if (type == PROTO_VARINT)
        proto_put_varint(out, value);
    else
        proto_put_raw(out, &value, type == PROTO_FIXED64 ? 8 : 4);
}

/* Parse one number. In an exact text, a number of a packed field is written packed, in a field of
 * its own. */
static void parse_number(struct text_format_parser *parser, const ProtobufCFieldDescriptor *field,
                         struct proto_buffer *out)
{
    bool is_exact = parser->reader->is_exact;
    enum proto_type type = text_scalar_type(field);
    uint64_t value = text_read_scalar(&parser->scanner, field, is_exact);
    size_t begin = out->length;
    if (is_exact && (field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0) {
        put_value(type, value, out);
        put_head(field->id, out, begin);
        return;
    }
    put_key(out, field->id, type);
    put_value(type, value, out);
}

/* Parse the numbers between [ and ] into one field. */
static void parse_packed(struct text_format_parser *parser, const ProtobufCFieldDescriptor *field,
                         struct proto_buffer *out)
{
    char text[TEXT_FOUND_BYTES];
    enum proto_type type = text_scalar_type(field);
    size_t begin = out->length;
    bool is_first = true;
    while (parser->scanner.code == 0 && !text_scanner_accept(&parser->scanner, ']')) {
        if (!is_first && !text_scanner_accept(&parser->scanner, ',')) {
            text_scanner_fail(&parser->scanner, "%s found where the list of %s expects ',' or ']'",
                              text_scanner_found(&parser->scanner, text), field->name);
            return;
        }
        put_value(type, text_read_scalar(&parser->scanner, field, true), out);
        is_first = false;
    }
    put_head(field->id, out, begin);
}

/* Parse the rest of a line "name: 123" whose name is the next token. Return false if the line has
 * another form. */
static bool parse_plain_line(struct text_format_parser *parser,
                             const ProtobufCFieldDescriptor *field, struct proto_buffer *out)
{
    uint64_t most = text_largest_of(field), value;
    if (most == 0 || (field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0 ||
        !text_scanner_take_line(&parser->scanner, most, &value))
        return false;
    proto_put_uint(out, field->id, value);
    return true;
}

static void parse_value(struct text_format_parser *parser, const ProtobufCFieldDescriptor *field,
                        int depth, struct proto_buffer *out)
{
    bool is_exact = parser->reader->is_exact;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        parse_string(parser, field->name, field->id,
                     is_exact || field->type == PROTOBUF_C_TYPE_BYTES, out);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        parse_nested(parser, field->name, field->id, field->descriptor, depth, out);
        break;
    default:
        parse_number(parser, field, out);
    }
}

/* --- fields by number --- */

/* Parse 0x and 8 or 16 digits: a number of 32 or 64 bits. */
static bool parse_fixed(struct text_format_parser *parser, uint32_t number,
                        struct proto_buffer *out)
{
    const struct text_token *token = &parser->scanner.token;
    bool negative;
    uint64_t value;
    if (token->kind != TEXT_TOKEN_NUMBER || (token->length != 10 && token->length != 18) ||
        token->start[0] != '0' || (token->start[1] | 0x20) != 'x')
        return false;
    enum proto_type type = token->length == 10 ? PROTO_FIXED32 : PROTO_FIXED64;
    if (!text_read_integer(&parser->scanner, &value, &negative))
        return true;
    text_scanner_advance(&parser->scanner);
    put_key(out, number, type);
    put_value(type, value, out);
    return true;
}

static void parse_varint(struct text_format_parser *parser, uint32_t number,
                         struct proto_buffer *out)
{
    bool negative;
    uint64_t value;
    if (!text_read_integer(&parser->scanner, &value, &negative))
        return;
    text_scanner_advance(&parser->scanner);
    proto_put_uint(out, number, negative ? 0 - value : value);
}

/* Parse a field whose number has been read. */
static void parse_by_number(struct text_format_parser *parser, uint64_t number, int depth,
                            struct proto_buffer *out)
{
    static const char what[] = "a field by number";
    bool has_colon = text_scanner_accept(&parser->scanner, ':');
    char text[TEXT_FOUND_BYTES];
    if (number == 0 || number > UINT32_MAX)
        text_scanner_fail(&parser->scanner, "no field has the number %llu",
                          (unsigned long long)number);
    else if (text_scanner_is_sign(&parser->scanner, '{') ||
             text_scanner_is_sign(&parser->scanner, '<'))
        parse_nested(parser, what, (uint32_t)number, NULL, depth, out);
    else if (!has_colon)
        text_scanner_fail(&parser->scanner, "%s found where %s expects ':' and a value",
                          text_scanner_found(&parser->scanner, text), what);
    else if (parser->scanner.token.kind == TEXT_TOKEN_STRING)
        parse_string(parser, what, (uint32_t)number, true, out);
    else if (!parse_fixed(parser, (uint32_t)number, out))
        parse_varint(parser, (uint32_t)number, out);
}

/* --- unknown fields --- */

/* Skip a value of any form: a scalar, a list, a message. */
static void skip_value(struct text_format_parser *parser)
{
    int open = 0;
    char text[TEXT_FOUND_BYTES];
    text_scanner_accept(&parser->scanner, '-');
    do {
        if (parser->scanner.token.kind == TEXT_TOKEN_END) {
            text_scanner_fail(&parser->scanner, "the text ends in the middle of a value");
            return;
        }
        if (text_scanner_is_sign(&parser->scanner, '{') ||
            text_scanner_is_sign(&parser->scanner, '<') ||
            text_scanner_is_sign(&parser->scanner, '['))
            open++;
        else if (text_scanner_is_sign(&parser->scanner, '}') ||
                 text_scanner_is_sign(&parser->scanner, '>') ||
                 text_scanner_is_sign(&parser->scanner, ']'))
            open--;
        else if (open == 0 && parser->scanner.token.kind == TEXT_TOKEN_SIGN)
            text_scanner_fail(&parser->scanner, "%s found where a value is expected",
                              text_scanner_found(&parser->scanner, text));
        if (open < 0)
            text_scanner_fail(&parser->scanner, "%s closes what was not opened",
                              text_scanner_found(&parser->scanner, text));
        bool was_string = parser->scanner.token.kind == TEXT_TOKEN_STRING;
        text_scanner_advance(&parser->scanner);
        while (was_string && parser->scanner.code == 0 &&
               parser->scanner.token.kind == TEXT_TOKEN_STRING)
            text_scanner_advance(&parser->scanner);
    } while (open > 0 && parser->scanner.code == 0);
}

/* Return the Levenshtein distance of short names. */
static unsigned text_format_distance(const char *a, const char *b)
{
    unsigned row[NAME_BYTES_MAX + 1];
    size_t length = strlen(b);
    if (length > NAME_BYTES_MAX)
        return UINT32_MAX;
    for (size_t j = 0; j <= length; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1] != 0; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= length; j++) {
            unsigned above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[length];
}

static void refuse_unknown(struct text_format_parser *parser,
                           const ProtobufCMessageDescriptor *message, const char *name)
{
    const char *nearest = NULL, *remedy = parser->reader->unknown_remedy;
    unsigned least = UINT32_MAX;
    for (unsigned i = 0; i < message->n_fields; i++) {
        unsigned here = text_format_distance(name, message->fields[i].name);
        if (here < least) {
            least = here;
            nearest = message->fields[i].name;
        }
    }
    if (nearest != NULL && least <= strlen(name) / 3 + 1)
        text_scanner_fail(&parser->scanner, "%s has no field '%s': did you mean %s?",
                          message->short_name, name, nearest);
    else
        text_scanner_fail(&parser->scanner, "%s has no field '%s'%s%s", message->short_name, name,
                          remedy != NULL ? "; " : "", remedy != NULL ? remedy : "");
}

/* --- messages --- */

static void parse_list(struct text_format_parser *parser, const ProtobufCFieldDescriptor *field,
                       int depth, struct proto_buffer *out)
{
    char text[TEXT_FOUND_BYTES];
    if (parser->reader->is_exact && (field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0) {
        parse_packed(parser, field, out);
        return;
    }
    if (text_scanner_accept(&parser->scanner, ']'))
        return;
    do {
        parse_value(parser, field, depth, out);
    } while (parser->scanner.code == 0 && text_scanner_accept(&parser->scanner, ','));
    if (parser->scanner.code == 0 && !text_scanner_accept(&parser->scanner, ']'))
        text_scanner_fail(&parser->scanner, "%s found where the list of %s expects ',' or ']'",
                          text_scanner_found(&parser->scanner, text), field->name);
}

/* Return the field that a token names, or NULL if the message has none. */
static const ProtobufCFieldDescriptor *find_field(struct text_format_parser *parser,
                                                  const ProtobufCMessageDescriptor *message,
                                                  const struct text_token *token,
                                                  char name[NAME_BYTES_MAX])
{
    size_t length = token->length;
    size_t slot =
        ((uintptr_t)message / sizeof(*message) + length * 37 + (size_t)token->start[0] * 5 +
         (size_t)token->start[length - 1] * 3 + (size_t)token->start[length / 2]) %
        (sizeof(parser->known) / sizeof(parser->known[0]));
    const ProtobufCFieldDescriptor *field = parser->known[slot].field;
    if (parser->known[slot].message == message && parser->known[slot].length == length &&
        memcmp(field->name, token->start, length) == 0)
        return field;
    memcpy(name, token->start, length);
    name[length] = 0;
    field = message == NULL ? NULL : protobuf_c_message_descriptor_get_field_by_name(message, name);
    if (field != NULL) {
        parser->known[slot].message = message;
        parser->known[slot].field = field;
        parser->known[slot].length = length;
    }
    return field;
}

/* Parse a field whose name has been read. `field` NULL: skip it. */
static void parse_named(struct text_format_parser *parser, const ProtobufCFieldDescriptor *field,
                        const char *name, const struct text_token *token, int depth,
                        struct proto_buffer *out)
{
    char text[TEXT_FOUND_BYTES];
    bool has_colon = text_scanner_accept(&parser->scanner, ':');
    bool needs_none =
        text_scanner_is_sign(&parser->scanner, '{') || text_scanner_is_sign(&parser->scanner, '<');
    if (!has_colon && !needs_none) {
        text_scanner_fail(&parser->scanner, "%s found where '%s' expects ':' and a value",
                          text_scanner_found(&parser->scanner, text),
                          field != NULL ? field->name : name);
    } else if (field == NULL) {
        parser->reader->unknown(parser->reader->context, name, token->line, token->column);
        skip_value(parser);
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED &&
               text_scanner_accept(&parser->scanner, '[')) {
        parse_list(parser, field, depth, out);
    } else {
        parse_value(parser, field, depth, out);
    }
}

static void parse_field(struct text_format_parser *parser,
                        const ProtobufCMessageDescriptor *message, int depth,
                        struct proto_buffer *out)
{
    char name[NAME_BYTES_MAX], text[TEXT_FOUND_BYTES];
    struct text_token token = parser->scanner.token;
    uint64_t number;
    bool negative;
    if (token.kind == TEXT_TOKEN_NUMBER && parser->reader->is_exact) {
        if (!text_read_integer(&parser->scanner, &number, &negative))
            return;
        text_scanner_advance(&parser->scanner);
        parse_by_number(parser, number, depth, out);
    } else if (token.kind != TEXT_TOKEN_WORD || token.length >= sizeof(name)) {
        text_scanner_fail(&parser->scanner, "%s found where the name of a field of %s is expected",
                          text_scanner_found(&parser->scanner, text),
                          message == NULL ? "an unknown message" : message->short_name);
        return;
    } else {
        const ProtobufCFieldDescriptor *field = find_field(parser, message, &token, name);
        if (field == NULL && message == NULL)
            text_scanner_fail(&parser->scanner,
                              "'%s' is in a message without known names: give the field's number",
                              name);
        else if (field == NULL && parser->reader->must_know(message))
            refuse_unknown(parser, message, name);
        if (parser->scanner.code < 0)
            return;
        if (field == NULL || !parse_plain_line(parser, field, out)) {
            text_scanner_advance(&parser->scanner);
            parse_named(parser, field, name, &token, depth, out);
        }
    }
    if (parser->scanner.code == 0 && !text_scanner_accept(&parser->scanner, ','))
        text_scanner_accept(&parser->scanner, ';');
}

static void parse_fields(struct text_format_parser *parser,
                         const ProtobufCMessageDescriptor *message, char closing, int depth,
                         struct proto_buffer *out)
{
    if (depth > DEPTH_MAX) {
        text_scanner_fail(&parser->scanner, "messages are nested more than %d deep here",
                          DEPTH_MAX);
        return;
    }
    while (parser->scanner.code == 0) {
        if (closing != 0 && text_scanner_accept(&parser->scanner, closing))
            return;
        if (parser->scanner.token.kind == TEXT_TOKEN_END) {
            if (closing != 0)
                text_scanner_fail(&parser->scanner, "the text ends before the '%c' of %s", closing,
                                  message == NULL ? "a message" : message->short_name);
            return;
        }
        parse_field(parser, message, depth, out);
    }
}

int text_format_read_field(struct text_format_parser *parser,
                           const ProtobufCMessageDescriptor *message, struct proto_buffer *out)
{
    if (parser->scanner.code == 0 && parser->scanner.token.kind == TEXT_TOKEN_END)
        return 0;
    if (parser->scanner.code == 0)
        parse_field(parser, message, 0, out);
    if (parser->scanner.code == 0 && out->failed)
        parser->scanner.code = error_set(parser->scanner.error, -ENOMEM, "no memory for a message");
    return parser->scanner.code < 0 ? parser->scanner.code : 1;
}

void *text_format_to_bytes(const ProtobufCMessageDescriptor *descriptor, const char *text,
                           size_t text_length, const struct text_format_reader *reader,
                           size_t *length, struct error *error)
{
    struct text_format_parser parser = {.reader = reader};
    struct proto_buffer out = {0};
    text_scanner_open(&parser.scanner, text, text_length, error);
    parse_fields(&parser, descriptor, 0, 0, &out);
    if (parser.scanner.code == 0 && (out.failed || proto_buffer_reserve(&out, 1) == NULL))
        parser.scanner.code = error_set(error, -ENOMEM, "no memory for the configuration");
    if (parser.scanner.code < 0) {
        proto_buffer_free(&out);
        return NULL;
    }
    *length = out.length;
    return out.bytes;
}
