/* SPDX-License-Identifier: Apache-2.0 */
/* The totals of the ring's threads and heaps are consistent at each instruction of a writer. */
#include <signal.h>

#include "client/sample/sampler.h"
#include "ring_fixture.h"

/* ThreadSanitizer delays signals, so a test cannot interrupt code at each instruction. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CAN_STEP 0
#endif
#endif
#ifndef CAN_STEP
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define CAN_STEP 1
#else
#define CAN_STEP 0
#endif
#endif

static void test_heap_totals_add_up_over_lines(void **state)
{
    (void)state;
    static struct ring_heap_totals totals[RING_HEAPS_MAX];
    reader.control->heap_lines_used = 3;
    for (uint32_t i = 0; i < 2; i++) {
        reader.heap_lines[i].tid = 7;
        reader.heap_lines[i].calls = 10;
        reader.heap_lines[i].bytes_before = 1000;
        reader.heap_lines[i].bytes_loaded = 500;
        reader.heap_lines[i].bytes_left = 100;
    }
    reader.heap_lines[2].tid = 255;
    reader.heap_lines[2].calls = 1;
    /* Not in use yet. */
    reader.heap_lines[3].tid = 255;
    reader.heap_lines[3].calls = 1;
    ring_reader_heap_totals(&reader, totals);
    assert_int_equal(20, totals[7].calls);
    assert_int_equal(2800, totals[7].bytes);
    assert_int_equal(1, totals[255].calls);
    /* More lines than exist, and a heap that does not exist. */
    reader.control->heap_lines_used = UINT32_MAX;
    reader.heap_lines[2].tid = UINT32_MAX;
    reader.heap_lines[3].tid = RING_HEAPS_MAX;
    ring_reader_heap_totals(&reader, totals);
    assert_int_equal(20, totals[7].calls);
    assert_int_equal(0, totals[255].calls + totals[0].calls);
}

static void test_totals_add_up_over_slots(void **state)
{
    (void)state;
    reader.control->threads_used = 2;
    reader.threads[0] = (struct ring_thread){
        .bytes_before = 100, .bytes_loaded = 50, .bytes_left = 20, .calls = 3, .tid = 1};
    reader.threads[1] = (struct ring_thread){.bytes_before = 7, .calls = 1, .tid = 2};
    struct ring_totals totals;
    ring_reader_totals(&reader, &totals);
    assert_int_equal(4, totals.calls);
    assert_int_equal(130 + 7, totals.bytes);
    reader.control->threads_used = UINT32_MAX;
    ring_reader_totals(&reader, &totals);
    assert_int_equal(4, totals.calls);
}

/* Count and write an allocation as a client does. */
static void put_counted_alloc(uint16_t slot, uint64_t size)
{
    reader.threads[slot].bytes_before += size;
    struct record_alloc *record = (void *)put(sizeof(*record), RECORD_ALLOC);
    record->header.thread = slot;
    record->address = 4096;
    record->size = size;
    record->ordinal = (uint32_t)++reader.threads[slot].calls;
}

static void expect_totals(uint64_t calls, uint64_t bytes)
{
    struct ring_totals totals;
    ring_reader_totals(&reader, &totals);
    assert_int_equal(calls, totals.calls);
    assert_int_equal(bytes, totals.bytes);
}

static void test_cut_leaves_what_comes_later(void **state)
{
    (void)state;
    reader.control->threads_used = 1;
    put_counted_alloc(0, 100);
    assert_int_equal(0, ring_reader_cut(&reader));
    put_counted_alloc(0, 2000000);
    drain(false);
    assert_true(ring_reader_is_empty(&reader));
    assert_int_equal(1, seen.events);
    expect_totals(1, 100);
    ring_reader_end_cut(&reader);
    assert_false(ring_reader_is_empty(&reader));
    drain(false);
    assert_int_equal(2, seen.events);
    expect_totals(2, 2000100);
}

/* The process is killed after the cut, in the middle of a record without a header. */
static void test_cut_of_a_process_that_dies_is_whole(void **state)
{
    (void)state;
    reader.control->threads_used = 1;
    put_counted_alloc(0, 100);
    reserve(sizeof(struct record_alloc));
    put_counted_alloc(0, 200);
    assert_int_equal(0, ring_reader_cut(&reader));
    put_counted_alloc(0, 2000000);
    drain(false);
    assert_int_equal(1, seen.events);
    assert_false(ring_reader_is_empty(&reader));
    drain(true);
    assert_true(ring_reader_is_empty(&reader));
    assert_int_equal(2, seen.events);
    expect_totals(2, 300);
}

/* A thread has counted a sample but not written its record: at a cut, or when its process dies. */
static void test_sample_that_is_pending_is_not_in_the_totals(void **state)
{
    (void)state;
    reader.control->threads_used = 1;
    put_counted_alloc(0, 100);
    reader.threads[0].bytes_before += 2100000;
    reader.threads[0].calls++;
    reader.pending[0] = (struct ring_pending){.samples = ring_pending_word(2100000)};
    expect_totals(1, 100);
    assert_int_equal(0, ring_reader_cut(&reader));
    drain(false);
    expect_totals(1, 100);
    assert_int_equal(1, seen.events);
}

