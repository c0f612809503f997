/* SPDX-License-Identifier: Apache-2.0 */
/* The 95 % intervals of estimates, against figures from the literature and by simulation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "profile/confidence_interval.h"
#include "profile/unseen.h"

#define INTERVAL_BYTES 65536

/* Each is sampled with probability p, and represents 1/p allocations. */
static void add_samples(struct profile_estimate *sum, double samples, double size, double p)
{
    double variance = (1 - p) / (p * p);
    sum->samples += samples;
    sum->bytes += samples * size / p;
    sum->count += samples / p;
    sum->bytes_variance += samples * size * size * variance;
    sum->count_variance += samples * variance;
}

static struct profile_estimate equal_samples(double samples, double size, double p)
{
    struct profile_estimate estimate = {0};
    add_samples(&estimate, samples, size, p);
    return estimate;
}

static double probability_of(double size)
{
    return size >= INTERVAL_BYTES * log(100) ? 1 : -expm1(-size / INTERVAL_BYTES);
}

static struct profile_interval count_interval(const struct profile_estimate *estimate)
{
    return profile_interval_of_count(estimate, INTERVAL_BYTES);
}

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
    const double p = 1e-5, size = 64;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct profile_estimate estimate = equal_samples(cases[i].n, size, p);
        struct profile_interval counts = count_interval(&estimate);
        struct profile_interval bytes = profile_interval_of_bytes(&estimate);
        double limits[2][2] = {{counts.low * p, counts.high * p},
                               {bytes.low * p / size, bytes.high * p / size}};
        for (int which = 0; which < 2; which++) {
            assert_true(limits[which][0] > cases[i].exact_low - 0.02);
            assert_true(limits[which][0] < cases[i].jeffreys_low + 0.02);
            assert_true(limits[which][1] > cases[i].jeffreys_high - 0.02);
            assert_true(limits[which][1] < cases[i].exact_high + 0.02);
        }
    }
}

static void is_normal_for_many_samples(void **state)
{
    (void)state;
    struct profile_estimate estimate = equal_samples(1e6, 64, 1e-4);
    struct profile_interval bytes = profile_interval_of_bytes(&estimate);
    assert_true(fabs(bytes.low / (64 * 1e4) - (1e6 - 1960)) < 3);
    assert_true(fabs(bytes.high / (64 * 1e4) - (1e6 + 1960)) < 3);
}

static void is_a_point_without_variance(void **state)
{
    (void)state;
    struct profile_estimate certain = equal_samples(42, 1e6, 1), none = {0};
    assert_true(count_interval(&certain).low == 42 && count_interval(&certain).high == 42);
    assert_true(profile_interval_of_bytes(&certain).low == 42e6 &&
                profile_interval_of_bytes(&certain).high == 42e6);
    assert_true(count_interval(&none).low == 0 && count_interval(&none).high == 0);
    none.count_variance = none.bytes_variance = NAN;
    assert_true(count_interval(&none).high == 0 && profile_interval_of_bytes(&none).high == 0);
}

static void lower_limit_is_the_sampled_sum_if_few_are_missing(void **state)
{
    (void)state;
    /* 100 certain samples and 2 with p = 0.95: the expected number of missing ones is 0.1. */
    struct profile_estimate estimate = equal_samples(100, 9000, 1);
    add_samples(&estimate, 2, 3000, 0.95);
    struct profile_interval counts = count_interval(&estimate);
    struct profile_interval bytes = profile_interval_of_bytes(&estimate);
    assert_true(counts.low == 102 && counts.high >= 103 && counts.high < 104);
    assert_true(bytes.low <= 906000 && bytes.low > 905900);
    assert_true(bytes.high > 909000 && bytes.high < 912000);
}

