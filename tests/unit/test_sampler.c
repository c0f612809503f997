/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler against its rule: probability, independence, exact totals.
 * Seeds are fixed, so a run either always passes or never; bounds are five
 * standard errors wide.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "client/sample/sampler.h"
#include "uint_in_range.h"
#include "wire/sampling.h"

static struct sampler_rule rule_of(uint64_t interval_bytes)
{
    return sampler_rule_of(interval_bytes, 0);
}

static struct ring_pending pending; /* used within one test only */

/* Make one allocation as the hooks do: hot path first. */
static int allocate(struct ring_thread *thread, uint64_t size, const struct sampler_rule *rule)
{
    if (size - 1 < thread->bytes_left) {
        thread->bytes_left -= size;
        thread->calls++;
        return 0;
    }
    bool sampled = sampler_count(thread, &pending, size, rule, rule);
    assert_int_equal(sampled ? ring_pending_word(size) : 0, pending.samples);
    sampler_settle(&pending, pending.samples);
    return sampled;
}

static void expect_rate(uint64_t interval, uint64_t size, uint64_t rounds)
{
    struct sampler_rule rule = rule_of(interval);
    struct ring_thread thread = {0};
    sampler_start(&thread, &pending, 42 + interval * 31 + size, &rule);
    uint64_t sampled = 0;
    for (uint64_t i = 0; i < rounds; i++)
        sampled += (uint64_t)allocate(&thread, size, &rule);
    double p = -expm1(-(double)(size > 0 ? size : 1) / (double)interval);
    if (size >= rule.certain_bytes)
        p = 1;
    double error = 5 * sqrt((double)rounds * p * (1 - p)) + 1e-9;
    assert_true(fabs((double)sampled - (double)rounds * p) <= error);
    assert_int_equal(thread.calls, rounds);
    assert_int_equal(thread.bytes_before + thread.bytes_loaded - thread.bytes_left, rounds * size);
}

static void samples_at_the_rate_of_the_rule(void **state)
{
    (void)state;
    const uint64_t intervals[] = {2, 100, 4096, 65536, 524288};
    const uint64_t sizes[] = {0, 1, 16, 100, 4096, 10000, 18862, 18863, 65536, 400000};
    for (size_t i = 0; i < sizeof(intervals) / sizeof(*intervals); i++)
        for (size_t j = 0; j < sizeof(sizes) / sizeof(*sizes); j++)
            expect_rate(intervals[i], sizes[j], 1000000);
}

static void samples_everything_at_interval_one(void **state)
{
    (void)state;
    struct sampler_rule rule = rule_of(1);
    struct ring_thread thread = {0};
    sampler_start(&thread, &pending, 1, &rule);
    for (uint64_t size = 0; size < 10000; size++)
        assert_true(allocate(&thread, size, &rule));
}

static void samples_large_ones_always(void **state)
{
    (void)state;
    struct sampler_rule rule = rule_of(4096);
    struct ring_thread thread = {0};
    sampler_start(&thread, &pending, 3, &rule);
    for (int i = 0; i < 100000; i++) {
        allocate(&thread, 16, &rule);
        assert_true(allocate(&thread, rule.certain_bytes, &rule));
    }
}

static void gaps_have_the_exponential_mean_and_variance(void **state)
{
    (void)state;
    struct sampler_rule rule = rule_of(4096);
    struct ring_thread thread = {0};
    sampler_start(&thread, &pending, 5, &rule);
    double sum = 0, squares = 0;
    const int gaps = 400000 / FEWER_ROUNDS;
    for (int i = 0; i < gaps; i++) {
        uint64_t bytes = 1;
        while (!allocate(&thread, 1, &rule))
            bytes++;
        sum += (double)bytes;
        squares += (double)bytes * (double)bytes;
    }
    double mean = sum / gaps, variance = squares / gaps - mean * mean;
    assert_true(fabs(mean - 4096.5) < 5 * 4096 / sqrt(gaps));
    assert_true(fabs(variance / (4096.0 * 4096.0) - 1) < 5 * sqrt(8.0 / gaps));
}

