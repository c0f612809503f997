/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: estimates with their variances, peaks, and what a free may be. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/ledger/ledger.h"

#define STACKS 40

static struct ledger *open_ledger(uint64_t interval)
{
    struct ledger *ledger = ledger_open(interval);
    assert_non_null(ledger);
    for (uint64_t hash = 1; hash <= STACKS; hash++) {
        uint64_t words[sizeof(struct record_stack) / 8 + 3] = {0};
        struct record_stack *record = (void *)words;
        record->hash = hash;
        record->count = 3;
        memcpy(record->frames, (const uint64_t[]){hash, 1000, 2000}, 3 * sizeof(uint64_t));
        assert_int_equal(0, ledger_visitor.stack(ledger, record));
    }
    assert_int_equal(0, ledger_thread(ledger, 0, 10, "main"));
    assert_int_equal(0, ledger_thread(ledger, 1, 11, "worker"));
    return ledger;
}

static struct heap_event alloc_event(uint64_t address, uint64_t size, uint64_t stack)
{
    return (struct heap_event){
        .type = RECORD_ALLOC, .address = address, .size = size, .stack = stack};
}

static struct heap_event free_event(uint64_t address)
{
    return (struct heap_event){.type = RECORD_FREE, .address = address, .ordinal = 77};
}

static void apply(struct ledger *ledger, struct heap_event event)
{
    assert_int_equal(0, ledger_events(ledger, &event, 1));
}

/* Sum of all figures of the callsite with this innermost pc; 0: of all callsites. */
static struct ledger_figures figures_at(const struct ledger *ledger, uint64_t pc)
{
    struct ledger_figures sum = {0};
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures part = ledger_figures(ledger, i);
        if (pc != 0 && ledger_callsites(ledger)->nodes[part.node].pc != pc)
            continue;
        sum.sums.allocated_bytes += part.sums.allocated_bytes;
        sum.sums.allocated_count += part.sums.allocated_count;
        sum.sums.freed_bytes += part.sums.freed_bytes;
        sum.sums.freed_count += part.sums.freed_count;
        sum.sums.allocated_bytes_variance += part.sums.allocated_bytes_variance;
        sum.sums.allocated_count_variance += part.sums.allocated_count_variance;
        sum.sums.freed_bytes_variance += part.sums.freed_bytes_variance;
        sum.sums.samples += part.sums.samples;
        sum.sums.freed_samples += part.sums.freed_samples;
        sum.sums.temporary_bytes += part.sums.temporary_bytes;
        sum.sums.temporary_count += part.sums.temporary_count;
        sum.sums.lifetime_ms_sum += part.sums.lifetime_ms_sum;
        sum.peak.bytes += part.peak.bytes;
        sum.peak.count += part.peak.count;
    }
    return sum;
}

static void test_interval_one_is_exact(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    apply(ledger, alloc_event(0x1000, 100, 1));
    apply(ledger, alloc_event(0x2000, 0, 1));
    apply(ledger, alloc_event(0x3000, UINT64_C(5) << 32, 2));
    apply(ledger, free_event(0x3000));
    struct ledger_figures one = figures_at(ledger, 1), two = figures_at(ledger, 2);
    assert_true(one.sums.allocated_bytes == 100 && one.sums.allocated_count == 2);
    assert_true(one.sums.freed_count == 0 && one.sums.allocated_bytes_variance == 0);
    assert_true(two.sums.allocated_bytes == (double)(UINT64_C(5) << 32));
    assert_true(two.sums.freed_bytes == two.sums.allocated_bytes);
    assert_true(ledger_live_bytes(ledger) == 100);
    ledger_close(ledger);
}

