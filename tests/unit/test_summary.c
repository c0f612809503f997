/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences about a heap: their parts, and what they call a change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "profile/sums.h"
#include "tools/print/summary.h"
#include "trace_fixture.h"

#define INTERVAL UINT64_C(4096)

/* Write a dump with live blocks in one function, all of one size. */
static void write_dump(struct trace_writer *writer, uint64_t callstack, uint64_t second,
                       double bytes, uint64_t interval)
{
    struct trace_heap_dump head = fixture_dump();
    memset(head.lost, 0, sizeof(head.lost));
    head.timestamp_ns = second * 1000000000;
    head.interval_bytes = head.first_interval_bytes = interval;
    head.exact_bytes = 2 * (uint64_t)bytes;
    head.exact_calls = (uint64_t)bytes / 50;
    const struct trace_heap_sample sample = {
        .callstack = callstack,
        .figures = {.allocated_bytes = 2 * bytes,
                    .freed_bytes = bytes,
                    .allocated_count = bytes / 50,
                    .freed_count = bytes / 100,
                    .allocated_bytes_variance = 2 * bytes * (double)interval,
                    .freed_bytes_variance = bytes * (double)interval,
                    .samples = (uint64_t)(bytes / (double)INTERVAL) + 1},
        .peak.bytes = bytes,
        .peak.count = bytes / 100};
    trace_writer_dump_begin(writer, &head);
    trace_writer_dump_sample(writer, &sample);
    trace_writer_dump_end(writer);
}

/* Return a profile of two dumps, of which the first has 1 MB live. */
static struct profile *make_profile(const char *function, double second_bytes, uint64_t interval)
{
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    trace_writer_clock_snapshot(writer);
    fixture_process(writer);
    struct fixture_stacks stacks = fixture_stacks(writer);
    uint64_t frames[] = {trace_writer_frame(writer, stacks.program, 0x1400, function), stacks.main};
    uint64_t callstack = trace_writer_callstack(writer, frames, 2, NULL);
    write_dump(writer, callstack, 2, 1e6, interval);
    write_dump(writer, callstack, 5, second_bytes, interval);
    assert_int_equal(trace_writer_close(writer), 0);
    return fixture_take_profile(fd);
}

/* Make the sentences about a dump; they live as long as the profile. */
static struct summary make_summary(const struct profile *profile, size_t dump)
{
    struct sums_tables tables = {.profile = profile};
    struct folding folding = {0};
    struct summary summary;
    const struct profile_heap *heap = &profile->heaps[0];
    assert_true(dump < heap->dump_count);
    assert_int_equal(folding_make(&folding, profile), 0);
    struct summary_subject subject = {
        .profile = profile, .heap = heap, .dump = &heap->dumps[dump], .folding = &folding};
    subject.has_process = dump + 1 < heap->dump_count;
    subject.of_frames = sums_functions(&tables, &subject.function_count);
    summary_make(&summary, &subject);
    folding_clear(&folding);
    sums_tables_clear(&tables);
    return summary;
}

/* Compare the sentence about the change between two dumps. */
static void assert_growth(double second_bytes, uint64_t interval, const char *expected)
{
    struct profile *profile = make_profile("hold", second_bytes, interval);
    struct summary summary = make_summary(profile, 1);
    assert_true(summary.count >= 2);
    assert_int_equal(summary.items[1].count, 1);
    assert_string_equal(summary.items[1].parts[0], expected);
    summary_clear(&summary);
    profile_free(profile);
}

static void only_what_chance_does_not_explain_is_a_change(void **state)
{
    (void)state;
    assert_growth(2e6, INTERVAL, "That is 1.00 MB more than at the first dump, 3.00 s before.");
    assert_growth(2e5, INTERVAL, "That is 800 kB less than at the first dump, 3.00 s before.");
    assert_growth(1.01e6, INTERVAL,
                  "That is as much as at the first dump, 3.00 s before: the difference is within "
                  "chance.");
    assert_growth(1e6, INTERVAL, "That is as much as at the first dump, 3.00 s before.");
    assert_growth(2e6, 0,
                  "That is 1.00 MB more than at the first dump, 3.00 s before; whether that is "
                  "chance is unknown.");
}

static void names_are_parts_of_their_own(void **state)
{
    (void)state;
    struct profile *profile = make_profile("`a`\001\n", 1e6, 1);
    struct summary summary = make_summary(profile, 1);
    assert_int_equal(summary.items[0].count, 3);
    assert_string_equal(summary.items[0].parts[0], "1.00 MB is live: ");
    assert_string_equal(summary.items[0].parts[1], "`a`\\x01\\x0a [example]");
    assert_string_equal(summary.items[0].parts[2], " holds nearly all of it.");
    summary_clear(&summary);
    profile_free(profile);
}

static void a_part_of_a_profile_has_none(void **state)
{
    (void)state;
    struct profile *profile = make_profile("hold", 1e6, 1);
    profile->filter = "--focus 'hold'";
    struct summary summary = make_summary(profile, 1);
    assert_int_equal(summary.count, 0);
    summary_clear(&summary);
    profile->filter = "";
    profile_free(profile);
}

