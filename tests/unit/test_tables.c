/* SPDX-License-Identifier: Apache-2.0 */
/* The tables and searches that all parts share: util/hash_index.h, id_map.h, sorted_search.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/hash_index.h"
#include "util/id_map.h"
#include "util/keyed_hash.h"
#include "util/sorted_search.h"

/* The linker sends the tables' allocations here. */
static bool no_memory;
static size_t slots_wanted; /* by the last calloc() */
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    slots_wanted = count;
    return no_memory ? NULL : __real_calloc(count, bytes);
}

void *__real_reallocarray(void *old, size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes)
{
    return no_memory ? NULL : __real_reallocarray(old, count, bytes);
}

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t end)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % end);
}

/* --- hash_index --- */

static uint64_t hash_of_key(const void *keys, uint32_t number)
{
    return keyed_hash(((const uint64_t *)keys)[number]);
}

static uint64_t same_hash(const void *keys, uint32_t number)
{
    (void)keys;
    (void)number;
    return UINT64_C(0x8000000000000007);
}

/* Put `count` keys into an index, each twice, and find them. */
static void put_and_find(uint64_t *keys, uint32_t count, hash_index_hash *hash_of)
{
    struct hash_index index = {0};
    uint64_t absent = UINT64_MAX;
    assert_int_equal(HASH_INDEX_FIND(&index, hash_of(keys, 0), i, i == 0), HASH_INDEX_NONE);
    for (uint32_t put = 0; put < 2 * count; put++) {
        uint32_t number = put / 2;
        assert_int_equal(hash_index_reserve(&index, number + put % 2, hash_of, keys), 0);
        uint32_t *slot = HASH_INDEX_SLOT(&index, hash_of(keys, number), i, keys[i] == keys[number]);
        assert_int_equal(*slot, put % 2 == 0 ? 0 : number + 1);
        *slot = number + 1;
    }
    assert_true(count <= index.size / 4 * 3);
    for (uint32_t number = 0; number < count; number++)
        assert_int_equal(HASH_INDEX_FIND(&index, hash_of(keys, number), i, keys[i] == keys[number]),
                         number);
    assert_int_equal(HASH_INDEX_FIND(&index, hash_of(&absent, 0), i, keys[i] == absent),
                     HASH_INDEX_NONE);
    hash_index_free(&index);
    assert_null(index.slots);
}

static void test_index_finds_what_was_put(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    uint64_t *keys = calloc(COUNT, sizeof(*keys));
    assert_non_null(keys);
    for (uint64_t i = 0; i < COUNT; i++)
        keys[i] = i % 2 == 0 ? i : i << 40;
    put_and_find(keys, COUNT, hash_of_key);
    free(keys);
}

