/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's hash tables: they hold every key, and chosen keys do not collide. */
#include "ledger_fixture.h"
#include "recorder/ledger/live_table.h"

static void test_live_table_holds_what_was_put(void **state)
{
    (void)state;
    enum { KEYS = 100000 };
    struct live_table table;
    live_table_init(&table);
    bool added;
    for (uint64_t i = 1; i <= KEYS; i++) {
        live_table_put(&table, i * 16, &added)->ordinal = (uint32_t)i;
        assert_true(added);
    }
    struct live_sample sample;
    for (uint64_t i = 1; i <= KEYS; i += 2)
        assert_true(live_table_remove(&table, i * 16, &sample) && sample.ordinal == i);
    for (uint64_t i = 1; i <= KEYS; i++)
        assert_true(live_table_remove(&table, i * 16, &sample) == (i % 2 == 0));
    assert_int_equal(0, table.count);
    live_table_clear(&table);
}

static void test_live_table_holds_every_number(void **state)
{
    (void)state;
    static const uint64_t keys[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63};
    struct live_table table;
    struct live_sample sample;
    live_table_init(&table);
    assert_null(live_table_find(&table, 0));
    for (uint32_t i = 0; i < 4; i++) {
        bool added;
        live_table_put(&table, keys[i], &added)->ordinal = i;
        assert_true(added);
        live_table_put(&table, keys[i], &added);
        assert_false(added);
    }
    assert_int_equal(4, table.count);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(live_table_remove(&table, keys[i], &sample));
        assert_int_equal(i, sample.ordinal);
        assert_false(live_table_remove(&table, keys[i], &sample));
    }
    assert_int_equal(0, table.count);
    live_table_clear(&table);
}

/* A model of the table: the ordinal of each number of a small range, 0 for none. */
static void test_live_table_keeps_neighbours_apart(void **state)
{
    (void)state;
    enum { KEYS = 8192, STEPS = 400000 };
    static uint32_t ordinals[KEYS];
    struct live_table table;
    struct live_sample removed;
    uint64_t random = 1, count = 0;
    live_table_init(&table);
    for (uint32_t step = 1; step <= STEPS; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* Dense, then sparse, then dense again. */
        bool frees = (random >> 40) % 8 < (step / 50000 % 2 != 0 ? 7 : 1), added;
        uint64_t key = (random >> 48) % KEYS, address = 0x7fff00000000 + key * 8;
        if (frees) {
            assert_true(live_table_remove(&table, address, &removed) == (ordinals[key] != 0));
            assert_true(ordinals[key] == 0 || removed.ordinal == ordinals[key]);
            count -= ordinals[key] != 0;
            ordinals[key] = 0;
            assert_null(live_table_find(&table, address));
        } else {
            struct live_sample *sample = live_table_put(&table, address, &added);
            assert_true(added == (ordinals[key] == 0));
            assert_true(added || sample->ordinal == ordinals[key]);
            count += added;
            *sample = (struct live_sample){.ordinal = ordinals[key] = step};
            assert_true(live_table_find(&table, address)->ordinal == step);
        }
        assert_int_equal(count, table.count);
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        const struct live_sample *found = live_table_find(&table, 0x7fff00000000 + key * 8);
        assert_int_equal(ordinals[key], found != NULL ? found->ordinal : 0);
    }
    live_table_clear(&table);
}

struct seen {
    uint64_t keys, count;
};

static void see(void *context, uint64_t key, const struct live_sample *sample)
{
    struct seen *seen = context;
    assert_int_equal((uint32_t)key, sample->ordinal);
    seen->keys += key;
    seen->count++;
}

static void test_live_table_visits_each_sample_once(void **state)
{
    (void)state;
    enum { KEYS = 10000 };
    struct live_table table;
    struct seen seen = {0, 0};
    uint64_t sum = 0;
    size_t visited = 0;
    live_table_init(&table);
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t key = i * (i % 3 == 0 ? 16 : 1001);
        bool added;
        live_table_put(&table, key, &added)->ordinal = (uint32_t)key;
        sum += added ? key : 0;
    }
    for (unsigned i = 0; i < LIVE_TABLE_SEGMENTS; i++)
        visited += live_table_visit(&table, i, see, &seen);
    assert_int_equal(table.count, visited);
    assert_int_equal(table.count, seen.count);
    assert_int_equal(sum, seen.keys);
    live_table_clear(&table);
}

