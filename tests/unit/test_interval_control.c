/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control law of sampling intervals on simulated programs: a step a second, samples drawn with
 * the client's rule, and requests that reach the program a second late, with a sample or when it
 * has allocated some more. How budgets are divided among users; the law of the daemon's own cost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>

#include "production/continuous/budget_split.h"
#include "production/continuous/cost_control.h"
#include "production/continuous/interval_control.h"
#include "uint_in_range.h"

#define HOUR_S 3600
#define HOURS 14
#define LATE_HOURS 8
#define RUNS 8
#define BUDGET 20000.0
#define LEAST UINT64_C(4096)
#define MOST (LEAST << 20)
#define START (UINT64_C(128) << 10)
#define UNANSWERED 16     /* samples of an interval before the first request */
#define LOOK_BYTES 262144 /* the program looks for requests after so many at most */

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
    const struct interval_limits limits = {BUDGET, LEAST, MOST};
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
        if (samples > 0 || bytes >= LOOK_BYTES)
            in_force = asked;
        int changed = interval_control_step(&control, &limits, (uint64_t)second * 1000, samples,
                                            (uint64_t)bytes);
        asked = control.is_off ? UINT64_MAX >> 1 : control.interval_bytes;
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
    assert_uint_in_range(outcome->late_changes, 0, LATE_HOURS * 10);
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
    const struct interval_limits limits = {BUDGET, LEAST, MOST};
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

/* --- the budget of a name, and those who ask for it --- */

static double sum_of(const struct budget_part *parts, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += parts[i].share;
    return sum;
}

static double share_of(const struct budget_part *parts, size_t count, uint64_t came)
{
    for (size_t i = 0; i < count; i++)
        if (parts[i].came == came)
            return parts[i].share;
    fail_msg("nobody came as %d", (int)came);
    return 0;
}

static void test_newcomers_take_no_more_than_the_rest(void **context)
{
    enum { MANY = 2000 };
    static struct budget_part parts[MANY];
    static char users[MANY][8];
    (void)context;
    for (size_t count = 1; count <= MANY; count = count * 3 / 2 + 1) {
        for (size_t i = 0; i < count; i++) {
            snprintf(users[i], sizeof(users[i]), "%zu", (i * 7919) % MANY); /* not in order */
            parts[i] = (struct budget_part){.user = users[i], .came = i + 1, .index = i};
        }
        budget_split(parts, count);
        assert_true(fabs(sum_of(parts, count) - 1) < 1e-9);
        /* What the first three keep, whatever number comes. */
        assert_true(share_of(parts, count, 1) >= 0.5);
        assert_true(count < 2 || share_of(parts, count, 2) >= 1.0 / 6);
        assert_true(count < 3 || share_of(parts, count, 3) >= 1.0 / 12);
    }
    /* One user's many places are one user. */
    for (size_t i = 0; i < MANY; i++)
        parts[i] = (struct budget_part){.user = i == 1 ? "a" : "b", .came = i + 1};
    budget_split(parts, MANY);
    assert_true(fabs(share_of(parts, MANY, 2) - 1.0 / 3) < 1e-9);
    assert_true(share_of(parts, MANY, 1) >= 1.0 / 3); /* half of two thirds */
    assert_true(fabs(sum_of(parts, MANY) - 1) < 1e-9);
}

static void test_who_needs_little_lends(void **context)
{
    (void)context;
    struct budget_part parts[] = {{.user = "a", .came = 1, .is_quiet = true},
                                  {.user = "b", .came = 2}};
    budget_split(parts, 2);
    assert_true(share_of(parts, 2, 2) > 0.8);
    assert_true(share_of(parts, 2, 1) > 1.0 / 7);
    assert_true(fabs(sum_of(parts, 2) - 1) < 1e-9);
    /* If both are quiet, nobody needs it. */
    parts[0].is_quiet = parts[1].is_quiet = true;
    budget_split(parts, 2);
    assert_true(share_of(parts, 2, 1) > 0.6);
}

struct neighbour {
    struct interval_control control;
    struct interval_limits limits;
    double rate, size;
    uint64_t in_force, asked;
    bool is_first; /* second of the process */
};

