/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of users and of files: which texts match, and what an expression may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/pattern.h"

static bool matches(const char *text, enum pattern_place place, const char *name)
{
    struct error error;
    struct pattern *pattern;
    if (pattern_new(&pattern, text, place, &error) < 0)
        fail_msg("'%s' is refused: %s", text, error.message);
    int result = pattern_matches(pattern, name, &error);
    if (result < 0)
        fail_msg("'%s' on '%s': %s", text, name, error.message);
    pattern_free(pattern);
    return result > 0;
}

static void whole_names_match(void **state)
{
    (void)state;
    static const char *const yes[][2] = {
        {"malloc|calloc|realloc", "calloc"},
        {"malloc|calloc|realloc", "realloc"},
        {"malloc|", ""},
        {"tcmalloc::.*", "tcmalloc::Allocate"},
        {"(::)?do_malloc", "::do_malloc"},
        {"(::)?do_malloc", "do_malloc"},
        {"operator new(\\[\\])?", "operator new[]"},
        {"(?:a|b)+c*", "abab"},
        {"(a*)*b", "aaaab"},
        {"(a|b|ab)*?c", "abbac"},
        {"x\\d\\w\\s\\D", "x1_ z"},
        {"[^a-c]x[]-]", "dx]"},
        {"[\\d.]+", "1.5"},
        {"^f$", "f"},
        {"(^a|b$)", "b"},
        {"runtime\\..*", "runtime.mallocgc"},
        {".", "\xc3\xa9"},
        {"a||b", "b"},
        {"((((a))))", "a"},
        {"(?i)MALLOC", "malloc"},
        {"a{2}", "aa"},
        {"[[:alpha:]]+", "ab"},
    };
    static const char *const no[][2] = {
        {"malloc|calloc", "mallocs"},
        {"malloc|calloc", "xmalloc"},
        {"a+", ""},
        {"a.b", "ab"},
        {"[^a]", "a"},
        {"(a|b)c", "ab"},
        {"a^b", "ab"},
        {"x\\d", "xd"},
        {"runtime\\..*", "runtimex"},
        {"", "a"},
        {"a$b", "a$b"},
        {"a$", "a\n"},
    };
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (!matches(yes[i][0], PATTERN_WHOLE_TEXT, yes[i][1]))
            fail_msg("'%s' does not match '%s'", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (matches(no[i][0], PATTERN_WHOLE_TEXT, no[i][1]))
            fail_msg("'%s' matches '%s'", no[i][0], no[i][1]);
}

static void parts_of_names_match(void **state)
{
    (void)state;
    assert_true(matches("alloc$", PATTERN_ANYWHERE, "malloc"));
    assert_true(matches("b.d", PATTERN_ANYWHERE, "ab\xff\nb\nd"));
    assert_true(matches("d", PATTERN_ANYWHERE, "\xff\xfe d"));
    assert_false(matches("^alloc", PATTERN_ANYWHERE, "malloc"));
}

static void what_is_no_expression_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *message;
    } bad[] = {
        {"(", -EINVAL, "character 2: missing closing parenthesis"},
        {"a)", -EINVAL, "unmatched closing parenthesis"},
        {"a**", -EINVAL, "quantifier does not follow a repeatable item"},
        {"[a", -EINVAL, "character 3: missing terminating ]"},
        {"\\", -EINVAL, "character 2: "},
        {"[b-a]", -EINVAL, "range out of order in character class"},
        {"(a)\\1", -EINVAL, "references to groups are not supported"},
        {"(((.{1,200}){1,200}){1,200})x", PATTERN_EXCEEDS, "regular expression is too large"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error error;
        struct pattern *pattern;
        assert_int_equal(pattern_new(&pattern, bad[i].text, PATTERN_ANYWHERE, &error), bad[i].code);
        assert_null(pattern);
        if (strstr(error.message, bad[i].message) == NULL)
            fail_msg("'%s': %s", bad[i].text, error.message);
    }
}

static void long_and_deep_expressions_are_refused(void **state)
{
    (void)state;
    static char text[PATTERN_BYTES_MAX + 2];
    struct pattern *pattern;
    memset(text, 'a', sizeof(text) - 1);
    assert_int_equal(pattern_new(&pattern, text, PATTERN_ANYWHERE, NULL), PATTERN_EXCEEDS);
    memset(text, '(', 400);
    memset(text + 400, ')', 400);
    text[800] = '\0';
    assert_int_equal(pattern_new(&pattern, text, PATTERN_ANYWHERE, NULL), PATTERN_EXCEEDS);
}

/* Repetitions in repetitions, also where the number of one is large, or a class has many ranges. */
static void matches_end_with_their_steps(void **state)
{
    (void)state;
    static const char *const costly[] = {
        "(a|aa)+[bc]",           "(a+)+[bc]",
        "([ab]*)*([ab]*)*[c-e]", "[ab]*?[ab]*?[ab]*?[bc]",
        "[ab]{60000}[bc]",       "(?:(?=[ab]*[bc]).)*[bc]",
    };
    size_t length = 1u << 20;
    char *name = malloc(length + 1);
    assert_non_null(name);
    memset(name, 'a', length);
    name[length] = '\0';
    for (size_t i = 0; i < sizeof(costly) / sizeof(costly[0]); i++) {
        struct error error;
        struct pattern *pattern;
        assert_int_equal(pattern_new(&pattern, costly[i], PATTERN_ANYWHERE, &error), 0);
        int result = pattern_matches(pattern, name, &error);
        if (result != PATTERN_EXCEEDS)
            fail_msg("'%s': %d", costly[i], result);
        assert_non_null(strstr(error.message, "too many steps"));
        pattern_free(pattern);
    }
    free(name);
}

/* No number of names exhausts a usual expression. */
static void many_names_are_matched(void **state)
{
    (void)state;
    static char name[(64u << 10) + 1];
    struct error error;
    struct pattern *pattern;
    memset(name, 'a', sizeof(name) - 1);
    assert_int_equal(pattern_new(&pattern, "^.*[bc]$", PATTERN_ANYWHERE, &error), 0);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(pattern_matches(pattern, name, &error), 0);
    pattern_free(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_names_match),
        cmocka_unit_test(parts_of_names_match),
        cmocka_unit_test(what_is_no_expression_is_refused),
        cmocka_unit_test(long_and_deep_expressions_are_refused),
        cmocka_unit_test(matches_end_with_their_steps),
        cmocka_unit_test(many_names_are_matched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
