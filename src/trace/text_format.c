/* See text_format.h: a tokenizer, and a parser that writes fields as it reads them. */
#include "trace/text_format.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/proto_buffer.h"

#define DEPTH_MAX 64
#define NAME_BYTES_MAX 128

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_STRING, TOKEN_SIGN };

struct token {
    enum token_kind kind;
    const char *start;
    size_t length;
    unsigned line, column;
};

struct parser {
    const char *at, *end, *line_start;
    unsigned line;
    struct token token; /* the next one */
    const struct text_format_reader *reader;
    struct error *error;
    int code;
};

__attribute__((format(printf, 2, 3))) static void fail(struct parser *parser, const char *format,
                                                       ...)
{
    char what[400];
    va_list arguments;
    if (parser->code < 0)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    parser->code = error_set(parser->error, -EINVAL, "%u:%u: %s", parser->token.line,
                             parser->token.column, what);
}

/* --- tokens --- */

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(struct parser *parser)
{
    for (; parser->at < parser->end; parser->at++) {
        if (*parser->at == '#') {
            while (parser->at < parser->end && *parser->at != '\n')
                parser->at++;
            if (parser->at == parser->end)
                return;
        }
        if (*parser->at == '\n') {
            parser->line++;
            parser->line_start = parser->at + 1;
        } else if (*parser->at != ' ' && *parser->at != '\t' && *parser->at != '\r') {
            return;
        }
    }
}

static void take_string_token(struct parser *parser)
{
    char quote = *parser->at++;
    while (parser->at < parser->end && *parser->at != quote && *parser->at != '\n')
        parser->at += *parser->at == '\\' && parser->at + 1 < parser->end ? 2 : 1;
    if (parser->at >= parser->end || *parser->at != quote) {
        fail(parser, "the string that begins here has no end on this line: %c is missing", quote);
        parser->at = parser->end;
        return;
    }
    parser->at++;
}

static void next_token(struct parser *parser)
{
    struct token *token = &parser->token;
    skip_blanks(parser);
    *token = (struct token){.start = parser->at,
                            .line = parser->line,
                            .column = (unsigned)(parser->at - parser->line_start) + 1};
    if (parser->at >= parser->end)
        return;
    char c = *parser->at;
    if (c == '"' || c == '\'') {
        token->kind = TOKEN_STRING;
        take_string_token(parser);
    } else if (is_word_start(c) || is_digit(c) || c == '.') {
        token->kind = is_word_start(c) ? TOKEN_WORD : TOKEN_NUMBER;
        while (parser->at < parser->end &&
               (is_word_start(*parser->at) || is_digit(*parser->at) || *parser->at == '.'))
            parser->at++;
    } else {
        token->kind = TOKEN_SIGN;
        parser->at++;
    }
    token->length = (size_t)(parser->at - token->start);
}

static bool is_sign(const struct parser *parser, char sign)
{
    return parser->token.kind == TOKEN_SIGN && *parser->token.start == sign;
}

static bool accept_sign(struct parser *parser, char sign)
{
    if (!is_sign(parser, sign))
        return false;
    next_token(parser);
    return true;
}

/* What stands there, for a message. */
static const char *found(const struct parser *parser, char text[64])
{
    const struct token *token = &parser->token;
    if (token->kind == TOKEN_END)
        return "the end of the text";
    int shown = token->length < 40 ? (int)token->length : 40;
    snprintf(text, 64, "'%.*s'", shown, token->start);
    for (char *c = text; *c != 0; c++)
        *c = *c >= ' ' ? *c : '?';
    return text;
}

/* --- values --- */

static bool parse_integer(struct parser *parser, uint64_t *magnitude, bool *negative)
{
    char digits[32], text[64];
    *negative = accept_sign(parser, '-');
    const struct token *token = &parser->token;
    if (token->kind != TOKEN_NUMBER || token->length >= sizeof(digits)) {
        fail(parser, "%s stands where a whole number is expected", found(parser, text));
        return false;
    }
    memcpy(digits, token->start, token->length);
    digits[token->length] = 0;
    char *end;
    errno = 0;
    *magnitude = strtoull(digits, &end, 0);
    if (errno != 0 || *end != 0) {
        fail(parser, "%s is not a whole number of 64 bits", found(parser, text));
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
        fail(parser, "%s%llu does not fit %s, which is %s number of %d bits", negative ? "-" : "",
             (unsigned long long)magnitude, field->name, is_signed ? "a" : "a positive",
             is_narrow ? 32 : 64);
        return;
    }
    proto_put_uint(out, field->id, negative ? (uint64_t)0 - magnitude : magnitude);
    next_token(parser);
}