/* The estimate of a mix of sizes is unbiased, for bytes and for counts. */
static void estimates_a_mix_without_bias(void **state)
{
    (void)state;
    const uint64_t sizes[] = {0, 8, 24, 24, 24, 64, 200, 1000, 5000, 20000};
    struct sampler_rule rule = rule_of(4096);
    struct ring_thread thread = {0};
    sampler_start(&thread, &pending, 8, &rule);
    double bytes = 0, count = 0, bytes_variance = 0, count_variance = 0, true_bytes = 0;
    const int rounds = 500000;
    for (int i = 0; i < rounds; i++) {
        uint64_t size = sizes[i % 10];
        true_bytes += (double)size;
        if (!allocate(&thread, size, &rule))
            continue;
        double p = size >= rule.certain_bytes ? 1 : -expm1(-(double)(size ? size : 1) / 4096);
        bytes += (double)size / p;
        count += 1 / p;
        bytes_variance += (double)(size * size) * (1 - p) / (p * p);
        count_variance += (1 - p) / (p * p);
    }
    assert_true(fabs(bytes - true_bytes) < 5 * sqrt(bytes_variance));
    assert_true(fabs(count - rounds) < 5 * sqrt(count_variance));
}

static void weighs_like_the_exact_formula(void **state)
{
    (void)state;
    const uint64_t intervals[] = {1, 2, 3, 10, 4096, 524288, UINT64_C(1) << 30, UINT64_C(1) << 45};
    for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
        uint64_t interval = intervals[i];
        for (double share = 1e-7; share < 5; share *= 1.07) {
            uint64_t size = (uint64_t)(share * (double)interval);
            bool certain = size == 0 || size >= sampling_certain_bytes(interval);
            double exact =
                certain ? (double)size : (double)size / -expm1(-(double)size / (double)interval);
            double error = fabs((double)sampling_weighted_bytes(size, interval) - exact);
            assert_true(error <= 0.51 + exact * 1e-8);
        }
    }
}

static void counts_on_while_idle(void **state)
{
    (void)state;
    struct sampler_rule rule = rule_of(4096);
    struct ring_thread thread = {0};
    sampler_start(&thread, &pending, 9, &rule);
    allocate(&thread, 100, &rule);
    sampler_idle(&thread, &pending, 0, 0);
    unsigned ticks = 0;
    for (int i = 0; i < 100000; i++) {
        if (thread.bytes_left >= 4000) {
            thread.bytes_left -= 4000;
            thread.calls++;
            continue;
        }
        sampler_idle(&thread, &pending, 1, 4000);
        ticks++;
    }
    assert_int_equal(thread.bytes_before + thread.bytes_loaded - thread.bytes_left, 400000100);
    assert_int_equal(thread.calls, 100001);
    /* One sample for each 64 KiB, give or take the allocation that crosses the limit. */
    assert_uint_in_range(ticks, 400000000 / (65536 + 4000), 400000000 / (65536 - 4000));
}

/* --- intervals that change --- */

#define RULES 4
#define CHANGING_RUNS 1000
#define CHANGING_CALLS 4000

enum changing_figure { CHANGING_BYTES, CHANGING_CALLS_MADE, CHANGING_KEPT, CHANGING_FIGURES };

/* A run whose intervals go from 1 to 4096, on to 16384, and back, as the samples themselves decide:
 * many in the last calls widen, few narrow. Write the errors of its estimates. */
