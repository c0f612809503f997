/* SPDX-License-Identifier: Apache-2.0 */
/* Read and write the values of fields, and the notes on their encoding. */
#include "trace/text/text_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/text/text_number.h"

#define NAME_BYTES_MAX 128

/* --- notes --- */

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool take_number(const char **at, const char *word, uint64_t most, uint64_t *value)
{
    char *end;
    if (!take_word(at, word) || **at < '0' || **at > '9')
        return false;
    errno = 0;
    *value = strtoull(*at, &end, 0);
    *at = end;
    return errno == 0 && *value <= most;
}

/* Read one word of a note. Return false if it is unknown. */
static bool take_note_word(const char **at, struct wire_note *note)
{
    uint64_t number = 0;
    unsigned *bytes = NULL;
    switch (**at) {
    case 'k':
        bytes = &note->key_bytes;
        break;
    case 'l':
        bytes = &note->length_bytes;
        break;
    case 'b':
        bytes = &note->value_bytes;
        break;
    case 'v':
        note->has_value = true;
        return take_number(at, "value=", UINT64_MAX, &note->value);
    case 'p':
        note->is_packed = true;
        return take_word(at, "packed");
    case 'u':
        note->is_unpacked = true;
        return take_word(at, "unpacked");
    case 'g':
        note->is_group = true;
        return take_word(at, "group");
    default:
        return false;
    }
    const char *word = **at == 'k' ? "key=" : **at == 'l' ? "length=" : "bytes=";
    bool good = take_number(at, word, PROTO_VARINT_BYTES_MAX, &number) && number > 0;
    *bytes = (unsigned)number;
    return good;
}

struct wire_note text_take_note(struct text_scanner *scanner)
{
    struct wire_note note = {0};
    const char *at = scanner->note;
    while (*at != '\0') {
        if (*at == ' ' || *at == '\t' || *at == '\r') {
            at++;
            continue;
        }
        if (!take_note_word(&at, &note) ||
            (*at != '\0' && *at != ' ' && *at != '\t' && *at != '\r')) {
            text_scanner_fail(scanner,
                              "the comment before this, '" TEXT_WIRE_NOTE "%.60s', is not in the "
                              "form of traceconv text: remove it, or copy it completely",
                              scanner->note);
            return (struct wire_note){0};
        }
    }
    scanner->note[0] = '\0';
    return note;
}

void text_put_padded(struct text_scanner *scanner, struct proto_buffer *out, uint64_t value,
                     unsigned bytes)
{
    uint8_t *at = proto_buffer_reserve(out, PROTO_VARINT_BYTES_MAX);
    if (at == NULL)
        return;
    unsigned length = (unsigned)proto_encode_varint(at, value);
    if (bytes != 0 && length > bytes) {
        text_scanner_fail(
            scanner, "the comment before this gives %u bytes to a number that needs %u: remove it",
            bytes, length);
        return;
    }
    for (; length < bytes; length++) {
        at[length - 1] |= 0x80;
        at[length] = 0;
    }
    out->length += length;
}

void text_put_key(struct text_scanner *scanner, struct proto_buffer *out, uint32_t number,
                  enum wire_type type, unsigned bytes)
{
    text_put_padded(scanner, out, (uint64_t)number << 3 | type, bytes);
}

/* --- numbers --- */

static bool token_is(const struct text_token *token, const char *word)
{
    return token->length == strlen(word) && memcmp(token->start, word, token->length) == 0;
}

/* Number of digits of a decimal number that always fits. */
#define SAFE_DIGITS 19

bool text_read_integer(struct text_scanner *scanner, uint64_t *magnitude, bool *negative)
{
    char digits[32], text[TEXT_FOUND_BYTES];
    *negative = text_scanner_accept(scanner, '-');
    const struct text_token *token = &scanner->token;
    if (token->kind != TEXT_TOKEN_NUMBER || token->length >= sizeof(digits)) {
        text_scanner_fail(scanner, "%s found where a whole number is expected",
                          text_scanner_found(scanner, text));
        return false;
    }
    size_t plain = 0;
    *magnitude = 0;
    while (plain < token->length && plain < SAFE_DIGITS && token->start[plain] >= '0' &&
           token->start[plain] <= '9')
        *magnitude = *magnitude * 10 + (uint64_t)(token->start[plain++] - '0');
    if (plain == token->length && (*token->start != '0' || plain == 1))
        return true;
    memcpy(digits, token->start, token->length);
    digits[token->length] = 0;
    char *end;
    errno = 0;
    *magnitude = strtoull(digits, &end, 0);
    if (errno != 0 || *end != 0) {
        text_scanner_fail(scanner, "%s is not a whole number of 64 bits",
                          text_scanner_found(scanner, text));
        return false;
    }
    return true;
}