/* Equal hashes cost time, but no item is lost. */
static void test_index_holds_items_of_equal_hashes(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    uint64_t keys[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        keys[i] = i;
    put_and_find(keys, COUNT, same_hash);
}

static void test_index_without_memory_is_unchanged(void **state)
{
    (void)state;
    const uint64_t key = 5;
    struct hash_index index = {0};
    no_memory = true;
    assert_int_equal(hash_index_reserve(&index, 0, hash_of_key, &key), -ENOMEM);
    no_memory = false;
    assert_int_equal(index.size, 0);
    assert_int_equal(hash_index_reserve(&index, 0, hash_of_key, &key), 0);
    *HASH_INDEX_SLOT(&index, hash_of_key(&key, 0), i, i == 0) = 1;
    struct hash_index before = index;
    no_memory = true;
    assert_int_equal(hash_index_reserve(&index, index.size, hash_of_key, &key), -ENOMEM);
    no_memory = false;
    assert_memory_equal(&index, &before, sizeof(index));
    assert_int_equal(HASH_INDEX_FIND(&index, hash_of_key(&key, 0), i, i == 0), 0);
    hash_index_free(&index);
}

/* A slot has 32 bits. An index of so many items would take 16 GiB, so none is allocated here. */
static void test_index_ends_before_numbers_do(void **state)
{
    (void)state;
    const size_t most = (size_t)3 << 30;
    struct hash_index index = {0}, full = {.size = (size_t)1 << 32};
    no_memory = true;
    assert_int_equal(hash_index_reserve(&index, most - 1, NULL, NULL), -ENOMEM);
    assert_int_equal(slots_wanted, full.size);
    slots_wanted = 0;
    assert_int_equal(hash_index_reserve(&full, most - 1, NULL, NULL), 0);
    assert_int_equal(hash_index_reserve(&full, most, NULL, NULL), -ENOMEM);
    assert_int_equal(hash_index_reserve(&full, UINT32_MAX, NULL, NULL), -ENOMEM);
    assert_int_equal(hash_index_reserve(&index, SIZE_MAX, NULL, NULL), -ENOMEM);
    assert_int_equal(slots_wanted, 0);
    no_memory = false;
}

/* Most keys share the hash of others. */
static uint64_t poor_hash(const void *keys, uint32_t number)
{
    return hash_of_key(keys, number) & 0xff;
}

/* Put and find keys at random, sometimes without memory, and compare with an array by key. */
static void agree_with_array(hash_index_hash *hash_of)
{
    enum { KEYS = 3000, STEPS = 20000 };
    uint64_t keys[KEYS + 1]; /* by number; after the last, the wanted one */
    uint32_t numbers[KEYS], count = 0;
    struct hash_index index = {0};
    memset(numbers, 0xff, sizeof(numbers));
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t key = keys[count] = random_below(KEYS);
        uint64_t hash = hash_of(keys, count);
        assert_int_equal(HASH_INDEX_FIND(&index, hash, i, keys[i] == key), numbers[key]);
        no_memory = random_below(4) == 0;
        int code = hash_index_reserve(&index, count, hash_of, keys);
        no_memory = false;
        assert_true(code == 0 || code == -ENOMEM);
        if (code == 0 && random_below(2) == 0) {
            uint32_t *slot = HASH_INDEX_SLOT(&index, hash, i, keys[i] == key);
            assert_int_equal(*slot - 1, numbers[key]);
            if (*slot == 0) {
                numbers[key] = count++;
                *slot = count;
            }
        }
        assert_true(count <= index.size / 4 * 3);
    }
    assert_true(count > KEYS / 2);
    for (uint64_t key = 0; key < KEYS; key++) {
        keys[count] = key;
        assert_int_equal(HASH_INDEX_FIND(&index, hash_of(keys, count), i, keys[i] == key),
                         numbers[key]);
    }
    hash_index_free(&index);
}

static void test_index_agrees_with_an_array(void **state)
{
    (void)state;
    agree_with_array(hash_of_key);
    agree_with_array(poor_hash);
}

/* --- id_map --- */

static void test_map_holds_every_id(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct id_map map = {0};
    assert_int_equal(id_map_find(&map, 0), ID_MAP_NONE);
    /* First distant ids, then consecutive ones up to them, so that the array takes over. */
    for (uint32_t round = 0; round < 2; round++) {
        for (uint64_t i = COUNT; i-- > 0;)
            assert_int_equal(id_map_set(&map, UINT64_MAX - i * i * i, (uint32_t)i + round), 0);
        for (uint64_t i = 0; i < COUNT; i += 3)
            assert_int_equal(id_map_set(&map, 3 * COUNT - i, (uint32_t)i + round), 0);
        for (uint64_t i = 0; i < COUNT; i++)
            assert_int_equal(id_map_set(&map, i, (uint32_t)(2 * i) + round), 0);
        for (uint64_t i = 0; i < COUNT; i++) {
            assert_int_equal(id_map_find(&map, UINT64_MAX - i * i * i), i + round);
            assert_int_equal(id_map_find(&map, i), 2 * i + round);
            assert_int_equal(id_map_find(&map, 3 * COUNT - i),
                             i % 3 == 0 ? (uint32_t)i + round : ID_MAP_NONE);
        }
    }
    assert_true(id_map_count(&map) >= 2 * COUNT);
    id_map_clear(&map);
    assert_int_equal(id_map_count(&map), 0);
    assert_int_equal(id_map_find(&map, 1), ID_MAP_NONE);
    assert_int_equal(id_map_find(&map, UINT64_MAX), ID_MAP_NONE);
    assert_int_equal(id_map_set(&map, UINT64_MAX, 7), 0);
    assert_int_equal(id_map_find(&map, UINT64_MAX), 7);
    id_map_free(&map);
}

