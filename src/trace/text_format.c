/* See text_format.h: a parser that writes fields as it reads them. */
#include "trace/text_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/proto_buffer.h"
#include "trace/text_token.h"

#define DEPTH_MAX 64
#define NAME_BYTES_MAX 128

struct parser {
    struct text_scanner scanner;
    const struct text_format_reader *reader;
};

/* --- values --- */

static bool parse_integer(struct parser *parser, uint64_t *magnitude, bool *negative)
{
    char digits[32], text[TEXT_FOUND_BYTES];
    *negative = text_scanner_accept(&parser->scanner, '-');
    const struct text_token *token = &parser->scanner.token;
    if (token->kind != TEXT_TOKEN_NUMBER || token->length >= sizeof(digits)) {
        text_scanner_fail(&parser->scanner, "%s stands where a whole number is expected",
                          text_scanner_found(&parser->scanner, text));
        return false;
    }
    memcpy(digits, token->start, token->length);
    digits[token->length] = 0;
    char *end;
    errno = 0;
    *magnitude = strtoull(digits, &end, 0);
    if (errno != 0 || *end != 0) {
        text_scanner_fail(&parser->scanner, "%s is not a whole number of 64 bits",
                          text_scanner_found(&parser->scanner, text));
        return false;
    }
    return true;
}

static void parse_number(struct parser *parser, const ProtobufCFieldDescriptor *field,
                         struct proto_buffer *out)
{
    uint64_t magnitude;
    bool negative;
    if (!parse_integer(parser, &magnitude, &negative))
        return;
    bool is_signed = field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_INT64;
    bool is_narrow = field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_UINT32;
    uint64_t most = is_narrow ? UINT32_MAX : UINT64_MAX;
    if (is_signed)
        most = most / 2 + negative;
    if ((negative && !is_signed) || magnitude > most) {
        text_scanner_fail(&parser->scanner, "%s%llu does not fit %s, which is %s number of %d bits",
                          negative ? "-" : "", (unsigned long long)magnitude, field->name,
                          is_signed ? "a" : "a positive", is_narrow ? 32 : 64);
        return;
    }
    proto_put_uint(out, field->id, negative ? (uint64_t)0 - magnitude : magnitude);
    text_scanner_advance(&parser->scanner);
}

static bool token_is(const struct text_token *token, const char *word)
{
    return token->length == strlen(word) && memcmp(token->start, word, token->length) == 0;
}

static void parse_bool(struct parser *parser, const ProtobufCFieldDescriptor *field,
                       struct proto_buffer *out)
{
    static const char *const words[2][4] = {{"false", "False", "f", "0"},
                                            {"true", "True", "t", "1"}};
    char text[TEXT_FOUND_BYTES];
    for (unsigned value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            if (!token_is(&parser->scanner.token, words[value][i]))
                continue;
            proto_put_uint(out, field->id, value);
            text_scanner_advance(&parser->scanner);
            return;
        }
    }
    text_scanner_fail(&parser->scanner, "%s stands where %s wants true or false",
                      text_scanner_found(&parser->scanner, text), field->name);
}

static void parse_enum(struct parser *parser, const ProtobufCFieldDescriptor *field,
                       struct proto_buffer *out)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char name[NAME_BYTES_MAX], text[TEXT_FOUND_BYTES];
    const struct text_token *token = &parser->scanner.token;
    const ProtobufCEnumValue *value = NULL;
    if (token->kind == TEXT_TOKEN_WORD && token->length < sizeof(name)) {
        memcpy(name, token->start, token->length);
        name[token->length] = 0;
        value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
    }
    if (value == NULL) {
        text_scanner_fail(&parser->scanner, "%s is not a value of %s",
                          text_scanner_found(&parser->scanner, text), type->short_name);
        return;
    }
    proto_put_uint(out, field->id, (uint64_t)(int64_t)value->value);
    text_scanner_advance(&parser->scanner);
}

/* Strings that follow each other are one. */
static void parse_string(struct parser *parser, const ProtobufCFieldDescriptor *field,
                         struct proto_buffer *out)
{
    struct proto_buffer content = {0};
    char text[TEXT_FOUND_BYTES];
    if (parser->scanner.token.kind != TEXT_TOKEN_STRING)
        text_scanner_fail(&parser->scanner, "%s stands where %s wants a string in quotes",
                          text_scanner_found(&parser->scanner, text), field->name);
    while (parser->scanner.code == 0 && parser->scanner.token.kind == TEXT_TOKEN_STRING)
        text_scanner_take_string(&parser->scanner, field->type == PROTOBUF_C_TYPE_BYTES, &content);
    if (parser->scanner.code == 0)
        proto_put_bytes(out, field->id, content.bytes, content.length);
    out->failed |= content.failed;
    proto_buffer_free(&content);
}

static void parse_fields(struct parser *parser, const ProtobufCMessageDescriptor *message,
                         char closing, int depth, struct proto_buffer *out);