uint64_t text_largest_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
        return INT32_MAX;
    case PROTOBUF_C_TYPE_UINT32:
        return UINT32_MAX;
    case PROTOBUF_C_TYPE_INT64:
        return INT64_MAX;
    case PROTOBUF_C_TYPE_UINT64:
        return UINT64_MAX;
    default:
        return 0;
    }
}

static uint64_t read_number(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field)
{
    uint64_t magnitude;
    bool negative;
    if (!text_read_integer(scanner, &magnitude, &negative))
        return 0;
    bool is_signed = field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_INT64;
    bool is_narrow = field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_UINT32;
    uint64_t most = text_largest_of(field) + (is_signed && negative);
    if ((negative && !is_signed) || magnitude > most) {
        text_scanner_fail(scanner, "%s%llu does not fit %s, which is %s number of %d bits",
                          negative ? "-" : "", (unsigned long long)magnitude, field->name,
                          is_signed ? "a" : "a positive", is_narrow ? 32 : 64);
        return 0;
    }
    text_scanner_advance(scanner);
    return negative ? (uint64_t)0 - magnitude : magnitude;
}

static uint64_t read_bool(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field)
{
    static const char *const words[2][4] = {{"false", "False", "f", "0"},
                                            {"true", "True", "t", "1"}};
    char text[TEXT_FOUND_BYTES];
    for (unsigned value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            if (!token_is(&scanner->token, words[value][i]))
                continue;
            text_scanner_advance(scanner);
            return value;
        }
    }
    text_scanner_fail(scanner, "%s found where %s expects true or false",
                      text_scanner_found(scanner, text), field->name);
    return 0;
}

static uint64_t read_enum(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field,
                          bool is_exact)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char name[NAME_BYTES_MAX], text[TEXT_FOUND_BYTES];
    const struct text_token *token = &scanner->token;
    const ProtobufCEnumValue *value = NULL;
    if (is_exact && (token->kind == TEXT_TOKEN_NUMBER || text_scanner_is_sign(scanner, '-'))) {
        const ProtobufCFieldDescriptor as_number = {.name = field->name,
                                                    .type = PROTOBUF_C_TYPE_INT32};
        return read_number(scanner, &as_number);
    }
    if (token->kind == TEXT_TOKEN_WORD && token->length < sizeof(name)) {
        memcpy(name, token->start, token->length);
        name[token->length] = 0;
        value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
    }
    if (value == NULL) {
        text_scanner_fail(scanner, "%s is not a value of %s", text_scanner_found(scanner, text),
                          type->short_name);
        return 0;
    }
    text_scanner_advance(scanner);
    return (uint64_t)(int64_t)value->value;
}

static uint64_t read_double(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field)
{
    char text[TEXT_FOUND_BYTES];
    double value = 0;
    uint64_t bits;
    bool negative = text_scanner_accept(scanner, '-');
    const struct text_token *token = &scanner->token;
    if (token_is(token, "nan")) {
        value = __builtin_nan("");
    } else if (token_is(token, "inf") || token_is(token, "infinity")) {
        value = __builtin_inf();
    } else if (token->kind != TEXT_TOKEN_NUMBER ||
               !text_number_to_double(token->start, token->length, &value)) {
        text_scanner_fail(scanner, "%s found where %s expects a number",
                          text_scanner_found(scanner, text), field->name);
        return 0;
    }
    memcpy(&bits, &value, sizeof(bits));
    text_scanner_advance(scanner);
    return bits | (uint64_t)negative << 63;
}

enum wire_type text_scalar_type(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_DOUBLE ? WIRE_FIXED64 : WIRE_VARINT;
}

uint64_t text_read_scalar(struct text_scanner *scanner, const ProtobufCFieldDescriptor *field,
                          bool is_exact)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
        return read_number(scanner, field);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(scanner, field);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(scanner, field, is_exact);
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(scanner, field);
    default:
        text_scanner_fail(scanner, "%s is of a type that is not read here", field->name);
        return 0;
    }
}

/* --- strings --- */

void text_read_strings(struct text_scanner *scanner, const char *field, bool zero_allowed,
                       struct proto_buffer *content)
{
    char text[TEXT_FOUND_BYTES];
    if (scanner->token.kind != TEXT_TOKEN_STRING)
        text_scanner_fail(scanner, "%s found where %s expects a string in quotes",
                          text_scanner_found(scanner, text), field);
    while (scanner->code == 0 && scanner->token.kind == TEXT_TOKEN_STRING)
        text_scanner_take_string(scanner, zero_allowed, content);
}
