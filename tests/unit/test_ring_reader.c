/* SPDX-License-Identifier: Apache-2.0 */
/* The ring's reader: what it takes, what it waits for, what it refuses. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/sample/sampler.h"
#include "daemon/ring/ring_reader.h"

/* ThreadSanitizer puts signals off, so code cannot be interrupted at each instruction. */
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

/* What the visitor saw. */
static struct {
    size_t events, stacks, modules, resets, threads, heaps, intervals, names, contexts;
    struct heap_event last;
    size_t walks;
    uint64_t token;
    uint64_t unmapped_bytes;
    uint16_t unmapped_slot;
    uint8_t unmapped_heap;
    uint64_t sum; /* of addresses, order included */
    uint32_t frames;
    char text[RECORD_PATH_MAX + 1];
} seen;

static int see_events(void *context, const struct heap_event *events, size_t count)
{
    (void)context;
    seen.events += count;
    for (size_t i = 0; i < count; i++)
        seen.sum = seen.sum * 31 + events[i].address;
    seen.last = events[count - 1];
    return 0;
}

static int see_stack(void *context, const struct record_stack *stack)
{
    (void)context;
    seen.stacks++;
    seen.frames = stack->count;
    return 0;
}

static int see_module(void *context, const struct record_module *module)
{
    (void)context;
    seen.modules++;
    memcpy(seen.text, module->bytes + module->build_id_length, module->path_length);
    seen.text[module->path_length] = 0;
    return 0;
}

static int see_reset(void *context)
{
    (void)context;
    seen.resets++;
    return 0;
}

static int see_thread(void *context, uint16_t slot, uint32_t tid, const char *name)
{
    (void)context;
    (void)slot;
    (void)tid;
    seen.threads++;
    strcpy(seen.text, name);
    return 0;
}

static int see_heap(void *context, uint8_t heap, uint64_t interval_bytes, const char *name)
{
    (void)context;
    (void)heap;
    (void)interval_bytes;
    seen.heaps++;
    strcpy(seen.text, name);
    return 0;
}

static int see_interval(void *context, uint32_t index, uint64_t interval_bytes)
{
    (void)context;
    (void)index;
    (void)interval_bytes;
    seen.intervals++;
    return 0;
}

static int see_name(void *context, const struct record_name *name)
{
    (void)context;
    seen.names++;
    memcpy(seen.text, name->bytes, name->length);
    seen.text[name->length] = 0;
    return 0;
}

static int see_context(void *context, const struct record_context *scopes)
{
    (void)context;
    seen.contexts++;
    seen.frames = scopes->count;
    return 0;
}

static int see_unmap(void *context, uint8_t heap, uint16_t slot, const struct record_unmap *unmap)
{
    (void)context;
    seen.unmapped_heap = heap;
    seen.unmapped_slot = slot;
    seen.unmapped_bytes += unmap->length;
    return 0;
}

static int see_walk(void *context, uint16_t slot, const struct record_walk *walk,
                    enum ring_unwinding *answer)
{
    (void)context;
    (void)slot;
    seen.walks++;
    seen.token = walk->token;
    *answer = RING_UNWINDING_NONE;
    return 0;
}

static uint64_t find_walked(void *context, uint16_t slot, uint64_t token)
{
    (void)context;
    (void)slot;
    return token == seen.token ? 4711 : 0;
}

static const struct ring_visitor visitor = {see_events,  see_stack, see_module,   see_reset,
                                            see_thread,  see_heap,  see_interval, see_name,
                                            see_context, see_unmap, see_walk,     find_walked};

static struct ring_reader reader;
static int memfd;

static int open_ring(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof(seen));
    return ring_reader_open(&reader, RING_MEMFD_NAME, RING_DATA_BYTES_MIN, &memfd);
}

static int close_ring(void **state)
{
    (void)state;
    ring_reader_close(&reader);
    return close(memfd);
}

/* A place of this many bytes, reserved; the header is the caller's. */
static void *reserve(uint32_t length)
{
    uint64_t reserved = reader.control->reserved;
    reader.control->reserved = reserved + length;
    return reader.data + (reserved & (reader.data_bytes - 1));
}

