/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations as text: escapes in quoted strings, and the positions of errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/config/trace_config.h"
#include "trace/text/text_token.h"

#define DATA_SOURCE "data_sources { config { name: \"android.heapprofd\" heapprofd_config {"

/* Return the bytes of a text that is a single string, or -EINVAL. */
static int read_string(const char *text, bool zero_allowed, struct proto_buffer *content)
{
    struct text_scanner scanner;
    struct error error = {0};
    text_scanner_open(&scanner, text, strlen(text), &error);
    if (scanner.code == 0) {
        assert_int_equal(scanner.token.kind, TEXT_TOKEN_STRING);
        text_scanner_take_string(&scanner, zero_allowed, content);
    }
    if (scanner.code == 0)
        assert_int_equal(scanner.token.kind, TEXT_TOKEN_END);
    else
        assert_int_not_equal(error.message[0], 0);
    return scanner.code;
}

static void escapes_become_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *bytes;
    } cases[] = {
        {"'\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"\\?'", "\a\b\f\n\r\t\v\\'\"?"},
        {"\"it's\"", "it's"},
        {"'\\x41\\X4a'", "AJ"},
        {"'\\x41b'", "A"
                     "b"}, /* at most two digits */
        {"'\\x9g'", "\tg"},
        {"'\\101\\60\\7z\\1012'", "A0\az"
                                  "A2"},
        {"'\\377\\xff'", "\xff\xff"},
        {"'\\u0041\\u00e9\\u20AC'", "A\xc3\xa9\xe2\x82\xac"},
        {"'\\U0001F600'", "\xf0\x9f\x98\x80"},
        {"'\\ud83d\\ude00'", "\xf0\x9f\x98\x80"}, /* two surrogates */
        {"'\\u07ff\\u0800\\uffff\\U00010000\\U0010ffff'",
         "\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
        {"'\\u00411'", "A1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct proto_buffer content = {0};
        assert_int_equal(read_string(cases[i].text, false, &content), 0);
        assert_int_equal(content.length, strlen(cases[i].bytes));
        assert_memory_equal(content.bytes, cases[i].bytes, content.length);
        proto_buffer_free(&content);
    }
}

static void invalid_escapes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "'\\q'",
        "'\\8'",
        "'\\x'",
        "'\\xg'",
        "'\\400'",
        "'\\u'",
        "'\\u12'",
        "'\\u123g'",
        "'\\U0001F60'",
        "'\\U00110000'",
        "'\\ud83d'",
        "'\\ud83dx'",
        "'\\ud83d\\u0041'",
        "'\\ude00'",
        "'\\U0000d800'",
        "'\\",
        "'\\'",
        "'no end",
        "\"another end'",
        "'a\\\nb'",
        "'two\nlines'",
        "'\\ud83d\\u'",
        "'\\_'",
        "'\\x_'",
        "'\\uffff_\\U'",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct proto_buffer content = {0};
        if (read_string(bad[i], true, &content) != -EINVAL)
            fail_msg("%s was taken", bad[i]);
        proto_buffer_free(&content);
    }
}

static void a_zero_byte_is_for_bytes_only(void **state)
{
    (void)state;
    static const char *const zeros[] = {"'a\\0b'", "'a\\x00b'", "'a\\u0000b'", "'a\\000b'"};
    for (size_t i = 0; i < sizeof(zeros) / sizeof(zeros[0]); i++) {
        struct proto_buffer content = {0};
        assert_int_equal(read_string(zeros[i], false, &content), -EINVAL);
        proto_buffer_free(&content);
        content = (struct proto_buffer){0};
        assert_int_equal(read_string(zeros[i], true, &content), 0);
        assert_int_equal(content.bytes[1], 0);
        proto_buffer_free(&content);
    }
}

