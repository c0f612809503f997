/* SPDX-License-Identifier: Apache-2.0 */
/* Changes between groups of runs: against tables of Student's distribution, a worked example of
 * Welch's test, and simulated groups. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "profile/compare/runs.h"

#define RUNS 3
#define TRIALS 20000

static void assert_near(double value, double wanted, double tolerance)
{
    if (!(fabs(value - wanted) <= tolerance))
        fail_msg("%g, not %g", value, wanted);
}

static void students_distribution(void **state)
{
    (void)state;
    assert_near(runs_student_probability(12.7062, 1), 0.05, 1e-6);
    assert_near(runs_student_probability(4.30265, 2), 0.05, 1e-6);
    assert_near(runs_student_probability(3.16927, 10), 0.01, 1e-6);
    assert_near(runs_student_probability(1.95996, 1e7), 0.05, 1e-6);
    assert_near(runs_student_probability(0, 4), 1, 0);
    assert_true(runs_student_probability(1e9, 4) < 1e-30);
    assert_near(runs_student_probability(-2.5, 3.7), runs_student_probability(2.5, 3.7), 0);
}

static void a_worked_example(void **state)
{
    static const double one[] = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
                                 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4},
                        other[] = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
                                   24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4},
                        none[15] = {0};
    const struct runs_side before = {one, none, 15}, after = {other, none, 15};
    struct change change = runs_compare(&before, &after);
    (void)state;
    assert_near(change.value, 2.8333, 1e-3);
    assert_near(change.probability, 0.008, 1e-3);
    assert_near((change.interval.low + change.interval.high) / 2, change.value, 1e-9);
    assert_true(change.interval.low > 0);
}

static void what_has_no_spread(void **state)
{
    static const double five[] = {5, 5, 5}, nine[] = {9, 9, 9}, none[3] = {0},
                        sampled[] = {4, 4, 4};
    const struct runs_side low = {five, none, 3}, high = {nine, none, 3}, single = {nine, none, 1},
                           samples = {nine, sampled, 3};
    (void)state;
    assert_near(runs_compare(&low, &low).probability, 1, 0);
    struct change exact = runs_compare(&low, &high);
    assert_true(exact.value == 4 && exact.probability == 0 && exact.interval.low == 4);
    assert_true(runs_compare(&low, &single).uncertain && isnan(runs_mean_of(&single).spread));
    /* Runs that are alike by chance are not surer than their samples. */
    struct change change = runs_compare(&low, &samples);
    assert_true(change.interval.low < 4 && change.probability > 0.01);
}

static double normal(unsigned short seed[3])
{
    return sqrt(-2 * log(1 - erand48(seed))) * cos(2 * M_PI * erand48(seed));
}

/* Of groups that do not differ, 5 % have an interval without 0, or fewer. */
static void chance_is_as_said(void **state)
{
    unsigned short seed[3] = {1, 2, 3};
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < TRIALS; i++) {
        double values[2][RUNS], none[RUNS] = {0};
        for (size_t j = 0; j < RUNS; j++) {
            values[0][j] = 100 + 10 * normal(seed);
            values[1][j] = 100 + 10 * normal(seed);
        }
        const struct runs_side before = {values[0], none, RUNS}, after = {values[1], none, RUNS};
        struct change change = runs_compare(&before, &after);
        missed += change.interval.low > 0 || change.interval.high < 0;
        assert_true((change.probability < 0.05) ==
                    (change.interval.low > 0 || change.interval.high < 0));
    }
    assert_true((double)missed / TRIALS > 0.025 && (double)missed / TRIALS < 0.052);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(students_distribution),
        cmocka_unit_test(a_worked_example),
        cmocka_unit_test(what_has_no_spread),
        cmocka_unit_test(chance_is_as_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
