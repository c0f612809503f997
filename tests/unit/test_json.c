/* SPDX-License-Identifier: Apache-2.0 */
/* JSON output: numbers read back unchanged, and strings are always valid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/json.h"

static void print_number(double value, char text[64])
{
    FILE *out = fmemopen(text, 64, "w");
    json_print_number(out, value);
    fclose(out);
}

static void assert_reads_back(double value)
{
    char text[64];
    print_number(value, text);
    assert_true(strtod(text, NULL) == value);
}

static void numbers_read_back(void **state)
{
    (void)state;
    static const double edges[] = {0,
                                   1,
                                   0.1,
                                   1e-300,
                                   1.5,
                                   9.9999999999999982,
                                   0x1.fffffffffffffp0,
                                   0x1.fffffffffffffp52,
                                   0x1p53,
                                   0x1.fffffffffffffp53,
                                   999999999999999.9,
                                   1e300,
                                   -2.5};
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
        assert_reads_back(edges[i]);
    for (int i = 0; i < 200000; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        /* Every exponent around the range that is printed without printf. */
        uint64_t bits = (random >> 12) | (uint64_t)(1020 + i % 60) << 52;
        double value;
        memcpy(&value, &bits, sizeof(value));
        assert_reads_back(value);
    }
}

static void infinite_and_nan_become_null(void **state)
{
    char text[64];
    (void)state;
    print_number(1e308 * 10, text);
    assert_string_equal(text, "null");
}

static void strings_are_valid(void **state)
{
    static const char *const pairs[][2] = {
        {"plain", "\"plain\""},
        {"a\"b\\c\n", "\"a\\\"b\\\\c\\u000a\""},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"x\xff", "\"x\\ufffd\""},
        {"\xe2\x82", "\"\\ufffd\\ufffd\""},                       /* truncated */
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},                       /* overlong */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},            /* half of a surrogate pair */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* beyond U+10FFFF */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char text[64];
        FILE *out = fmemopen(text, sizeof(text), "w");
        json_print_string(out, pairs[i][0]);
        fclose(out);
        assert_string_equal(text, pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(infinite_and_nan_become_null),
        cmocka_unit_test(strings_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