static void test_map_without_memory_is_unchanged(void **state)
{
    (void)state;
    struct id_map map = {0};
    no_memory = true;
    assert_int_equal(id_map_set(&map, 3, 1), -ENOMEM);
    assert_int_equal(id_map_set(&map, UINT64_MAX, 1), -ENOMEM);
    no_memory = false;
    uint64_t id = 0;
    while (map.size == 0 || map.count < map.size / 4 * 3) {
        assert_int_equal(id_map_set(&map, UINT64_MAX - id, (uint32_t)id), 0);
        id++;
    }
    no_memory = true;
    assert_int_equal(id_map_set(&map, UINT64_MAX - id, 0), -ENOMEM);
    no_memory = false;
    assert_int_equal(id_map_find(&map, UINT64_MAX - id), ID_MAP_NONE);
    while (id-- > 0)
        assert_int_equal(id_map_find(&map, UINT64_MAX - id), id);
    id_map_free(&map);
}

/* The array may grow beyond an id that is in the table: both then know it. */
static void test_map_forgets_what_it_holds_twice(void **state)
{
    (void)state;
    struct id_map map = {0};
    assert_int_equal(id_map_set(&map, 300, 7), 0);
    for (uint32_t id = 0; id < 300; id++)
        assert_int_equal(id_map_set(&map, id, id), 0);
    assert_true(map.count == 1 && map.array_size > 300);
    assert_int_equal(id_map_find(&map, 300), 7);
    assert_int_equal(id_map_set(&map, 300, 8), 0);
    assert_int_equal(id_map_find(&map, 300), 8);
    id_map_forget(&map, 300);
    assert_int_equal(id_map_find(&map, 300), ID_MAP_NONE);
    assert_int_equal(id_map_set(&map, 300, 9), 0);
    assert_int_equal(id_map_set(&map, 300, ID_MAP_NONE), 0);
    assert_int_equal(id_map_find(&map, 300), ID_MAP_NONE);
    assert_int_equal(map.array_count, 300);
    id_map_forget(&map, 299);
    id_map_forget(&map, 299);
    id_map_forget(&map, UINT64_MAX);
    assert_int_equal(map.array_count, 299);
    id_map_free(&map);
    id_map_forget(&map, 1);
}

/* Set, forget and find ids at random, sometimes without memory, and compare with an array. */
static void test_map_agrees_with_an_array(void **state)
{
    (void)state;
    enum { IDS = 6000, STEPS = 60000 };
    uint64_t ids[IDS];
    uint32_t indexes[IDS];
    struct id_map map = {0};
    /* Ids that count up, others near them, and others far away that differ in few bits. */
    for (uint64_t i = 0; i < IDS; i++)
        ids[i] = i % 3 == 0 ? i / 3 : i % 3 == 1 ? 2000 + 4 * i : i << 44;
    memset(indexes, 0xff, sizeof(indexes));
    for (uint32_t step = 0; step < STEPS; step++) {
        /* From the first ids to all of them, as the array grows. */
        uint32_t at = random_below(step % 2 == 0 ? IDS : 1 + step / 10);
        assert_int_equal(id_map_find(&map, ids[at]), indexes[at]);
        if (random_below(4) == 0) {
            id_map_forget(&map, ids[at]);
            indexes[at] = ID_MAP_NONE;
            continue;
        }
        uint32_t index = random_below(5) == 0 ? ID_MAP_NONE : step;
        no_memory = random_below(4) == 0;
        int code = id_map_set(&map, ids[at], index);
        no_memory = false;
        assert_true(code == 0 || code == -ENOMEM);
        if (code == 0)
            indexes[at] = index;
        if (random_below(STEPS / 3) == 0) {
            id_map_clear(&map);
            memset(indexes, 0xff, sizeof(indexes));
        }
    }
    size_t known = 0, counted = 0;
    for (uint32_t i = 0; i < IDS; i++) {
        assert_int_equal(id_map_find(&map, ids[i]), indexes[i]);
        known += indexes[i] != ID_MAP_NONE;
    }
    for (size_t i = 0; i < map.array_size; i++)
        counted += map.array[i] != ID_MAP_NONE;
    assert_int_equal(counted, map.array_count);
    assert_true(counted > 0 && map.count > 0 && id_map_count(&map) >= known);
    id_map_free(&map);
}