static void run_with_changes(uint64_t seed, double errors[CHANGING_FIGURES], unsigned used[RULES])
{
    const struct sampler_rule rules[RULES] = {sampler_rule_of(1, 0), sampler_rule_of(4096, 1),
                                              sampler_rule_of(8192, 2), sampler_rule_of(16384, 3)};
    struct ring_thread thread = {0};
    uint64_t random = seed;
    unsigned drawn_by = 0, in_force = 0, recent = 0;
    sampler_start(&thread, &pending, sampler_random(&random), &rules[0]);
    for (unsigned i = 0; i < CHANGING_CALLS; i++) {
        /* A burst of small blocks, then larger ones, then few bytes. */
        static const uint64_t sizes[] = {48, 3000, 16, 700, 20000, 24};
        uint64_t size = sizes[i / (CHANGING_CALLS / 6) % 6] + sampler_random(&random) % 16;
        bool kept = i % 5 == 0;
        errors[CHANGING_BYTES] -= (double)size;
        errors[CHANGING_CALLS_MADE] -= 1;
        errors[CHANGING_KEPT] -= kept ? (double)size : 0;
        if (i % 100 == 99) {
            in_force += recent > 20 && in_force + 1 < RULES;
            in_force -= recent < 2 && in_force > 0;
            recent = 0;
        }
        if (size - 1 < thread.bytes_left) {
            thread.bytes_left -= size;
            thread.calls++;
            continue;
        }
        const struct sampler_rule *rule = &rules[drawn_by];
        bool sampled = sampler_count(&thread, &pending, size, rule, &rules[in_force]);
        sampler_settle(&pending, pending.samples);
        used[drawn_by] += sampled;
        drawn_by = in_force;
        if (!sampled)
            continue;
        recent++;
        double p =
            size >= rule->certain_bytes ? 1 : -expm1(-(double)size / (double)rule->interval_bytes);
        errors[CHANGING_BYTES] += (double)size / p;
        errors[CHANGING_CALLS_MADE] += 1 / p;
        errors[CHANGING_KEPT] += kept ? (double)size / p : 0;
    }
}

/* A thread at an interval at which it would never have a sample notices a shorter one soon, and is
 * then sampled at its rate. */
static void notices_a_shorter_interval(void **state)
{
    const struct sampler_rule rules[] = {sampler_rule_of(UINT64_C(1) << 51, 0),
                                         sampler_rule_of(4096, 1)};
    const uint64_t size = 100, calls = 4000000;
    struct ring_thread thread = {0};
    unsigned drawn_by = 0, samples = 0;
    uint64_t noticed_bytes = 0;
    (void)state;
    sampler_start(&thread, &pending, 42, &rules[0]);
    for (uint64_t i = 0; i < calls; i++) {
        if (size - 1 < thread.bytes_left) {
            thread.bytes_left -= size;
            thread.calls++;
            continue;
        }
        bool sampled = sampler_count(&thread, &pending, size, &rules[drawn_by], &rules[1]);
        sampler_settle(&pending, pending.samples);
        if (drawn_by == 0)
            noticed_bytes = i * size;
        drawn_by = 1;
        samples += sampled;
    }
    assert_uint_in_range(noticed_bytes, 1, 1 << 19);
    double wanted = (double)(calls * size) / 4096;
    assert_true(fabs(samples - wanted) < 5 * sqrt(wanted) + 512);
}

/* A signal handler that allocates between a thread's look at its rule and the count has drawn the
 * gap by another rule. The allocation is sampled by the rule that its weight comes from. */
static void samples_by_the_rule_that_weighs(void **state)
{
    const struct sampler_rule seen = sampler_rule_of(4096, 0),
                              in_force = sampler_rule_of(UINT64_C(1) << 40, 1);
    const uint64_t runs = 20000, size = 5000;
    uint64_t samples = 0;
    (void)state;
    for (uint64_t i = 0; i < runs; i++) {
        struct ring_thread thread = {0};
        sampler_start(&thread, &pending, i, &in_force);
        samples += sampler_count(&thread, &pending, size, &seen, &in_force);
        sampler_settle(&pending, pending.samples);
        assert_int_equal(thread.rule, in_force.number);
        assert_true((int64_t)thread.bytes_left >= 0);
    }
    double p = -expm1(-(double)size / 4096);
    assert_true(fabs((double)samples - p * runs) < 5 * sqrt(runs * p * (1 - p)));
}

static void stays_unbiased_while_intervals_change(void **state)
{
    (void)state;
    double sums[CHANGING_FIGURES] = {0}, squares[CHANGING_FIGURES] = {0};
    unsigned used[RULES] = {0};
    for (unsigned run = 0; run < CHANGING_RUNS; run++) {
        double errors[CHANGING_FIGURES] = {0};
        run_with_changes(run + 1, errors, used);
        for (int i = 0; i < CHANGING_FIGURES; i++) {
            sums[i] += errors[i];
            squares[i] += errors[i] * errors[i];
        }
    }
    for (int i = 0; i < CHANGING_FIGURES; i++) {
        double mean = sums[i] / CHANGING_RUNS;
        double deviation = sqrt(squares[i] / CHANGING_RUNS - mean * mean);
        print_message("figure %d: mean error %.1f, standard error %.1f\n", i, mean,
                      deviation / sqrt(CHANGING_RUNS));
        assert_true(deviation > 0);
        assert_true(fabs(mean) < 5 * deviation / sqrt(CHANGING_RUNS));
    }
    for (unsigned i = 0; i < RULES; i++)
        assert_true(used[i] > CHANGING_RUNS);
}

