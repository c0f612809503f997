/* SPDX-License-Identifier: Apache-2.0 */
/* The ring reader: accepted and rejected records. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "ring_fixture.h"

static void test_descriptor_is_sealed(void **state)
{
    (void)state;
    assert_int_equal(-1, ftruncate(memfd, 0));
    int seals = fcntl(memfd, F_GET_SEALS);
    assert_int_equal(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, seals);
}

static void test_sizes_are_checked(void **state)
{
    (void)state;
    struct ring_reader other;
    int fd;
    assert_int_equal(-EINVAL, ring_reader_open(&other, RING_MEMFD_NAME, 4096, &fd));
    assert_int_equal(-EINVAL, ring_reader_open(&other, RING_MEMFD_NAME, 12288, &fd));
    assert_int_equal(
        -EINVAL, ring_reader_open(&other, RING_MEMFD_NAME, (uint64_t)RING_DATA_BYTES_MAX * 2, &fd));
}

static void test_takes_each_kind_of_record(void **state)
{
    (void)state;
    put_alloc(0x1000);
    struct record_free *freed = (void *)put(sizeof(*freed), RECORD_FREE);
    freed->address = 0x1000;
    freed->ordinal = 9;
    struct record_stack *stack = (void *)put(sizeof(*stack) + 16, RECORD_STACK);
    stack->hash = 7;
    stack->count = 2;
    struct record_module *module = (void *)put(sizeof(*module) + 8, RECORD_MODULE);
    module->start = 1;
    module->end = 2;
    module->build_id_length = 2;
    module->path_length = 4;
    memcpy(module->bytes + 2, "/lib", 4);
    assert_true(drain(false) > 0);
    assert_int_equal(2, seen.events);
    assert_int_equal(9, seen.last.ordinal);
    assert_int_equal(2, seen.frames);
    assert_string_equal("/lib", seen.text);

    /* A second thread that announces the same generation, and a late one, change nothing. */
    for (int i = 0; i < 4; i++) {
        struct record_modules_reset *reset = (void *)put(sizeof(*reset), RECORD_MODULES_RESET);
        reset->generation = i < 2 ? 3 : 2;
    }
    struct record_thread *thread = (void *)put(sizeof(*thread), RECORD_THREAD);
    thread->tid = 5;
    strcpy(thread->name, "worker");
    assert_true(drain(false) > 0);
    assert_string_equal("worker", seen.text);
    struct record_heap *heap = (void *)put(sizeof(*heap), RECORD_HEAP);
    strcpy(heap->name, "pool");
    struct record_interval *interval = (void *)put(sizeof(*interval), RECORD_INTERVAL);
    interval->interval_bytes = 8192;
    assert_true(drain(false) > 0);
    assert_string_equal("pool", seen.text);
    assert_int_equal(1, seen.resets);
    assert_int_equal(1, seen.intervals);
    assert_int_equal(0, drain(false));
}

/* Write a walk with two registers, one frame, and this many words of the stack. */
static struct record_walk *put_walk(uint32_t stack_words)
{
    struct record_walk *walk =
        (void *)put((uint32_t)sizeof(*walk) + (3 + stack_words) * 8, RECORD_WALK);
    walk->token = 77;
    walk->module = 33;
    walk->register_count = 2;
    walk->frame_count = 1;
    walk->stack_bytes = stack_words * 8;
    return walk;
}

static void put_tagged(uint64_t address)
{
    struct record_tagged_alloc *record = (void *)put(sizeof(*record), RECORD_TAGGED_ALLOC);
    record->alloc.address = address;
    record->alloc.ordinal = 7;
}

static void test_free_last_is_of_the_record_before(void **state)
{
    (void)state;
    put_alloc(0x10); /* the events of a pair are in different batches */
    for (unsigned i = 0; i < RING_EVENTS_BATCH; i++) {
        put_alloc(0x1000 + i * 16);
        put(sizeof(struct record_free_last), RECORD_FREE_LAST);
    }
    assert_true(drain(false) > 0);
    assert_int_equal(1 + 2 * RING_EVENTS_BATCH, seen.events);
    assert_int_equal(RECORD_FREE, seen.last.type);
    assert_int_equal(0x1000 + (RING_EVENTS_BATCH - 1) * 16, seen.last.address);

    put_tagged(0x20);
    assert_true(drain(false) > 0); /* the free comes in the next drain */
    put(sizeof(struct record_free_last), RECORD_FREE_LAST);
    assert_true(drain(false) > 0);
    assert_int_equal(RECORD_FREE, seen.last.type);
    assert_int_equal(0x20, seen.last.address);
    assert_int_equal(7, seen.last.ordinal);
}

