/* The 95 % interval of an estimate, against figures from the literature and from simulation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "profile/profile.h"

static void lies_between_exact_and_jeffreys_limits(void **state)
{
    (void)state;
    /* Quantiles 0.025 and 0.975 of gamma distributions: of shape n and n + 1, and of n + 1/2. */
    static const struct {
        double n, exact_low, jeffreys_low, jeffreys_high, exact_high;
    } cases[] = {{1, 0.0253, 0.108, 4.674, 5.572},
                 {5, 1.623, 1.908, 10.960, 11.668},
                 {20, 12.217, 12.608, 30.28, 30.888},
                 {100, 81.36, 81.79, 121.03, 121.63}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct profile_interval interval = profile_interval95(cases[i].n, cases[i].n);
        assert_true(interval.low > cases[i].exact_low - 0.02);
        assert_true(interval.low < cases[i].jeffreys_low + 0.02);
        assert_true(interval.high > cases[i].jeffreys_high - 0.02);
        assert_true(interval.high < cases[i].exact_high + 0.02);
    }
}

static void scales_with_the_weight(void **state)
{
    (void)state;
    struct profile_interval one = profile_interval95(7, 7);
    struct profile_interval many = profile_interval95(7 * 4096., 7 * 4096. * 4096.);
    assert_true(fabs(many.low / one.low - 4096) < 1e-6);
    assert_true(fabs(many.high / one.high - 4096) < 1e-6);
}

static void is_normal_for_many_samples(void **state)
{
    (void)state;
    struct profile_interval interval = profile_interval95(1e6, 1e6);
    assert_true(fabs(interval.low - (1e6 - 1960)) < 3);
    assert_true(fabs(interval.high - (1e6 + 1960)) < 3);
}

static void is_a_point_without_variance(void **state)
{
    (void)state;
    struct profile_interval interval = profile_interval95(42, 0);
    assert_true(interval.low == 42 && interval.high == 42);
    interval = profile_interval95(0, 0);
    assert_true(interval.low == 0 && interval.high == 0);
    interval = profile_interval95(0, NAN);
    assert_true(interval.low == 0 && interval.high == 0);
}

/* A Poisson variate, by counting uniforms (Knuth). */
static int draw_poisson(double mean)
{
    double product = drand48(), limit = exp(-mean);
    int count = 0;
    for (; product > limit; count++)
        product *= drand48();
    return count;
}

static void holds_the_truth(void **state)
{
    (void)state;
    static const double means[] = {4, 6, 8, 10, 15, 20, 30};
    enum { RUNS = 40000 };
    srand48(7);
    for (size_t i = 0; i < sizeof(means) / sizeof(means[0]); i++) {
        int held = 0, seen = 0;
        for (int run = 0; run < RUNS; run++) {
            int count = draw_poisson(means[i]);
            struct profile_interval interval = profile_interval95(count, count);
            seen += count > 0;
            held += count > 0 && interval.low <= means[i] && means[i] <= interval.high;
        }
        /* Counts are whole, so that no interval has 95 % everywhere. */
        assert_true(held > 0.937 * seen && held < 0.988 * seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_between_exact_and_jeffreys_limits),
        cmocka_unit_test(scales_with_the_weight),
        cmocka_unit_test(is_normal_for_many_samples),
        cmocka_unit_test(is_a_point_without_variance),
        cmocka_unit_test(holds_the_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