/* A thousand certain samples must not inflate the only uncertain one. */
static void few_uncertain_samples_keep_exact_limits(void **state)
{
    (void)state;
    double p = probability_of(65536);
    struct profile_estimate estimate = equal_samples(1, 1 << 20, 1);
    add_samples(&estimate, 1, 65536, p);
    struct profile_interval bytes = profile_interval_of_bytes(&estimate);
    assert_true(bytes.low == (1 << 20) + 65536);
    assert_true(bytes.high > estimate.bytes + 65536 && bytes.high < estimate.bytes + 4 * 65536);
    assert_true(count_interval(&estimate).low == 2 && count_interval(&estimate).high < 40);
    /* Also with only equal samples, however many are missing. */
    for (double samples = 1; samples < 1e5; samples *= 7) {
        estimate = equal_samples(samples, 1024, probability_of(1024));
        assert_true(profile_interval_of_bytes(&estimate).low >= samples * 1024);
    }
}

static void limits_are_cut_at_the_certain_maximum(void **state)
{
    (void)state;
    struct profile_interval cut = profile_interval_cut((struct profile_interval){10, 30}, 20, 15);
    assert_true(cut.low == 10 && cut.high == 20);
    /* An estimate above it is the upper limit. */
    cut = profile_interval_cut((struct profile_interval){10, 30}, 5, 15);
    assert_true(cut.low == 5 && cut.high == 15);
    cut = profile_interval_cut((struct profile_interval){10, 30}, 5, 5);
    assert_true(cut.low == 5 && cut.high == 5);
    cut = profile_interval_cut((struct profile_interval){10, 30}, 0, 15);
    assert_true(cut.low == 10 && cut.high == 30);
}

/* Return the bound of a heap with `calls` counted blocks of `size`, besides the samples of
 * `sampled`. */
static struct unseen unseen_beside(const struct profile_estimate *sampled, double samples_bytes,
                                   double calls, double size, bool counts)
{
    struct profile_heap heap = {.interval_bytes = INTERVAL_BYTES,
                                .first_interval_bytes = INTERVAL_BYTES};
    struct profile_dump dump = {
        .exact_bytes = (uint64_t)(samples_bytes + calls * size),
        .exact_calls = (uint64_t)(sampled->samples + calls),
        .total = {.allocated_bytes = sampled->bytes,
                  .allocated_count = sampled->count,
                  .allocated_bytes_variance = sampled->bytes_variance,
                  .allocated_count_variance = sampled->count_variance,
                  .samples = (uint64_t)sampled->samples},
    };
    return unseen_of(&heap, &dump, counts);
}

static void limits_of_a_heap_include_unsampled_memory(void **state)
{
    (void)state;
    const double floor_bytes = INTERVAL_BYTES * log(20);
    struct profile_estimate certain = equal_samples(2, 1 << 20, 1), none = {0};
    struct profile_interval point = profile_interval_of_bytes(&certain);
    /* The rule of three, or the part of the totals that has no sample. */
    struct unseen unseen = unseen_beside(&certain, 2 << 20, 1e6, 100, false);
    assert_true(fabs(unseen_most(unseen) - floor_bytes) < 1 && unseen.left == 1e8);
    assert_true(unseen_raise(point, certain.bytes, unseen).high > certain.bytes + floor_bytes - 1);
    unseen = unseen_beside(&certain, 2 << 20, 40, 100, false);
    assert_true(unseen_raise(point, certain.bytes, unseen).high == certain.bytes + 4000);
    assert_true(unseen_most(unseen_beside(&certain, 2 << 20, 40, 100, true)) == 40);
    /* Every call was sampled. */
    for (int counts = 0; counts < 2; counts++)
        assert_true(unseen_most(unseen_beside(&certain, 2 << 20, 0, 0, counts)) == 0);
    /* Calls of 24 bytes, or of the mean size if that is smaller. */
    unseen = unseen_beside(&none, 0, 1e7, 100, true);
    assert_true(fabs(unseen_most(unseen) - floor_bytes / 24) < 1);
    unseen = unseen_beside(&none, 0, 1e7, 3, true);
    assert_true(fabs(unseen_most(unseen) - floor_bytes / 3) < 1);
    /* If an estimate exceeds the truth by chance, the unsampled memory is the bound, and not the
     * total minus the estimate. */
    struct profile_estimate much = equal_samples(40, 100, probability_of(100));
    unseen = unseen_beside(&much, 4000, 20000, 100, false);
    assert_true(much.bytes > 2004000 && unseen_most(unseen) > floor_bytes - 1);
    /* A wide interval that contains the bound already is not widened. */
    point = profile_interval_of_bytes(&much);
    assert_true(unseen_raise(point, much.bytes, unseen).high == point.high);
    /* Nothing was allocated. */
    assert_true(unseen_most(unseen_beside(&none, 0, 0, 0, false)) == 0);
}

