/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges against a naive map of pages. */
#include "recorder/ledger/ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "uint_in_range.h"

enum { PAGES = 600, PAGE = 4096, OPERATIONS = 40000 / FEWER_ROUNDS };

/* For each page: the number of the operation that mapped it, from 1; 0: not mapped. */
struct scene {
    struct ranges ranges;
    uint32_t pages[PAGES];
    uint32_t live_pages[OPERATIONS + 1]; /* by operation */
    uint64_t freed_bytes[OPERATIONS + 1];
    uint32_t ended[OPERATIONS + 1];
    uint64_t last_address;
};

static uint32_t random_below(uint32_t *state, uint32_t limit)
{
    *state = *state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*state * limit >> 32);
}

/* An operation is identified both by its position and by its figures. */
static void note_freed(void *context, const struct range_allocation *allocation, uint64_t bytes)
{
    struct scene *scene = context;
    assert_uint_in_range(allocation->figures, 1, OPERATIONS);
    assert_int_equal(allocation->position, allocation->figures);
    assert_true(bytes > 0 && bytes % PAGE == 0);
    scene->freed_bytes[allocation->figures] += bytes;
    scene->ended[allocation->figures] += allocation->pieces == 0;
}

static void forget_pages(struct scene *scene, uint32_t first, uint32_t count, uint32_t before)
{
    for (uint32_t page = first; page < first + count; page++) {
        uint32_t whose = scene->pages[page];
        if (whose == 0 || whose >= before)
            continue;
        scene->live_pages[whose]--;
        scene->pages[page] = 0;
    }
}

static void map_pages(struct scene *scene, uint32_t first, uint32_t count, uint32_t operation)
{
    const struct range_allocation allocation = {.address = (uint64_t)first * PAGE,
                                                .size = (uint64_t)count * PAGE,
                                                .position = operation,
                                                .figures = operation};
    assert_int_equal(ranges_add(&scene->ranges, &allocation, note_freed, scene), 0);
    forget_pages(scene, first, count, UINT32_MAX);
    for (uint32_t page = first; page < first + count; page++)
        scene->pages[page] = operation;
    scene->live_pages[operation] = count;
}

/* Check the tree's invariants. Return the number of pieces. */
static uint32_t check_tree(struct scene *scene, uint32_t index, uint32_t above_priority,
                           uint64_t *oldest)
{
    const struct ranges *ranges = &scene->ranges;
    if (index == 0)
        return 0;
    const struct range_piece *piece = &ranges->pieces[index];
    const struct range_allocation *allocation = &ranges->allocations[piece->allocation];
    uint64_t least = allocation->position;
    assert_true(piece->priority <= above_priority);
    uint32_t count = check_tree(scene, piece->left, piece->priority, &least);
    assert_true(piece->start >= scene->last_address && piece->start < piece->end);
    assert_true(piece->start >= allocation->address &&
                piece->end <= allocation->address + allocation->size);
    for (uint64_t page = piece->start / PAGE; page < piece->end / PAGE; page++)
        assert_int_equal(scene->pages[page], allocation->figures);
    scene->last_address = piece->end;
    count += 1 + check_tree(scene, piece->right, piece->priority, &least);
    assert_int_equal(piece->oldest, least);
    if (least < *oldest)
        *oldest = least;
    return count;
}

static void check_scene(struct scene *scene, uint32_t operation)
{
    uint64_t oldest = UINT64_MAX, mapped = 0, known = 0;
    scene->last_address = 0;
    assert_int_equal(check_tree(scene, scene->ranges.root, UINT32_MAX, &oldest),
                     scene->ranges.live_pieces);
    for (uint32_t page = 0; page < PAGES; page++)
        mapped += scene->pages[page] != 0;
    for (uint32_t i = 1; i <= operation; i++)
        known += scene->live_pages[i];
    assert_int_equal(mapped, known);
}