/* A snapshot may be older than the dump, for which there was no time to take one. */
static void resident_memory_is_of_its_own_moment(void **state)
{
    (void)state;
    struct profile *profile = make_profile("hold", 1e6, 1);
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    struct profile_memory_snapshot snapshot = {.process = profile->heaps[0].process};
    snapshot.values.parts[MEMORY_ALLOCATOR].rss_bytes = 4000000;
    static const char *const expected[] = {
        "Resident memory was 4.00 MB at this dump; the heap's live bytes are 25.0 % of that.",
        "Resident memory was 4.00 MB 1.00 s before this dump."};
    assert_int_equal(profile->memory_snapshot_count, 0);
    profile->memory_snapshots = &snapshot;
    profile->memory_snapshot_count = 1;
    for (int i = 0; i < 2; i++) {
        bool is_there = false;
        snapshot.values.boottime_ns = dump->boottime_ns - (uint64_t)i * 1000000000;
        struct summary summary = make_summary(profile, 0);
        for (size_t k = 0; k < summary.count; k++)
            is_there |= strcmp(summary.items[k].parts[0], expected[i]) == 0;
        assert_true(is_there);
        summary_clear(&summary);
    }
    profile->memory_snapshots = NULL;
    profile->memory_snapshot_count = 0;
    profile_free(profile);
}

#define SECONDS 20

/* Write live blocks of one function, `each` bytes in every half second from `since` on. */
static void write_live(struct trace_writer *writer, uint64_t callstack, double each, unsigned since)
{
    struct trace_live_times times = {.slice_ms = trace_slice_ms(SECONDS * 1000),
                                     .oldest_ms = UINT64_MAX};
    unsigned samples = 0;
    for (unsigned ms = since * 1000; ms < SECONDS * 1000; ms += 500, samples++)
        trace_live_times_add(&times, ms, each, 1);
    const struct trace_heap_sample sample = {.callstack = callstack,
                                             .figures = {.allocated_bytes = samples * each,
                                                         .allocated_count = samples,
                                                         .samples = samples},
                                             .peak = {.bytes = samples * each, .count = samples},
                                             .times = &times};
    trace_writer_dump_sample(writer, &sample);
}

/* Return a profile of a cache of 20 MB and a leak of 4 MB, at the only dump. */
static struct profile *make_leak(int32_t exit_status)
{
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    trace_writer_clock_snapshot(writer);
    fixture_process(writer);
    struct fixture_stacks stacks = fixture_stacks(writer);
    struct trace_heap_dump head = fixture_dump();
    memset(head.lost, 0, sizeof(head.lost));
    head.timestamp_ns = head.start_timestamp_ns + UINT64_C(1000000000) * SECONDS;
    head.interval_bytes = head.first_interval_bytes = 1;
    head.exact_bytes = 24000000;
    head.exact_calls = 60;
    head.exit_status = exit_status;
    head.final = true;
    uint64_t cache[] = {trace_writer_frame(writer, stacks.program, 0x1400, "cache"), stacks.main};
    uint64_t leak[] = {trace_writer_frame(writer, stacks.program, 0x1500, "leak"), stacks.main};
    uint64_t cache_stack = trace_writer_callstack(writer, cache, 2, NULL);
    uint64_t leak_stack = trace_writer_callstack(writer, leak, 2, NULL);
    trace_writer_dump_begin(writer, &head);
    write_live(writer, cache_stack, 1e6, SECONDS / 2);
    write_live(writer, leak_stack, 1e5, 0);
    trace_writer_dump_end(writer);
    assert_int_equal(trace_writer_close(writer), 0);
    return fixture_take_profile(fd);
}

/* The largest holder is a cache. The rate is that of whole slices: two blocks in 1,024 ms. */
static void what_grows_is_named(void **state)
{
    (void)state;
    for (int exited = 0; exited < 2; exited++) {
        struct profile *profile = make_leak(exited ? 0 : -1);
        struct summary summary = make_summary(profile, 0);
        size_t place = 0;
        while (place < summary.count &&
               (summary.items[place].count < 3 ||
                strcmp(summary.items[place].parts[1], "leak [example]") != 0 ||
                strncmp(summary.items[place].parts[2], " grows", 6) != 0))
            place++;
        assert_true(place < summary.count);
        assert_string_equal(summary.items[place].parts[2],
                            " grows steadily, 195 kB a second, to 4.00 MB (");
        assert_string_equal(summary.items[place].parts[3], "leaks");
        assert_true((place == 0) == !exited);
        summary_clear(&summary);
        profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_chance_does_not_explain_is_a_change),
        cmocka_unit_test(names_are_parts_of_their_own),
        cmocka_unit_test(a_part_of_a_profile_has_none),
        cmocka_unit_test(resident_memory_is_of_its_own_moment),
        cmocka_unit_test(what_grows_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