static union record_header *put(uint32_t length, uint8_t type)
{
    union record_header *header = reserve(length);
    *header = (union record_header){.length = length, .type = type};
    return header;
}

static void put_alloc(uint64_t address)
{
    struct record_alloc *record = (void *)put(sizeof(*record), RECORD_ALLOC);
    record->address = address;
    record->size = 24;
}

static ssize_t drain(bool dead)
{
    return ring_reader_drain(&reader, dead, &visitor, NULL);
}

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

    /* The second thread to announce a generation, and one that is late, change nothing. */
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

/* With two registers, one frame, and as many words of the stack. */
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

static void test_walks_are_answered(void **state)
{
    (void)state;
    put_walk(4);
    struct record_alloc *alloc = (void *)put(sizeof(*alloc), RECORD_ALLOC);
    alloc->stack = 77;
    alloc->flags = RECORD_ALLOC_WALK;
    assert_true(drain(false) > 0);
    assert_int_equal(1, seen.walks);
    /* The ALLOC is of the stack that the walk came to. */
    assert_int_equal(4711, seen.last.stack);
    for (unsigned i = 0; i < RING_MODULES_MAX / RING_UNWINDING_PER_WORD; i++)
        assert_int_equal(i == 2 ? RING_UNWINDING_NONE << 2 : 0, reader.control->unwinding[i]);
    /* Others' answers stay; a number beyond all has none. */
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
    /* The next one does not inherit them. */
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
    /* Not used yet. */
    reader.heap_lines[3].tid = 255;
    reader.heap_lines[3].calls = 1;
    ring_reader_heap_totals(&reader, totals);
    assert_int_equal(20, totals[7].calls);
    assert_int_equal(2800, totals[7].bytes);
    assert_int_equal(1, totals[255].calls);
    /* More lines than there are, of heaps that there are not. */
    reader.control->heap_lines_used = UINT32_MAX;
    reader.heap_lines[2].tid = UINT32_MAX;
    reader.heap_lines[3].tid = RING_HEAPS_MAX;
    ring_reader_heap_totals(&reader, totals);
    assert_int_equal(20, totals[7].calls);
    assert_int_equal(0, totals[255].calls + totals[0].calls);
}