/* Return the samples of a process's first second: its interval doubles after each UNANSWERED. */
static double draw_first_second(struct neighbour *one)
{
    double samples = 0, rest = one->rate, interval = (double)one->in_force;
    for (; rest > UNANSWERED * interval; interval *= 2) {
        samples += UNANSWERED;
        rest -= UNANSWERED * interval;
    }
    one->in_force = (uint64_t)interval;
    return samples + floor(rest / interval);
}

static double draw_second(struct neighbour *one, uint64_t now_ms)
{
    double p = 1 - exp(-one->size / (double)one->in_force);
    uint64_t samples = poisson(one->rate / one->size * p);
    if (one->is_first)
        samples = (uint64_t)draw_first_second(one);
    else
        one->in_force = one->asked;
    one->is_first = false;
    interval_control_step(&one->control, &one->limits, now_ms, samples, (uint64_t)one->rate);
    one->asked = one->control.is_off ? UINT64_MAX >> 1 : one->control.interval_bytes;
    return (double)samples;
}

/* A program alone uses all of its budget. From the second hour on another user's takes a part of it
 * for half an hour: no hour has more samples than the budget, the first keeps its half, and what it
 * had before it has again after a period. */
static void test_a_neighbour_has_a_part(void **context)
{
    static double drawn[6 * HOUR_S];
    double rate_of_other[] = {1e6, 3e8, 6e11};
    (void)context;
    for (size_t run = 0; run < 3; run++) {
        struct neighbour a = {.rate = 3e6, .size = 500, .in_force = START, .asked = START};
        struct neighbour b = {.rate = rate_of_other[run],
                              .size = 5000,
                              .in_force = START,
                              .asked = START,
                              .is_first = true};
        double hour = 0, most = 0, of_a = 0, beside = 0;
        uint64_t alone_bytes = 0, worst_bytes = 0;
        a.limits = (struct interval_limits){BUDGET, LEAST, MOST};
        interval_control_begin(&a.control, &a.limits, START, 0);
        for (int second = 1; second < 6 * HOUR_S; second++) {
            bool with_b = second >= 2 * HOUR_S && second < 2 * HOUR_S + HOUR_S / 2;
            bool changes = second == 2 * HOUR_S || second == 2 * HOUR_S + HOUR_S / 2;
            uint64_t now_ms = (uint64_t)second * 1000;
            struct budget_part parts[] = {{.user = "a", .came = 1}, {.user = "b", .came = 2}};
            budget_split(parts, with_b ? 2 : 1);
            a.limits.samples_per_hour = BUDGET * parts[0].share;
            b.limits = (struct interval_limits){with_b ? BUDGET * parts[1].share : 1, LEAST, MOST};
            if (changes) {
                double given = interval_control_give(&a.control, &a.limits);
                if (with_b) {
                    interval_control_begin(&b.control, &b.limits, b.asked, now_ms - 1000);
                    b.control.bucket = b.control.store = 0;
                    given = interval_control_take(&b.control, &b.limits, given);
                } else {
                    given += interval_control_give(&b.control, &b.limits);
                }
                interval_control_take(&a.control, &a.limits, given);
            }
            double samples = draw_second(&a, now_ms);
            of_a += with_b ? samples : 0;
            double others = with_b ? draw_second(&b, now_ms) : 0;
            beside += others;
            drawn[second] = samples + others;
            hour += drawn[second] - (second > HOUR_S ? drawn[second - HOUR_S] : 0);
            most = fmax(most, hour);
            if (second == 2 * HOUR_S - 1)
                alone_bytes = a.asked;
            if (second >= 2 * HOUR_S && a.asked > worst_bytes)
                worst_bytes = a.asked;
        }
        print_message("%g B/s beside 3 MB/s: a has %.0f samples in half an hour, b %.0f; %.0f in "
                      "an hour; interval "
                      "%.0f, at most %.0f\n",
                      b.rate, of_a, beside, most, (double)alone_bytes, (double)worst_bytes);
        assert_true(most <= BUDGET);
        assert_true(of_a >= BUDGET / 2 / 2 / 2); /* half of its half */
        assert_true(worst_bytes <= 4 * alone_bytes);
    }
}

/* Beyond the longest interval a program is not sampled. It is again as soon as it allocates less.
 */
