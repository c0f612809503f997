/* SPDX-License-Identifier: Apache-2.0 */
/* A tool without memory ends with one line and its exit code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/xmalloc.h"

#define EXIT_CODE 125

/* AddressSanitizer would end the process itself. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static volatile size_t too_many = SIZE_MAX / 2;

static void ask_for_too_many_items(void)
{
    free(xcalloc(too_many, 8));
}

static void ask_for_too_many_bytes(void)
{
    free(xmalloc(too_many));
}

static void meet_the_code(void)
{
    (void)xmalloc_code(-ENOMEM);
}

static void write_first(void)
{
    dprintf(STDERR_FILENO, "restored ");
}

static void restore_and_fail(void)
{
    xmalloc_before_exit = write_first;
    xmalloc_fail(7);
}

static int end_otherwise(void)
{
    dprintf(STDERR_FILENO, "waited\n");
    return EXIT_CODE;
}

static void wait_and_fail(void)
{
    xmalloc_exit_code = 1;
    xmalloc_end = end_otherwise;
    xmalloc_fail(7);
}

/* Run a function in a child. Check its exit code, and that it prints the text after the name. */
static void assert_ends(void (*run)(void), const char *before, const char *after)
{
    int ends[2], status;
    char printed[8192] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        xmalloc_exit_code = EXIT_CODE;
        run();
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(read(ends[0], printed, sizeof(printed) - 1) > 0);
    close(ends[0]);
    assert_int_equal(WEXITSTATUS(status), EXIT_CODE);
    char expected[256];
    snprintf(expected, sizeof(expected), "%stest_xmalloc: %s\n", before, after);
    size_t length = strlen(printed), wanted = strlen(expected);
    assert_true(length >= wanted); /* a sanitizer warns before that */
    assert_string_equal(printed + length - wanted, expected);
}

static void test_says_how_much_was_asked_for(void **state)
{
    (void)state;
    assert_ends(ask_for_too_many_bytes, "", "out of memory (9223372036854775807 bytes)");
}

static void test_product_that_overflows_is_too_much(void **state)
{
    (void)state;
    assert_ends(ask_for_too_many_items, "", "out of memory (18446744073709551615 bytes)");
}

static void test_code_of_a_library_without_memory(void **state)
{
    (void)state;
    assert_ends(meet_the_code, "", "out of memory");
    assert_int_equal(xmalloc_code(-E2BIG), -E2BIG);
}

static void test_terminal_is_restored_before_the_line(void **state)
{
    (void)state;
    assert_ends(restore_and_fail, "restored ", "out of memory (7 bytes)");
}

static void test_waits_after_the_line(void **state)
{
    (void)state;
    assert_ends(wait_and_fail, "", "out of memory (7 bytes)\nwaited");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_how_much_was_asked_for),
        cmocka_unit_test(test_product_that_overflows_is_too_much),
        cmocka_unit_test(test_code_of_a_library_without_memory),
        cmocka_unit_test(test_terminal_is_restored_before_the_line),
        cmocka_unit_test(test_waits_after_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