static void test_refuses_free_last_without_its_alloc(void **state)
{
    (void)state;
    put_alloc(0x10);
    put(sizeof(struct record_free), RECORD_FREE);
    put(sizeof(struct record_free_last), RECORD_FREE_LAST);
    assert_int_equal(-EBADMSG, drain(false));
}

static void test_refuses_free_last_of_another_thread(void **state)
{
    (void)state;
    put_alloc(0x10);
    put(sizeof(struct record_free_last), RECORD_FREE_LAST)->thread = 1;
    assert_int_equal(-EBADMSG, drain(false));
}

static void test_refuses_free_last_at_the_start(void **state)
{
    (void)state;
    put(sizeof(struct record_free_last), RECORD_FREE_LAST);
    assert_int_equal(-EBADMSG, drain(false));
}

static void test_walks_are_answered(void **state)
{
    (void)state;
    put_walk(4);
    struct record_alloc *alloc = (void *)put(sizeof(*alloc), RECORD_ALLOC);
    alloc->stack = 77;
    alloc->flags = RECORD_ALLOC_WALK;
    assert_true(drain(false) > 0);
    assert_int_equal(1, seen.walks);
    /* The ALLOC has the stack that resulted from the walk. */
    assert_int_equal(4711, seen.last.stack);
    for (unsigned i = 0; i < RING_MODULES_MAX / RING_UNWINDING_PER_WORD; i++)
        assert_int_equal(i == 2 ? RING_UNWINDING_NONE << 2 : 0, reader.control->unwinding[i]);
    /* Other modules' answers stay unchanged; a number above the limit has no answer. */
    put_walk(0)->module = 34;
    put_walk(0)->module = RING_MODULES_MAX;
    put_walk(0)->module = UINT32_MAX;
    assert_true(drain(false) > 0);
    assert_int_equal(4, seen.walks);
    assert_int_equal(RING_UNWINDING_NONE << 4 | RING_UNWINDING_NONE << 2,
                     reader.control->unwinding[2]);
}

static void check_bad_walk(void (*spoil)(struct record_walk *))
{
    spoil(put_walk(4));
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(0, seen.walks);
    reader.consumed = reader.control->reserved;
}

static void without_token(struct record_walk *walk)
{
    walk->token = 0;
}

static void with_more_stack(struct record_walk *walk)
{
    walk->stack_bytes += 8;
}

static void with_half_a_word(struct record_walk *walk)
{
    walk->stack_bytes -= 4;
}

static void with_more_frames(struct record_walk *walk)
{
    walk->frame_count = UINT16_MAX;
}

static void with_more_registers(struct record_walk *walk)
{
    walk->register_count = RECORD_WALK_REGISTERS_MAX + 1;
}

static void at_the_end_of_memory(struct record_walk *walk)
{
    walk->stack_address = UINT64_MAX - 8;
}

static void test_walks_that_do_not_fit_are_bad(void **state)
{
    (void)state;
    check_bad_walk(without_token);
    check_bad_walk(with_more_stack);
    check_bad_walk(with_half_a_word);
    check_bad_walk(with_more_frames);
    check_bad_walk(with_more_registers);
    check_bad_walk(at_the_end_of_memory);
}

static void put_name(const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    struct record_name *record =
        (void *)put((uint32_t)sizeof(*record) + (length + 7) / 8 * 8, RECORD_NAME);
    record->hash = 5;
    record->length = length;
    memcpy(record->bytes, text, length);
}

