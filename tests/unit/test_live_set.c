/* SPDX-License-Identifier: Apache-2.0 */
/* The live set against a plain set: its content, its growth, and concurrent threads. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/sample/live_set.h"
#include "client/system.h"

/* Addresses like an allocator's: 16-byte steps from a heap's start. */
static uint64_t address_of(uint64_t i)
{
    return UINT64_C(0x555555560010) + i * 16;
}

static void holds_what_was_inserted_and_nothing_else(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 4096), 0);
    for (uint64_t i = 0; i < 1000; i += 2)
        assert_true(live_set_insert(&set, address_of(i)));
    for (uint64_t i = 0; i < 1000; i += 2) {
        assert_true(live_set_might_hold(&set, address_of(i)));
        assert_true(live_set_has_near(&set, address_of(i)));
    }
    for (uint64_t i = 1; i < 1000; i += 2)
        assert_false(live_set_remove(&set, address_of(i)));
    for (uint64_t i = 0; i < 1000; i += 2) {
        assert_true(live_set_remove(&set, address_of(i)));
        assert_false(live_set_remove(&set, address_of(i)));
    }
    for (uint64_t i = 0; i < 1000; i++)
        assert_false(live_set_has_near(&set, address_of(i)));
}

/* The filter never denies an address: it counts, or is always true. */
static void filter_is_true_for_what_is_held(void **state)
{
    (void)state;
    static const uint64_t addresses[] = {0, 1, UINT64_C(0x555555560010), UINT64_C(1) << 63,
                                         UINT64_MAX};
    for (int kind = 0; kind < 4; kind++) {
        struct live_set set = {0};
        int code = kind == 0   ? live_set_init(&set, 1)
                   : kind == 1 ? live_set_init(&set, 4096)
                   : kind == 2 ? live_set_init_small(&set, 1 << 20)
                               : live_set_init_for_malloc(&set, 4096);
        assert_int_equal(code, 0);
        for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
            assert_true(live_set_insert(&set, addresses[i]));
            assert_true(live_set_has_near(&set, addresses[i]));
            assert_true(live_set_remove(&set, addresses[i]));
        }
    }
}

/* With many addresses it would be true for most, and costs a cache line. */
static void filter_ends_with_very_many_addresses(void **state)
{
    (void)state;
    enum { FEW = 1000, MANY = LIVE_SET_NEAR_COUNTERS / 4 + 1000, STEP = 4096 };
    struct live_set set = {0};
    assert_int_equal(live_set_init_for_malloc(&set, STEP), 0);
    for (uint64_t i = 0; i < FEW; i++)
        assert_true(live_set_insert(&set, address_of(0) + i * STEP));
    for (uint64_t i = 0; i < FEW; i++)
        assert_false(live_set_has_near(&set, address_of(0) + i * STEP + STEP / 2));
    for (uint64_t i = FEW; i < MANY; i++)
        assert_true(live_set_insert(&set, address_of(0) + i * STEP));
    assert_true(live_set_has_near(&set, address_of(0) + STEP / 2));
    for (uint64_t i = 0; i < MANY; i++)
        assert_true(live_set_might_hold(&set, address_of(0) + i * STEP));
    for (uint64_t i = 0; i < MANY; i++)
        assert_true(live_set_remove(&set, address_of(0) + i * STEP));
    /* The next session begins with a filter. */
    live_set_forget(&set);
    assert_int_equal(live_set_init_for_malloc(&set, STEP), 0);
    assert_true(live_set_insert(&set, address_of(0)));
    assert_true(live_set_has_near(&set, address_of(0)));
    assert_false(live_set_has_near(&set, address_of(0) + STEP / 2));
}

static void is_empty_again_after_all_is_removed(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 1), 0);
    for (uint64_t i = 0; i < 300000; i++)
        assert_true(live_set_insert(&set, address_of(i)));
    for (uint64_t i = 0; i < 300000; i++)
        assert_true(live_set_remove(&set, address_of(i)));
    /* No overflow count remains: the hot path reads one line again. */
    for (uint64_t i = 0; i < 300000; i++)
        assert_false(live_set_might_hold(&set, address_of(i)));
}

