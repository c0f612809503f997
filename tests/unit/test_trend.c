/* SPDX-License-Identifier: Apache-2.0 */
/* The test for trends: exact probabilities, ties, missing moments, and how often it is wrong where
 * there is no trend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "production/fleet/trend.h"

#define NEAR 1e-9

static void exact_probabilities(void **state)
{
    (void)state;
    const double rising[] = {1, 2, 3, 4, 5, 6};
    const double falling[] = {6, 5, 4, 3, 2, 1};
    const double one_pair[] = {1, 2, 4, 3};
    /* One order of n! has the highest S; n - 1 more have one falling pair. */
    assert_float_equal(trend_of(rising, 4).p, 1.0 / 24, NEAR);
    assert_float_equal(trend_of(rising, 6).p, 1.0 / 720, NEAR);
    assert_float_equal(trend_of(one_pair, 4).p, 4.0 / 24, NEAR);
    assert_float_equal(trend_of(falling, 6).p, 1, NEAR);
    assert_float_equal(trend_of(rising, 6).s, 15, NEAR);
    assert_float_equal(trend_of(rising, 6).variance, 6.0 * 5 * 17 / 18, NEAR);
    assert_float_equal(trend_of(rising, 6).slope, 1, NEAR);
    assert_float_equal(trend_of(falling, 6).slope, -1, NEAR);
}

static void equal_values(void **state)
{
    (void)state;
    const double same[] = {7, 7, 7, 7, 7}, step[] = {1, 1, 1, 1, 2, 2, 2, 2};
    assert_float_equal(trend_of(same, 5).p, 1, NEAR);
    assert_float_equal(trend_of(same, 5).variance, 0, NEAR);
    struct trend trend = trend_of(step, 8);
    assert_float_equal(trend.s, 16, NEAR);
    assert_float_equal(trend.variance, (8.0 * 7 * 21 - 2 * 4.0 * 3 * 13) / 18, NEAR);
    /* In truth 1 of C(8, 4) = 70 orders; the normal distribution is near. */
    assert_true(trend.p > 0.005 && trend.p < 0.025);
}

static void missing_moments(void **state)
{
    (void)state;
    const double gaps[] = {1, NAN, 3, NAN, 5, 6}, few[] = {1, NAN, 2, 3};
    struct trend trend = trend_of(gaps, 6);
    assert_int_equal(trend.moments, 4);
    assert_float_equal(trend.p, 1.0 / 24, NEAR);
    assert_float_equal(trend.slope, 1, NEAR);
    assert_float_equal(trend_of(few, 4).p, 1, NEAR);
    struct trend_of_hosts sum = {.p_best = 1};
    struct trend none = trend_of(few, 4);
    trend_add_host(&sum, &none);
    assert_int_equal(sum.hosts, 0);
    assert_float_equal(trend_p(&sum, 1), 1, NEAR);
}

static uint64_t random_state = 42;

/* xorshift64*, for figures that are the same in each run. */
static double random_double(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (double)(random_state * UINT64_C(2685821657736338717) >> 11) * 0x1p-53;
}

/* Return p of 20 hosts over 9 days; on `leaking` of them the level rises by `rise` of its noise a
 * day. */
static double p_of_hosts(size_t leaking, double rise, size_t callsites)
{
    struct trend_of_hosts sum = {.p_best = 1};
    for (size_t host = 0; host < 20; host++) {
        double values[9];
        for (size_t day = 0; day < 9; day++)
            values[day] = random_double() + (host < leaking ? rise * (double)day : 0);
        struct trend trend = trend_of(values, 9);
        trend_add_host(&sum, &trend);
    }
    return trend_p(&sum, callsites);
}

/* The share of trials with p of at most 0.05 is at most 0.05: 2,000 trials give 0.064 by chance
 * less than once in 500. */
static void seldom_wrong(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (int i = 0; i < 2000; i++)
        wrong += p_of_hosts(0, 0, 1) <= 0.05;
    assert_true(wrong <= 128);
    assert_true(wrong >= 20); /* a test that never rejects says nothing */
}

static void finds_leaks(void **state)
{
    (void)state;
    size_t everywhere = 0, one = 0;
    for (int i = 0; i < 200; i++) {
        everywhere += p_of_hosts(20, 0.1, 1000) <= 0.05;
        one += p_of_hosts(1, 2, 50) <= 0.05;
    }
    assert_true(everywhere >= 190); /* a slow rise on all hosts, of 1,000 callsites */
    assert_true(one >= 190);        /* a steady rise on one host of 20 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_probabilities), cmocka_unit_test(equal_values),
        cmocka_unit_test(missing_moments),     cmocka_unit_test(seldom_wrong),
        cmocka_unit_test(finds_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
