/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of other profilers' files against whole names, and the bounds of a match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/name_pattern.h"

static bool matches(const char *text, const char *name)
{
    uint64_t budget = UINT64_C(1) << 20;
    struct name_pattern *pattern = name_pattern_new(text);
    if (pattern == NULL)
        fail_msg("'%s' is refused", text);
    bool result = name_pattern_matches(pattern, name, &budget);
    name_pattern_free(pattern);
    return result;
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
        {"..", "\xc3\xa9"},
        {"a||b", "b"},
        {"((((a))))", "a"},
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
    };
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (!matches(yes[i][0], yes[i][1]))
            fail_msg("'%s' does not match '%s'", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (matches(no[i][0], no[i][1]))
            fail_msg("'%s' matches '%s'", no[i][0], no[i][1]);
}

static void what_is_no_expression_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"(",    ")",     "a)",     "*",     "a**",        "a{2}",
                                      "[a",   "[",     "\\",     "(?i)a", "[[:alpha:]", "\\1",
                                      "\\pL", "[b-a]", "(?P<x>", "+a",    "a|*"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct name_pattern *pattern = name_pattern_new(bad[i]);
        if (pattern != NULL)
            fail_msg("'%s' is taken", bad[i]);
    }
    char text[8300];
    memset(text, '(', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_null(name_pattern_new(text));
    text[5000] = '\0';
    assert_null(name_pattern_new(text));
}

static void a_match_ends_with_its_budget(void **state)
{
    (void)state;
    uint64_t budget = 100000;
    char name[2000];
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    struct name_pattern *pattern = name_pattern_new("((a*)*(a*)*(a|aa)*)*b?");
    assert_non_null(pattern);
    bool first = name_pattern_matches(pattern, name, &budget);
    for (int i = 0; i < 20; i++)
        (void)!name_pattern_matches(pattern, name, &budget);
    assert_true(first);
    assert_int_equal(budget, 0);
    assert_false(name_pattern_matches(pattern, name, &budget));
    name_pattern_free(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_names_match),
        cmocka_unit_test(what_is_no_expression_is_refused),
        cmocka_unit_test(a_match_ends_with_its_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