static void random_operations(uint32_t seed, bool with_positions)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    uint32_t *mapped = calloc(OPERATIONS + 1, sizeof(*mapped)), state = seed;
    assert_true(scene != NULL && mapped != NULL);
    ranges_init(&scene->ranges, seed);
    for (uint32_t operation = 1; operation <= OPERATIONS; operation++) {
        uint32_t first = random_below(&state, PAGES);
        uint32_t most = random_below(&state, 4) == 0 ? PAGES - first : (PAGES - first) / 20 + 1;
        uint32_t count = 1 + random_below(&state, most);
        if (random_below(&state, 5) < 3) {
            map_pages(scene, first, count, operation);
            mapped[operation] = count;
        } else {
            uint32_t before = operation;
            if (with_positions && random_below(&state, 2) == 0)
                before -= random_below(&state, operation < 100 ? operation : 100);
            assert_int_equal(ranges_cut(&scene->ranges, (uint64_t)first * PAGE,
                                        (uint64_t)(first + count) * PAGE, before, note_freed,
                                        scene),
                             0);
            forget_pages(scene, first, count, before);
        }
        if (operation % 50 == 0)
            check_scene(scene, operation);
    }
    for (uint32_t i = 1; i <= OPERATIONS; i++) {
        assert_int_equal(scene->freed_bytes[i],
                         (uint64_t)(mapped[i] - scene->live_pages[i]) * PAGE);
        assert_int_equal(scene->ended[i], mapped[i] > 0 && scene->live_pages[i] == 0);
    }
    ranges_clear(&scene->ranges);
    free(mapped);
    free(scene);
}

static void unmapped_memory_is_freed(void **unused)
{
    (void)unused;
    for (uint32_t seed = 1; seed <= 5; seed++)
        random_operations(seed, false);
}

static void newer_mappings_stay(void **unused)
{
    (void)unused;
    for (uint32_t seed = 1; seed <= 5; seed++)
        random_operations(seed, true);
}

struct sum {
    uint64_t bytes, ended;
};

static void add_up(void *context, const struct range_allocation *allocation, uint64_t bytes)
{
    struct sum *sum = context;
    sum->bytes += bytes;
    sum->ended += allocation->pieces == 0;
}

static void whole_address_space(void **unused)
{
    (void)unused;
    struct ranges ranges;
    struct sum sum = {0};
    ranges_init(&ranges, 1);
    struct range_allocation all = {.address = 0, .size = UINT64_MAX, .position = 1};
    assert_int_equal(ranges_add(&ranges, &all, add_up, &sum), 0);
    struct range_allocation end = {.address = UINT64_MAX - 1, .size = 1, .position = 2};
    assert_int_equal(ranges_add(&ranges, &end, add_up, &sum), 0);
    assert_int_equal(sum.bytes, 1);
    assert_int_equal(ranges_cut(&ranges, 5, 5, UINT64_MAX, add_up, &sum), 0);
    assert_int_equal(ranges_cut(&ranges, 6, 5, UINT64_MAX, add_up, &sum), 0);
    assert_int_equal(sum.bytes, 1);
    assert_int_equal(ranges_cut(&ranges, 1, UINT64_MAX, UINT64_MAX, add_up, &sum), 0);
    assert_true(sum.bytes == UINT64_MAX && sum.ended == 1);
    assert_int_equal(ranges_cut(&ranges, 0, UINT64_MAX, UINT64_MAX, add_up, &sum), 0);
    assert_true(sum.bytes == 0 && sum.ended == 2); /* 2^64 in total */
    assert_int_equal(ranges.live_pieces, 0);
    ranges_clear(&ranges);
}

/* Sorted, which makes a list of a plain tree; then every second one, then all. */
static void many_in_order(void **unused)
{
    (void)unused;
    enum { MANY = 500000 / FEWER_ROUNDS };
    struct ranges ranges;
    struct sum sum = {0};
    ranges_init(&ranges, 7);
    for (uint64_t i = 0; i < MANY; i++) {
        struct range_allocation one = {.address = i * PAGE, .size = PAGE, .position = i + 1};
        assert_int_equal(ranges_add(&ranges, &one, add_up, &sum), 0);
    }
    assert_int_equal(ranges.live_pieces, MANY);
    size_t capacity = ranges.piece_capacity;
    for (uint64_t i = 0; i < MANY; i += 2)
        assert_int_equal(ranges_cut(&ranges, i * PAGE, (i + 1) * PAGE, UINT64_MAX, add_up, &sum),
                         0);
    assert_true(sum.ended == MANY / 2 && ranges.live_pieces == MANY / 2);
    for (uint64_t i = 0; i < MANY; i += 2) {
        struct range_allocation one = {.address = i * PAGE, .size = PAGE, .position = MANY};
        assert_int_equal(ranges_add(&ranges, &one, add_up, &sum), 0);
    }
    assert_int_equal(ranges.piece_capacity, capacity); /* freed pieces are reused */
    assert_int_equal(ranges_cut(&ranges, 0, UINT64_MAX, UINT64_MAX, add_up, &sum), 0);
    assert_true(sum.ended == MANY + MANY / 2 && ranges.live_pieces == 0);
    ranges_clear(&ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unmapped_memory_is_freed),
        cmocka_unit_test(newer_mappings_stay),
        cmocka_unit_test(whole_address_space),
        cmocka_unit_test(many_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
