/* The live set against a plain set: what it holds, how it grows, and many threads at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/live_set.h"

/* As an allocator would hand them out: 16-byte steps from a heap's start. */
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
    for (uint64_t i = 0; i < 1000; i += 2)
        assert_true(live_set_might_hold(&set, address_of(i)));
    for (uint64_t i = 1; i < 1000; i += 2)
        assert_false(live_set_remove(&set, address_of(i)));
    for (uint64_t i = 0; i < 1000; i += 2) {
        assert_true(live_set_remove(&set, address_of(i)));
        assert_false(live_set_remove(&set, address_of(i)));
    }
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
    /* No overflow count is left behind: the hot path is one line again. */
    for (uint64_t i = 0; i < 300000; i++)
        assert_false(live_set_might_hold(&set, address_of(i)));
}

static void grows_to_millions_without_losing_any(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 1), 0);
    for (uint64_t i = 0; i < 3000000; i++)
        assert_true(live_set_insert(&set, address_of(i)));
    for (uint64_t i = 0; i < 3000000; i++)
        assert_true(live_set_might_hold(&set, address_of(i)));
    for (uint64_t i = 3000000; i-- > 0;)
        assert_true(live_set_remove(&set, address_of(i)));
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

static void never_holds_null(void **state)
{
    (void)state;
    struct live_set set = {0};
    assert_int_equal(live_set_init(&set, 4096), 0);
    assert_false(live_set_remove(&set, 0));
}

/* --- threads: each owns addresses of its own, all meet in the same buckets --- */

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

static void threads_never_miss_their_own(void **state)
{
    (void)state;
    assert_int_equal(live_set_init(&shared, 1 << 20), 0); /* wide regions: crowded buckets */
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_what_was_inserted_and_nothing_else),
        cmocka_unit_test(is_empty_again_after_all_is_removed),
        cmocka_unit_test(grows_to_millions_without_losing_any),
        cmocka_unit_test(takes_an_address_once),
        cmocka_unit_test(never_holds_null),
        cmocka_unit_test(threads_never_miss_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