/* A thread was killed after it wrote the record and before it cleared the pending mark. */
static void test_record_that_was_taken_is_not_pending(void **state)
{
    (void)state;
    reader.control->threads_used = 1;
    put_counted_alloc(0, 100);
    put_counted_alloc(0, 2000000);
    reader.pending[0] = (struct ring_pending){.samples = ring_pending_word(2000000)};
    expect_totals(1, 100);
    drain(true);
    expect_totals(2, 2000100);
    assert_int_equal(0, ring_reader_cut(&reader));
    expect_totals(2, 2000100);
}

/* A thread writes its record after the totals are read and before the ring's end is read. */
static void test_record_before_the_cut_that_was_not_counted_is_added(void **state)
{
    (void)state;
    reader.control->threads_used = 1;
    put_counted_alloc(0, 100);
    put_counted_alloc(0, 2000000);
    put_counted_alloc(1, 30); /* a slot that was not read with the totals */
    reader.pending[0] = (struct ring_pending){.samples = ring_pending_word(2000000)};
    assert_int_equal(0, ring_reader_cut(&reader));
    expect_totals(1, 100);
    drain(false);
    assert_int_equal(3, seen.events);
    expect_totals(3, 2000130);
}

static void test_cut_of_another_heap(void **state)
{
    (void)state;
    static struct ring_heap_totals totals[RING_HEAPS_MAX];
    reader.control->heap_lines_used = 1;
    reader.heap_lines[0] =
        (struct ring_thread){.tid = 3, .samples = 5, .bytes_before = 700, .calls = 7};
    reader.pending[RING_THREADS_MAX] =
        (struct ring_pending){.samples = ring_pending_word(100) + ring_pending_word(200)};
    for (uint32_t ordinal = 5; ordinal <= 7; ordinal++) {
        struct record_alloc *record = (void *)put(sizeof(*record), RECORD_ALLOC);
        record->header.heap = 3;
        record->header.thread = 5;
        record->size = ordinal == 6 ? 100 : 200;
        record->ordinal = ordinal;
    }
    assert_int_equal(0, ring_reader_cut(&reader));
    ring_reader_heap_totals(&reader, totals);
    assert_int_equal(5, totals[3].calls);
    assert_int_equal(400, totals[3].bytes);
    drain(false);
    ring_reader_heap_totals(&reader, totals);
    assert_int_equal(7, totals[3].calls);
    assert_int_equal(700, totals[3].bytes);
}

#if CAN_STEP
/* The valid totals while an allocation is counted: before or after it. */
static struct {
    uint64_t calls, bytes, size;
    unsigned steps, wrong;
    bool may_be_counted; /* for an unsampled allocation, which does not stay pending */
} stepped;

static void on_step(int number)
{
    struct ring_totals totals;
    (void)number;
    ring_reader_totals(&reader, &totals);
    bool before = totals.calls == stepped.calls && totals.bytes == stepped.bytes;
    bool after = totals.calls == stepped.calls + 1 && totals.bytes == stepped.bytes + stepped.size;
    stepped.steps++;
    stepped.wrong += !before && !(after && stepped.may_be_counted);
}

static void begin_steps(uint64_t size, bool may_be_counted)
{
    struct ring_totals totals;
    ring_reader_totals(&reader, &totals);
    stepped.calls = totals.calls;
    stepped.bytes = totals.bytes;
    stepped.size = size;
    stepped.may_be_counted = may_be_counted;
}

#define IN_STEPS(...)                                                                              \
    do {                                                                                           \
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");               \
        __VA_ARGS__;                                                                               \
        __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");             \
        assert_int_equal(0, stepped.wrong);                                                        \
    } while (0)

static void count_in_steps(uint64_t size, const struct sampler_rule *rule, bool may_be_counted)
{
    struct ring_thread *line = &reader.threads[0];
    struct ring_pending *pending = &reader.pending[0];
    bool sampled;
    begin_steps(size, may_be_counted);
    IN_STEPS(sampled = sampler_count(line, pending, size, rule, rule));
    stepped.may_be_counted = true;
    if (sampled)
        IN_STEPS(sampler_settle(pending, ring_pending_word(size)));
    expect_totals(stepped.calls + 1, stepped.bytes + size);
}

/* A process can be killed, and the totals of a thread can be read, after any instruction of a
 * sample. */
static void test_totals_are_whole_at_each_instruction(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_step}, old;
    const struct sampler_rule every = {1, 0, 0}, few = {4096, 1u << 20, 0};
    struct ring_thread *line = &reader.threads[0];
    struct ring_pending *pending = &reader.pending[0];
    sigaction(SIGTRAP, &action, &old);
    reader.control->threads_used = 1;
    begin_steps(0, false);
    IN_STEPS(sampler_start(line, pending, 7, &every));
    for (uint64_t size = 0; size < 30; size++)
        count_in_steps(size * 1000, &every, false);
    begin_steps(0, false);
    IN_STEPS(sampler_start(line, pending, 7, &few));
    for (uint64_t size = 0; size < 30; size++)
        count_in_steps(size, &few, true);
    begin_steps(123, true);
    IN_STEPS(sampler_idle(line, pending, 1, 123));
    sigaction(SIGTRAP, &old, NULL);
    assert_true(stepped.steps > 30 * 2 * 20);
}

