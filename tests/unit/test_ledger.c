/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's figures: estimates with their variances, peaks, and the effects of a free. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "ledger_fixture.h"

/* Return the sum of all figures of the callsite with this innermost pc; 0 for all callsites. */
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

/* Draw samples by the rule: the mean of the estimates is the truth, and the mean of the estimated
 * variances is their variance. */
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

/* Compare with a ledger that recomputes everything at each event. */
static void test_peak_equals_brute_force(void **state)
{
    (void)state;
    enum { EVENTS = 20000, ADDRESSES = 300 };
    struct ledger *ledger = open_ledger(512);
    struct {
        uint64_t size, stack;
        double bytes;
    } live[ADDRESSES] = {0};
    double now[FIXTURE_STACKS + 1] = {0}, peak[FIXTURE_STACKS + 1] = {0}, total = 0, highest = 0;
    double seen_now[FIXTURE_STACKS + 1] = {0}, seen[FIXTURE_STACKS + 1] = {0};
    srand48(2);
    for (int i = 0; i < EVENTS; i++) {
        int slot = (int)(lrand48() % ADDRESSES);
        uint64_t address = 0x10000 + (uint64_t)slot * 64;
        if (live[slot].stack != 0) {
            struct heap_event event = free_event(address);
            apply(ledger, event);
            now[live[slot].stack] -= live[slot].bytes;
            seen_now[live[slot].stack] -= (double)live[slot].size;
            total -= live[slot].bytes;
            live[slot].stack = 0;
            continue;
        }
        /* Move up and down, so that there are many peaks. */
        if ((i / 2000) % 2 == 1 && lrand48() % 4 != 0)
            continue;
        live[slot].stack = 1 + (uint64_t)lrand48() % FIXTURE_STACKS;
        live[slot].size = (uint64_t)(lrand48() % 5000);
        double s = (double)live[slot].size;
        double p = s >= 512 * log(100) ? 1 : 1 - exp(-(s > 1 ? s : 1) / 512);
        live[slot].bytes = s / p;
        apply(ledger, alloc_event(address, live[slot].size, live[slot].stack));
        now[live[slot].stack] += live[slot].bytes;
        seen_now[live[slot].stack] += s;
        total += live[slot].bytes;
        if (total > highest) {
            highest = total;
            memcpy(peak, now, sizeof(peak));
            memcpy(seen, seen_now, sizeof(seen));
        }
    }
    size_t heap_count;
    const struct ledger_heap *heap = &ledger_heaps(ledger, &heap_count)[0];
    struct ledger_amount held = {0};
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        const struct ledger_figures figures = ledger_figures(ledger, i);
        if (ledger_holds_peak(&figures))
            ledger_amount_add(&held, 1, ledger_peak_missed(&figures));
    }
    const struct ledger_peak corrected = ledger_peak_of(heap, held);
    assert_true(fabs(heap->peak_bytes - highest) < 1e-3);
    assert_true(corrected.highest.bytes == heap->peak_bytes && corrected.bytes <= heap->peak_bytes);
    /* What was sampled stays, and so does what is still held; the factor corrects the rest. */
    double sum = 0;
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures figures = ledger_figures(ledger, i);
        uint64_t stack = ledger_callsites(ledger)->nodes[figures.node].pc;
        double missed = peak[stack] - seen[stack];
        double factor = ledger_holds_peak(&figures) ? 1 : corrected.factor.bytes;
        assert_true(fabs(figures.peak.bytes - peak[stack]) < 1e-3);
        ledger_correct_peak(&figures, corrected.factor);
        assert_true(fabs(figures.peak.bytes - seen[stack] - factor * missed) < 1e-3);
        sum += figures.peak.bytes;
    }
    assert_true(fabs(sum - corrected.bytes) < 1e-3);
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