static void test_weights_follow_horvitz_and_thompson(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 64, 4096, 18000, 18863, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct ledger *ledger = open_ledger(4096);
        double s = (double)sizes[i], p = 1 - exp(-(s > 1 ? s : 1) / 4096);
        if (s >= 4096 * log(100))
            p = 1;
        apply(ledger, alloc_event(0x1000, sizes[i], 1));
        struct trace_figures sums = figures_at(ledger, 1).sums;
        assert_true(fabs(sums.allocated_count - 1 / p) <= 1e-9 / p);
        assert_true(fabs(sums.allocated_bytes - s / p) <= 1e-9 * s / p);
        double variance = (1 - p) / (p * p);
        assert_true(fabs(sums.allocated_count_variance - variance) <= 1e-9 * variance);
        assert_true(fabs(sums.allocated_bytes_variance - s * s * variance) <=
                    1e-9 * s * s * variance);
        ledger_close(ledger);
    }
}

/* Draws samples as the rule says: the mean of the estimates is the truth, and the
 * mean of the estimated variances their variance. */
static void test_estimates_are_unbiased(void **state)
{
    (void)state;
    enum { RUNS = 400, ALLOCATIONS = 3000, SIZE = 200 };
    double sum = 0, square_sum = 0, variance_sum = 0, truth = (double)ALLOCATIONS * SIZE;
    double p = 1 - exp(-(double)SIZE / 4096);
    srand48(1);
    for (int run = 0; run < RUNS; run++) {
        struct ledger *ledger = open_ledger(4096);
        for (uint64_t i = 1; i <= ALLOCATIONS; i++)
            if (drand48() < p)
                apply(ledger, alloc_event(i * 16, SIZE, 1));
        struct trace_figures sums = figures_at(ledger, 1).sums;
        sum += sums.allocated_bytes;
        square_sum += (sums.allocated_bytes - truth) * (sums.allocated_bytes - truth);
        variance_sum += sums.allocated_bytes_variance;
        ledger_close(ledger);
    }
    double variance = square_sum / RUNS, error = sqrt(variance / RUNS);
    assert_true(fabs(sum / RUNS - truth) < 3 * error);
    assert_true(fabs(variance_sum / RUNS / variance - 1) < 0.25);
}

/* Against a ledger that looks at everything at each event. */
static void test_peak_equals_brute_force(void **state)
{
    (void)state;
    enum { EVENTS = 20000, ADDRESSES = 300 };
    struct ledger *ledger = open_ledger(512);
    struct {
        uint64_t size, stack;
        double bytes;
    } live[ADDRESSES] = {0};
    double now[STACKS + 1] = {0}, peak[STACKS + 1] = {0}, total = 0, highest = 0;
    srand48(2);
    for (int i = 0; i < EVENTS; i++) {
        int slot = (int)(lrand48() % ADDRESSES);
        uint64_t address = 0x10000 + (uint64_t)slot * 64;
        if (live[slot].stack != 0) {
            struct heap_event event = free_event(address);
            apply(ledger, event);
            now[live[slot].stack] -= live[slot].bytes;
            total -= live[slot].bytes;
            live[slot].stack = 0;
            continue;
        }
        /* Swings up and down, so that there are many peaks. */
        if ((i / 2000) % 2 == 1 && lrand48() % 4 != 0)
            continue;
        live[slot].stack = 1 + (uint64_t)lrand48() % STACKS;
        live[slot].size = (uint64_t)(lrand48() % 5000);
        double s = (double)live[slot].size;
        double p = s >= 512 * log(100) ? 1 : 1 - exp(-(s > 1 ? s : 1) / 512);
        live[slot].bytes = s / p;
        apply(ledger, alloc_event(address, live[slot].size, live[slot].stack));
        now[live[slot].stack] += live[slot].bytes;
        total += live[slot].bytes;
        if (total > highest) {
            highest = total;
            memcpy(peak, now, sizeof(peak));
        }
    }
    size_t heap_count;
    assert_true(fabs(ledger_heaps(ledger, &heap_count)[0].peak_bytes - highest) < 1e-3);
    for (uint64_t stack = 1; stack <= STACKS; stack++)
        assert_true(fabs(figures_at(ledger, stack).peak.bytes - peak[stack]) < 1e-3);
    ledger_close(ledger);
}