/* Ranges: in order, complete, and nothing outside; also of lines that overflow, and across the
 * boundaries of regions. */
static void finds_all_addresses_of_a_range(void **state)
{
    (void)state;
    static const uint64_t intervals[] = {1, 64, 4096, 1 << 20};
    enum { COUNT = 5000, FIRST = 123, LAST = 4567 };
    for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
        struct live_set set = {0};
        uint64_t at = address_of(0);
        assert_false(live_set_next(&set, &at, UINT64_MAX)); /* not initialized */
        assert_int_equal(live_set_init(&set, intervals[i]), 0);
        for (uint64_t j = 0; j < COUNT; j += 3)
            assert_true(live_set_insert(&set, address_of(j)));
        at = address_of(FIRST);
        for (uint64_t j = FIRST; j < LAST; j += 3, at++) {
            assert_true(live_set_next(&set, &at, address_of(LAST)));
            assert_int_equal(at, address_of(j));
        }
        assert_false(live_set_next(&set, &at, address_of(LAST)));
        at = address_of(COUNT);
        assert_false(live_set_next(&set, &at, address_of(COUNT) + (1u << 24)));
        live_set_forget(&set);
    }
}

#ifdef FOR_THREAD_SANITIZER
enum { NEIGHBOURS = 300000 }; /* It finds nothing in a single thread. */
#else
enum { NEIGHBOURS = 3000000 };
#endif

/* Insert and remove millions of neighbours. */
static void fill_and_empty(struct live_set *set)
{
    for (uint64_t i = 0; i < NEIGHBOURS; i++)
        assert_true(live_set_insert(set, address_of(i)));
    for (uint64_t i = 0; i < NEIGHBOURS; i++)
        assert_true(live_set_might_hold(set, address_of(i)));
    for (uint64_t i = NEIGHBOURS; i-- > 0;)
        assert_true(live_set_remove(set, address_of(i)));
    for (uint64_t i = 0; i < NEIGHBOURS; i++)
        assert_false(live_set_remove(set, address_of(i)));
}

static void grows_to_millions_without_losing_any(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 1), 0);
    fill_and_empty(&set);
}

/* A set that expects few full lines has a small level in front of the others, and serves sessions
 * with smaller intervals later. */
static void grows_to_millions_from_a_small_level(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init_for_malloc(&set, 4096), 0);
    fill_and_empty(&set);
    live_set_forget(&set);
    assert_int_equal(live_set_init_for_malloc(&set, 1), 0);
    fill_and_empty(&set);
}

/* Return the bytes of touched pages. */
static size_t resident_of(void *memory, size_t bytes)
{
    static unsigned char pages[1 << 18];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = (bytes + page - 1) / page, touched = 0;
    assert_true(count <= sizeof(pages));
    assert_int_equal(mincore(memory, bytes, pages), 0);
    for (size_t i = 0; i < count; i++)
        touched += pages[i] & 1;
    return touched * page;
}

/* A heap of 256 MiB whose samples are as far apart as the sampler draws them. */
static void takes_few_pages(void **state)
{
    (void)state;
    struct live_set set = {0};
    unsigned short seed[3] = {1, 2, 3};
    size_t count = 0;
    assert_int_equal(live_set_init_for_malloc(&set, 4096), 0);
    for (uint64_t at = 0; at < 256 << 20; at += (uint64_t)(-log(1 - erand48(seed)) * 4096), count++)
        assert_true(live_set_insert(&set, UINT64_C(0x7f0000000000) + (at & ~UINT64_C(15))));
    size_t bytes = resident_of(set.level0, ((size_t)set.mask0 + 1) * sizeof(*set.level0)) +
                   resident_of(set.counters, LIVE_SET_COUNTERS + LIVE_SET_NEAR_COUNTERS);
    assert_non_null(set.deeper[2]);
    assert_null(set.deeper[3]);
    bytes += resident_of(set.deeper[1], sizeof(struct live_set_bucket) << 8) +
             resident_of(set.deeper[2], sizeof(struct live_set_bucket) << 14);
    print_message("%.2f bytes a sample\n", (double)bytes / (double)count);
    size_t full = 0;
    for (size_t i = 0; i <= set.mask0; i++)
        full += set.level0[i].overflow > 0;
    print_message("%zu full lines\n", full);
    assert_true(full > 0);
    if (sysconf(_SC_PAGESIZE) == 4096)
        assert_true(bytes < 18 * count);
}