static bool token_is(const struct token *token, const char *word)
{
    return token->length == strlen(word) && memcmp(token->start, word, token->length) == 0;
}

static void parse_bool(struct parser *parser, const ProtobufCFieldDescriptor *field,
                       struct proto_buffer *out)
{
    static const char *const words[2][4] = {{"false", "False", "f", "0"},
                                            {"true", "True", "t", "1"}};
    char text[64];
    for (unsigned value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            if (!token_is(&parser->token, words[value][i]))
                continue;
            proto_put_uint(out, field->id, value);
            next_token(parser);
            return;
        }
    }
    fail(parser, "%s stands where %s wants true or false", found(parser, text), field->name);
}

static void parse_enum(struct parser *parser, const ProtobufCFieldDescriptor *field,
                       struct proto_buffer *out)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char name[NAME_BYTES_MAX], text[64];
    const struct token *token = &parser->token;
    const ProtobufCEnumValue *value = NULL;
    if (token->kind == TOKEN_WORD && token->length < sizeof(name)) {
        memcpy(name, token->start, token->length);
        name[token->length] = 0;
        value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
    }
    if (value == NULL) {
        fail(parser, "%s is not a value of %s", found(parser, text), type->short_name);
        return;
    }
    proto_put_uint(out, field->id, (uint64_t)(int64_t)value->value);
    next_token(parser);
}

/* One escape, from behind its backslash; the byte, or -1. */
static int take_escape(const char **at, const char *end)
{
    static const char names[] = "abfnrtv\\'\"?", bytes[] = "\a\b\f\n\r\t\v\\'\"?";
    char c = *(*at)++;
    const char *name = c != 0 ? strchr(names, c) : NULL;
    if (name != NULL)
        return (unsigned char)bytes[name - names];
    unsigned value = 0, digits = 0;
    if (c == 'x' || c == 'X') {
        for (; digits < 2 && *at < end; digits++, (*at)++) {
            const char *hex = **at != 0 ? strchr("0123456789abcdef", **at | 0x20) : NULL;
            if (hex == NULL)
                break;
            value = value * 16 + (unsigned)(hex - "0123456789abcdef");
        }
        return digits > 0 ? (int)value : -1;
    }
    (*at)--;
    for (; digits < 3 && *at < end && **at >= '0' && **at <= '7'; digits++, (*at)++)
        value = value * 8 + (unsigned)(**at - '0');
    return digits > 0 && value < 256 ? (int)value : -1;
}

/* Strings that follow each other are one. */
static void parse_string(struct parser *parser, const ProtobufCFieldDescriptor *field,
                         struct proto_buffer *out)
{
    struct proto_buffer content = {0};
    char text[64];
    if (parser->token.kind != TOKEN_STRING)
        fail(parser, "%s stands where %s wants a string in quotes", found(parser, text),
             field->name);
    while (parser->code == 0 && parser->token.kind == TOKEN_STRING) {
        const char *at = parser->token.start + 1;
        const char *end = parser->token.start + parser->token.length - 1;
        while (at < end && parser->code == 0) {
            int byte = (unsigned char)*at++;
            if (byte == '\\' && at < end)
                byte = take_escape(&at, end);
            if (byte < 0 || (byte == 0 && field->type == PROTOBUF_C_TYPE_STRING)) {
                fail(parser, "the string %s has an escape that is none", found(parser, text));
                break;
            }
            uint8_t as_byte = (uint8_t)byte;
            proto_put_raw(&content, &as_byte, 1);
        }
        next_token(parser);
    }
    if (parser->code == 0)
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
    char text[64], closing = is_sign(parser, '<') ? '>' : '}';
    if (!accept_sign(parser, '{') && !accept_sign(parser, '<')) {
        fail(parser, "%s stands where %s wants { ... }", found(parser, text), field->name);
        return;
    }
    parse_fields(parser, field->descriptor, closing, depth + 1, &content);
    if (parser->code == 0)
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
        fail(parser, "%s is of a type that is not read here", field->name);
    }
}

