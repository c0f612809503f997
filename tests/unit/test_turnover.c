/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks, caches and what a program keeps, by when their live memory was allocated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/turnover.h"
#include "uint_in_range.h"

#define END_MS 20000u
#define EACH 100.0 /* bytes of a block */
#define NEAR 1e-9

/* A row of blocks that are allocated one after the other, each with its own life. */
struct made {
    struct trace_figures figures;
    struct trace_live_times times;
};

static void allocate(struct made *made, double time_ms, double life_ms, double weight)
{
    struct trace_figures *figures = &made->figures;
    figures->samples++;
    figures->allocated_count += weight;
    figures->allocated_bytes += weight * EACH;
    if (time_ms + life_ms < END_MS) {
        figures->freed_samples++;
        figures->freed_count += weight;
        figures->freed_bytes += weight * EACH;
        figures->lifetime_ms_sum += weight * life_ms;
        return;
    }
    if (made->times.slice_ms == 0)
        made->times = (struct trace_live_times){.slice_ms = trace_slice_ms(END_MS),
                                                .oldest_ms = (uint64_t)time_ms};
    trace_live_times_add(&made->times, (uint64_t)time_ms, weight * EACH, 1);
}

static struct turnover measured(const struct made *made)
{
    static struct profile_heap heap;
    static struct profile_dump dump;
    static struct profile profile;
    heap = (struct profile_heap){.name = "libc.malloc"};
    dump = (struct profile_dump){.boottime_ns = END_MS * UINT64_C(1000000)};
    profile = (struct profile){.heaps = &heap, .heap_count = 1};
    struct profile_sample sample = {.figures = made->figures};
    struct profile_times *times = malloc(profile_times_bytes(&made->times));
    if (made->times.slice_ms != 0) {
        profile_times_keep(&made->times, times);
        sample.times = times;
    }
    struct turnover_facts facts = {0};
    turnover_facts_add(&facts, &sample);
    const struct export_dump chosen = {&heap, &dump};
    struct turnover row = turnover_of(&facts, &profile, &chosen, true);
    free(times);
    assert_int_equal(turnover_judge(&row, 1), 0);
    return row;
}

/* A fixed generator of numbers above 0 and up to 1. */
static double draw(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 1) / 0x1p53;
}

/* A block every 10 ms, each with a life of its own. */
static struct turnover every_10_ms(double (*life_of)(unsigned number))
{
    struct made made = {0};
    for (unsigned i = 0; i < END_MS / 10; i++)
        allocate(&made, 10 * i, life_of(i), 1);
    return measured(&made);
}

static double forever(unsigned number)
{
    (void)number;
    return INFINITY;
}

static double one_in_50_forever(unsigned number)
{
    return number % 50 == 0 ? INFINITY : 2;
}

static double fifth_of_time(unsigned number)
{
    (void)number;
    return END_MS / 5.0;
}

static double most_of_time(unsigned number)
{
    (void)number;
    return END_MS * 0.8;
}

static double random_third(unsigned number)
{
    (void)number;
    return -log(draw()) * END_MS / 3;
}

static double random_half(unsigned number)
{
    (void)number;
    return -log(draw()) * END_MS / 2;
}

static double only_at_first(unsigned number)
{
    return number < 400 ? INFINITY : 1;
}

static void growth(void **state)
{
    (void)state;
    struct turnover row = every_10_ms(forever);
    assert_int_equal(row.kind, TURNOVER_GROWS);
    assert_int_equal(row.pace, TURNOVER_STEADY);
    assert_float_equal(row.freed, 0, 0);
    assert_float_equal(row.oldest_ms, END_MS, NEAR);
    assert_float_equal(row.median_ms, END_MS / 2.0, row.slice_ms);
    assert_float_equal(row.bytes_per_second, 100 * EACH, 200);
    assert_true(isnan(row.lifetime_ms));
    /* What is freed at once by the same callsite does not hide what is not. */
    row = every_10_ms(one_in_50_forever);
    assert_int_equal(row.kind, TURNOVER_GROWS);
    assert_true(row.freed > 0.979 && row.freed < 0.981);
    assert_float_equal(row.lifetime_ms, 2, NEAR);
}

static void more_and_more(void **state)
{
    (void)state;
    struct made made = {0};
    for (double time = 0; time < END_MS; time += 400 - time / 60)
        allocate(&made, time, INFINITY, 1);
    for (unsigned i = 0; i < 10000; i++)
        allocate(&made, i, 1, 1);
    assert_int_equal(measured(&made).kind, TURNOVER_GROWS);
}

static void steps(void **state)
{
    (void)state;
    struct made made = {0};
    for (unsigned i = 0; i < 200; i++)
        allocate(&made, i / 50 * 5000.0 + 1500, INFINITY, 1);
    struct turnover row = measured(&made);
    assert_int_equal(row.kind, TURNOVER_GROWS);
    assert_int_equal(row.pace, TURNOVER_IN_STEPS);
}