static void no_call_is_unsampled_at_interval_1(void **state)
{
    (void)state;
    struct profile_heap heap = {.interval_bytes = 1, .first_interval_bytes = 1};
    struct profile_dump dump = {.exact_bytes = 1000, .exact_calls = 10};
    assert_true(unseen_most(unseen_of(&heap, &dump, false)) == 0);
    assert_true(unseen_most(unseen_of(&heap, &dump, true)) == 0);
    /* A file without exact totals. */
    heap = (struct profile_heap){.interval_bytes = 4096, .unknown = PROFILE_UNKNOWN_TEMPORARY};
    dump = (struct profile_dump){0};
    assert_true(fabs(unseen_most(unseen_of(&heap, &dump, false)) - 4096 * log(20)) < 1);
    /* If a program samples by itself, only the program knows how well. */
    heap.status.weighed_samples = heap.status.heap_samples = 5;
    assert_true(unseen_most(unseen_of(&heap, &dump, false)) == 0);
}

static void only_differing_sizes_raise_the_limit_of_a_count(void **state)
{
    (void)state;
    struct profile_estimate same = equal_samples(20, 2048, probability_of(2048)), mixed = {0};
    add_samples(&mixed, 10, 1024, probability_of(1024));
    add_samples(&mixed, 10, 8192, probability_of(8192));
    struct profile_interval of_same = count_interval(&same), of_mixed = count_interval(&mixed);
    assert_true(of_same.high / same.count < 1.6);
    assert_true(of_mixed.high / mixed.count > 1.8 && of_mixed.high / mixed.count < 4);
    /* Enough samples of the smallest size show that there are no smaller blocks. */
    struct profile_estimate many = {0};
    add_samples(&many, 1000, 1024, probability_of(1024));
    add_samples(&many, 1000, 8192, probability_of(8192));
    assert_true(count_interval(&many).high / many.count < 1.12);
}

static void estimates_of_unknown_samples_have_intervals(void **state)
{
    (void)state;
    struct profile_estimate estimate = equal_samples(5, 64, 1e-5);
    estimate.samples = 0;
    struct profile_interval counts = count_interval(&estimate);
    assert_true(counts.low * 1e-5 > 1.6 && counts.low * 1e-5 < 1.93);
    assert_true(counts.high * 1e-5 > 10.9 && counts.high * 1e-5 < 11.7);
}

/* A file can contain any figures. */
static void holds_the_estimate_whatever_the_sums(void **state)
{
    (void)state;
    static const double odd[] = {0,     -1,  1,    0.5, 1e-300, 1e300,    -1e300,
                                 1e-12, 1e9, 4096, 7,   NAN,    INFINITY, 1.0000000001};
    enum { ODD = sizeof(odd) / sizeof(odd[0]) };
    srand48(3);
    for (int i = 0; i < 200000; i++) {
        struct profile_estimate estimate = {
            .bytes = odd[lrand48() % ODD],
            .count = odd[lrand48() % ODD],
            .bytes_variance = odd[lrand48() % ODD],
            .count_variance = odd[lrand48() % ODD],
            .samples = odd[lrand48() % ODD],
        };
        struct profile_interval counts =
            profile_interval_of_count(&estimate, lrand48() % 2 ? (uint64_t)lrand48() : UINT64_MAX);
        struct profile_interval bytes = profile_interval_of_bytes(&estimate);
        assert_false(counts.low > estimate.count || counts.high < estimate.count);
        assert_false(bytes.low > estimate.bytes || bytes.high < estimate.bytes);
        assert_true(isnan(estimate.count) || !isnan(counts.low + 0 * counts.high) ||
                    isinf(counts.high) || isinf(estimate.count));
    }
}