static void test_peak_values_sum_to_heaps_peak(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    apply(ledger, alloc_event(0x1000, 10, 1));
    apply(ledger, alloc_event(0x2000, 20, 2));
    apply(ledger, free_event(0x1000));
    apply(ledger, alloc_event(0x3000, 5, 3));
    assert_true(figures_at(ledger, 1).peak.bytes == 10);
    assert_true(figures_at(ledger, 2).peak.bytes == 20);
    assert_true(figures_at(ledger, 3).peak.bytes == 0);
    ledger_close(ledger);
}

static void test_unfree_undoes_last_free_of_thread(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    struct heap_event alloc = alloc_event(0x1000, 100, 1), freed = free_event(0x1000);
    alloc.ordinal = freed.ordinal = 5;
    alloc.time_ms = 10;
    freed.time_ms = 30;
    apply(ledger, alloc);
    double live = ledger_live_bytes(ledger);
    apply(ledger, freed);
    assert_true(figures_at(ledger, 1).sums.lifetime_ms_sum > 0);
    apply(ledger, (struct heap_event){.type = RECORD_UNFREE, .address = 0x1000});
    struct trace_figures sums = figures_at(ledger, 1).sums;
    assert_true(sums.freed_bytes == 0 && sums.freed_count == 0 && sums.freed_samples == 0);
    assert_true(sums.lifetime_ms_sum == 0 && sums.temporary_count == 0);
    assert_true(ledger_live_bytes(ledger) == live);
    /* The sample is live again, and its free counts. */
    apply(ledger, freed);
    assert_int_equal(1, figures_at(ledger, 1).sums.freed_samples);
    assert_int_equal(0, ledger_counts(ledger).unknown_frees);
    ledger_close(ledger);
}

static void test_unfree_of_another_address_is_ignored(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    apply(ledger, alloc_event(0x1000, 100, 1));
    apply(ledger, free_event(0x1000));
    apply(ledger, (struct heap_event){.type = RECORD_UNFREE, .address = 0x2000});
    apply(ledger, (struct heap_event){.type = RECORD_UNFREE, .address = 0x1000, .thread = 1});
    assert_int_equal(1, figures_at(ledger, 1).sums.freed_samples);
    ledger_close(ledger);
}

static void test_temporary_needs_same_thread_and_ordinal(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    static const struct {
        uint16_t thread;
        uint32_t ordinal;
        int temporary;
    } cases[] = {{0, 5, 1}, {0, 6, 0}, {1, 5, 0}};
    double expected = 0;
    for (size_t i = 0; i < 3; i++) {
        struct heap_event alloc = alloc_event(0x1000, 8, 1), freed = free_event(0x1000);
        alloc.ordinal = 5;
        freed.thread = cases[i].thread;
        freed.ordinal = cases[i].ordinal;
        apply(ledger, alloc);
        apply(ledger, freed);
        expected += cases[i].temporary;
        assert_true(figures_at(ledger, 1).sums.temporary_count == expected);
    }
    ledger_close(ledger);
}

static void test_reused_slot_is_another_thread(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    struct heap_event alloc = alloc_event(0x1000, 8, 1), freed = free_event(0x1000);
    alloc.ordinal = freed.ordinal = 5;
    apply(ledger, alloc);
    ledger_thread(ledger, 0, 99, "other");
    apply(ledger, freed);
    assert_true(figures_at(ledger, 1).sums.temporary_count == 0);
    apply(ledger, alloc);
    assert_int_equal(2, ledger_figures_count(ledger));
    ledger_close(ledger);
}

static void test_alloc_of_live_address_frees_it_first(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    apply(ledger, alloc_event(0x1000, 100, 1));
    apply(ledger, alloc_event(0x1000, 30, 2));
    assert_true(figures_at(ledger, 1).sums.freed_bytes == 100);
    assert_true(ledger_live_bytes(ledger) == 30);
    assert_int_equal(1, ledger_counts(ledger).implicit_frees);
    ledger_close(ledger);
}

