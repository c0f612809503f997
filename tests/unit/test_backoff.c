/* SPDX-License-Identifier: Apache-2.0 */
/* Delays between attempts: they double up to a limit, vary, and honour the other side's wish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "production/sinks/backoff.h"
#include "uint_in_range.h"

#define NOW_MS 1000000u

static void doubles_up_to_a_limit(void **state)
{
    struct backoff backoff = {.first_ms = 1000, .max_ms = 10000};
    static const uint64_t most_ms[] = {1000, 2000, 4000, 8000, 10000, 10000};
    (void)state;
    for (size_t i = 0; i < sizeof(most_ms) / sizeof(most_ms[0]); i++) {
        backoff_fail(&backoff, NOW_MS, 0);
        assert_uint_in_range(backoff.due_ms - NOW_MS, most_ms[i] / 2, most_ms[i]);
    }
    for (int i = 0; i < 100; i++)
        backoff_fail(&backoff, NOW_MS, 0);
    assert_uint_in_range(backoff.due_ms - NOW_MS, 5000, 10000);
    backoff_succeed(&backoff);
    assert_int_equal(backoff.due_ms, 0);
    backoff_fail(&backoff, NOW_MS, 0);
    assert_uint_in_range(backoff.due_ms - NOW_MS, 500, 1000);
}

static void varies(void **state)
{
    uint64_t least = UINT64_MAX, most = 0;
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct backoff backoff = {.first_ms = 1000, .max_ms = 10000};
        backoff_fail(&backoff, NOW_MS, 0);
        least = backoff.due_ms < least ? backoff.due_ms : least;
        most = backoff.due_ms > most ? backoff.due_ms : most;
    }
    assert_true(most - least > 400); /* of 500; else with a chance of 1e-17 */
}

static void honours_retry_after(void **state)
{
    struct backoff backoff = {.first_ms = 1000, .max_ms = 10000};
    (void)state;
    backoff_fail(&backoff, NOW_MS, 60000);
    assert_uint_in_range(backoff.due_ms - NOW_MS, 60000, 61000);
    backoff_fail(&backoff, NOW_MS, UINT64_MAX);
    assert_uint_in_range(backoff.due_ms - NOW_MS, BACKOFF_RETRY_AFTER_MS_MAX,
                         BACKOFF_RETRY_AFTER_MS_MAX + 1000);
    backoff_fail(&backoff, NOW_MS, 1); /* its own delay is longer */
    assert_uint_in_range(backoff.due_ms - NOW_MS, 2000, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_up_to_a_limit),
        cmocka_unit_test(varies),
        cmocka_unit_test(honours_retry_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
