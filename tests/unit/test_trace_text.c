/* SPDX-License-Identifier: Apache-2.0 */
/* Traces as text and back: a canonical encoding survives the round trip, another one becomes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text_fixture.h"
#include "trace/text/text_number.h"
#include "trace/text/text_print.h"
#include "trace_fixture.h"
#include "uint_in_range.h"

static bool print(const void *bytes, size_t length, struct proto_buffer *text)
{
    const uint8_t *begin = length == 0 ? (const uint8_t *)"" : bytes;
    struct proto_span span = {begin, begin + length};
    bool good = text_print_fields(TRACE, span, text);
    proto_put_raw(text, "", 1);
    text->length--;
    return good;
}

/* Print, read, and compare. The text is left in *text. */
static void check_comes_back_as(const void *bytes, size_t length, const void *expected,
                                size_t expected_length, struct proto_buffer *text)
{
    static const size_t steps[] = {0, 1, 7, 4096};
    text->length = 0;
    assert_true(print(bytes, length, text));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct proto_buffer again = {0};
        struct error error = {0};
        struct dripping from = {(const char *)text->bytes, text->length, steps[i]};
        if (read_text(from, &again, &error) < 0)
            fail_msg("%s\n%s", error.message, (char *)text->bytes);
        if (again.length != expected_length ||
            (again.length > 0 && memcmp(again.bytes, expected, again.length) != 0))
            fail_msg("%zu bytes came back as %zu others:\n%s", length, again.length,
                     (char *)text->bytes);
        proto_buffer_free(&again);
    }
}

static void check_round_trip(const void *bytes, size_t length, struct proto_buffer *text)
{
    check_comes_back_as(bytes, length, bytes, length, text);
}

static void our_own_traces_survive_the_round_trip(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    struct proto_buffer text = {0};
    check_round_trip(trace.bytes, trace.length, &text);
    assert_non_null(strstr((char *)text.bytes, "\n  profile_packet {\n    process_dumps {\n"));
    assert_non_null(strstr((char *)text.bytes, "          allocated_bytes: 1500.25\n"));
    assert_non_null(strstr((char *)text.bytes, "primary_trace_clock: BUILTIN_CLOCK_BOOTTIME\n"));
    proto_buffer_free(&text);
    free(trace.bytes);
}

#define BYTES(bytes) bytes, sizeof(bytes) - 1