static void caches(void **state)
{
    (void)state;
    struct turnover row = every_10_ms(fifth_of_time);
    assert_int_equal(row.kind, TURNOVER_TURNS_OVER);
    assert_float_equal(row.freed, 0.8, 0.01);
    assert_float_equal(row.oldest_ms, END_MS / 5.0, 10);
    assert_float_equal(row.lifetime_ms, END_MS / 5.0, NEAR);
    /* Its blocks are nearly as old as the profile, and never older than those that were freed. */
    assert_int_equal(every_10_ms(most_of_time).kind, TURNOVER_TURNS_OVER);
    assert_int_not_equal(every_10_ms(random_third).kind, TURNOVER_GROWS);
    assert_int_not_equal(every_10_ms(random_half).kind, TURNOVER_GROWS);
}

static void kept_from_the_start(void **state)
{
    (void)state;
    struct turnover row = every_10_ms(only_at_first);
    assert_int_equal(row.kind, TURNOVER_STAYS);
    struct made made = {0};
    allocate(&made, 3, INFINITY, 1);
    assert_int_equal(measured(&made).kind, TURNOVER_STAYS);
}

static void few(void **state)
{
    (void)state;
    struct made made = {0};
    allocate(&made, 5000, INFINITY, 1);
    allocate(&made, 15000, INFINITY, 1);
    struct turnover row = measured(&made);
    assert_int_equal(row.kind, TURNOVER_UNCLEAR);
    assert_true(row.probability > 0.01);
}

/* Samples of before the interval was widened are many, and stand for little. */
static void widened(void **state)
{
    (void)state;
    struct made made = {0};
    for (unsigned i = 0; i < END_MS; i++)
        if (i < 5000 || i % 100 == 0)
            allocate(&made, i, INFINITY, i < 5000 ? 1 : 100);
    struct turnover row = measured(&made);
    assert_int_equal(row.kind, TURNOVER_GROWS);
    assert_int_equal(row.pace, TURNOVER_STEADY);
}

static void unknown(void **state)
{
    (void)state;
    struct made made = {0};
    allocate(&made, 5000, INFINITY, 1);
    allocate(&made, 5000, 1, 1);
    made.times.slice_ms = 0;
    struct turnover row = measured(&made);
    assert_int_equal(row.kind, TURNOVER_UNKNOWN);
    assert_float_equal(row.freed, 0.5, NEAR);
    assert_true(isnan(row.oldest_ms) && isnan(row.median_ms) && isnan(row.bytes_per_second));
    assert_float_equal(row.probability_least, 1, 0);
    made = (struct made){0};
    row = measured(&made);
    assert_true(isnan(row.freed) && isnan(row.lifetime_ms) && isnan(row.oldest_ms));
}

/* Of 1,000 caches of random lives, hardly one looks like a leak. */
static void chance(void **state)
{
    (void)state;
    unsigned wrong = 0;
    for (unsigned i = 0; i < 1000; i++) {
        double mean = END_MS * (0.02 + 0.3 * draw());
        struct made made = {0};
        for (unsigned j = 0; j < 200; j++)
            allocate(&made, draw() * END_MS, -log(draw()) * mean, 1);
        wrong += measured(&made).kind == TURNOVER_GROWS;
    }
    assert_uint_in_range(wrong, 0, 20);
}

static void sums(void **state)
{
    (void)state;
    struct trace_live_times narrow = {.slice_ms = 4, .oldest_ms = 9},
                            wide = {.slice_ms = 16, .oldest_ms = 70};
    trace_live_times_add(&narrow, 9, 10, 1);
    trace_live_times_add(&narrow, 100, 20, 2);
    trace_live_times_add(&wide, 70, 40, 4);
    struct profile_times *kept[2] = {malloc(profile_times_bytes(&narrow)),
                                     malloc(profile_times_bytes(&wide))};
    profile_times_keep(&narrow, kept[0]);
    profile_times_keep(&wide, kept[1]);
    for (int first = 0; first < 2; first++) {
        struct live_times_sum sum = {0};
        struct profile_sample sample = {.times = kept[first]}, other = {.times = kept[!first]};
        live_times_sum_add(&sum, &sample);
        live_times_sum_add(&sum, &other);
        assert_int_equal(sum.times.slice_ms, 16);
        assert_int_equal(sum.times.oldest_ms, 9);
        assert_int_equal(sum.times.samples[0], 1);
        assert_int_equal(sum.times.samples[4], 4);
        assert_int_equal(sum.times.samples[6], 2);
        assert_float_equal(sum.times.bytes[6], 20, 0);
        assert_false(sum.unknown);
        /* What is live without times makes the sum unknown; what is freed does not. */
        struct profile_sample freed = {.figures = {.allocated_bytes = 9, .freed_bytes = 9}};
        struct profile_sample live = {.figures = {.allocated_bytes = 9}};
        live_times_sum_add(&sum, &freed);
        assert_false(sum.unknown);
        live_times_sum_add(&sum, &live);
        assert_true(sum.unknown);
    }
    assert_true(profile_times_are_same(kept[0], kept[0]));
    assert_false(profile_times_are_same(kept[0], kept[1]));
    assert_false(profile_times_are_same(kept[0], NULL));
    free(kept[0]);
    free(kept[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth),  cmocka_unit_test(more_and_more),
        cmocka_unit_test(steps),   cmocka_unit_test(caches),
        cmocka_unit_test(few),     cmocka_unit_test(kept_from_the_start),
        cmocka_unit_test(widened), cmocka_unit_test(unknown),
        cmocka_unit_test(chance),  cmocka_unit_test(sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
