/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of MemoryInfra's JSON: dumps, types, our own notes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory_infra_json.h"
#include "profile/import/import.h"

static struct profile *read_profile(const char *json)
{
    struct error error = {0};
    struct profile *profile = import_profile_bytes(json, strlen(json), NULL, &error);
    if (profile == NULL)
        fail_msg("%s", error.message);
    return profile;
}

#define MAPS                                                                                       \
    "\"maps\":{\"strings\":[{\"id\":1,\"string\":\"main\"},{\"id\":2,\"string\":\"f\"},{\"id\":3," \
    "\"string\":\"[unknown]\"},{\"id\":4,\"string\":\"T\"}],\"nodes\":[{\"id\":1,\"name_sid\":1}," \
    "{\"id\":2,\"name_sid\":2,\"parent\":1}],\"types\":[{\"id\":0,\"name_sid\":3},{\"id\":1,"      \
    "\"name_sid\":4}]}"
#define EVENT(id, pid, ts, columns)                                                                \
    "{\"ph\":\"v\",\"id\":\"" id "\",\"pid\":" pid ",\"ts\":" ts                                   \
    ",\"args\":{\"dumps\":{\"heaps_v2\":{\"version\":1," MAPS ",\"allocators\":{" columns "}}}}}"

static double live_bytes(const struct profile_sample *sample)
{
    return sample->figures.allocated_bytes - sample->figures.freed_bytes;
}

static double live_count(const struct profile_sample *sample)
{
    return sample->figures.allocated_count - sample->figures.freed_count;
}

static void types_are_parts_and_counts_have_fractions(void **state)
{
    (void)state;
    struct profile *profile = read_profile(
        "[" EVENT("0x1", "7", "1000", COLUMNS("2,2,1", "0,1,0", "1.5,2,3", "10,20,30")));
    assert_int_equal(profile->heap_count, 1);
    assert_string_equal(profile->heaps[0].name, "malloc");
    assert_int_equal(profile->processes[profile->heaps[0].process].pid, 7);
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    assert_int_equal(dump->boottime_ns, 1000000);
    assert_true(dump->final);
    assert_int_equal(dump->sample_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct profile_sample *sample = dump->samples[i];
        const struct profile_callsite *callsite = &profile->callsites[sample->callsite];
        if (callsite->depth == 0) {
            assert_string_equal(profile->frames[callsite->frame].name, "main");
            assert_int_equal(sample->part_count, 0);
            assert_true(live_bytes(sample) == 30 && live_count(sample) == 3);
            continue;
        }
        assert_string_equal(profile->frames[callsite->frame].name, "f");
        assert_int_equal(sample->part_count, 2);
        assert_true(sample->tagged && live_bytes(sample) == 30 && live_count(sample) == 3.5);
        assert_true(live_count(sample) == sample->parts[0].figures.allocated_count +
                                              sample->parts[1].figures.allocated_count);
    }
    profile_free(profile);
}

/* The file has the later dump first. */
static void dumps_are_sorted_by_time_and_share_unchanged_samples(void **state)
{
    (void)state;
    struct profile *profile =
        read_profile("[" EVENT("0x2", "7", "2000", COLUMNS("2", "1", "1", "20")) "," EVENT(
            "0x1", "7", "1000",
            COLUMNS("2,1", "1,0", "1,2", "20,30")) "," EVENT("0x3", "7", "3000",
                                                             COLUMNS("2,1", "1,0", "1,1",
                                                                     "20,10")) "]");
    assert_int_equal(profile->heaps[0].dump_count, 3);
    const struct profile_dump *dumps = profile->heaps[0].dumps;
    const struct profile_sample *of_main[3], *of_f[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(dumps[i].boottime_ns, (i + 1) * 1000000);
        assert_int_equal(dumps[i].final, i == 2);
        assert_int_equal(dumps[i].sample_count, 2);
        bool first = profile->callsites[dumps[i].samples[0]->callsite].depth == 0;
        of_main[i] = dumps[i].samples[first ? 0 : 1];
        of_f[i] = dumps[i].samples[first ? 1 : 0];
    }
    assert_ptr_equal(of_f[0], of_f[1]);
    assert_ptr_equal(of_f[1], of_f[2]);
    /* Freed and allocated again in between: counters only grow. */
    assert_true(live_bytes(of_main[0]) == 30 && live_bytes(of_main[1]) == 0 &&
                live_bytes(of_main[2]) == 10);
    assert_true(of_main[1]->figures.freed_bytes == 30 && live_count(of_main[1]) == 0);
    assert_true(of_main[2]->figures.allocated_bytes == 40 && of_main[2]->figures.freed_bytes == 30);
    profile_free(profile);
}