/* On aarch64, programs and libraries are in the upper half of 48 bits. */
static void maps_addresses_of_48_bits(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 4096), 0);
    static const uint64_t heaps[] = {UINT64_C(0x555555560010), UINT64_C(0xaaaad5560010),
                                     UINT64_C(0x7f5555560010), UINT64_C(0xffff95560010)};
    for (int heap = 0; heap < 4; heap++)
        assert_true(live_set_insert(&set, heaps[heap]));
    for (int heap = 0; heap < 4; heap++)
        assert_true(live_set_remove(&set, heaps[heap]));
    assert_null(set.deeper[1]);
}

static void takes_an_address_once(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 4096), 0);
    assert_true(live_set_insert(&set, address_of(7)));
    assert_true(live_set_insert(&set, address_of(7)));
    assert_true(live_set_remove(&set, address_of(7)));
    assert_false(live_set_remove(&set, address_of(7)));
}

/* Addresses that share a place with others: odd ones, multiples of 32 GiB apart, high ones. */
static void distinguishes_all_addresses(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 4096), 0);
    static const uint64_t addresses[] = {
        1,
        7,
        8,
        9,
        UINT64_C(1) << 35,
        UINT64_C(3) << 35,
        (UINT64_C(1) << 35) + 8,
        (UINT64_C(2) << 35) + 8,
        (UINT64_C(0x7ff) << 35) + 8,
        UINT64_C(1) << 47,
        (UINT64_C(1) << 47) + 8,
        UINT64_MAX,
        UINT64_MAX - 7,
        UINT64_MAX << 35,
    };
    enum { COUNT = sizeof(addresses) / sizeof(addresses[0]) };
    for (int held = 0; held < COUNT; held++) {
        assert_true(live_set_insert(&set, addresses[held]));
        assert_true(live_set_might_hold(&set, addresses[held]));
        for (int other = 0; other < COUNT; other++)
            if (other != held)
                assert_false(live_set_remove(&set, addresses[other]));
        assert_true(live_set_remove(&set, addresses[held]));
    }
    for (int i = 0; i < COUNT; i++)
        assert_true(live_set_insert(&set, addresses[i]));
    for (int i = 0; i < COUNT; i++)
        assert_true(live_set_remove(&set, addresses[i]));
}

/* The same layout at many addresses 64 MiB and 32 GiB apart, like the arenas of threads. */
static void holds_arenas_of_one_layout(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 1), 0);
    for (uint64_t step = UINT64_C(64) << 20; step <= UINT64_C(32) << 30; step <<= 9) {
        for (uint64_t arena = 0; arena < 1000; arena++)
            for (uint64_t i = 0; i < 100; i++)
                assert_true(live_set_insert(&set, address_of(2 * i) + arena * step));
        for (uint64_t arena = 0; arena < 1000; arena++) {
            for (uint64_t i = 0; i < 100; i++) {
                assert_false(live_set_remove(&set, address_of(2 * i + 1) + arena * step));
                assert_true(live_set_remove(&set, address_of(2 * i) + arena * step));
            }
        }
    }
}