/* Pairs of bytes in a packet and the lines that they become. */
static void bytes_print_as_expected(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *text;
    } cases[] = {
        {BYTES("\x40\x05"), "  timestamp: 5\n"},
        {BYTES("\x41\1\0\0\0\0\0\0\x80"), "  8: 0x8000000000000001\n"},
        {BYTES("\x45\1\0\0\0"), "  8: 0x00000001\n"},
        {BYTES("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "  trusted_uid: -1\n"},
        {BYTES("\x98\xf7\x02\x07"), "  6003: 7\n"},
        {BYTES("\x9a\xf7\x02\x05he'\"\n"), "  6003: \"he\\'\\\"\\n\"\n"},
        {BYTES("\x9a\xf7\x02\x02\x08\x07"), "  6003 {\n    1: 7\n  }\n"},
        /* It could be any bytes: only canonical fields look like a message. */
        {BYTES("\x9a\xf7\x02\x03\x08\x87\x00"), "  6003: \"\\010\\207\\000\"\n"},
        {BYTES("\x9a\xf7\x02\x03\x88\x00\x07"), "  6003: \"\\210\\000\\007\"\n"},
        {BYTES("\x9a\xf7\x02\x03\x0a\x80\x00"), "  6003: \"\\n\\200\\000\"\n"},
        {BYTES("\xa2\x02\x03\x00\xff\\"), "  synchronization_marker: \"\\000\\377\\\\\"\n"},
        /* An invalid clock snapshot, and one with a group. */
        {BYTES("\x32\x02\x0a\x07"), "  6: \"\\n\\007\"\n"},
        {BYTES("\x32\x02\x0b\x0c"), "  6: \"\\013\\014\"\n"},
        {BYTES("\x32\x03\x10\xe7\x07"), "  clock_snapshot {\n    primary_trace_clock: 999\n  }\n"},
        {BYTES("\xaa\x02\x09\x2a\x07\xda\xb8\x02\x03\x01\x80\x01"),
         "  profile_packet {\n    process_dumps {\n      lost: [1, 128]\n    }\n  }\n"},
        {BYTES("\xaa\x02\x06\x2a\x04\xda\xb8\x02\x00"),
         "  profile_packet {\n    process_dumps {\n      lost: []\n    }\n  }\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct proto_buffer packet = {0}, text = {0};
        char expected[512];
        proto_put_bytes(&packet, 1, cases[i].bytes, cases[i].length);
        check_round_trip(packet.bytes, packet.length, &text);
        snprintf(expected, sizeof(expected), "packet {\n%s}\n", cases[i].text);
        assert_string_equal((char *)text.bytes, expected);
        proto_buffer_free(&packet);
        proto_buffer_free(&text);
    }
}

static void other_encodings_become_canonical(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *text, *canonical;
        size_t canonical_length;
    } cases[] = {
        {BYTES("\x40\x85\x80\x00"), "  timestamp: 5\n", BYTES("\x40\x05")},
        {BYTES("\xc0\x00\x05"), "  timestamp: 5\n", BYTES("\x40\x05")},
        {BYTES("\x18\xff\xff\xff\xff\x0f"), "  trusted_uid: -1\n",
         BYTES("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
        {BYTES("\x50\x80\x80\x80\x80\x10"), "  trusted_packet_sequence_id: 0\n", BYTES("\x50\x00")},
        {BYTES("\xc8\x02\x02"), "  incremental_state_cleared: true\n", BYTES("\xc8\x02\x01")},
        {BYTES("\x32\x84\x80\x80\x00\x08\x81\x80\x00"), "  clock_snapshot {\n    1: 1\n  }\n",
         BYTES("\x32\x02\x08\x01")},
        {BYTES("\xaa\x02\x09\x2a\x07\xda\xb8\x02\x03\x01\x80\x00"),
         "  profile_packet {\n    process_dumps {\n      lost: [1, 0]\n    }\n  }\n",
         BYTES("\xaa\x02\x08\x2a\x06\xda\xb8\x02\x02\x01\x00")},
        {BYTES("\xaa\x02\x06\x2a\x04\xd8\xb8\x02\x07"),
         "  profile_packet {\n    process_dumps {\n      lost: 7\n    }\n  }\n",
         BYTES("\xaa\x02\x07\x2a\x05\xda\xb8\x02\x01\x07")},
        {BYTES("\xd2\x04\x04\x0a\x02\x05\x06"),
         "  streaming_allocation {\n    address: [5, 6]\n  }\n",
         BYTES("\xd2\x04\x04\x08\x05\x08\x06")},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct proto_buffer packet = {0}, canonical = {0}, text = {0};
        char expected[512];
        proto_put_bytes(&packet, 1, cases[i].bytes, cases[i].length);
        proto_put_bytes(&canonical, 1, cases[i].canonical, cases[i].canonical_length);
        check_comes_back_as(packet.bytes, packet.length, canonical.bytes, canonical.length, &text);
        snprintf(expected, sizeof(expected), "packet {\n%s}\n", cases[i].text);
        assert_string_equal((char *)text.bytes, expected);
        proto_buffer_free(&packet);
        proto_buffer_free(&canonical);
        proto_buffer_free(&text);
    }
}

/* Make a trace with these bits as the count of a StreamingAllocation. */
static struct proto_buffer trace_of_double(uint64_t bits)
{
    struct proto_buffer packet = {0}, trace = {0};
    uint8_t allocation[11] = {0xc9, 0xb8, 0x02};
    memcpy(allocation + 3, &bits, 8);
    proto_put_bytes(&packet, 74, allocation, sizeof(allocation));
    proto_put_bytes(&trace, 1, packet.bytes, packet.length);
    proto_buffer_free(&packet);
    return trace;
}

static void doubles_keep_their_bits(void **state)
{
    (void)state;
    static const struct {
        uint64_t bits, expected;
    } cases[] = {
        {0x7ff8000000000000, 0x7ff8000000000000}, {0xfff8000000000000, 0xfff8000000000000},
        {0x7ff0000000000001, 0x7ff8000000000000}, {0xffffffffffffffff, 0xfff8000000000000},
        {0x7ff0000000000000, 0x7ff0000000000000}, {0xfff0000000000000, 0xfff0000000000000},
        {0x8000000000000000, 0x8000000000000000}, {0x0000000000000001, 0x0000000000000001},
        {0x3fb999999999999a, 0x3fb999999999999a}, {0x7fefffffffffffff, 0x7fefffffffffffff},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct proto_buffer text = {0}, trace = trace_of_double(cases[i].bits),
                            expected = trace_of_double(cases[i].expected);
        check_comes_back_as(trace.bytes, trace.length, expected.bytes, expected.length, &text);
        assert_non_null(strstr((char *)text.bytes, "    count: "));
        proto_buffer_free(&trace);
        proto_buffer_free(&expected);
        proto_buffer_free(&text);
    }
}

/* --- any well-formed bytes --- */

static uint64_t seed = 1;

/* Only encodings that the text gives back are made. */
static bool is_canonical;

static uint64_t any(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % below;
}

static void put_padded(struct proto_buffer *out, uint64_t value)
{
    uint8_t bytes[PROTO_VARINT_BYTES_MAX];
    size_t length = proto_encode_varint(bytes, value), wanted = length;
    if (!is_canonical && any(8) == 0)
        wanted += any(PROTO_VARINT_BYTES_MAX + 1 - length);
    for (; length < wanted; length++) {
        bytes[length - 1] |= 0x80;
        bytes[length] = 0;
    }
    proto_put_raw(out, bytes, length);
}

static uint64_t any_number(void)
{
    uint64_t number = any(UINT64_C(1) << 53) << any(12);
    return number >> any(64);
}

static void put_random_fields(struct proto_buffer *out, const ProtobufCMessageDescriptor *message,
                              int depth);

static void put_random_content(struct proto_buffer *content, const ProtobufCFieldDescriptor *field,
                               int depth)
{
    bool is_message = field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE;
    uint64_t kind = any(8);
    if (depth < 6 && (is_message ? kind != 0 : kind == 0)) {
        put_random_fields(content, is_message ? field->descriptor : NULL, depth + 1);
        return;
    }
    if (is_message && is_canonical) /* other bytes may be a message that is not canonical */
        return;
    for (uint64_t i = any(12); i > 0; i--) {
        uint8_t byte = (uint8_t)(kind < 4 ? ' ' + any(95) : any(256));
        if (kind == 7)
            put_padded(content, any_number());
        else
            proto_put_raw(content, &byte, 1);
    }
}

static uint64_t type_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_DOUBLE:
        return 1;
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return 2;
    default:
        return 0;
    }
}

/* Return the number in the encoding that a field of its type has. */
static uint64_t canonical_number(const ProtobufCFieldDescriptor *field, uint64_t value)
{
    double number = (double)value;
    switch (field->type) {
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(&value, &number, sizeof(value));
        return value;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        return (uint64_t)(int64_t)(int32_t)value;
    case PROTOBUF_C_TYPE_UINT32:
        return (uint32_t)value;
    case PROTOBUF_C_TYPE_BOOL:
        return value & 1;
    default:
        return value;
    }
}

static void put_random_field(struct proto_buffer *out, const ProtobufCMessageDescriptor *message,
                             int depth)
{
    const ProtobufCFieldDescriptor *field = NULL;
    uint32_t number = 1 + (uint32_t)any(any(4) == 0 ? UINT32_MAX : 200);
    uint64_t type = (uint64_t[]){0, 1, 2, 3, 5, 2, 0}[any(7)];
    if (message != NULL && message->n_fields > 0 && any(5) != 0)
        field = &message->fields[any(message->n_fields)];
    else if (is_canonical && message != NULL)
        field = protobuf_c_message_descriptor_get_field(message, number);
    if (field != NULL) {
        number = field->id;
        if (is_canonical || any(4) != 0)
            type = type_of(field);
    }
    if (is_canonical && (type == 3 || (field != NULL && type == 0 &&
                                       (field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0)))
        return;
    struct proto_buffer content = {0};
    uint64_t value = any_number();
    if (is_canonical && field != NULL)
        value = canonical_number(field, value);
    put_padded(out, (uint64_t)number << 3 | type);
    switch (type) {
    case 0:
        put_padded(out, value);
        break;
    case 2:
        put_random_content(&content, field, depth);
        put_padded(out, content.length);
        proto_put_raw(out, content.bytes, content.length);
        break;
    case 3:
        if (depth < 6)
            put_random_fields(out, NULL, depth + 1);
        proto_put_varint(out, (uint64_t)number << 3 | 4);
        break;
    default:
        proto_put_raw(out, &value, type == 1 ? 8 : 4);
    }
    proto_buffer_free(&content);
}

static void put_random_fields(struct proto_buffer *out, const ProtobufCMessageDescriptor *message,
                              int depth)
{
    for (uint64_t i = any(5); i > 0; i--)
        put_random_field(out, message, depth);
}

static void canonical_bytes_survive_the_round_trip(void **state)
{
    (void)state;
    struct proto_buffer text = {0};
    is_canonical = true;
    for (int round = 0; round < 5000; round++) {
        struct proto_buffer bytes = {0};
        for (int i = 0; i < 4; i++)
            put_random_fields(&bytes, TRACE, 0);
        check_round_trip(bytes.bytes, bytes.length, &text);
        proto_buffer_free(&bytes);
    }
    proto_buffer_free(&text);
}

static void well_formed_bytes_become_canonical(void **state)
{
    (void)state;
    struct proto_buffer text = {0};
    size_t printed = 0;
    is_canonical = false;
    for (int round = 0; round < 5000; round++) {
        struct proto_buffer bytes = {0}, canonical = {0};
        struct error error = {0};
        for (int i = 0; i < 4; i++)
            put_random_fields(&bytes, TRACE, 0);
        text.length = 0;
        if (print(bytes.bytes, bytes.length, &text)) {
            struct dripping from = {(const char *)text.bytes, text.length, 0};
            if (read_text(from, &canonical, &error) < 0)
                fail_msg("%s\n%s", error.message, (char *)text.bytes);
            check_round_trip(canonical.bytes, canonical.length, &text);
            printed++;
        }
        proto_buffer_free(&bytes);
        proto_buffer_free(&canonical);
    }
    assert_uint_in_range(printed, 1000, 4800); /* others have a group */
    proto_buffer_free(&text);
}

/* --- texts that people write --- */

static void handwritten_variants_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "packet: < timestamp: 0x10, trusted_uid: -010; # a comment\n"
        "  profile_packet { process_dumps { lost: 1 lost: 2 client_error: 1 } }\n"
        "  streaming_allocation { address: [1,2] count: [1.5, 2.5f] count: 1e3 }\n"
        "  system_info { utsname { sysname: 'Li' \"nux\" } } 6003: -1 >";
    static const char bytes[] =
        "\x0a\x55"
        "\x40\x10\x18\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        "\xaa\x02\x0e\x2a\x0c\xda\xb8\x02\x01\x01\xda\xb8\x02\x01\x02\x70\x01"
        "\xd2\x04\x25\x08\x01\x08\x02"
        "\xc9\xb8\x02\0\0\0\0\0\0\xf8\x3f"
        "\xc9\xb8\x02\0\0\0\0\0\0\x04\x40"
        "\xc9\xb8\x02\0\0\0\0\0\x40\x8f\x40"
        "\xea\x02\x09\x0a\x07\x0a\x05Linux"
        "\x98\xf7\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    struct proto_buffer out = {0};
    struct error error = {0};
    if (read_text((struct dripping){text, sizeof(text) - 1, 3}, &out, &error) < 0)
        fail_msg("%s", error.message);
    assert_int_equal(out.bytes[1], out.length - 2);
    assert_int_equal(out.length, sizeof(bytes) - 1);
    assert_memory_equal(out.bytes + 2, bytes + 2, out.length - 2);
    proto_buffer_free(&out);
}

/* Only the blank after the number distinguishes the two lines. */
static void plain_lines_read_as_any_others(void **state)
{
    (void)state;
    static const char *const fields[] = {"timestamp", "trusted_packet_sequence_id", "trusted_uid",
                                         "trace_uuid { msb: 1 } trusted_pid"};
    static const char *const numbers[] = {
        "0",          "7",          "07",         "08",
        "0x1f",       "2147483647", "2147483648", "4294967295",
        "4294967296", "-1",         "1.5",        "9223372036854775807",
        "",           "1 # a note", "1;",         "9999999999999999999",
        "1,",         "1a",         "12 13",      "18446744073709551615",
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        for (size_t j = 0; j < sizeof(numbers) / sizeof(numbers[0]); j++) {
            struct proto_buffer out[2] = {{0}, {0}};
            struct error errors[2] = {{0}, {0}};
            int codes[2];
            for (int k = 0; k < 2; k++) {
                char text[256];
                int length = snprintf(text, sizeof(text),
                                      "packet {\n %s: %s%s\n trusted_pid: 5\n trusted_pid: 6\n}\n",
                                      fields[i], numbers[j], k == 0 ? "" : " ");
                codes[k] =
                    read_text((struct dripping){text, (size_t)length, 0}, &out[k], &errors[k]);
            }
            assert_int_equal(codes[0], codes[1]);
            assert_string_equal(errors[0].message, errors[1].message);
            assert_int_equal(out[0].length, out[1].length);
            if (out[0].length > 0)
                assert_memory_equal(out[0].bytes, out[1].bytes, out[0].length);
            proto_buffer_free(&out[0]);
            proto_buffer_free(&out[1]);
        }
    }
}

static void errors_have_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"packet {\n  tmestamp: 1 }", "2:3: TracePacket has no field 'tmestamp': did you mean"},
        {"packet {\n  timestamp: 'x' }", "2:14: ''x'' found where a whole number"},
        {"packet { 6003 {\n a: 1 } }", "2:2: 'a' is in a message without known names"},
        {"packet { 0: 1 }", "1:13: no field has the number 0"},
        {"packet { 4294967296: 1 }", "1:22: no field has the number 4294967296"},
        {"packet { 1.5: 1 }", "1:10: '1.5' is not a whole number"},
        {"packet { 7: 0x1ffffffffffffffff }", "1:13: '0x1ffffffffffffffff' is not"},
        {"packet { 7 1 }", "1:12: '1' found where a field by number expects ':'"},
        {"packet {", "1:9: the text ends before the '}' of TracePacket"},
        {"packet { synchronization_marker: \"", "1:34: the string that begins here"},
        {"packet { streaming_allocation { count: 1.5.5 } }", "1:40: '1.5.5' found where count"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t step = 0; step < 3; step++) {
            struct proto_buffer out = {0};
            struct error error = {0};
            struct dripping from = {cases[i].text, strlen(cases[i].text), step};
            assert_true(read_text(from, &out, &error) < 0);
            if (strstr(error.message, cases[i].message) == NULL)
                fail_msg("%s\n  gave: %s\n  not:  %s", cases[i].text, error.message,
                         cases[i].message);
            proto_buffer_free(&out);
        }
    }
}