static void test_types_and_contexts(void **state)
{
    (void)state;
    put_name("Node");
    drain(false);
    assert_string_equal("Node", seen.text);
    struct record_context *scopes = (void *)put(sizeof(*scopes) + 16, RECORD_CONTEXT);
    scopes->hash = 6;
    scopes->count = 2;
    struct record_tagged_alloc *tagged = (void *)put(sizeof(*tagged), RECORD_TAGGED_ALLOC);
    tagged->alloc.header.heap = 255;
    tagged->alloc.address = UINT64_MAX;
    tagged->alloc.flags = RECORD_ALLOC_WEIGHED;
    tagged->type = 5;
    tagged->context = 6;
    drain(false);
    assert_int_equal(2, seen.frames);
    assert_int_equal(RECORD_ALLOC, seen.last.type);
    assert_int_equal(255, seen.last.heap);
    assert_true(seen.last.address == UINT64_MAX);
    assert_int_equal(RECORD_ALLOC_WEIGHED, seen.last.flags);
    assert_int_equal(5, seen.last.type_hash);
    assert_int_equal(6, seen.last.context_hash);
    /* The next record inherits neither. */
    put_alloc(16);
    drain(false);
    assert_int_equal(0, seen.last.type_hash + seen.last.context_hash);
}

static void test_refuses_name_beyond_record(void **state)
{
    (void)state;
    struct record_name *record = (void *)put(sizeof(*record) + 8, RECORD_NAME);
    record->hash = 1;
    record->length = 9;
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(0, seen.names);
}

static void test_refuses_name_that_is_too_long(void **state)
{
    (void)state;
    struct record_name *record = (void *)put(sizeof(*record) + 1032, RECORD_NAME);
    record->hash = 1;
    record->length = RECORD_NAME_BYTES_MAX + 1;
    assert_int_equal(-EBADMSG, drain(false));
}

static void test_refuses_context_with_more_scopes_than_bytes(void **state)
{
    (void)state;
    struct record_context *record = (void *)put(sizeof(*record) + 8, RECORD_CONTEXT);
    record->hash = 1;
    record->count = 2;
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(0, seen.contexts);
}

static void test_refuses_short_tagged_alloc(void **state)
{
    (void)state;
    put(sizeof(struct record_alloc), RECORD_TAGGED_ALLOC);
    assert_int_equal(-EBADMSG, drain(false));
}

static void test_scopes_are_whole(void **state)
{
    (void)state;
    put(sizeof(struct record_scope), RECORD_SCOPE);
    assert_true(drain(false) > 0);
    assert_int_equal(1, seen.scopes);
    put(sizeof(struct record_scope) - 8, RECORD_SCOPE);
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(1, seen.scopes);
}

static void put_unmap(uint32_t bytes, uint64_t address, uint64_t length)
{
    struct record_unmap *record = (void *)put(bytes, RECORD_UNMAP);
    record->header.heap = 3;
    record->header.thread = 5;
    record->address = address;
    record->length = length;
}

static void test_unmap_comes_behind_the_events_before_it(void **state)
{
    (void)state;
    put_alloc(16);
    put_unmap(sizeof(struct record_unmap), UINT64_MAX - 4096, 4096);
    struct record_alloc *record = (void *)put(sizeof(*record), RECORD_ALLOC);
    record->address = 32;
    drain(false);
    assert_int_equal(2, seen.events);
    assert_int_equal(4096, seen.unmapped_bytes);
    assert_int_equal(3, seen.unmapped_heap);
    assert_int_equal(5, seen.unmapped_slot);
    assert_int_equal(sizeof(*record) + sizeof(struct record_unmap), seen.last.position);
}

static void test_refuses_unmap_that_wraps_or_is_short(void **state)
{
    (void)state;
    put_unmap(sizeof(struct record_unmap), UINT64_MAX - 4096, 4097);
    assert_int_equal(-EBADMSG, drain(false));
    close_ring(state);
    open_ring(state);
    put_unmap(sizeof(struct record_unmap) - 8, 4096, 4096);
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(0, seen.unmapped_bytes);
}

static void test_wanted_heaps_reach_the_client(void **state)
{
    (void)state;
    static struct ring_heaps heaps = {.other_interval_bytes = 9, .count = RING_HEAPS_MAX};
    strcpy(heaps.rules[RING_HEAPS_MAX - 1].name, "last");
    ring_reader_set_heaps(&reader, &heaps);
    const void *client =
        mmap(NULL, RING_HEAPS_BYTES, PROT_READ, MAP_SHARED, memfd, RING_HEAPS_OFFSET);
    assert_true(client != MAP_FAILED);
    assert_memory_equal(&heaps, client, sizeof(heaps));
    munmap((void *)client, RING_HEAPS_BYTES);
}