/* --- coverage: how often the interval contains the truth --- */

/* Counts over the `seen` runs that had a sample. */
struct coverage {
    int seen, bytes, counts;
};

/* Sample allocations of each size one by one. */
static struct coverage observe(const double *sizes, const int *calls, int size_count, int runs)
{
    struct coverage coverage = {0};
    double bytes = 0, count = 0;
    for (int i = 0; i < size_count; i++) {
        bytes += calls[i] * sizes[i];
        count += calls[i];
    }
    for (int run = 0; run < runs; run++) {
        struct profile_estimate estimate = {0};
        for (int i = 0; i < size_count; i++) {
            double p = probability_of(sizes[i]);
            /* With a small p, draw the gap to the next sample. */
            for (double at = 0;;) {
                at += p < 1 ? floor(log(1 - drand48()) / log1p(-p)) + 1 : 1;
                if (at > calls[i])
                    break;
                add_samples(&estimate, 1, sizes[i], p);
            }
        }
        if (estimate.samples == 0)
            continue;
        struct profile_interval of_count = count_interval(&estimate);
        struct profile_interval of_bytes = profile_interval_of_bytes(&estimate);
        coverage.seen++;
        coverage.bytes +=
            of_bytes.low <= bytes * (1 + 1e-12) && bytes * (1 - 1e-12) <= of_bytes.high;
        coverage.counts += of_count.low <= count && count <= of_count.high;
    }
    return coverage;
}

/* The number of misses is an integer, so no interval covers exactly 95 % everywhere. */
static void assert_held(int held, int seen, double least, double most)
{
    assert_true(held >= least * seen);
    assert_true(held <= most * seen);
}

static void holds_the_truth_of_one_size(void **state)
{
    (void)state;
    static const double samples[] = {4, 6, 8, 10, 15, 20, 30};
    static const double sizes[] = {64, 4096, 65536, 2 * 65536, 3 * 65536};
    srand48(7);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            int calls = (int)(samples[i] / probability_of(sizes[j]) + 0.5);
            struct coverage coverage = observe(&sizes[j], &calls, 1, 20000);
            assert_held(coverage.counts, coverage.seen, 0.93, 1);
            assert_held(coverage.bytes, coverage.seen, 0.92, 1);
            if (probability_of(sizes[j]) > 0.1)
                continue;
            assert_held(coverage.counts, coverage.seen, 0.935, 0.99);
            assert_held(coverage.bytes, coverage.seen, 0.935, 0.99);
        }
    }
}

static void holds_the_truth_of_sizes_equally_many(void **state)
{
    (void)state;
    double sizes[11];
    int calls[11];
    srand48(11);
    for (int first = 24; first <= 96; first *= 4) {
        for (int each = 70; each <= 560; each *= 2) {
            for (int i = 0; i < 11; i++) {
                sizes[i] = (double)(first << i);
                calls[i] = each;
            }
            struct coverage coverage = observe(sizes, calls, 11, 4000);
            assert_held(coverage.bytes, coverage.seen, 0.93, 0.98);
            assert_held(coverage.counts, coverage.seen, 0.91, 0.99);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_between_exact_and_jeffreys_limits),
        cmocka_unit_test(is_normal_for_many_samples),
        cmocka_unit_test(is_a_point_without_variance),
        cmocka_unit_test(lower_limit_is_the_sampled_sum_if_few_are_missing),
        cmocka_unit_test(few_uncertain_samples_keep_exact_limits),
        cmocka_unit_test(limits_are_cut_at_the_certain_maximum),
        cmocka_unit_test(limits_of_a_heap_include_unsampled_memory),
        cmocka_unit_test(no_call_is_unsampled_at_interval_1),
        cmocka_unit_test(only_differing_sizes_raise_the_limit_of_a_count),
        cmocka_unit_test(estimates_of_unknown_samples_have_intervals),
        cmocka_unit_test(holds_the_estimate_whatever_the_sums),
        cmocka_unit_test(holds_the_truth_of_one_size),
        cmocka_unit_test(holds_the_truth_of_sizes_equally_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