static void test_lost_free_is_not_live(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    struct heap_event alloc = alloc_event(0x1000, 100, 1);
    alloc.flags = RECORD_ALLOC_LOST_FREE;
    apply(ledger, alloc);
    assert_true(ledger_live_bytes(ledger) == 0);
    assert_true(figures_at(ledger, 1).sums.allocated_bytes == 100);
    assert_int_equal(1, ledger_counts(ledger).lost_frees);
    assert_int_equal(0, ledger_counts(ledger).live_samples);
    ledger_close(ledger);
}

static void test_unknown_stack_is_kept_apart(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    apply(ledger, alloc_event(0x1000, 100, 12345));
    apply(ledger, alloc_event(0x2000, 100, 0));
    assert_int_equal(2, ledger_counts(ledger).unknown_stacks);
    assert_true(figures_at(ledger, CALLSITE_ENDING_UNKNOWN).sums.allocated_bytes == 200);
    ledger_close(ledger);
}

static void test_reset_forgets_hashes_and_keeps_callsites(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    apply(ledger, alloc_event(0x1000, 100, 1));
    ledger_visitor.modules_reset(ledger);
    apply(ledger, alloc_event(0x2000, 100, 1));
    assert_int_equal(1, ledger_counts(ledger).unknown_stacks);
    apply(ledger, free_event(0x1000));
    assert_true(figures_at(ledger, 1).sums.freed_bytes == 100);
    ledger_close(ledger);
}

static void test_intervals_weigh_by_their_own(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(100);
    struct heap_event first = alloc_event(0x1000, 50, 1), second = alloc_event(0x2000, 50, 1);
    second.interval = 1;
    assert_int_equal(-EBADMSG, ledger_events(ledger, &second, 1));
    apply(ledger, first);
    assert_int_equal(0, ledger_interval(ledger, 1, 200));
    apply(ledger, second);
    apply(ledger, free_event(0x1000));
    assert_true(fabs(ledger_live_bytes(ledger) - 50 / (1 - exp(-50.0 / 200))) < 1e-9);
    ledger_close(ledger);
}

static void test_all_freed_is_exactly_zero(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    for (uint64_t i = 1; i < 1000; i++)
        apply(ledger, alloc_event(i * 16, i, 1));
    for (uint64_t i = 999; i > 0; i--)
        apply(ledger, free_event(i * 16));
    struct trace_figures sums = figures_at(ledger, 1).sums;
    assert_true(sums.allocated_bytes == sums.freed_bytes);
    assert_true(sums.allocated_count == sums.freed_count);
    ledger_close(ledger);
}

static void test_free_of_no_address_takes_nothing(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    apply(ledger, alloc_event(16, 10, 1));
    for (unsigned i = 0; i < 100; i++)
        apply(ledger, free_event(0));
    assert_int_equal(1, ledger_counts(ledger).live_samples);
    assert_int_equal(100, ledger_counts(ledger).unknown_frees);
    ledger_close(ledger);
}

static void add_name(struct ledger *ledger, uint64_t hash, const char *text)
{
    uint64_t words[sizeof(struct record_name) / 8 + 16] = {0};
    struct record_name *record = (void *)words;
    record->hash = hash;
    record->length = (uint32_t)strlen(text);
    memcpy(record->bytes, text, strlen(text));
    assert_int_equal(0, ledger_name(ledger, record));
}

static void add_context(struct ledger *ledger, uint64_t hash, uint64_t inner, uint64_t outer)
{
    uint64_t words[sizeof(struct record_context) / 8 + 2] = {0};
    struct record_context *record = (void *)words;
    record->hash = hash;
    record->count = 2;
    record->names[0] = inner;
    record->names[1] = outer;
    assert_int_equal(0, ledger_context(ledger, record));
}

/* Allocations and frees of few addresses in two heaps, by two threads, some of stacks and types
 * that were never sent. */