/* --- what is not known --- */

/* Skips a value of any form: a scalar, a list, a message. */
static void skip_value(struct parser *parser)
{
    int open = 0;
    char text[64];
    accept_sign(parser, '-');
    do {
        if (parser->token.kind == TOKEN_END) {
            fail(parser, "the text ends in the middle of a value");
            return;
        }
        if (is_sign(parser, '{') || is_sign(parser, '<') || is_sign(parser, '['))
            open++;
        else if (is_sign(parser, '}') || is_sign(parser, '>') || is_sign(parser, ']'))
            open--;
        else if (open == 0 && parser->token.kind == TOKEN_SIGN)
            fail(parser, "%s stands where a value is expected", found(parser, text));
        if (open < 0)
            fail(parser, "%s closes what was not opened", found(parser, text));
        bool was_string = parser->token.kind == TOKEN_STRING;
        next_token(parser);
        while (was_string && parser->code == 0 && parser->token.kind == TOKEN_STRING)
            next_token(parser);
    } while (open > 0 && parser->code == 0);
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
        fail(parser, "%s has no field '%s': did you mean %s?", message->short_name, name, nearest);
    else
        fail(parser, "%s has no field '%s'", message->short_name, name);
}

/* --- messages --- */

static void parse_list(struct parser *parser, const ProtobufCFieldDescriptor *field, int depth,
                       struct proto_buffer *out)
{
    char text[64];
    if (accept_sign(parser, ']'))
        return;
    do {
        parse_value(parser, field, depth, out);
    } while (parser->code == 0 && accept_sign(parser, ','));
    if (parser->code == 0 && !accept_sign(parser, ']'))
        fail(parser, "%s stands where the list of %s wants ',' or ']'", found(parser, text),
             field->name);
}

static void parse_field(struct parser *parser, const ProtobufCMessageDescriptor *message, int depth,
                        struct proto_buffer *out)
{
    char name[NAME_BYTES_MAX], text[64];
    struct token token = parser->token;
    if (token.kind != TOKEN_WORD || token.length >= sizeof(name)) {
        fail(parser, "%s stands where the name of a field of %s is expected", found(parser, text),
             message->short_name);
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
    next_token(parser);
    bool has_colon = accept_sign(parser, ':');
    bool needs_none = is_sign(parser, '{') || is_sign(parser, '<');
    if (!has_colon && !needs_none) {
        fail(parser, "%s stands where '%s' wants ':' and a value", found(parser, text), name);
    } else if (field == NULL) {
        parser->reader->unknown(parser->reader->context, name, token.line, token.column);
        skip_value(parser);
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED && accept_sign(parser, '[')) {
        parse_list(parser, field, depth, out);
    } else {
        parse_value(parser, field, depth, out);
    }
    if (parser->code == 0 && !accept_sign(parser, ','))
        accept_sign(parser, ';');
}

static void parse_fields(struct parser *parser, const ProtobufCMessageDescriptor *message,
                         char closing, int depth, struct proto_buffer *out)
{
    if (depth > DEPTH_MAX) {
        fail(parser, "messages are nested more than %d deep here", DEPTH_MAX);
        return;
    }
    while (parser->code == 0) {
        if (closing != 0 && accept_sign(parser, closing))
            return;
        if (parser->token.kind == TOKEN_END) {
            if (closing != 0)
                fail(parser, "the text ends before the '%c' of %s", closing, message->short_name);
            return;
        }
        parse_field(parser, message, depth, out);
    }
}

void *text_format_to_bytes(const ProtobufCMessageDescriptor *descriptor, const char *text,
                           size_t text_length, const struct text_format_reader *reader,
                           size_t *length, struct error *error)
{
    struct parser parser = {.at = text,
                            .end = text + text_length,
                            .line_start = text,
                            .line = 1,
                            .reader = reader,
                            .error = error};
    struct proto_buffer out = {0};
    next_token(&parser);
    parse_fields(&parser, descriptor, 0, 0, &out);
    if (parser.code == 0 && (out.failed || proto_buffer_reserve(&out, 1) == NULL))
        parser.code = error_set(error, -ENOMEM, "no memory for the configuration");
    if (parser.code < 0) {
        proto_buffer_free(&out);
        return NULL;
    }
    *length = out.length;
    return out.bytes;
}