static void test_wanted_heaps_reach_the_client(void **state)
{
    (void)state;
    static struct ring_heaps heaps = {.other_interval_bytes = 9, .count = RING_HEAPS_MAX};
    strcpy(heaps.rules[RING_HEAPS_MAX - 1].name, "last");
    ring_reader_want(&reader, &heaps);
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

static void test_records_may_lie_across_the_end(void **state)
{
    (void)state;
    /* 8192 is no multiple of 48. */
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

static void test_busy_record_is_waited_for(void **state)
{
    (void)state;
    union record_header *busy = put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    assert_int_equal(0, drain(false));
    busy->type = RECORD_ALLOC;
    assert_int_equal(2 * sizeof(struct record_alloc), drain(false));
    assert_int_equal(2, seen.events);
}

static void test_zero_header_is_waited_for(void **state)
{
    (void)state;
    reserve(sizeof(struct record_alloc));
    put_alloc(0x2000);
    assert_int_equal(0, drain(false));
    assert_int_equal(0, seen.events);
}

static void test_busy_at_death_is_stepped_over(void **state)
{
    (void)state;
    put_alloc(0x1000);
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    assert_int_equal(3 * sizeof(struct record_alloc), drain(true));
    assert_int_equal(2, seen.events);
    assert_int_equal(sizeof(struct record_alloc), reader.busy_bytes);
}

static void test_unmarked_at_death_is_stepped_over(void **state)
{
    (void)state;
    put_alloc(0x1000);
    reserve(64);
    put_alloc(0x2000);
    reserve(48);
    assert_true(drain(true) > 0);
    assert_int_equal(2, seen.events);
    assert_int_equal(112, reader.busy_bytes);
}

/* Waits until nothing is in the way any more, as a daemon does that looks now and then. */
static void expect_unstuck_after(uint64_t milliseconds)
{
    assert_int_equal(0, drain(false));
    assert_false(ring_reader_unstick(&reader, 5000));
    assert_false(ring_reader_unstick(&reader, 5000 + milliseconds - 1));
    assert_true(ring_reader_unstick(&reader, 5000 + milliseconds));
    assert_true(drain(false) > 0);
}

static void test_abandoned_record_is_stepped_over_in_time(void **state)
{
    (void)state;
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    expect_unstuck_after(RING_ABANDONED_MS);
    assert_int_equal(1, seen.events);
    assert_int_equal(sizeof(struct record_alloc), reader.busy_bytes);
    assert_int_equal(reader.control->reserved, reader.control->consumed);
}

static void test_abandoned_place_without_header_is_stepped_over_in_time(void **state)
{
    (void)state;
    reserve(64);
    put_alloc(0x2000);
    expect_unstuck_after(RING_ABANDONED_MS);
    assert_int_equal(1, seen.events);
}

static void test_writer_at_work_is_waited_for_while_nobody_waits(void **state)
{
    (void)state;
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    reader.control->threads_used = 1;
    reader.threads[0].in_ring = RING_WRITES;
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(ring_reader_unstick(&reader, 100000));
    reader.control->threads_used = 2;
    reader.threads[1].in_ring = RING_WAITS;
    assert_true(ring_reader_unstick(&reader, 100000));
}

/* One that none of our threads has. */
static pid_t number_of_nobody(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(child, waitpid(child, NULL, 0));
    return child;
}

/* It says that it writes, and never will again: nothing may wait for that. */
static void test_record_of_an_ended_thread_is_stepped_over(void **state)
{
    (void)state;
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    reader.process = getpid();
    reader.control->threads_used = 1;
    reader.threads[0].in_ring = RING_WRITES;
    reader.threads[0].tid = (uint32_t)gettid();
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(ring_reader_unstick(&reader, 100000));
    reader.threads[0].tid = (uint32_t)number_of_nobody();
    assert_true(ring_reader_unstick(&reader, 100000));
    assert_true(drain(false) > 0);
    assert_int_equal(1, seen.events);
}

/* A process of one thread, which has a record open, while another one waits for space. */
static pid_t begin_writer(bool sleeps)
{
    pid_t child = fork();
    if (child == 0) {
        while (true)
            if (sleeps)
                pause();
    }
    assert_true(child > 0);
    put(sizeof(struct record_alloc), RECORD_BUSY);
    put_alloc(0x2000);
    reader.process = child;
    reader.control->threads_used = 2;
    reader.threads[0].in_ring = RING_WRITES;
    reader.threads[0].tid = (uint32_t)child;
    reader.threads[1].in_ring = RING_WAITS;
    return child;
}

static void end_writer(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(child, waitpid(child, NULL, 0));
}

/* It would write on where another record stands by then. */
static void test_record_of_a_thread_that_does_not_run_is_waited_for(void **state)
{
    (void)state;
    pid_t child = begin_writer(false);
    kill(child, SIGSTOP);
    assert_int_equal(child, waitpid(child, NULL, WUNTRACED));
    assert_false(ring_reader_unstick(&reader, 1000));
    assert_false(ring_reader_unstick(&reader, 1000 + RING_ABANDONED_SOME_WAIT_MS));
    assert_false(ring_reader_unstick(&reader, 1000 + RING_UNSCHEDULED_MS - 1));
    kill(child, SIGCONT);
    while (!ring_reader_unstick(&reader, 1000 + RING_ABANDONED_SOME_WAIT_MS))
        usleep(10000); /* it runs, and does not finish */
    assert_true(drain(false) > 0);
    assert_int_equal(1, seen.events);
    end_writer(child);
}

static void test_record_of_a_thread_that_sleeps_was_left(void **state)
{
    (void)state;
    pid_t child = begin_writer(true);
    assert_false(ring_reader_unstick(&reader, 1000));
    while (!ring_reader_unstick(&reader, 1000 + RING_ABANDONED_SOME_WAIT_MS))
        usleep(1000); /* until it sleeps */
    end_writer(child);
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

/* An allocation as a client makes it: counted, then written. */
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

/* A thread has counted, and its record is not there yet: at a cut, or at its process's death. */
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

/* A thread was killed after its record was there, and before it said so. */
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

/* Between the reading of the totals and that of the ring's end a thread has written its record. */
static void test_record_before_the_cut_that_was_not_counted_is_added(void **state)
{
    (void)state;
    reader.control->threads_used = 1;
    put_counted_alloc(0, 100);
    put_counted_alloc(0, 2000000);
    put_counted_alloc(1, 30); /* a slot that the totals did not look at */
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
/* What the totals may be while an allocation is counted: before it, or after. */
static struct {
    uint64_t calls, bytes, size;
    unsigned steps, wrong;
    bool may_be_counted; /* it is no sample, which stays pending */
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

/* A process may be killed after any instruction of a sample, and a thread be read there. */
static void test_totals_are_whole_at_each_instruction(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_step}, old;
    const struct sampler_rule every = {1, 0}, few = {4096, 1u << 20};
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

/* What a thread has left that ended after so many instructions of a count. */
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

/* A slot's next thread goes on with the totals of the last one, wherever that has ended; nothing
 * changes while it takes the slot over. */
static void test_totals_are_whole_while_a_slot_changes_hands(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_step_to_leave}, watch = {.sa_handler = on_step},
                     old;
    const struct sampler_rule few = {4096, 1u << 20}, large = {4096, 500};
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

/* The last thread's record was the slot's latest that was taken. The next thread's records are not
 * read yet, and one more of its calls is pending. */
static void test_taken_record_is_not_taken_for_the_next_threads(void **state)
{
    (void)state;
    const struct sampler_rule every = {1, 0};
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

/* A handler's jump out of the counting: what is counted later is seen. */
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

#define RING_TEST(test) cmocka_unit_test_setup_teardown(test, open_ring, close_ring)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RING_TEST(test_descriptor_is_sealed),
        RING_TEST(test_sizes_are_checked),
        RING_TEST(test_takes_each_kind_of_record),
        RING_TEST(test_walks_are_answered),
        RING_TEST(test_walks_that_do_not_fit_are_bad),
        RING_TEST(test_consumed_memory_is_zero_and_given_back),
        RING_TEST(test_records_may_lie_across_the_end),
        RING_TEST(test_events_keep_their_order),
        RING_TEST(test_busy_record_is_waited_for),
        RING_TEST(test_zero_header_is_waited_for),
        RING_TEST(test_busy_at_death_is_stepped_over),
        RING_TEST(test_unmarked_at_death_is_stepped_over),
        RING_TEST(test_abandoned_record_is_stepped_over_in_time),
        RING_TEST(test_abandoned_place_without_header_is_stepped_over_in_time),
        RING_TEST(test_record_of_an_ended_thread_is_stepped_over),
        RING_TEST(test_record_of_a_thread_that_does_not_run_is_waited_for),
        RING_TEST(test_record_of_a_thread_that_sleeps_was_left),
        RING_TEST(test_writer_at_work_is_waited_for_while_nobody_waits),
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
        RING_TEST(test_refuses_module_with_path_beyond_record),
        RING_TEST(test_refuses_unterminated_names),
        RING_TEST(test_events_before_the_damage_count),
        RING_TEST(test_totals_add_up_over_slots),
        RING_TEST(test_cut_leaves_what_comes_later),
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
        RING_TEST(test_types_and_contexts),
        RING_TEST(test_refuses_name_beyond_record),
        RING_TEST(test_refuses_name_that_is_too_long),
        RING_TEST(test_refuses_context_with_more_scopes_than_bytes),
        RING_TEST(test_refuses_short_tagged_alloc),
        RING_TEST(test_unmap_comes_behind_the_events_before_it),
        RING_TEST(test_refuses_unmap_that_wraps_or_is_short),
        RING_TEST(test_heap_totals_add_up_over_lines),
        RING_TEST(test_wanted_heaps_reach_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
