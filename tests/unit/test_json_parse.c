/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: valid JSON becomes a tree; everything else, and what is too large, is refused
 * with a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/view/server/json_parse.h"

static int parse(struct json_document *document, const char *text)
{
    struct error error = {0};
    int code = json_parse(document, text, strlen(text), &error);
    assert_int_equal(document->root != NULL, code == 0);
    assert_int_equal(error.message[0] != '\0', code < 0);
    return code;
}

static void documents_become_trees(void **state)
{
    struct json_document document;
    (void)state;
    assert_int_equal(parse(&document, " {\"paths\": [\"/a\\n\\u00e4\\ud83d\\ude00\", \"\"],"
                                      "\"add\": true, \"pid\": -12.5e1, \"no\": null, \"o\": {}} "),
                     0);
    const struct json_value *paths = json_member(document.root, "paths");
    assert_int_equal(paths->kind, JSON_ARRAY);
    assert_int_equal(paths->count, 2);
    assert_string_equal(json_string_of(paths->first), "/a\n\xc3\xa4\xf0\x9f\x98\x80");
    assert_string_equal(json_string_of(paths->first->next), "");
    assert_null(paths->first->next->next);
    assert_true(json_member(document.root, "add")->truth);
    assert_true(json_member(document.root, "pid")->number == -125);
    assert_int_equal(json_member(document.root, "no")->kind, JSON_NULL);
    assert_int_equal(json_member(document.root, "o")->count, 0);
    assert_null(json_member(document.root, "missing"));
    assert_null(json_member(paths, "paths"));
    assert_null(json_string_of(paths));
    json_document_clear(&document);
}

static void what_is_not_json_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        " ",
        "{",
        "[1,",
        "[1 2]",
        "{\"a\"}",
        "{a:1}",
        "[1]]",
        "01",
        "1.",
        "-",
        "1e",
        "1e999",
        "NaN",
        "+1",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\n\"",
        "\"\\u0000\"",
        "\"\\ude00\"",
        "{\"\\ude00\":1}",
        "\"\xff\"",
        "truely",
        "[,]",
        "{\"a\":}",
        "[1,]",
        "\"\xe2\x82",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct json_document document;
        assert_int_equal(parse(&document, wrong[i]), -EINVAL);
        json_document_clear(&document);
    }
}

static void large_documents_are_refused(void **state)
{
    char text[2 * JSON_VALUES_MAX + 8] = "[";
    struct json_document document;
    (void)state;
    for (size_t i = 0; i < JSON_VALUES_MAX - 1; i++)
        strcpy(text + 1 + 2 * i, "1,");
    text[2 * (JSON_VALUES_MAX - 1)] = ']';
    assert_int_equal(parse(&document, text), 0);
    json_document_clear(&document);
    strcpy(text + 2 * (JSON_VALUES_MAX - 1), ",1]");
    assert_int_equal(parse(&document, text), -E2BIG);
    json_document_clear(&document);
    memset(text, '[', JSON_DEPTH_MAX + 2);
    text[JSON_DEPTH_MAX + 2] = '\0';
    assert_int_equal(parse(&document, text), -E2BIG);
    json_document_clear(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_become_trees),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(large_documents_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
