/* SPDX-License-Identifier: Apache-2.0 */
/* Memory ranges in the ledger: the remaining bytes of each callsite after every kind of
 * unmapping. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/ledger/ledger.h"

enum { HEAP = 3, ONE = LEDGER_INTERVALS_OF_MALLOC, PAGE = 4096 };

static struct ledger *open_ledger(void)
{
    struct ledger *ledger = ledger_open(4096);
    assert_non_null(ledger);
    for (uint64_t hash = 1; hash <= 3; hash++) {
        uint64_t words[sizeof(struct record_stack) / 8 + 1] = {0};
        struct record_stack *record = (void *)words;
        record->hash = hash;
        record->count = 1;
        record->frames[0] = hash;
        assert_int_equal(0, ledger_visitor.stack(ledger, record));
    }
    assert_int_equal(0, ledger_visitor.thread(ledger, 0, 10, "main"));
    assert_int_equal(0, ledger_visitor.thread(ledger, 1, 11, "worker"));
    assert_int_equal(0, ledger_visitor.interval(ledger, 1, ONE, 1));
    assert_int_equal(0, ledger_visitor.heap(ledger, HEAP, 1, "libc.mmap"));
    return ledger;
}

static struct heap_event mapped(uint64_t address, uint64_t size, uint64_t stack, uint64_t position)
{
    return (struct heap_event){.type = RECORD_ALLOC,
                               .heap = HEAP,
                               .interval = ONE,
                               .flags = RECORD_ALLOC_RANGE,
                               .address = address,
                               .size = size,
                               .stack = stack,
                               .position = position};
}

static int map(struct ledger *ledger, struct heap_event event)
{
    return ledger_visitor.events(ledger, &event, 1);
}

static int unmap(struct ledger *ledger, uint64_t address, uint64_t length, uint64_t before)
{
    const struct record_unmap record = {
        .address = address, .length = length, .before = before, .time_ms = 500, .ordinal = 1};
    return ledger_visitor.unmap(ledger, HEAP, 0, &record, record.time_ms);
}

static struct ledger_figures figures_at(const struct ledger *ledger, uint64_t pc)
{
    struct ledger_figures found = {0};
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures figures = ledger_figures(ledger, i);
        if (ledger_callsites(ledger)->nodes[figures.node].pc == pc)
            found = figures;
    }
    return found;
}

static void expect(const struct ledger *ledger, uint64_t pc, double bytes, double count)
{
    const struct trace_figures sums = figures_at(ledger, pc).sums;
    assert_true(sums.allocated_bytes - sums.freed_bytes == bytes);
    assert_true(sums.allocated_count - sums.freed_count == count);
}

static void test_pieces_stay_with_their_callsite(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger();
    assert_int_equal(0, map(ledger, mapped(100 * PAGE, 10 * PAGE, 1, 8)));
    assert_int_equal(0, map(ledger, mapped(110 * PAGE, 4 * PAGE, 2, 72)));
    assert_int_equal(0, unmap(ledger, 103 * PAGE, 2 * PAGE, 200)); /* splits the first */
    expect(ledger, 1, 8 * PAGE, 1);
    assert_int_equal(0, unmap(ledger, 108 * PAGE, 4 * PAGE, 200)); /* of both */
    expect(ledger, 1, 6 * PAGE, 1);
    expect(ledger, 2, 2 * PAGE, 1);
    assert_int_equal(0, map(ledger, mapped(104 * PAGE, 2 * PAGE, 3, 300))); /* over an existing
                                                                             * one */
    expect(ledger, 1, 5 * PAGE, 1);
    expect(ledger, 3, 2 * PAGE, 1);
    assert_int_equal(0, unmap(ledger, 0, UINT64_MAX, 1000));
    for (uint64_t pc = 1; pc <= 3; pc++)
        expect(ledger, pc, 0, 0);
    assert_true(ledger_live_bytes(ledger) == 0);
    assert_int_equal(3, ledger_counts(ledger).frees);
    assert_int_equal(0, ledger_counts(ledger).live_samples);
    /* From the time of the mapping to the time of the last unmapping. */
    assert_true(figures_at(ledger, 1).sums.lifetime_ms_sum == 500);
    ledger_close(ledger);
}

static void test_newer_mapping_is_not_unmapped(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger();
    assert_int_equal(0, map(ledger, mapped(10 * PAGE, 4 * PAGE, 1, 8)));
    /* The range is unmapped, and another thread maps half of it; that thread's record comes
     * first. */
    assert_int_equal(0, map(ledger, mapped(10 * PAGE, 2 * PAGE, 2, 72)));
    assert_int_equal(0, unmap(ledger, 10 * PAGE, 4 * PAGE, 72));
    expect(ledger, 1, 0, 0);
    expect(ledger, 2, 2 * PAGE, 1);
    ledger_close(ledger);
}

