/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control law of sampling intervals on simulated programs: a step a second, samples drawn with
 * the client's rule, and requests that reach the program a second late, with a sample.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>

#include "continuous/cost_control.h"
#include "continuous/interval_control.h"

#define HOUR_S 3600
#define HOURS 14
#define LATE_HOURS 8
#define RUNS 8
#define BUDGET 20000.0
#define LEAST UINT64_C(4096)
#define START (UINT64_C(128) << 10)

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
    double first_10_s, first_150_s, first_hour;
    double most_in_hour;
    double most_in_two_seconds; /* what a late reaction can overdraw */
    /* In the late hours: */
    int late_changes;
    double late_samples;
    uint64_t longest_bytes, shortest_bytes; /* intervals */
};

static struct outcome simulate(enum shape shape, double rate, double size)
{
    static double drawn[HOURS * HOUR_S + 1];
    const struct interval_limits limits = {BUDGET, LEAST, LEAST << 24};
    struct interval_control control;
    struct outcome outcome = {.shortest_bytes = UINT64_MAX};
    double hour = 0, total = 0;
    interval_control_begin(&control, &limits, START, 0);
    uint64_t in_force = START, asked = START;
    for (int second = 1; second <= HOURS * HOUR_S; second++) {
        bool is_late = second > (HOURS - LATE_HOURS) * HOUR_S;
        double bytes = rate_at(shape, rate, second);
        double p = 1 - exp(-size / (double)in_force);
        uint64_t samples = poisson(bytes / size * p);
        drawn[second] = (double)samples;
        total += drawn[second];
        hour += drawn[second] - (second > HOUR_S ? drawn[second - HOUR_S] : 0);
        outcome.most_in_hour = fmax(outcome.most_in_hour, hour);
        outcome.most_in_two_seconds =
            fmax(outcome.most_in_two_seconds, drawn[second] + drawn[second - 1]);
        if (samples > 0) /* the program looks for requests then */
            in_force = asked;
        int changed = interval_control_step(&control, &limits, (uint64_t)second * 1000, samples,
                                            (uint64_t)bytes);
        asked = control.interval_bytes;
        outcome.first_10_s = second == 10 ? total : outcome.first_10_s;
        outcome.first_150_s = second == 150 ? total : outcome.first_150_s;
        outcome.first_hour = second == HOUR_S ? total : outcome.first_hour;
        if (!is_late)
            continue;
        outcome.late_changes += changed;
        outcome.late_samples += drawn[second];
        outcome.longest_bytes = asked > outcome.longest_bytes ? asked : outcome.longest_bytes;
        outcome.shortest_bytes = asked < outcome.shortest_bytes ? asked : outcome.shortest_bytes;
    }
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

/* Return the part of the budget that a steady program uses at an interval. */
static double used_at(uint64_t interval, double rate, double size)
{
    return rate / size * (1 - exp(-size / (double)interval)) * HOUR_S / BUDGET;
}

static void check_late(const struct outcome *outcome, double rate, double size)
{
    double used = outcome->late_samples / LATE_HOURS / BUDGET;
    double least = used_at(outcome->longest_bytes, rate, size);
    /* Half of the budget is used, unless the interval is the least, or each allocation is drawn. */
    bool is_whole = outcome->shortest_bytes == LEAST || rate / size * HOUR_S < BUDGET / 2;
    if (used < 0.5 && !is_whole)
        fail_msg("%g B/s of %g B: %.3f of the budget is used", rate, size, used);
    /* It does not oscillate, except between two intervals of which one would use about that. */
    if (outcome->late_changes > 0 && least > 0.55)
        fail_msg("%g B/s of %g B: %d changes at %.3f of the budget", rate, size,
                 outcome->late_changes, least);
    assert_in_range(outcome->late_changes, 0, LATE_HOURS * 10);
}

static void test_converges_and_stays(void **context)
{
    (void)context;
    /* Some of these rates lie where two intervals are needed in turn. */
    for (double rate = 1e3; rate < 2e10; rate *= 2.13) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct outcome steady = simulate(STEADY, rate, sizes[i]);
            check_late(&steady, rate, sizes[i]);
            struct outcome step = simulate(STEP, rate, sizes[i]);
            check_late(&step, rate, sizes[i]);
        }
    }
}