/* Ids that count up from any number move into the array. Those that were there stay known. */
static void test_map_follows_runs(void **state)
{
    (void)state;
    static const uint64_t bases[] = {0, 2001, UINT64_C(1) << 40, UINT64_MAX - 4000, 5, 1000000};
    enum { RUNS = sizeof(bases) / sizeof(bases[0]) };
    struct id_map map = {0};
    for (uint32_t run = 0; run < RUNS; run++) {
        for (uint32_t i = 0; i < 500 * (run + 1); i++) {
            int code;
            do {
                no_memory = random_below(4) == 0;
                code = id_map_set(&map, bases[run] + i, run << 16 | i);
                no_memory = false;
            } while (code < 0);
        }
        if (run == 1) /* nearly all: the run is in the array, apart from its first ids */
            assert_true(map.base > bases[run] && map.base < bases[run] + 700 &&
                        map.array_count > 200);
        id_map_forget(&map, bases[run] + 499);
        assert_int_equal(id_map_find(&map, bases[run] + 499), ID_MAP_NONE);
    }
    for (uint32_t run = 0; run < RUNS; run++)
        for (uint32_t i = 0; i < 500 * (run + 1); i++)
            if (i != 499 && bases[run] + i >= 4000) /* the others overlap */
                assert_int_equal(id_map_find(&map, bases[run] + i), run << 16 | i);
    for (uint64_t id = 0; id < 2505; id++)
        assert_int_equal(id_map_find(&map, id) == ID_MAP_NONE, id == 504);
    id_map_free(&map);
}

/* --- sorted_search --- */

static void test_search_finds_the_first_that_is_not_before(void **state)
{
    (void)state;
    uint32_t keys[40];
    for (size_t i = 0; i < 40; i++)
        keys[i] = (uint32_t)(i / 3 * 2 + 1); /* 1 1 1 3 3 3 5 ... */
    for (size_t count = 0; count <= 40; count++) {
        for (uint32_t key = 0; key < 30; key++) {
            size_t first = 0, after = 0;
            while (first < count && keys[first] < key)
                first++;
            while (after < count && keys[after] <= key)
                after++;
            assert_int_equal(SORTED_SEARCH(count, i, keys[i] < key), first);
            assert_int_equal(SORTED_SEARCH(count, i, keys[i] <= key), after);
        }
    }
}

static void test_search_of_unsorted_items_ends(void **state)
{
    (void)state;
    const uint32_t keys[] = {9, 1, 8, 2, 7, 3, 6, 4, 5};
    for (uint32_t key = 0; key < 11; key++)
        assert_true(SORTED_SEARCH(9, i, keys[i] < key) <= 9);
    /* The middle of the largest arrays does not overflow. */
    assert_int_equal(SORTED_SEARCH(SIZE_MAX, i, i < SIZE_MAX - 1), SIZE_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_finds_what_was_put),
        cmocka_unit_test(test_index_holds_items_of_equal_hashes),
        cmocka_unit_test(test_index_without_memory_is_unchanged),
        cmocka_unit_test(test_index_ends_before_numbers_do),
        cmocka_unit_test(test_index_agrees_with_an_array),
        cmocka_unit_test(test_map_holds_every_id),
        cmocka_unit_test(test_map_without_memory_is_unchanged),
        cmocka_unit_test(test_map_forgets_what_it_holds_twice),
        cmocka_unit_test(test_map_agrees_with_an_array),
        cmocka_unit_test(test_map_follows_runs),
        cmocka_unit_test(test_search_finds_the_first_that_is_not_before),
        cmocka_unit_test(test_search_of_unsorted_items_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
