/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's heaps, types and contexts are counted separately, also in batches. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "ledger_fixture.h"

/* Make an allocation or free of one of a few addresses in two heaps, by one of two threads. Some
 * stacks and types were never sent. */
static struct heap_event random_event(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = (uint32_t)(*random >> 33);
    struct heap_event event = bits & 1 ? free_event(16 * (1 + bits / 2 % 500))
                                       : alloc_event(16 * (1 + bits / 2 % 500), bits / 1000 % 300,
                                                     1 + bits / 4 % (FIXTURE_STACKS + 5));
    event.thread = bits >> 20 & 1;
    event.heap = bits >> 21 & 1;
    event.type_hash = bits >> 22 & 3;
    event.context_hash = bits >> 24 & 1 ? 10 : 0;
    return event;
}

static void assert_same_figures(const struct ledger *one, const struct ledger *two)
{
    assert_int_equal(ledger_figures_count(one), ledger_figures_count(two));
    for (size_t i = 0; i < ledger_figures_count(one); i++) {
        struct ledger_figures a = ledger_figures(one, i), b = ledger_figures(two, i);
        assert_memory_equal(&a, &b, sizeof(a));
    }
}

static void test_batch_is_its_events_one_by_one(void **state)
{
    (void)state;
    struct ledger *batches = open_ledger(100), *single = open_ledger(100);
    struct heap_event events[200];
    uint64_t random = 7;
    for (unsigned i = 0; i < 2; i++) {
        add_name(i == 0 ? batches : single, 1, "Node");
        add_name(i == 0 ? batches : single, 2, "parse");
        add_context(i == 0 ? batches : single, 10, 2, 1);
    }
    for (unsigned round = 0; round < 500; round++) {
        size_t count = 1 + round % (sizeof(events) / sizeof(events[0]));
        for (size_t i = 0; i < count; i++) {
            events[i] = random_event(&random);
            apply(single, events[i]);
        }
        assert_int_equal(0, ledger_visitor.events(batches, events, count));
    }
    assert_same_figures(single, batches);
    ledger_close(batches);
    ledger_close(single);
}

/* --- heaps of programs --- */

#define OF_HEAPS LEDGER_INTERVALS_OF_MALLOC

static struct heap_event in_heap(struct heap_event event, uint8_t heap)
{
    event.heap = heap;
    if (event.type == RECORD_ALLOC)
        event.interval = OF_HEAPS;
    return event;
}

static struct trace_figures heap_sums(const struct ledger *ledger, uint8_t heap)
{
    struct trace_figures sum = {0};
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures part = ledger_figures(ledger, i);
        if (part.heap != heap)
            continue;
        sum.allocated_bytes += part.sums.allocated_bytes;
        sum.allocated_count += part.sums.allocated_count;
        sum.freed_bytes += part.sums.freed_bytes;
        sum.freed_count += part.sums.freed_count;
        sum.allocated_bytes_variance += part.sums.allocated_bytes_variance;
        sum.temporary_count += part.sums.temporary_count;
    }
    return sum;
}

static void test_ids_of_heaps_are_any_number(void **state)
{
    (void)state;
    static const uint64_t ids[] = {
        0, 1, 0x1000, UINT64_C(1) << 48, UINT64_C(255) << 48, UINT64_MAX - 1, UINT64_MAX};
    enum { IDS = sizeof(ids) / sizeof(ids[0]) };
    struct ledger *ledger = open_ledger(1);
    assert_int_equal(0, ledger_visitor.interval(ledger, 1, OF_HEAPS, 1));
    for (unsigned heap = 1; heap < LEDGER_HEAPS_MAX; heap++) {
        assert_int_equal(0, ledger_visitor.heap(ledger, (uint8_t)heap, 1, "pool"));
        for (size_t i = 0; i < IDS; i++)
            apply(ledger, in_heap(alloc_event(ids[i], 1 + i, 1), (uint8_t)heap));
    }
    apply(ledger, alloc_event(0x1000, 1000, 1));
    assert_int_equal(255 * IDS + 1, ledger_counts(ledger).live_samples);
    assert_int_equal(0, ledger_counts(ledger).implicit_frees);
    /* Each free belongs to its own heap. */
    apply(ledger, in_heap(free_event(0), 3));
    apply(ledger, in_heap(free_event(UINT64_MAX), 255));
    apply(ledger, in_heap(free_event(0x1000), 3));
    assert_true(heap_sums(ledger, 3).freed_bytes == 1 + 3);
    assert_true(heap_sums(ledger, 255).freed_bytes == 7);
    assert_true(heap_sums(ledger, 4).freed_bytes == 0 && heap_sums(ledger, 0).freed_bytes == 0);
    apply(ledger, in_heap(free_event(0), 3));
    assert_int_equal(1, ledger_counts(ledger).unknown_frees);
    /* Two allocations without a free: the first one counts as freed. */
    apply(ledger, in_heap(alloc_event(0, 50, 1), 4));
    assert_int_equal(1, ledger_counts(ledger).implicit_frees);
    assert_true(heap_sums(ledger, 4).freed_bytes == 1 && heap_sums(ledger, 4).freed_count == 1);
    ledger_close(ledger);
}

static void test_heaps_weigh_by_their_own_interval(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    assert_int_equal(0, ledger_visitor.interval(ledger, 1, OF_HEAPS, 100));
    assert_int_equal(0, ledger_visitor.heap(ledger, 1, 100, "pool"));
    apply(ledger, in_heap(alloc_event(1, 50, 1), 1));
    double p = 1 - exp(-0.5);
    assert_true(fabs(heap_sums(ledger, 1).allocated_bytes - 50 / p) < 1e-9);
    /* Malloc's interval is unchanged. */
    assert_int_equal(4096, ledger_interval_bytes(ledger));
    size_t count;
    assert_int_equal(100, ledger_heaps(ledger, &count)[1].interval_bytes);
    ledger_close(ledger);
}

