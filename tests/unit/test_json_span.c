/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in memory, taken apart as it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory_infra/json_span.h"

static struct json_span span_of(const char *text)
{
    return (struct json_span){text, text + strlen(text)};
}

static void assert_span(struct json_span span, const char *expected)
{
    assert_int_equal(span.end - span.at, strlen(expected));
    assert_memory_equal(span.at, expected, strlen(expected));
}

static void members_keep_their_bytes(void **state)
{
    (void)state;
    struct json_span span =
        span_of(" {\"a\" : [1, \"]\\\"\"] ,\"b\":{ \"c\":\"}\"},\n\"d\":-1.5e3 } ");
    struct json_member member;
    assert_true(json_span_open(&span, '{'));
    assert_int_equal(json_span_next(&span, false, &member), 1);
    assert_span(member.key, "\"a\"");
    assert_span(member.value, "[1, \"]\\\"\"]");
    assert_int_equal(json_span_next(&span, false, &member), 1);
    assert_span(member.value, "{ \"c\":\"}\"}");
    assert_int_equal(json_span_next(&span, false, &member), 1);
    assert_span(member.key, "\"d\"");
    assert_span(member.value, "-1.5e3");
    assert_int_equal(json_span_next(&span, false, &member), 0);
}

static void elements_of_lists_have_no_keys(void **state)
{
    (void)state;
    struct json_span span = span_of("[1,[],{},\"x\"]");
    static const char *const expected[] = {"1", "[]", "{}", "\"x\""};
    struct json_member member;
    assert_true(json_span_open(&span, '['));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(json_span_next(&span, true, &member), 1);
        assert_span(member.value, expected[i]);
    }
    assert_int_equal(json_span_next(&span, true, &member), 0);
}

static void what_is_no_json_is_found(void **state)
{
    (void)state;
    static const char *const wrong[] = {"{1:2}", "{\"a\"}",    "{\"a\" 1}",  "{\"a\":}",
                                        "{\"a",  "{\"a\":[1}", "{\"a\":1 2}"};
    struct json_member member;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct json_span span = span_of(wrong[i]);
        bool opened = json_span_open(&span, '{');
        assert_true(!opened || json_span_next(&span, false, &member) < 0);
    }
    struct json_span list = span_of("[1]");
    assert_false(json_span_open(&list, '{'));
}

static void assert_text(const char *json, const char *expected)
{
    char *text = json_span_text(span_of(json));
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void texts_are_unescaped(void **state)
{
    (void)state;
    assert_text("\"plain\"", "plain");
    assert_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    assert_text("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_text("\"a\\u0000b\"", "a\xef\xbf\xbd"
                                 "b");
    assert_text("\"\\ud800x\\udc00\"", "\xef\xbf\xbdx\xef\xbf\xbd");
    assert_text("\"\\u\\u\\u\\u\"", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    assert_null(json_span_text(span_of("1")));
    assert_true(json_span_is(span_of("\"n\\u006fdes\""), "nodes"));
    assert_false(json_span_is(span_of("\"node\""), "nodes"));
    assert_false(json_span_is(span_of("1"), "1"));
}

static void numbers_are_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t number;
    } good[] = {
        {"0", 0}, {"12", 12}, {"12.0", 12}, {"1.2e1", 12}, {"9007199254740993", 9007199254740993}};
    static const char *const bad[] = {"-1", "1.5", "\"1\"", "null", "1e30", "", "nan", "0x10"};
    uint64_t number;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_true(json_span_number(span_of(good[i].text), &number));
        assert_true(number == good[i].number);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(json_span_number(span_of(bad[i]), &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_keep_their_bytes),
        cmocka_unit_test(elements_of_lists_have_no_keys),
        cmocka_unit_test(what_is_no_json_is_found),
        cmocka_unit_test(texts_are_unescaped),
        cmocka_unit_test(numbers_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