static void test_lifetimes_and_peaks_of_months(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(1);
    const uint64_t days_ms = 86400000, ages_days[] = {1, 25, 50, 100, 1000};
    double sum = 0;
    for (size_t i = 0; i < sizeof(ages_days) / sizeof(ages_days[0]); i++) {
        struct heap_event alloc = alloc_event(0x1000, 100 + i, 1), freed = free_event(0x1000);
        alloc.time_ms = 60 * days_ms;
        freed.time_ms = alloc.time_ms + ages_days[i] * days_ms;
        apply(ledger, alloc);
        apply(ledger, freed);
        sum += (double)(ages_days[i] * days_ms);
        assert_true(figures_at(ledger, 1).sums.lifetime_ms_sum == sum);
    }
    size_t heaps;
    assert_true(ledger_heaps(ledger, &heaps)->peak_time_ms == 60 * days_ms);
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
    ledger_visitor.thread(ledger, 0, 99, "other");
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
    assert_int_equal(-EBADMSG, ledger_visitor.events(ledger, &second, 1));
    apply(ledger, first);
    assert_int_equal(0, ledger_visitor.interval(ledger, 0, 1, 200));
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

/* Add `count` samples of 100 bytes from `first` on, at a time, and let the ledger know that `bytes`
 * were allocated in all. */
static void add_period(struct ledger *ledger, uint64_t first, unsigned count, uint64_t stack,
                       uint32_t time_ms, uint64_t bytes)
{
    static const struct ring_heap_totals none[LEDGER_HEAPS_MAX];
    const struct ring_totals totals = {.bytes = bytes, .calls = bytes / 100};
    for (unsigned i = 0; i < count; i++) {
        struct heap_event event = alloc_event((first + i) * 16, 100, stack);
        event.time_ms = time_ms;
        event.ordinal = (uint32_t)first + i;
        apply(ledger, event);
    }
    ledger_calibrate(ledger, &totals, none, false);
}

static void assert_near(double found, double expected)
{
    if (fabs(found - expected) > 1e-6 * fabs(expected) + 1e-6)
        fail_msg("%.6f is not %.6f", found, expected);
}

static void test_calibrated_sums_are_exact_and_fixed(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    /* 400 samples stand for 1.66 MB by chance, and 1.7 MB were allocated; then 200 for 0.8. */
    add_period(ledger, 1, 400, 1, 10, 1700000);
    assert_near(figures_at(ledger, 1).sums.allocated_bytes, 1700000);
    assert_near(figures_at(ledger, 1).sums.allocated_count, 17000);
    assert_near(ledger_live_bytes(ledger), 1700000);
    add_period(ledger, 1000, 200, 2, 20, 2500000);
    assert_near(figures_at(ledger, 1).sums.allocated_bytes, 1700000);
    assert_near(figures_at(ledger, 2).sums.allocated_bytes, 800000);
    assert_near(ledger_live_bytes(ledger), 2500000);
    /* Samples of both periods are freed as they were allocated. */
    for (unsigned i = 0; i < 200; i++)
        apply(ledger, free_event((1 + i) * 16));
    assert_near(ledger_live_bytes(ledger), 2500000 - 850000);
    for (unsigned i = 0; i < 200; i++)
        apply(ledger, free_event((1000 + i) * 16));
    assert_near(ledger_live_bytes(ledger), 850000);
    struct trace_figures sums = figures_at(ledger, 2).sums;
    assert_true(sums.allocated_bytes == sums.freed_bytes);
    ledger_close(ledger);
}

static void test_missing_samples_are_not_made_up(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    /* 100 samples stand for 0.41 MB, and cannot be all of 4 MB. */
    add_period(ledger, 1, 100, 1, 10, 4000000);
    double found = figures_at(ledger, 1).sums.allocated_bytes;
    assert_true(found > 400000 && found < 620000);
    ledger_close(ledger);
}

static void test_few_samples_keep_their_chance(void **state)
{
    (void)state;
    struct ledger *ledger = open_ledger(4096);
    double weighted = 100 / -expm1(-100 / 4096.0);
    add_period(ledger, 1, 5, 1, 10, 25000);
    assert_near(figures_at(ledger, 1).sums.allocated_bytes, 5 * weighted);
    /* The next period makes up for it, and the first one stays. */
    add_period(ledger, 100, 100, 2, 20, 440000);
    assert_near(figures_at(ledger, 1).sums.allocated_bytes, 5 * weighted);
    assert_near(figures_at(ledger, 2).sums.allocated_bytes, 440000 - 5 * weighted);
    ledger_close(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval_one_is_exact),
        cmocka_unit_test(test_weights_follow_horvitz_and_thompson),
        cmocka_unit_test(test_estimates_are_unbiased),
        cmocka_unit_test(test_peak_equals_brute_force),
        cmocka_unit_test(test_peak_values_sum_to_heaps_peak),
        cmocka_unit_test(test_lifetimes_and_peaks_of_months),
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
        cmocka_unit_test(test_calibrated_sums_are_exact_and_fixed),
        cmocka_unit_test(test_missing_samples_are_not_made_up),
        cmocka_unit_test(test_few_samples_keep_their_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
