/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control law of sampling intervals on simulated programs: a step a second, samples drawn with
 * the client's rule, and requests that reach the program a second late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>

#include "continuous/cost_control.h"
#include "continuous/interval_control.h"

#define HOUR_S 3600
#define HOURS 3
#define BUDGET 20000.0
#define LEAST UINT64_C(65536)
#define START (UINT64_C(4) << 20)

static uint64_t state = 1;

/* Return a number in (0, 1), by SplitMix64. */
static double uniform(void)
{
    uint64_t z = (state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double gaussian(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * 3.14159265358979 * uniform());
}

static uint64_t poisson(double mean)
{
    if (mean > 100)
        return (uint64_t)fmax(0, mean + sqrt(mean) * gaussian() + 0.5);
    uint64_t count = 0;
    for (double product = uniform(), end = exp(-mean); product > end; product *= uniform())
        count++;
    return count;
}

enum shape { STEADY, NOISY, BURSTS, STEP, SHAPES };

static double rate_at(enum shape shape, double rate, int second)
{
    switch (shape) {
    case NOISY:
        return rate * exp(0.5 * gaussian());
    case BURSTS: /* a minute of ten at 100 times the rate between */
        return second % 600 < 60 ? rate * 5 : rate * 0.05;
    case STEP:
        return second < HOUR_S ? rate / 100 : rate;
    default:
        return rate;
    }
}

struct outcome {
    double most_in_hour, last_hour;
    double most_in_two_seconds; /* what a late reaction can overdraw */
    int late_changes;           /* in the last hour */
    uint64_t interval_bytes;
};

static struct outcome simulate(enum shape shape, double rate, double size)
{
    static double drawn[HOURS * HOUR_S + 1];
    const struct interval_limits limits = {BUDGET, LEAST, LEAST << 24};
    struct interval_control control;
    struct outcome outcome = {0};
    double hour = 0;
    interval_control_begin(&control, &limits, START, 0);
    uint64_t in_force = START, asked = START;
    for (int second = 1; second <= HOURS * HOUR_S; second++) {
        double bytes = rate_at(shape, rate, second);
        double p = 1 - exp(-size / (double)in_force);
        uint64_t samples = poisson(bytes / size * p);
        drawn[second] = (double)samples;
        hour += drawn[second] - (second > HOUR_S ? drawn[second - HOUR_S] : 0);
        outcome.most_in_hour = fmax(outcome.most_in_hour, hour);
        outcome.most_in_two_seconds =
            fmax(outcome.most_in_two_seconds, drawn[second] + drawn[second - 1]);
        in_force = asked;
        int changed = interval_control_step(&control, &limits, (uint64_t)second * 1000, samples,
                                            (uint64_t)bytes);
        asked = control.interval_bytes;
        outcome.late_changes += changed && second > (HOURS - 1) * HOUR_S;
    }
    outcome.last_hour = hour;
    outcome.interval_bytes = control.interval_bytes;
    return outcome;
}

static const double sizes[] = {16, 100, 4096, 1e6, 2e7};

static void test_keeps_to_the_budget(void **context)
{
    (void)context;
    for (int shape = 0; shape < SHAPES; shape++) {
        for (double rate = 1e3; rate < 2e10; rate *= 10) {
            for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct outcome outcome = simulate((enum shape)shape, rate, sizes[i]);
                if (outcome.most_in_hour > BUDGET + 2 * outcome.most_in_two_seconds)
                    fail_msg("shape %d, %g B/s of %g B: %.0f samples in an hour", shape, rate,
                             sizes[i], outcome.most_in_hour);
                /* Up to 100 MB/s the reaction is no matter. */
                if (rate <= 1e8 && outcome.most_in_hour > BUDGET)
                    fail_msg("shape %d, %g B/s of %g B: %.0f samples in an hour", shape, rate,
                             sizes[i], outcome.most_in_hour);
            }
        }
    }
}

static void test_converges_and_stays(void **context)
{
    (void)context;
    for (double rate = 1e3; rate < 2e10; rate *= 10) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct outcome steady = simulate(STEADY, rate, sizes[i]);
            assert_int_equal(steady.late_changes, 0);
            struct outcome step = simulate(STEP, rate, sizes[i]);
            assert_int_equal(step.late_changes, 0);
            /* The budget is used: another halving would exceed it, or the interval is the least. */
            if (steady.interval_bytes > LEAST)
                assert_true(steady.last_hour > 0.4 * BUDGET);
        }
    }
}

static void test_follows_the_program(void **context)
{
    (void)context;
    const struct interval_limits limits = {BUDGET, LEAST, LEAST << 24};
    struct interval_control control;
    interval_control_begin(&control, &limits, START, 0);
    /* 40,000 samples come at once: the next second's interval must be far larger. */
    interval_control_step(&control, &limits, 1000, 40000, UINT64_C(40000) * START);
    assert_true(control.interval_bytes >= 1000 * START);
    assert_true(control.bucket < 0);
    uint64_t high = control.interval_bytes;
    /* While in debt it does not sample more. */
    for (uint64_t second = 2; second < 1000; second++)
        assert_int_equal(interval_control_step(&control, &limits, second * 1000, 0, 0), 0);
    assert_int_equal(control.interval_bytes, high);
    /* Idle for long enough: down to the least, step by step. */
    for (uint64_t second = 1000; second < 40000; second++)
        interval_control_step(&control, &limits, second * 1000, 0, 0);
    assert_int_equal(control.interval_bytes, LEAST);
}

static void test_own_cost(void **context)
{
    (void)context;
    struct cost_control control;
    uint64_t now_ms = 0;
    cost_control_begin(&control, now_ms);
    assert_int_equal(cost_control_step(&control, 1, 0.005, 0, 0, now_ms), COST_FINE);
    for (int i = 0; i < 5; i++) {
        now_ms += COST_PAUSE_MS;
        assert_int_equal(cost_control_step(&control, 0.006, 0.005, 0, 0, now_ms), COST_LESS);
        assert_int_equal(cost_control_step(&control, 0.006, 0.005, 0, 0, now_ms + 1), COST_FINE);
    }
    now_ms += COST_PAUSE_MS;
    assert_int_equal(cost_control_step(&control, 0.004, 0.005, 2, 1, now_ms), COST_LEAVE_OUT);
    assert_true(control.is_memory);
    /* Between "well below" and the bound nothing changes: no oscillation. */
    now_ms += COST_PAUSE_MS;
    assert_int_equal(cost_control_step(&control, 0.004, 0.005, 0, 1, now_ms), COST_FINE);
    int steps = 0;
    while (control.share < 1) {
        now_ms += COST_PAUSE_MS;
        assert_int_equal(cost_control_step(&control, 0.001, 0.005, 0, 1, now_ms), COST_MORE);
        steps++;
    }
    assert_in_range(steps, 10, 30);
    now_ms += COST_EMERGENCY_MS;
    assert_int_equal(cost_control_step(&control, 0.001, 0.005, 3, 1, now_ms), COST_LEAVE_OUT);
    /* What is unknown is no reason. */
    now_ms += COST_PAUSE_MS;
    assert_int_equal(cost_control_step(&control, NAN, 0.005, 0, 0, now_ms), COST_FINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_to_the_budget),
        cmocka_unit_test(test_converges_and_stays),
        cmocka_unit_test(test_follows_the_program),
        cmocka_unit_test(test_own_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
