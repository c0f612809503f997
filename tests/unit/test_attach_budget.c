/* SPDX-License-Identifier: Apache-2.0 */
/* How long failed attempts to attach delay the next one. The clock is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "recorder/server/attach_budget.h"
#include "uint_in_range.h"

#define BEGIN_US UINT64_C(5000000000)

static void shares_are_equal(void **state)
{
    (void)state;
    assert_int_equal(attach_budget_share_ppm(1, 1), ATTACH_BUDGET_MACHINE_PPM);
    assert_int_equal(attach_budget_share_ppm(1, 16), ATTACH_BUDGET_MACHINE_PPM / 16);
    /* One user with 16 sessions and one with 2: each has a half. */
    assert_int_equal(attach_budget_share_ppm(2, 16), ATTACH_BUDGET_MACHINE_PPM / 32);
    assert_int_equal(attach_budget_share_ppm(2, 2), ATTACH_BUDGET_MACHINE_PPM / 4);
    assert_int_equal(attach_budget_share_ppm(0, 0), ATTACH_BUDGET_MACHINE_PPM);
    assert_int_equal(attach_budget_share_ppm(1u << 20, 1u << 20), 1);
}

static void shares_never_exceed_the_machines(void **state)
{
    (void)state;
    for (size_t users = 1; users <= 64; users++) {
        for (size_t sessions = 1; sessions <= 64; sessions++)
            assert_true(users * sessions * attach_budget_share_ppm(users, sessions) <=
                        ATTACH_BUDGET_MACHINE_PPM);
    }
}

/* Attempts of different lengths, each started when it is allowed, use the share and no more. */
static void the_average_is_the_share(void **state)
{
    struct attach_budget budget = {.share_ppm = 20000};
    uint64_t now_us = BEGIN_US, used_us = 0;
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t took_us = 100 + i * 37 % 5000;
        now_us += took_us; /* the attempt uses the processor all the time */
        used_us += took_us;
        attach_budget_charge(&budget, took_us, now_us);
        uint64_t due_us = attach_budget_due_ms(&budget) * 1000;
        assert_true(due_us > now_us);
        now_us = due_us;
    }
    uint64_t share_ppm = used_us * 1000000 / (now_us - BEGIN_US);
    assert_uint_in_range(share_ppm, 19000, 20000);
}

static void idle_time_is_not_credited(void **state)
{
    struct attach_budget budget = {.share_ppm = 100000};
    (void)state;
    attach_budget_charge(&budget, 1000, BEGIN_US);
    assert_int_equal(budget.due_us, BEGIN_US + 10000);
    attach_budget_charge(&budget, 1000, BEGIN_US + 3600000000);
    assert_int_equal(budget.due_us, BEGIN_US + 3600010000);
}

/* First attempts are not delayed, so they can start before the time of earlier ones is paid
 * back. */
static void attempts_add_up(void **state)
{
    struct attach_budget budget = {.share_ppm = 100000};
    (void)state;
    for (int i = 0; i < 60; i++)
        attach_budget_charge(&budget, 1000, BEGIN_US);
    assert_int_equal(attach_budget_due_ms(&budget), (BEGIN_US + 60 * 10000) / 1000);
}

static void a_new_share_applies_to_the_remaining_delay(void **state)
{
    struct attach_budget budget = {.share_ppm = 100000};
    (void)state;
    attach_budget_charge(&budget, 1000, BEGIN_US);
    attach_budget_set_share(&budget, 25000, BEGIN_US + 4000);
    assert_int_equal(budget.due_us, BEGIN_US + 4000 + 6000 * 4);
    attach_budget_set_share(&budget, 100000, BEGIN_US + 4000);
    assert_int_equal(budget.due_us, BEGIN_US + 10000);
    attach_budget_set_share(&budget, 50000, BEGIN_US + 20000);
    assert_int_equal(budget.due_us, BEGIN_US + 10000);
    attach_budget_set_share(&budget, 0, BEGIN_US + 20000);
    assert_int_equal(budget.share_ppm, 1);
    /* A day of processor time at the smallest share. */
    attach_budget_charge(&budget, UINT64_C(86400000000), BEGIN_US + 20000);
    attach_budget_set_share(&budget, 100000, BEGIN_US + 20000);
    assert_int_equal(budget.due_us, BEGIN_US + 20000 + UINT64_C(864000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_equal),
        cmocka_unit_test(shares_never_exceed_the_machines),
        cmocka_unit_test(the_average_is_the_share),
        cmocka_unit_test(idle_time_is_not_credited),
        cmocka_unit_test(attempts_add_up),
        cmocka_unit_test(a_new_share_applies_to_the_remaining_delay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