static struct heap_event random_event(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = (uint32_t)(*random >> 33);
    struct heap_event event = bits & 1 ? free_event(16 * (1 + bits / 2 % 500))
                                       : alloc_event(16 * (1 + bits / 2 % 500), bits / 1000 % 300,
                                                     1 + bits / 4 % (STACKS + 5));
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
        assert_int_equal(0, ledger_events(batches, events, count));
    }
    assert_same_figures(single, batches);
    ledger_close(batches);
    ledger_close(single);
}

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
    assert_int_equal(0, ledger_interval(ledger, OF_HEAPS, 1));
    for (unsigned heap = 1; heap < LEDGER_HEAPS_MAX; heap++) {
        assert_int_equal(0, ledger_heap(ledger, (uint8_t)heap, 1, "pool"));
        for (size_t i = 0; i < IDS; i++)
            apply(ledger, in_heap(alloc_event(ids[i], 1 + i, 1), (uint8_t)heap));
    }
    apply(ledger, alloc_event(0x1000, 1000, 1));
    assert_int_equal(255 * IDS + 1, ledger_counts(ledger).live_samples);
    assert_int_equal(0, ledger_counts(ledger).implicit_frees);
    /* Each is freed in its own heap. */
    apply(ledger, in_heap(free_event(0), 3));
    apply(ledger, in_heap(free_event(UINT64_MAX), 255));
    apply(ledger, in_heap(free_event(0x1000), 3));
    assert_true(heap_sums(ledger, 3).freed_bytes == 1 + 3);
    assert_true(heap_sums(ledger, 255).freed_bytes == 7);
    assert_true(heap_sums(ledger, 4).freed_bytes == 0 && heap_sums(ledger, 0).freed_bytes == 0);
    apply(ledger, in_heap(free_event(0), 3));
    assert_int_equal(1, ledger_counts(ledger).unknown_frees);
    /* Twice without a free: the first counts as freed. */
    apply(ledger, in_heap(alloc_event(0, 50, 1), 4));
    assert_int_equal(1, ledger_counts(ledger).implicit_frees);
    assert_true(heap_sums(ledger, 4).freed_bytes == 1 && heap_sums(ledger, 4).freed_count == 1);
    ledger_close(ledger);
}

static void test_heaps_weigh_by_their_own_interval(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    assert_int_equal(0, ledger_interval(ledger, OF_HEAPS, 100));
    assert_int_equal(0, ledger_heap(ledger, 1, 100, "pool"));
    apply(ledger, in_heap(alloc_event(1, 50, 1), 1));
    double p = 1 - exp(-0.5);
    assert_true(fabs(heap_sums(ledger, 1).allocated_bytes - 50 / p) < 1e-9);
    /* Malloc's is what it was. */
    assert_int_equal(4096, ledger_interval_bytes(ledger));
    size_t count;
    assert_int_equal(100, ledger_heaps(ledger, &count)[1].interval_bytes);
    ledger_close(ledger);
}

static void test_samples_of_the_program_stand_for_themselves(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    assert_int_equal(0, ledger_interval(ledger, OF_HEAPS, 1 << 20));
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

static void test_no_address_is_none_of_malloc(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    struct heap_event event = alloc_event(0, 8, 1);
    assert_int_equal(-EBADMSG, ledger_events(ledger, &event, 1));
    ledger_close(ledger);
    /* Where malloc is not profiled its samples do not count, and are no damage. */
    ledger = open_ledger(0);
    apply(ledger, alloc_event(16, 8, 1));
    apply(ledger, free_event(16));
    assert_int_equal(0, ledger_figures_count(ledger));
    event = in_heap(alloc_event(16, 8, 1), 1);
    assert_int_equal(-EBADMSG, ledger_events(ledger, &event, 1));
    ledger_close(ledger);
}

/* --- types and contexts --- */

static struct heap_event tagged(struct heap_event event, uint64_t type, uint64_t context)
{
    event.type_hash = type;
    event.context_hash = context;
    return event;
}

/* Bytes of what has this type, in this innermost scope. */
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

static void test_figures_are_told_apart_by_type_and_context(void **state)
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
    /* Neither inherits from the one before it. */
    apply(ledger, alloc_event(0x50, 16, 1));
    apply(ledger, tagged(alloc_event(0x60, 32, 1), 11, 20));
    apply(ledger, free_event(0x40));
    assert_true(tagged_bytes(ledger, "", "") == 17);
    assert_true(tagged_bytes(ledger, "Node", "") == 2);
    assert_true(tagged_bytes(ledger, "", "parse") == 4);
    assert_true(tagged_bytes(ledger, "Node", "parse") == 32);
    assert_string_equal("main loop", tags_scope_name(ledger_tags(ledger), 2, 1));
    /* What was never named. */
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

static uint64_t inverse(uint64_t odd)
{
    uint64_t found = odd;
    for (int i = 0; i < 6; i++)
        found *= 2 - odd * found;
    return found;
}

/* A number that a fixed mix (multiply, fold, multiply, fold) makes `i << 32` of. */
static uint64_t chosen_hash(uint64_t i)
{
    uint64_t value = i << 32;
    value ^= value >> 32;
    value *= inverse(UINT64_C(0xD6E8FEB86659FD93));
    value ^= value >> 32;
    return value * inverse(UINT64_C(0x9E3779B97F4A7C15));
}

/* Hashes are the client's: those that it chooses are as far from their places as any others. */
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
    for (size_t i = 0; i < tree.stacks_size; i++) {
        if (tree.stacks[i].hash != 0)
            far += (i - keyed_hash(tree.stacks[i].hash)) & (tree.stacks_size - 1);
    }
    assert_true(far < 20 * COUNT);
    callsite_tree_clear(&tree);
}