static void invalid_messages_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x0a\x05q",    "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "\x0b\x0b\x0c", "\x0c",
        "\x0b\x14",     "\x0b\x0c"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct proto_buffer text = {0};
        assert_false(print(bad[i], strlen(bad[i]), &text));
        assert_int_equal(text.length, 0);
        proto_buffer_free(&text);
    }
}

/* Messages nested deeper than the limit are printed as bytes. */
static void depth_is_bounded(void **state)
{
    (void)state;
    struct proto_buffer inner = {0}, text = {0};
    proto_put_uint(&inner, 1, 1);
    for (int i = 0; i < 200; i++) {
        struct proto_buffer outer = {0};
        proto_put_bytes(&outer, 1, inner.bytes, inner.length);
        proto_buffer_free(&inner);
        inner = outer;
    }
    check_round_trip(inner.bytes, inner.length, &text);
    proto_buffer_free(&inner);
    proto_buffer_free(&text);
}

/* --- numbers --- */

static void doubles_are_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {0.1, "0.1"},
        {0.3, "0.3"},
        {1.0 / 3, "0.3333333333333333"},
        {100, "100"},
        {99999.99999999999, "99999.99999999999"},
        {0.9999999999999999, "0.9999999999999999"},
        {9007199254740991, "9007199254740991"},
        {4503599627370495.5, "4503599627370495.5"},
        {-1.25, "-1.25"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
    };
    char text[TEXT_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length = text_number_of_double(cases[i].value, text);
        text[length] = '\0';
        assert_string_equal(text, cases[i].text);
    }
    for (int round = 0; round < 300000 / FEWER_ROUNDS; round++) {
        char shorter[400];
        double value = ldexp((double)any(UINT64_C(1) << 53), (int)any(90) - 70), again;
        size_t length = text_number_of_double(value, text);
        assert_true(text_number_to_double(text, length, &again));
        assert_true(again == value);
        text[length] = '\0';
        assert_true(strtod(text, NULL) == value);
        /* One digit less would not read back. */
        size_t digits = strspn(text, "0.");
        size_t significant = 0;
        for (size_t i = digits; i < length && text[i] != 'e'; i++)
            significant += text[i] != '.';
        if (significant > 1 && value < 0x1p53) {
            snprintf(shorter, sizeof(shorter), "%.*g", (int)significant - 1, value);
            assert_true(strchr(text, '.') == NULL || strtod(shorter, NULL) != value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_traces_survive_the_round_trip),
        cmocka_unit_test(bytes_print_as_expected),
        cmocka_unit_test(other_encodings_become_canonical),
        cmocka_unit_test(doubles_keep_their_bits),
        cmocka_unit_test(canonical_bytes_survive_the_round_trip),
        cmocka_unit_test(well_formed_bytes_become_canonical),
        cmocka_unit_test(handwritten_variants_are_read),
        cmocka_unit_test(plain_lines_read_as_any_others),
        cmocka_unit_test(errors_have_line_and_column),
        cmocka_unit_test(invalid_messages_are_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(doubles_are_short_and_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