/* Return the mean of several runs, and the most in an hour of them. */
static struct outcome mean_outcome(enum shape shape, double rate)
{
    struct outcome mean = {0};
    for (int i = 0; i < RUNS; i++) {
        struct outcome one = simulate(shape, rate, 100);
        mean.first_10_s += one.first_10_s / RUNS;
        mean.first_150_s += one.first_150_s / RUNS;
        mean.first_hour += one.first_hour / RUNS;
        mean.most_in_hour = fmax(mean.most_in_hour, one.most_in_hour);
    }
    return mean;
}

/* A program begins fine, and uses at least half of the budget in its first hour. */
static void test_begins_fine(void **context)
{
    (void)context;
    static const struct {
        enum shape shape;
        double rate, first_10_s, first_150_s;
    } programs[] = {
        {STEADY, 3e4, 10, 500}, /* a request waits for a sample of the first interval */
        {STEADY, 3e6, 100, 2000}, {STEADY, 3e8, 2000, 8000},
        {BURSTS, 3e6, 100, 2000}, {BURSTS, 1e8, 2000, 6000},
    };
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        struct outcome outcome = mean_outcome(programs[i].shape, programs[i].rate);
        print_message("%5.3g MB/s%s: %.0f samples in 10 s, %.0f in 150 s, %.0f in an hour\n",
                      programs[i].rate / 1e6, programs[i].shape == BURSTS ? " in bursts" : "",
                      outcome.first_10_s, outcome.first_150_s, outcome.first_hour);
        assert_true(outcome.first_10_s >= programs[i].first_10_s);
        assert_true(outcome.first_150_s >= programs[i].first_150_s);
        assert_true(outcome.first_hour >= BUDGET / 2);
        assert_true(outcome.most_in_hour <= BUDGET);
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

/* The start costs more than the bound. Dumps wait for it, not for ever, and the bound holds. */
static void test_dumps_wait_for_their_processor_time(void **context)
{
    (void)context;
    const double bound = 0.005, base = 0.001;
    struct cost_control control;
    double used = 0, dumps = 0;
    uint64_t due_ms = 60000;
    cost_control_begin(&control, 0);
    for (uint64_t now_ms = 10000; now_ms <= 1200000; now_ms += 10000) {
        double cost = base * 10 + (now_ms == 10000 ? 0.2 : 0); /* it attaches to the programs */
        if (now_ms >= due_ms && cost_control_may_dump(&control, bound, (double)(now_ms - due_ms) / 60000)) {
            cost += dumps < 3 ? 0.5 / (dumps + 1) : 0.05; /* the first have most of the names */
            dumps++;
            while (due_ms <= now_ms)
                due_ms += 60000;
        }
        used += cost;
        cost_control_spend(&control, cost, 10, bound);
        /* Beyond the bound there are the first dump and the start. */
        assert_true(used <= bound * (double)now_ms / 1000 + 0.5 + 0.2);
        if (now_ms >= 300000)
            assert_true(used <= 1.05 * bound * (double)now_ms / 1000);
    }
    assert_true(dumps >= 14);
    /* What costs too much in any case is dumped all the same. */
    cost_control_spend(&control, 100, 10, bound);
    assert_false(cost_control_may_dump(&control, bound, COST_DUMP_WAIT_PERIODS - 0.1));
    assert_true(cost_control_may_dump(&control, bound, COST_DUMP_WAIT_PERIODS));
    assert_true(cost_control_may_dump(&control, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_to_the_budget),
        cmocka_unit_test(test_converges_and_stays),
        cmocka_unit_test(test_begins_fine),
        cmocka_unit_test(test_follows_the_program),
        cmocka_unit_test(test_own_cost),
        cmocka_unit_test(test_dumps_wait_for_their_processor_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