static void events_of_one_dump_and_process_add_up(void **state)
{
    (void)state;
    struct profile *profile =
        read_profile("[" EVENT("0x1", "7", "1000", COLUMNS("2", "1", "1", "20")) "," EVENT(
            "0x1", "8", "900",
            COLUMNS(
                "2", "1", "1",
                "40")) "," EVENT("0x1", "7", "1100",
                                 "\"other\":{\"nodes\":[1],\"types\":[0],\"counts\":[1],\"sizes\":"
                                 "[5]}") "]");
    assert_int_equal(profile->heap_count, 3);
    assert_string_equal(profile->warning, "");
    for (size_t i = 0; i < 3; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        /* Of a process's events only the first one counts. */
        bool is_other = profile->processes[heap->process].pid == 8;
        assert_int_equal(heap->dump_count, 1);
        assert_int_equal(heap->dumps[0].boottime_ns, is_other ? 900000 : 1000000);
    }
    profile_free(profile);
}

static void our_own_notes_survive_the_round_trip(void **state)
{
    (void)state;
    struct profile *profile = read_profile(
        "{\"metadata\":{\"heapprofd-process-7\":{\"name\":\"app\",\"command\":\"app "
        "-x\",\"uid\":5},"
        "\"heapprofd-heap-7-0\":{\"name\":\"libc.malloc\",\"allocator\":\"malloc\","
        "\"allocator-frame\":\"f\",\"interval-bytes\":4096},"
        "\"heapprofd-dump-7-0-0x1\":{\"boottime-ns\":77,\"exact-bytes\":99,\"exact-calls\":3}},"
        "\"traceEvents\":[" EVENT("0x1", "7", "1000", COLUMNS("2", "0", "1", "20")) "]}");
    const struct profile_heap *heap = &profile->heaps[0];
    assert_string_equal(heap->name, "libc.malloc");
    assert_int_equal(heap->interval_bytes, 4096);
    assert_int_equal(heap->dumps[0].boottime_ns, 77);
    assert_int_equal(heap->dumps[0].exact_bytes, 99);
    assert_int_equal(heap->dumps[0].exact_calls, 3);
    assert_string_equal(profile->processes[heap->process].command, "app -x");
    assert_int_equal(profile->processes[heap->process].uid, 5);
    /* The frame at the end of every stack is removed. */
    assert_int_equal(profile->callsites[heap->dumps[0].samples[0]->callsite].depth, 0);
    profile_free(profile);
}

static void file_names_of_regions_survive_the_round_trip(void **state)
{
    (void)state;
    struct profile *profile = read_profile(
        "{\"traceEvents\":[{\"pid\":7,\"ts\":1,\"ph\":\"v\",\"id\":\"0x1\",\"args\":{"
        "\"dumps\":{\"process_mmaps\":{\"vm_regions\":[{\"sa\":\"a000\",\"sz\":\"1000\","
        "\"pf\":5,\"mf\":\"/lib/a.so\",\"fo\":\"4000\",\"heapprofd_bias\":\"1000\"}]}}}}," EVENT(
            "0x1", "7", "1", COLUMNS("2", "0", "1", "20")) "]}");
    assert_int_equal(profile->mapping_count, 1);
    assert_int_equal(profile->mappings[0].exact_offset, 0x3000);
    assert_int_equal(profile->mappings[0].load_bias, 0x1000);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_parts_and_counts_have_fractions),
        cmocka_unit_test(dumps_are_sorted_by_time_and_share_unchanged_samples),
        cmocka_unit_test(events_of_one_dump_and_process_add_up),
        cmocka_unit_test(our_own_notes_survive_the_round_trip),
        cmocka_unit_test(file_names_of_regions_survive_the_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
