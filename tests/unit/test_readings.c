/* SPDX-License-Identifier: Apache-2.0 */
/* The readings of a process's memory: where each column comes from, and which readings stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/answers/readings.h"

#define UNKNOWN PROFILE_UNKNOWN_BYTES
#define POINT(time, rss)                                                                           \
    {                                                                                              \
        .boottime_ns = (time), .rss_bytes = (rss), .rss_file_bytes = UNKNOWN,                      \
        .rss_shmem_bytes = UNKNOWN, .swap_bytes = UNKNOWN                                          \
    }

/* Write the readings of process 0, and compare them with the expected text. */
static void assert_readings(const struct profile *profile, size_t most, const char *expected)
{
    struct view_snapshots snapshots;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct json_writer json = json_begin(out);
    view_snapshots_gather(&snapshots, profile);
    json_object(&json, NULL);
    view_readings_write(&json, profile, 0, &snapshots, most);
    json_end_object(&json);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
    view_snapshots_free(&snapshots);
}

static void swap_is_of_snapshots_if_the_timeline_has_none(void **state)
{
    (void)state;
    struct profile_memory_point points[] = {POINT(10, 500), POINT(20, 0), POINT(30, 700)};
    struct profile_process process = {.timeline = points, .timeline_count = 3};
    struct profile_memory_snapshot snapshots[] = {
        {.values = {.boottime_ns = 25, .parts[MEMORY_ALLOCATOR] = {90, 7, 0, 0, 0}}, .process = 0},
        {.values = {.boottime_ns = 15, .parts[MEMORY_ALLOCATOR] = {91, 1, 0, 0, 0}}, .process = 1}};
    struct profile profile = {.processes = &process,
                              .process_count = 1,
                              .memory_snapshots = snapshots,
                              .memory_snapshot_count = 2};
    assert_readings(&profile, 100,
                    "{\"memory\":{\"all\":4,\"time\":[10,20,25,30],\"rss\":[500,null,null,700],"
                    "\"anonymous\":null,\"file\":null,\"shmem\":null,"
                    "\"swap\":[null,null,7,null],\"live\":null}}");
    points[0].swap_bytes = 0;
    assert_readings(&profile, 100,
                    "{\"memory\":{\"all\":3,\"time\":[10,20,30],\"rss\":[500,null,700],"
                    "\"anonymous\":null,\"file\":null,\"shmem\":null,"
                    "\"swap\":[0,null,null],\"live\":null}}");
}

static void a_sum_of_mappings_is_known_if_all_are(void **state)
{
    (void)state;
    const uint32_t resident = PROFILE_SMAPS_PRIVATE_DIRTY | PROFILE_SMAPS_PRIVATE_CLEAN |
                              PROFILE_SMAPS_SHARED_DIRTY | PROFILE_SMAPS_SHARED_CLEAN;
    struct profile_smaps smaps[] = {
        {.boottime_ns = 5, .private_dirty_kb = 2, .swap_kb = 1, .known = UINT32_MAX},
        {.boottime_ns = 5, .shared_clean_resident_kb = 3, .swap_kb = 1, .known = UINT32_MAX},
        {.boottime_ns = 6, .private_dirty_kb = 4, .known = resident},
        {.boottime_ns = 7, .private_dirty_kb = 4, .known = PROFILE_SMAPS_PRIVATE_DIRTY}};
    struct profile_process process = {0};
    struct profile profile = {
        .processes = &process, .process_count = 1, .smaps = smaps, .smaps_count = 4};
    assert_readings(&profile, 100,
                    "{\"memory\":{\"all\":3,\"time\":[5,6,7],\"rss\":[5120,4096,null],"
                    "\"anonymous\":null,\"file\":null,\"shmem\":null,"
                    "\"swap\":[2048,null,null],\"live\":null}}");
}

static void the_highest_and_gaps_stay(void **state)
{
    (void)state;
    struct profile_memory_point points[] = {POINT(1, 5), POINT(2, 9), POINT(3, 7),
                                            POINT(4, 6), POINT(5, 0), POINT(6, 8)};
    struct profile_process process = {.timeline = points, .timeline_count = 6};
    points[2].heap_bytes = 4;
    struct profile profile = {.processes = &process, .process_count = 1};
    assert_readings(&profile, 2, /* groups of four: 6 / 2 + 1 */
                    "{\"memory\":{\"all\":6,\"time\":[2,3,5,6],\"rss\":[9,7,null,8],"
                    "\"anonymous\":null,\"file\":null,\"shmem\":null,\"swap\":null,"
                    "\"live\":[null,4,null,null]}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swap_is_of_snapshots_if_the_timeline_has_none),
        cmocka_unit_test(a_sum_of_mappings_is_known_if_all_are),
        cmocka_unit_test(the_highest_and_gaps_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