/* A program that restricts its system calls cannot map a level any more. */
static void has_levels_from_the_start(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init_for_malloc(&set, 4096), 0);
    system_is_restricted = 1;
    for (uint64_t i = 0; i < 50000; i++)
        assert_true(live_set_insert(&set, address_of(i * 32)));
    for (uint64_t i = 0; i < 50000; i++)
        assert_true(live_set_remove(&set, address_of(i * 32)));
    system_is_restricted = 0;
}

/* Its place means that a place is free. */
static void finds_zero_in_a_full_line(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init_small(&set, 524288), 0);
    for (uint64_t i = 0; i < 200; i++)
        assert_true(live_set_insert(&set, i * 8));
    assert_true(live_set_might_hold(&set, 0));
    assert_true(live_set_remove(&set, 0));
    assert_false(live_set_remove(&set, 0));
    for (uint64_t i = 1; i < 200; i++)
        assert_true(live_set_remove(&set, i * 8));
}

static void holds_zero_only_if_inserted(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_false(live_set_remove(&set, 0));
    assert_int_equal(live_set_init_small(&set, 4096), 0);
    assert_false(live_set_remove(&set, 0));
    assert_true(live_set_insert(&set, 0));
    assert_true(live_set_might_hold(&set, 0));
    assert_true(live_set_has_near(&set, 0));
    assert_true(live_set_remove(&set, 0));
    assert_false(live_set_has_near(&set, 0));
    assert_false(live_set_remove(&set, 0));
    assert_true(live_set_insert(&set, 0));
    live_set_forget(&set);
    assert_false(live_set_remove(&set, 0));
}

/* --- threads: each has its own addresses, all use the same buckets --- */

#define THREADS 8
#define ROUNDS 40000

static struct live_set shared;

static void *churn(void *argument)
{
    uint64_t own = (uintptr_t)argument;
    uint64_t held[64] = {0};
    uint64_t random = own * 7919 + 1;
    uintptr_t failures = 0;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t *place = &held[(random >> 33) % 64];
        if (*place != 0) {
            failures += !live_set_might_hold(&shared, *place);
            failures += !live_set_remove(&shared, *place);
            *place = 0;
        } else {
            *place = address_of(((random >> 40) % 4096) * THREADS + own);
            for (int j = 0; j < 64; j++)
                if (&held[j] != place && held[j] == *place)
                    *place = 0;
            if (*place != 0)
                failures += !live_set_insert(&shared, *place);
        }
    }
    for (int j = 0; j < 64; j++)
        if (held[j] != 0)
            failures += !live_set_remove(&shared, held[j]);
    return (void *)failures;
}

static void threads_always_find_their_own_addresses(void **state)
{
    (void)state;
    assert_int_equal(live_set_init(&shared, 1 << 20), 0); /* wide regions: crowded lines */
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        assert_int_equal((uintptr_t)failures, 0);
    }
    for (uint64_t i = 0; i < 4096 * THREADS; i++)
        assert_false(live_set_might_hold(&shared, address_of(i)));
    /* Meanwhile the filter ended: the addresses share a few stretches. */
    assert_true(live_set_has_near(&shared, UINT64_C(0x7f0000000000)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_what_was_inserted_and_nothing_else),
        cmocka_unit_test(filter_is_true_for_what_is_held),
        cmocka_unit_test(filter_ends_with_very_many_addresses),
        cmocka_unit_test(is_empty_again_after_all_is_removed),
        cmocka_unit_test(finds_all_addresses_of_a_range),
        cmocka_unit_test(grows_to_millions_without_losing_any),
        cmocka_unit_test(grows_to_millions_from_a_small_level),
        cmocka_unit_test(takes_few_pages),
        cmocka_unit_test(maps_addresses_of_48_bits),
        cmocka_unit_test(takes_an_address_once),
        cmocka_unit_test(distinguishes_all_addresses),
        cmocka_unit_test(holds_arenas_of_one_layout),
        cmocka_unit_test(has_levels_from_the_start),
        cmocka_unit_test(finds_zero_in_a_full_line),
        cmocka_unit_test(holds_zero_only_if_inserted),
        cmocka_unit_test(threads_always_find_their_own_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