static void test_is_off_beyond_the_longest_interval(void **context)
{
    (void)context;
    struct neighbour one = {
        .limits = {BUDGET, LEAST, MOST}, .size = 1000, .in_force = START, .asked = START};
    interval_control_begin(&one.control, &one.limits, START, 0);
    double samples[3] = {0};
    for (int second = 1; second <= 3 * 600; second++) {
        int part = (second - 1) / 600;
        one.rate = part == 1 ? 1e12 : 1e7;
        double drawn = draw_second(&one, (uint64_t)second * 1000);
        samples[part] += second % 600 > 3 || part != 1 ? drawn : 0;
        assert_true(one.control.interval_bytes <= MOST);
        assert_true(one.control.is_off == (part == 1) || second % 600 < 60);
    }
    assert_true(samples[0] > 100);
    assert_true(samples[1] < 100);
    /* Within a period of the end it is sampled, though not finely: it had a debt, and may burst. */
    assert_false(one.control.is_off);
}

static void check_cost(struct cost_control *control, struct cost_seen *seen, uint64_t now_ms,
                       enum cost_verdict wanted)
{
    enum cost_verdict verdict = cost_control_step(control, seen, now_ms);
    assert_int_equal(verdict, wanted);
    if (verdict == COST_LESS)
        seen->share = seen->least_share = seen->share / 2;
    if (verdict == COST_MORE)
        seen->share = seen->least_share = fmin(seen->share * COST_GROWTH, 1);
}

static void test_own_cost(void **context)
{
    (void)context;
    struct cost_control control;
    struct cost_seen seen = {.cpu_share = 1, .cpu_bound = 0.005, .share = 1, .least_share = 1};
    uint64_t now_ms = 0;
    cost_control_begin(&control, now_ms);
    check_cost(&control, &seen, now_ms, COST_FINE);
    seen.cpu_share = 0.006;
    for (int i = 0; i < 5; i++) {
        now_ms += COST_PAUSE_MS;
        check_cost(&control, &seen, now_ms, COST_LESS);
        check_cost(&control, &seen, now_ms + 1, COST_FINE);
    }
    now_ms += COST_PAUSE_MS;
    seen = (struct cost_seen){0.004, 0.005, 2, 1, seen.share, seen.least_share};
    check_cost(&control, &seen, now_ms, COST_LEAVE_OUT);
    assert_true(control.is_memory);
    /* Between "well below" and the bound nothing changes: no oscillation. */
    now_ms += COST_PAUSE_MS;
    seen.memory_bytes = 0;
    check_cost(&control, &seen, now_ms, COST_FINE);
    int steps = 0;
    seen.cpu_share = 0.001;
    while (seen.share < 1) {
        now_ms += COST_PAUSE_MS;
        check_cost(&control, &seen, now_ms, COST_MORE);
        steps++;
    }
    assert_uint_in_range(steps, 10, 30);
    now_ms += COST_EMERGENCY_MS;
    seen.memory_bytes = 3;
    check_cost(&control, &seen, now_ms, COST_LEAVE_OUT);
    /* Twice a small bound of processor time is no emergency: the start takes that. */
    now_ms += COST_EMERGENCY_MS;
    seen.memory_bytes = 0;
    seen.cpu_share = 0.1;
    check_cost(&control, &seen, now_ms, COST_FINE);
    seen.cpu_share = 0.25;
    check_cost(&control, &seen, now_ms, COST_LEAVE_OUT);
    /* What is unknown is no reason. */
    now_ms += COST_PAUSE_MS;
    seen = (struct cost_seen){.cpu_share = NAN, .cpu_bound = 0.005, .share = 1, .least_share = 1};
    check_cost(&control, &seen, now_ms, COST_FINE);
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
        if (now_ms >= due_ms &&
            cost_control_may_dump(&control, bound, (double)(now_ms - due_ms) / 60000)) {
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
        cmocka_unit_test(test_newcomers_take_no_more_than_the_rest),
        cmocka_unit_test(test_who_needs_little_lends),
        cmocka_unit_test(test_a_neighbour_has_a_part),
        cmocka_unit_test(test_is_off_beyond_the_longest_interval),
        cmocka_unit_test(test_own_cost),
        cmocka_unit_test(test_dumps_wait_for_their_processor_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