static void test_peak_counts_what_is_left(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger();
    assert_int_equal(0, map(ledger, mapped(10 * PAGE, 8 * PAGE, 1, 8)));
    assert_int_equal(0, unmap(ledger, 12 * PAGE, 6 * PAGE, 200));
    assert_int_equal(0, map(ledger, mapped(100 * PAGE, 7 * PAGE, 2, 300)));
    assert_int_equal(0, unmap(ledger, 0, UINT64_MAX, 1000));
    size_t count;
    const struct ledger_heap *heap = &ledger_heaps(ledger, &count)[HEAP];
    assert_true(heap->peak_bytes == 9 * PAGE && heap->peak_count == 2);
    assert_true(figures_at(ledger, 1).peak.bytes == 2 * PAGE);
    assert_true(figures_at(ledger, 2).peak.bytes == 7 * PAGE);
    ledger_close(ledger);
}

static void test_temporary_is_unmapped_whole_and_next(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger();
    struct heap_event event = mapped(10 * PAGE, 8 * PAGE, 1, 8);
    event.ordinal = 1;
    assert_int_equal(0, map(ledger, event));
    assert_int_equal(0, unmap(ledger, 10 * PAGE, 8 * PAGE, 200));
    assert_true(figures_at(ledger, 1).sums.temporary_count == 1);
    event.stack = 2;
    assert_int_equal(0, map(ledger, event));
    assert_int_equal(0, unmap(ledger, 10 * PAGE, 7 * PAGE, 200));
    assert_int_equal(0, unmap(ledger, 17 * PAGE, PAGE, 200));
    assert_true(figures_at(ledger, 2).sums.temporary_count == 0);
    event.stack = 3;
    event.thread = 1;
    assert_int_equal(0, map(ledger, event));
    assert_int_equal(0, unmap(ledger, 10 * PAGE, 8 * PAGE, 200));
    assert_true(figures_at(ledger, 3).sums.temporary_count == 0);
    ledger_close(ledger);
}

static void test_refuses_what_no_client_would_send(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger();
    assert_int_equal(-EBADMSG, map(ledger, mapped(10, 0, 1, 8)));
    assert_int_equal(-EBADMSG, map(ledger, mapped(10, UINT64_MAX, 1, 8)));
    struct heap_event event = mapped(10, 1, 1, 8);
    event.heap = 0;
    assert_int_equal(-EBADMSG, map(ledger, event));
    event = mapped(10, 1, 1, 8);
    event.interval = 0; /* that of 4096 bytes */
    assert_int_equal(-EBADMSG, map(ledger, event));
    assert_int_equal(0, unmap(ledger, 0, UINT64_MAX, 8)); /* before the first */
    assert_int_equal(0, map(ledger, mapped(10, 1, 2, 8)));
    assert_int_equal(-EBADMSG, unmap(ledger, 10, UINT64_MAX, 8));
    expect(ledger, 2, 1, 1);
    ledger_close(ledger);
}

struct sum {
    double live;
    unsigned freed;
};

static void add_up(void *context, const struct ledger_change *change)
{
    struct sum *sum = context;
    bool allocated = change->kind == LEDGER_ALLOCATED;
    sum->live += (allocated ? 1 : -1) * change->count * (double)change->size;
    sum->freed += !allocated;
}

static void test_observer_hears_of_the_last_unmapping(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger();
    struct sum sum = {0};
    ledger_observe(ledger, add_up, &sum);
    assert_int_equal(0, map(ledger, mapped(10 * PAGE, 8 * PAGE, 1, 8)));
    assert_int_equal(0, unmap(ledger, 12 * PAGE, 2 * PAGE, 200));
    assert_true(sum.live == 8 * PAGE && sum.freed == 0);
    assert_int_equal(0, unmap(ledger, 0, UINT64_MAX, 200));
    assert_true(sum.live == 0 && sum.freed == 1);
    ledger_close(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_stay_with_their_callsite),
        cmocka_unit_test(test_newer_mapping_is_not_unmapped),
        cmocka_unit_test(test_peak_counts_what_is_left),
        cmocka_unit_test(test_temporary_is_unmapped_whole_and_next),
        cmocka_unit_test(test_refuses_what_no_client_would_send),
        cmocka_unit_test(test_observer_hears_of_the_last_unmapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
