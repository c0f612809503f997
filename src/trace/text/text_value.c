/* SPDX-License-Identifier: Apache-2.0 */
/* Read the values of fields. */
#include "trace/text/text_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/text/text_number.h"

#define NAME_BYTES_MAX 128

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

enum proto_type text_scalar_type(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_DOUBLE ? PROTO_FIXED64 : PROTO_VARINT;
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