static void tokens_are_distinguished(void **state)
{
    (void)state;
    static const char text[] = "a_1: -1.5e-3 0x1e-2 .5\v# all of this is skipped '\n[b.c]";
    static const struct {
        enum text_token_kind kind;
        const char *text;
        unsigned line, column;
    } expected[] = {
        {TEXT_TOKEN_WORD, "a_1", 1, 1},     {TEXT_TOKEN_SIGN, ":", 1, 4},
        {TEXT_TOKEN_SIGN, "-", 1, 6},       {TEXT_TOKEN_NUMBER, "1.5e-3", 1, 7},
        {TEXT_TOKEN_NUMBER, "0x1e", 1, 14}, {TEXT_TOKEN_SIGN, "-", 1, 18},
        {TEXT_TOKEN_NUMBER, "2", 1, 19},    {TEXT_TOKEN_NUMBER, ".5", 1, 21},
        {TEXT_TOKEN_SIGN, "[", 2, 1},       {TEXT_TOKEN_WORD, "b", 2, 2},
        {TEXT_TOKEN_SIGN, ".", 2, 3},       {TEXT_TOKEN_WORD, "c", 2, 4},
        {TEXT_TOKEN_SIGN, "]", 2, 5},       {TEXT_TOKEN_END, "", 2, 6},
    };
    struct text_scanner scanner;
    struct error error;
    text_scanner_open(&scanner, text, sizeof(text) - 1, &error);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(scanner.token.kind, expected[i].kind);
        assert_int_equal(scanner.token.length, strlen(expected[i].text));
        assert_memory_equal(scanner.token.start, expected[i].text, scanner.token.length);
        assert_int_equal(scanner.token.line, expected[i].line);
        assert_int_equal(scanner.token.column, expected[i].column);
        text_scanner_advance(&scanner);
    }
    assert_int_equal(scanner.code, 0);
}

static int read_config(const char *text, struct heap_config *config, struct error *error)
{
    return heap_config_read_text(text, strlen(text), config, NULL, error);
}

static void errors_have_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"duration_ms: yes", "1:14: 'yes' found where a whole number"},
        {"\n\n  duration_ms: -1", "3:17: -1 does not fit"},
        {"# one\nbuffers {\n  size_kb: 5000000000\n}", "3:12: 5000000000 does not fit"},
        {"duration_ms: 1\n" DATA_SOURCE "\n\tprocess_cmdline: 'a' '\\q'",
         "3:23: the string ''\\q'' has an invalid escape"},
        {DATA_SOURCE "\n\n process_cmdline: 'a\n'}}}", "3:19: the string that begins here"},
        {DATA_SOURCE "\nblock_clint: true}}}", "2:1: HeapprofdConfig has no field 'block_clint'"},
        {"buffers {\r\n  size_kb: 1\r\n", "3:1: the text ends before the '}'"},
        {"write_into_file: 1.5e-3", "1:18: '1.5e-3' found where"},
        {"duration_ms: 1 }", "1:16: '}' found where the name"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct heap_config config;
        struct error error = {0};
        assert_true(read_config(cases[i].text, &config, &error) < 0);
        if (strstr(error.message, cases[i].message) == NULL)
            fail_msg("%s\n  gave: %s\n  not:  %s", cases[i].text, error.message, cases[i].message);
    }
}

static void strings_in_a_row_are_one(void **state)
{
    (void)state;
    struct heap_config config;
    struct error error = {0};
    const char *text = DATA_SOURCE " process_cmdline: 'ma' \"\\u0069\"\n 'n' } } }";
    if (read_config(text, &config, &error) < 0)
        fail_msg("%s", error.message);
    assert_string_equal(config.process_cmdline[0], "main");
    assert_null(config.process_cmdline[1]);
    heap_config_clear(&config);
}

/* A newer Perfetto has fields of unknown types. */
static void values_of_unknown_fields_are_skipped(void **state)
{
    (void)state;
    struct heap_config config;
    struct error error = {0};
    const char *text = "new_ratio: -1.5e-3f new_limit: inf new_list: [1, 2.5, -3]\n"
                       "new_message { deep: [{ a: 'x' 'y' }] } duration_ms: 7\n" DATA_SOURCE
                       " process_cmdline: 'x' }}}";
    if (read_config(text, &config, &error) < 0)
        fail_msg("%s", error.message);
    assert_int_equal(config.duration_ms, 7);
    heap_config_clear(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_become_bytes),
        cmocka_unit_test(invalid_escapes_are_refused),
        cmocka_unit_test(a_zero_byte_is_for_bytes_only),
        cmocka_unit_test(tokens_are_distinguished),
        cmocka_unit_test(errors_have_line_and_column),
        cmocka_unit_test(strings_in_a_row_are_one),
        cmocka_unit_test(values_of_unknown_fields_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