/* Samples that come and go at addresses that never return must not fill the table for good. */
static void test_live_table_reuses_the_room_of_empty_regions(void **state)
{
    (void)state;
    struct live_table table;
    struct live_sample removed;
    bool added;
    live_table_init(&table);
    for (uint64_t i = 0; i < 1000000; i++) {
        assert_non_null(live_table_put(&table, i << 12, &added));
        assert_true(i < 100 || live_table_remove(&table, (i - 100) << 12, &removed));
    }
    for (unsigned i = 0; i < LIVE_TABLE_SEGMENTS; i++)
        assert_true(table.segments[i].capacity <= 64);
    live_table_clear(&table);
}

static uint64_t inverse(uint64_t odd)
{
    uint64_t found = odd;
    for (int i = 0; i < 6; i++)
        found *= 2 - odd * found;
    return found;
}

/* Return a number that a fixed mix (multiply, fold, multiply, fold) maps to `i << 32`. */
static uint64_t chosen_hash(uint64_t i)
{
    uint64_t value = i << 32;
    value ^= value >> 32;
    value *= inverse(UINT64_C(0xD6E8FEB86659FD93));
    value ^= value >> 32;
    return value * inverse(UINT64_C(0x9E3779B97F4A7C15));
}

/* The client supplies the hashes. Chosen ones must have probe distances like any others. */
static void test_chosen_stack_hashes_do_not_collide(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    struct callsite_tree tree;
    uint64_t far = 0;
    assert_int_equal(callsite_tree_init(&tree), 0);
    for (uint64_t i = 1; i <= COUNT; i++) {
        struct record_stack stack = {.hash = chosen_hash(i), .error = 1};
        assert_int_equal(callsite_tree_add_stack(&tree, &stack), 0);
    }
    const struct id_map *stacks = &tree.stacks;
    assert_int_equal(stacks->count, COUNT);
    for (size_t i = 0; i < stacks->size; i++) {
        if (stacks->entries[i].used)
            far += (i - keyed_hash(stacks->entries[i].id)) & (stacks->size - 1);
    }
    assert_true(far < 20 * COUNT);
    callsite_tree_clear(&tree);
}

/* Each hash function spreads numbers that differ in few bits. One random key in some hundreds is
 * a bad one for one of these series, so the key is fixed. */
static void test_keyed_hashes_spread(void **state)
{
    (void)state;
    keyed_hash_key = (struct keyed_hash_key){.left = UINT64_C(0x243F6A8885A308D3),
                                             .right = UINT64_C(0x13198A2E03707345)};
    enum { PLACES = 1 << 12 };
    for (unsigned shift = 0; shift < 52; shift++) {
        unsigned counts[3][PLACES] = {0}, most = 0;
        for (uint64_t i = 0; i < PLACES; i++) {
            counts[0][keyed_hash(i << shift) % PLACES]++;
            counts[1][keyed_hash_pair(i << shift, i) % PLACES]++;
            counts[2][keyed_hash(i << shift) / (UINT64_MAX / PLACES + 1)]++;
        }
        for (size_t i = 0; i < 3 * PLACES; i++)
            most = counts[i / PLACES][i % PLACES] > most ? counts[i / PLACES][i % PLACES] : most;
        assert_true(most < 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_table_holds_what_was_put),
        cmocka_unit_test(test_live_table_holds_every_number),
        cmocka_unit_test(test_live_table_keeps_neighbours_apart),
        cmocka_unit_test(test_live_table_visits_each_sample_once),
        cmocka_unit_test(test_live_table_reuses_the_room_of_empty_regions),
        cmocka_unit_test(test_chosen_stack_hashes_do_not_collide),
        cmocka_unit_test(test_keyed_hashes_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