static void test_samples_of_the_program_stand_for_themselves(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    assert_int_equal(0, ledger_visitor.interval(ledger, 1, OF_HEAPS, 1 << 20));
    struct heap_event event = in_heap(alloc_event(0, 50, 1), 1);
    event.flags = RECORD_ALLOC_WEIGHED;
    event.ordinal = 77;
    apply(ledger, event);
    event.address = 1;
    apply(ledger, event);
    apply(ledger, in_heap(free_event(0), 1));
    struct trace_figures sums = heap_sums(ledger, 1);
    assert_true(sums.allocated_bytes == 100 && sums.allocated_count == 2);
    assert_true(sums.freed_bytes == 50 && sums.allocated_bytes_variance == 0);
    assert_true(sums.temporary_count == 0);
    size_t count;
    assert_int_equal(2, ledger_heaps(ledger, &count)[1].weighed_samples);
    ledger_close(ledger);
}

static void test_null_is_an_address_except_for_malloc(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    struct heap_event event = alloc_event(0, 8, 1);
    assert_int_equal(-EBADMSG, ledger_visitor.events(ledger, &event, 1));
    ledger_close(ledger);
    /* If malloc is not profiled, its samples do not count, and are no damage. */
    ledger = open_ledger(0);
    apply(ledger, alloc_event(16, 8, 1));
    apply(ledger, free_event(16));
    assert_int_equal(0, ledger_figures_count(ledger));
    event = in_heap(alloc_event(16, 8, 1), 1);
    assert_int_equal(-EBADMSG, ledger_visitor.events(ledger, &event, 1));
    ledger_close(ledger);
}

/* --- types and contexts --- */

static struct heap_event tagged(struct heap_event event, uint64_t type, uint64_t context)
{
    event.type_hash = type;
    event.context_hash = context;
    return event;
}

/* Return the bytes with this type and innermost scope. */
static double tagged_bytes(const struct ledger *ledger, const char *type, const char *scope)
{
    const struct tags *tags = ledger_tags(ledger);
    double sum = 0;
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures part = ledger_figures(ledger, i);
        const struct tag *tag = &tags->items[part.tag];
        const char *inner = tags_context_depth(tags, tag->context) > 0
                                ? tags_scope_name(tags, tag->context, 0)
                                : "";
        if (strcmp(type, tags_type_name(tags, tag->type)) == 0 && strcmp(scope, inner) == 0)
            sum += part.sums.allocated_bytes - part.sums.freed_bytes;
    }
    return sum;
}

static void test_figures_are_separate_by_type_and_context(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    add_name(ledger, 11, "Node");
    add_name(ledger, 12, "parse");
    add_name(ledger, 13, "main loop");
    add_context(ledger, 20, 12, 13);
    apply(ledger, alloc_event(0x10, 1, 1));
    apply(ledger, tagged(alloc_event(0x20, 2, 1), 11, 0));
    apply(ledger, tagged(alloc_event(0x30, 4, 1), 0, 20));
    apply(ledger, tagged(alloc_event(0x40, 8, 1), 11, 20));
    /* Neither inherits from the previous allocation. */
    apply(ledger, alloc_event(0x50, 16, 1));
    apply(ledger, tagged(alloc_event(0x60, 32, 1), 11, 20));
    apply(ledger, free_event(0x40));
    assert_true(tagged_bytes(ledger, "", "") == 17);
    assert_true(tagged_bytes(ledger, "Node", "") == 2);
    assert_true(tagged_bytes(ledger, "", "parse") == 4);
    assert_true(tagged_bytes(ledger, "Node", "parse") == 32);
    assert_string_equal("main loop", tags_scope_name(ledger_tags(ledger), 2, 1));
    /* Ids without names. */
    apply(ledger, tagged(alloc_event(0x70, 64, 1), 77, 78));
    assert_true(tagged_bytes(ledger, TAGS_OTHER_TYPES, TAGS_OTHER_CONTEXTS) == 64);
    assert_int_equal(1, ledger_counts(ledger).other_types);
    assert_int_equal(1, ledger_counts(ledger).other_contexts);
    ledger_close(ledger);
}

static void test_types_beyond_the_bound_are_counted(void **state)
{
    (void)state;
    enum { TYPES = 200000 };
    struct ledger *ledger = open_ledger(1);
    double others = 0;
    for (uint64_t i = 1; i <= TYPES; i++) {
        char text[32];
        snprintf(text, sizeof(text), "type %u", (unsigned)i);
        add_name(ledger, i, text);
        apply(ledger, tagged(alloc_event(16 * i, 1, 1), i, 0));
    }
    others = tagged_bytes(ledger, TAGS_OTHER_TYPES, "");
    assert_true(others >= TYPES - TAGS_TYPES_MAX && others <= TYPES - TAGS_TYPES_MAX + 2);
    assert_true((double)ledger_counts(ledger).other_types == others);
    assert_true(ledger_tags(ledger)->names_refused > 0);
    assert_true(tagged_bytes(ledger, "type 1000", "") == 1);
    ledger_close(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_is_its_events_one_by_one),
        cmocka_unit_test(test_ids_of_heaps_are_any_number),
        cmocka_unit_test(test_heaps_weigh_by_their_own_interval),
        cmocka_unit_test(test_samples_of_the_program_stand_for_themselves),
        cmocka_unit_test(test_null_is_an_address_except_for_malloc),
        cmocka_unit_test(test_figures_are_separate_by_type_and_context),
        cmocka_unit_test(test_types_beyond_the_bound_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