static void test_consumed_memory_is_zero_and_given_back(void **state)
{
    (void)state;
    put_alloc(0x1000);
    uint32_t futex = reader.control->space_futex;
    assert_int_equal(sizeof(struct record_alloc), drain(false));
    assert_int_equal(sizeof(struct record_alloc), reader.control->consumed);
    assert_true(reader.control->space_futex != futex);
    for (size_t i = 0; i < sizeof(struct record_alloc); i++)
        assert_int_equal(0, reader.data[i]);
}

static uint64_t heartbeat_seen;

static int see_heartbeat(void *context, const struct heap_event *events, size_t count)
{
    heartbeat_seen = reader.control->heartbeat_ms;
    return see_events(context, events, count);
}

/* Writers must not consider a reader dead that is busy with a long drain. */
static void test_beats_during_a_long_drain(void **state)
{
    (void)state;
    struct ring_visitor watching = visitor;
    watching.events = see_heartbeat;
    ring_reader_close(&reader);
    close(memfd);
    assert_int_equal(0, ring_reader_open(&reader, RING_MEMFD_NAME, 1 << 20, &memfd));
    while (reader.control->reserved < 512 << 10)
        put_alloc(0x1000);
    heartbeat_seen = 0;
    assert_int_equal(reader.control->reserved, ring_reader_drain(&reader, false, &watching, NULL));
    assert_true(heartbeat_seen > 0);
}

static void test_records_may_lie_across_the_end(void **state)
{
    (void)state;
    /* 8192 is not a multiple of 48. */
    for (uint64_t i = 1; i <= 1000; i++) {
        put_alloc(i);
        assert_int_equal(sizeof(struct record_alloc), drain(false));
        assert_int_equal(i, seen.last.address);
        assert_int_equal(24, seen.last.size);
    }
}

static void test_events_keep_their_order(void **state)
{
    (void)state;
    uint64_t expected = 0;
    for (uint64_t i = 1; i <= 150; i++) {
        put_alloc(i * 7);
        expected = expected * 31 + i * 7;
    }
    assert_int_equal(150 * sizeof(struct record_alloc), drain(false));
    assert_int_equal(expected, seen.sum);
}

static void test_more_reserved_than_there_is(void **state)
{
    (void)state;
    reader.control->reserved = RING_DATA_BYTES_MIN + 8;
    assert_int_equal(-EBADMSG, drain(false));
    reader.control->reserved = UINT64_MAX - 7;
    assert_int_equal(-EBADMSG, drain(true));
}

static void expect_refused(const union record_header *header, uint32_t length)
{
    *(union record_header *)reserve(length) = *header;
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(0, seen.events + seen.stacks + seen.modules + seen.threads + seen.heaps);
}

#define REFUSES(test, reserved_bytes, ...)                                                         \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        union record_header header = {.word = 0};                                                  \
        __VA_ARGS__;                                                                               \
        expect_refused(&header, reserved_bytes);                                                   \
    }

REFUSES(test_refuses_length_zero, 48, header.type = RECORD_ALLOC)
REFUSES(test_refuses_odd_length, 48, header.type = RECORD_ALLOC; header.length = 44)
REFUSES(test_refuses_length_beyond_reserved, 48, header.type = RECORD_ALLOC; header.length = 56)
REFUSES(test_refuses_huge_length, 48, header.type = RECORD_STACK; header.length = 0xfffffff8)
REFUSES(test_refuses_short_alloc, 40, header.type = RECORD_ALLOC; header.length = 40)
REFUSES(test_refuses_short_thread, 16, header.type = RECORD_THREAD; header.length = 16)
REFUSES(test_refuses_unknown_type, 48, header.type = 77; header.length = 48)
REFUSES(test_refuses_thread_slot_out_of_range, 48, header.type = RECORD_ALLOC; header.length = 48;
        header.thread = RING_THREADS_MAX)
REFUSES(test_refuses_empty_module, 48, header.type = RECORD_MODULE; header.length = 48)

