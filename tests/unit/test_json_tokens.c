/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as a sequence of tokens: their texts, depths and positions, in pieces of any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/json_tokens.h"

/* Feed the text in pieces, and write a line for each token; the last one is JSON_MORE, or why it
 * failed. */
static void list_tokens(const char *json, size_t length, size_t piece, char *lines, size_t size)
{
    static const char *const names[] = {"more",  "broken", "no memory", "null",
                                        "false", "true",   "number",    "text",
                                        "key",   "object", "list",      "close"};
    struct json_tokens tokens = {0};
    size_t at = 0, used = 0;
    for (enum json_token token = JSON_NULL; token > JSON_NO_MEMORY;) {
        token = json_tokens_next(&tokens);
        if (token == JSON_MORE && at < length) {
            size_t more = length - at < piece ? length - at : piece;
            json_tokens_feed(&tokens, json + at, more);
            at += more;
            token = JSON_NULL;
            continue;
        }
        used += (size_t)snprintf(lines + used, size - used, "%s", names[token]);
        if (token == JSON_NUMBER || token == JSON_TEXT || token == JSON_KEY)
            used += (size_t)snprintf(lines + used, size - used, " %.*s", (int)tokens.length,
                                     tokens.text);
        used += (size_t)snprintf(lines + used, size - used, " %u@%d\n", tokens.depth,
                                 (int)tokens.offset);
        assert_true(used < size);
    }
    json_tokens_free(&tokens);
}

static void tokens_have_texts_depths_and_positions(void **state)
{
    (void)state;
    static const char json[] = " {\"a\":[1.50,true,\"x\\u0041\"],\"b\":{},\"c\":null}\n";
    static const char wanted[] = "object 1@2\nkey a 1@5\nlist 2@7\nnumber 1.50 2@11\ntrue 2@16\n"
                                 "text xA 2@26\nclose 1@27\nkey b 1@31\nobject 2@33\nclose 1@34\n"
                                 "key c 1@38\nnull 1@43\nclose 0@44\nmore 0@45\n";
    char lines[1000];
    for (size_t piece = 1; piece <= sizeof(json); piece++) {
        list_tokens(json, sizeof(json) - 1, piece, lines, sizeof(lines));
        assert_string_equal(lines, wanted);
    }
}

static void the_tokens_before_an_error_are_taken_first(void **state)
{
    (void)state;
    static const struct {
        const char *json, *wanted;
    } cases[] = {
        {"[1,}", "list 1@1\nnumber 1 1@2\nbroken 1@4\n"},
        {"[]]", "list 1@1\nclose 0@2\nbroken 0@3\n"},
        {"{\"a\" 1}", "object 1@1\nkey a 1@4\nbroken 1@6\n"},
        {"[\"a\nb\"]", "list 1@1\nbroken 1@3\n"},
        {"[tru", "list 1@1\nmore 1@4\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char lines[1000];
        list_tokens(cases[i].json, strlen(cases[i].json), 100, lines, sizeof(lines));
        assert_string_equal(lines, cases[i].wanted);
    }
}

static void depth_and_length_are_bounded(void **state)
{
    (void)state;
    const size_t length = 20u << 20;
    struct json_tokens tokens = {0};
    char deep[600];
    memset(deep, '[', sizeof(deep));
    json_tokens_feed(&tokens, deep, sizeof(deep));
    for (int i = 0; i < 512; i++)
        assert_int_equal(json_tokens_next(&tokens), JSON_LIST);
    assert_int_equal(json_tokens_next(&tokens), JSON_BROKEN);
    assert_non_null(strstr(tokens.error, "too deep"));
    json_tokens_free(&tokens);
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, 'x', length);
    json_tokens_feed(&tokens, "[\"", 2);
    json_tokens_feed(&tokens, text, length);
    assert_int_equal(json_tokens_next(&tokens), JSON_BROKEN);
    assert_non_null(strstr(tokens.error, "too long"));
    json_tokens_free(&tokens);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_have_texts_depths_and_positions),
        cmocka_unit_test(the_tokens_before_an_error_are_taken_first),
        cmocka_unit_test(depth_and_length_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