/* Key 0 of a live table aside, each way to hash spreads numbers that differ in few bits. */
static void test_keyed_hashes_spread(void **state)
{
    (void)state;
    enum { PLACES = 1 << 12 };
    for (unsigned shift = 0; shift < 52; shift++) {
        unsigned counts[3][PLACES] = {0}, most = 0;
        for (uint64_t i = 0; i < PLACES; i++) {
            counts[0][keyed_hash(i << shift) % PLACES]++;
            counts[1][keyed_hash_pair(i << shift, i) % PLACES]++;
            counts[2][keyed_hash_high(i << shift) / (UINT64_MAX / PLACES + 1)]++;
        }
        for (size_t i = 0; i < 3 * PLACES; i++)
            most = counts[i / PLACES][i % PLACES] > most ? counts[i / PLACES][i % PLACES] : most;
        assert_true(most < 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval_one_is_exact),
        cmocka_unit_test(test_weights_follow_horvitz_and_thompson),
        cmocka_unit_test(test_estimates_are_unbiased),
        cmocka_unit_test(test_peak_equals_brute_force),
        cmocka_unit_test(test_peak_values_sum_to_heaps_peak),
        cmocka_unit_test(test_unfree_undoes_last_free_of_thread),
        cmocka_unit_test(test_unfree_of_another_address_is_ignored),
        cmocka_unit_test(test_temporary_needs_same_thread_and_ordinal),
        cmocka_unit_test(test_reused_slot_is_another_thread),
        cmocka_unit_test(test_alloc_of_live_address_frees_it_first),
        cmocka_unit_test(test_lost_free_is_not_live),
        cmocka_unit_test(test_unknown_stack_is_kept_apart),
        cmocka_unit_test(test_reset_forgets_hashes_and_keeps_callsites),
        cmocka_unit_test(test_intervals_weigh_by_their_own),
        cmocka_unit_test(test_all_freed_is_exactly_zero),
        cmocka_unit_test(test_free_of_no_address_takes_nothing),
        cmocka_unit_test(test_batch_is_its_events_one_by_one),
        cmocka_unit_test(test_live_table_holds_what_was_put),
        cmocka_unit_test(test_live_table_holds_every_number),
        cmocka_unit_test(test_ids_of_heaps_are_any_number),
        cmocka_unit_test(test_heaps_weigh_by_their_own_interval),
        cmocka_unit_test(test_samples_of_the_program_stand_for_themselves),
        cmocka_unit_test(test_no_address_is_none_of_malloc),
        cmocka_unit_test(test_figures_are_told_apart_by_type_and_context),
        cmocka_unit_test(test_types_beyond_the_bound_are_counted),
        cmocka_unit_test(test_chosen_stack_hashes_do_not_collide),
        cmocka_unit_test(test_keyed_hashes_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