/* Records have 32 bits of a time in milliseconds, which overflow after 49.7 days. */
static void test_times_are_whole_after_an_overflow(void **state)
{
    (void)state;
    const uint64_t days_ms = 86400000, ages_days[] = {1, 24, 26, 49, 50, 75, 100, 1000};
    for (size_t i = 0; i < sizeof(ages_days) / sizeof(ages_days[0]); i++) {
        uint64_t age_ms = ages_days[i] * days_ms;
        reader.opened_ms -= age_ms;
        struct record_alloc *record = (void *)put(sizeof(*record), RECORD_ALLOC);
        record->size = 24;
        record->time_ms = (uint32_t)(age_ms - 5000);
        assert_true(drain(false) > 0);
        assert_true(seen.last.time_ms == age_ms - 5000);
        reader.opened_ms += age_ms;
    }
}

static void test_refuses_stack_with_more_frames_than_bytes(void **state)
{
    (void)state;
    struct record_stack *stack = (void *)put(sizeof(*stack) + 16, RECORD_STACK);
    stack->hash = 1;
    stack->count = 3;
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(0, seen.stacks);
}

static void test_refuses_module_with_path_beyond_record(void **state)
{
    (void)state;
    struct record_module *module = (void *)put(sizeof(*module) + 8, RECORD_MODULE);
    module->end = 1;
    module->path_length = 9;
    assert_int_equal(-EBADMSG, drain(false));
}

static void test_refuses_unterminated_names(void **state)
{
    (void)state;
    struct record_thread *thread = (void *)put(sizeof(*thread), RECORD_THREAD);
    thread->tid = 1;
    memset(thread->name, 'x', sizeof(thread->name));
    assert_int_equal(-EBADMSG, drain(false));
}

static void test_events_before_the_damage_count(void **state)
{
    (void)state;
    put_alloc(0x1000);
    put(48, 77);
    assert_int_equal(-EBADMSG, drain(false));
    assert_int_equal(1, seen.events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RING_TEST(test_descriptor_is_sealed),
        RING_TEST(test_sizes_are_checked),
        RING_TEST(test_takes_each_kind_of_record),
        RING_TEST(test_free_last_is_of_the_record_before),
        RING_TEST(test_refuses_free_last_without_its_alloc),
        RING_TEST(test_refuses_free_last_of_another_thread),
        RING_TEST(test_refuses_free_last_at_the_start),
        RING_TEST(test_walks_are_answered),
        RING_TEST(test_walks_that_do_not_fit_are_bad),
        RING_TEST(test_consumed_memory_is_zero_and_given_back),
        RING_TEST(test_beats_during_a_long_drain),
        RING_TEST(test_records_may_lie_across_the_end),
        RING_TEST(test_events_keep_their_order),
        RING_TEST(test_more_reserved_than_there_is),
        RING_TEST(test_refuses_length_zero),
        RING_TEST(test_refuses_odd_length),
        RING_TEST(test_refuses_length_beyond_reserved),
        RING_TEST(test_refuses_huge_length),
        RING_TEST(test_refuses_short_alloc),
        RING_TEST(test_refuses_short_thread),
        RING_TEST(test_refuses_unknown_type),
        RING_TEST(test_refuses_thread_slot_out_of_range),
        RING_TEST(test_refuses_empty_module),
        RING_TEST(test_refuses_stack_with_more_frames_than_bytes),
        RING_TEST(test_times_are_whole_after_an_overflow),
        RING_TEST(test_refuses_module_with_path_beyond_record),
        RING_TEST(test_refuses_unterminated_names),
        RING_TEST(test_events_before_the_damage_count),
        RING_TEST(test_types_and_contexts),
        RING_TEST(test_refuses_name_beyond_record),
        RING_TEST(test_refuses_name_that_is_too_long),
        RING_TEST(test_refuses_context_with_more_scopes_than_bytes),
        RING_TEST(test_refuses_short_tagged_alloc),
        RING_TEST(test_scopes_are_whole),
        RING_TEST(test_unmap_comes_behind_the_events_before_it),
        RING_TEST(test_refuses_unmap_that_wraps_or_is_short),
        RING_TEST(test_wanted_heaps_reach_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