/* A thread ends after this many instructions of a count and leaves its state. */
static sigjmp_buf left;
static unsigned steps_to_leave;

static void on_step_to_leave(int number)
{
    (void)number;
    if (steps_to_leave-- == 0)
        siglongjmp(left, 1);
}

static bool count_and_leave(unsigned steps, const struct sampler_rule *rule)
{
    steps_to_leave = steps;
    if (sigsetjmp(left, 1) != 0)
        return true;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
    sampler_count(&reader.threads[0], &reader.pending[0], 1000, rule, rule);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
    return false;
}

/* The next thread of a slot continues with the totals of its predecessor, wherever that one ended.
 * Nothing changes during the takeover. */
static void test_totals_are_whole_while_a_slot_changes_hands(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_step_to_leave}, watch = {.sa_handler = on_step},
                     old;
    const struct sampler_rule few = {4096, 1u << 20, 0}, large = {4096, 500, 0};
    struct ring_thread *line = &reader.threads[0];
    struct ring_pending *pending = &reader.pending[0];
    reader.control->threads_used = 1;
    sigaction(SIGTRAP, NULL, &old);
    bool has_left = true;
    for (unsigned steps = 1; has_left && steps < 10000; steps++) {
        *line = (struct ring_thread){0};
        *pending = (struct ring_pending){0};
        sampler_start(line, pending, steps, &few);
        for (int i = 0; i < 5; i++)
            sampler_settle(
                pending, sampler_count(line, pending, 10, &few, &few) ? ring_pending_word(10) : 0);
        sigaction(SIGTRAP, &action, NULL);
        has_left = count_and_leave(steps, &large);
        sigaction(SIGTRAP, &watch, NULL);
        begin_steps(0, false);
        assert_int_equal(5, stepped.calls);
        assert_int_equal(50, stepped.bytes);
        IN_STEPS(sampler_inherit(line, pending));
        IN_STEPS(sampler_start(line, pending, 9, &few));
        uint64_t samples = pending->samples;
        assert_true(samples == 0 || samples == ring_pending_word(1000));
        assert_int_equal(5 + (samples != 0), line->calls);
    }
    sigaction(SIGTRAP, &old, NULL);
    assert_false(has_left);
}

/* The previous thread's record was the slot's last one that was read. The next thread's records are
 * not read yet, and one more of its calls is pending. */
static void test_taken_record_is_not_taken_for_the_next_threads(void **state)
{
    (void)state;
    const struct sampler_rule every = {1, 0, 0};
    struct ring_thread *line = &reader.threads[0];
    struct ring_pending *pending = &reader.pending[0];
    reader.control->threads_used = 1;
    sampler_start(line, pending, 7, &every);
    for (int i = 0; i < 3; i++)
        put_counted_alloc(0, 100);
    drain(false);
    sampler_inherit(line, pending);
    sampler_start(line, pending, 8, &every);
    for (uint64_t calls = 3; calls < 8; calls++) {
        sampler_count(line, pending, 33, &every, &every);
        expect_totals(calls, 300 + (calls - 3) * 33);
        assert_int_equal(0, ring_reader_cut(&reader));
        ring_reader_end_cut(&reader);
        sampler_settle(pending, ring_pending_word(33));
        expect_totals(calls + 1, 300 + (calls - 2) * 33);
    }
}

/* A handler jumps out of the counting. Later counts are still seen. */
static void test_counting_that_was_left_is_passed_over(void **state)
{
    (void)state;
    reader.control->threads_used = 1;
    reader.threads[0] = (struct ring_thread){.bytes_before = 700, .calls = 7};
    reader.pending[0] =
        (struct ring_pending){.settled_bytes = 300, .settled_calls = 3, .counting = 4};
    expect_totals(7, 700);
    reader.threads[0].calls = 4;
    expect_totals(3, 300);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        RING_TEST(test_totals_add_up_over_slots),
        RING_TEST(test_cut_leaves_what_comes_later),
        RING_TEST(test_cut_of_a_process_that_dies_is_whole),
        RING_TEST(test_sample_that_is_pending_is_not_in_the_totals),
        RING_TEST(test_record_that_was_taken_is_not_pending),
        RING_TEST(test_record_before_the_cut_that_was_not_counted_is_added),
        RING_TEST(test_cut_of_another_heap),
#if CAN_STEP
        RING_TEST(test_totals_are_whole_at_each_instruction),
        RING_TEST(test_totals_are_whole_while_a_slot_changes_hands),
        RING_TEST(test_taken_record_is_not_taken_for_the_next_threads),
        RING_TEST(test_counting_that_was_left_is_passed_over),
#endif
        RING_TEST(test_heap_totals_add_up_over_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