static void parse_nested(struct parser *parser, const ProtobufCFieldDescriptor *field, int depth,
                         struct proto_buffer *out)
{
    struct proto_buffer content = {0};
    char text[TEXT_FOUND_BYTES], closing = text_scanner_is_sign(&parser->scanner, '<') ? '>' : '}';
    if (!text_scanner_accept(&parser->scanner, '{') &&
        !text_scanner_accept(&parser->scanner, '<')) {
        text_scanner_fail(&parser->scanner, "%s stands where %s wants { ... }",
                          text_scanner_found(&parser->scanner, text), field->name);
        return;
    }
    parse_fields(parser, field->descriptor, closing, depth + 1, &content);
    if (parser->scanner.code == 0)
        proto_put_bytes(out, field->id, content.bytes, content.length);
    out->failed |= content.failed;
    proto_buffer_free(&content);
}

static void parse_value(struct parser *parser, const ProtobufCFieldDescriptor *field, int depth,
                        struct proto_buffer *out)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
        parse_number(parser, field, out);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        parse_bool(parser, field, out);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        parse_enum(parser, field, out);
        break;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        parse_string(parser, field, out);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        parse_nested(parser, field, depth, out);
        break;
    default:
        text_scanner_fail(&parser->scanner, "%s is of a type that is not read here", field->name);
    }
}

/* --- what is not known --- */

/* Skips a value of any form: a scalar, a list, a message. */
static void skip_value(struct parser *parser)
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
            text_scanner_fail(&parser->scanner, "%s stands where a value is expected",
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

/* Levenshtein's distance, of short names. */
static unsigned distance(const char *a, const char *b)
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

static void refuse_unknown(struct parser *parser, const ProtobufCMessageDescriptor *message,
                           const char *name)
{
    const char *nearest = NULL;
    unsigned least = UINT32_MAX;
    for (unsigned i = 0; i < message->n_fields; i++) {
        unsigned here = distance(name, message->fields[i].name);
        if (here < least) {
            least = here;
            nearest = message->fields[i].name;
        }
    }
    if (nearest != NULL && least <= strlen(name) / 3 + 1)
        text_scanner_fail(&parser->scanner, "%s has no field '%s': did you mean %s?",
                          message->short_name, name, nearest);
    else
        text_scanner_fail(&parser->scanner, "%s has no field '%s'", message->short_name, name);
}

/* --- messages --- */

static void parse_list(struct parser *parser, const ProtobufCFieldDescriptor *field, int depth,
                       struct proto_buffer *out)
{
    char text[TEXT_FOUND_BYTES];
    if (text_scanner_accept(&parser->scanner, ']'))
        return;
    do {
        parse_value(parser, field, depth, out);
    } while (parser->scanner.code == 0 && text_scanner_accept(&parser->scanner, ','));
    if (parser->scanner.code == 0 && !text_scanner_accept(&parser->scanner, ']'))
        text_scanner_fail(&parser->scanner, "%s stands where the list of %s wants ',' or ']'",
                          text_scanner_found(&parser->scanner, text), field->name);
}

static void parse_field(struct parser *parser, const ProtobufCMessageDescriptor *message, int depth,
                        struct proto_buffer *out)
{
    char name[NAME_BYTES_MAX], text[TEXT_FOUND_BYTES];
    struct text_token token = parser->scanner.token;
    if (token.kind != TEXT_TOKEN_WORD || token.length >= sizeof(name)) {
        text_scanner_fail(&parser->scanner, "%s stands where the name of a field of %s is expected",
                          text_scanner_found(&parser->scanner, text), message->short_name);
        return;
    }
    memcpy(name, token.start, token.length);
    name[token.length] = 0;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message, name);
    if (field == NULL && parser->reader->must_know(message)) {
        refuse_unknown(parser, message, name);
        return;
    }
    text_scanner_advance(&parser->scanner);
    bool has_colon = text_scanner_accept(&parser->scanner, ':');
    bool needs_none =
        text_scanner_is_sign(&parser->scanner, '{') || text_scanner_is_sign(&parser->scanner, '<');
    if (!has_colon && !needs_none) {
        text_scanner_fail(&parser->scanner, "%s stands where '%s' wants ':' and a value",
                          text_scanner_found(&parser->scanner, text), name);
    } else if (field == NULL) {
        parser->reader->unknown(parser->reader->context, name, token.line, token.column);
        skip_value(parser);
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED &&
               text_scanner_accept(&parser->scanner, '[')) {
        parse_list(parser, field, depth, out);
    } else {
        parse_value(parser, field, depth, out);
    }
    if (parser->scanner.code == 0 && !text_scanner_accept(&parser->scanner, ','))
        text_scanner_accept(&parser->scanner, ';');
}

static void parse_fields(struct parser *parser, const ProtobufCMessageDescriptor *message,
                         char closing, int depth, struct proto_buffer *out)
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
                                  message->short_name);
            return;
        }
        parse_field(parser, message, depth, out);
    }
}

void *text_format_to_bytes(const ProtobufCMessageDescriptor *descriptor, const char *text,
                           size_t text_length, const struct text_format_reader *reader,
                           size_t *length, struct error *error)
{
    struct parser parser = {.reader = reader};
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