/* --- a signal handler at any instruction --- */

#if defined(__x86_64__)

enum { STEP_RUNS = 40, STEP_INTERVAL = 4096, STEP_SIZE = 100, STEP_NESTED = 50 };

static struct {
    struct ring_thread thread;
    struct sampler_rule rule;
    volatile long left; /* steps until the handler allocates */
} stepped;

static void allocate_at_step(int signal_number, siginfo_t *info, void *interrupted)
{
    (void)signal_number;
    (void)info;
    if (stepped.left-- > 0)
        return;
    struct ring_thread *thread = &stepped.thread;
    if (STEP_NESTED - 1 < thread->bytes_left) {
        thread->bytes_left -= STEP_NESTED;
        thread->calls++;
    } else if (sampler_count(thread, &pending, STEP_NESTED, &stepped.rule, &stepped.rule)) {
        sampler_settle(&pending, ring_pending_word(STEP_NESTED));
    }
    ((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

/* Make a sampled allocation, and one in a handler after `step` instructions. Return the gap that is
 * left, and set *interrupted if there were as many. */
static double gap_after_step(long step, uint64_t seed, bool *interrupted)
{
    struct ring_thread *thread = &stepped.thread;
    memset(thread, 0, sizeof(*thread));
    memset(&pending, 0, sizeof(pending));
    stepped.rule = rule_of(STEP_INTERVAL);
    thread->random = seed;
    thread->bytes_left = thread->bytes_loaded = 10;
    stepped.left = step;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
    bool sampled = sampler_count(thread, &pending, STEP_SIZE, &stepped.rule, &stepped.rule);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
    *interrupted = stepped.left < 0;
    if (sampled)
        sampler_settle(&pending, ring_pending_word(STEP_SIZE));
    assert_int_equal(thread->calls, *interrupted ? 2 : 1);
    assert_int_equal(thread->bytes_before + thread->bytes_loaded - thread->bytes_left,
                     STEP_SIZE + (*interrupted ? STEP_NESTED : 0));
    assert_int_equal(pending.samples, 0);
    return (double)(int64_t)thread->bytes_left + (double)thread->gap_rest;
}

static void gaps_do_not_add_up_in_handlers(void **state)
{
    (void)state;
    struct sigaction action = {.sa_sigaction = allocate_at_step, .sa_flags = SA_SIGINFO}, old;
    assert_int_equal(0, sigaction(SIGTRAP, &action, &old));
    bool interrupted = true;
    long step = 0;
    for (; interrupted; step += 3) {
        double sum = 0;
        bool any = false;
        for (uint64_t run = 0; run < STEP_RUNS; run++) {
            sum += gap_after_step(step, 77 + run * 1000 + (uint64_t)step, &interrupted);
            any |= interrupted;
        }
        interrupted = any;
        /* An exponential variate's deviation is its mean. */
        double error = 5 * STEP_INTERVAL / sqrt(STEP_RUNS);
        if (fabs(sum / STEP_RUNS - STEP_INTERVAL) > error)
            fail_msg("after %ld instructions the mean gap is %.0f", step, sum / STEP_RUNS);
    }
    assert_true(step > 30);
    sigaction(SIGTRAP, &old, NULL);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_at_the_rate_of_the_rule),
        cmocka_unit_test(samples_everything_at_interval_one),
        cmocka_unit_test(samples_large_ones_always),
        cmocka_unit_test(gaps_have_the_exponential_mean_and_variance),
        cmocka_unit_test(estimates_a_mix_without_bias),
        cmocka_unit_test(weighs_like_the_exact_formula),
        cmocka_unit_test(counts_on_while_idle),
        cmocka_unit_test(notices_a_shorter_interval),
        cmocka_unit_test(samples_by_the_rule_that_weighs),
        cmocka_unit_test(stays_unbiased_while_intervals_change),
#if defined(__x86_64__)
        cmocka_unit_test(gaps_do_not_add_up_in_handlers),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
