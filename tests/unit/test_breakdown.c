/* SPDX-License-Identifier: Apache-2.0 */
/* The breakdown: rows of hand-made paths, and rows of random profiles against an independent
 * sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/explore/breakdown.h"
#include "uint_in_range.h"

#define FRAMES_MAX 32
#define SITES_MAX 512
#define DEPTH_MAX 12

/* A profile of one process and heap. Its callsites are given as text: "main f g". */
struct made {
    struct profile profile;
    struct profile_mapping mappings[2];
    struct profile_frame frames[FRAMES_MAX];
    struct profile_callsite callsites[SITES_MAX * DEPTH_MAX];
    struct profile_process process;
    struct profile_thread threads[2];
    struct profile_heap heap;
    struct profile_dump dumps[2];
    struct profile_sample samples[2][SITES_MAX];
    struct profile_part parts[2][SITES_MAX];
    const struct profile_sample *pointers[2][SITES_MAX];
    struct export_dump chosen[2];
    struct diff_side sides[2];
    char names[FRAMES_MAX][16];
};

static void make(struct made *made)
{
    memset(made, 0, sizeof(*made));
    made->mappings[0] = (struct profile_mapping){.path = "/usr/bin/example", .build_id = ""};
    made->mappings[1] = (struct profile_mapping){.path = "/usr/lib/libother.so.1", .build_id = ""};
    made->process = (struct profile_process){.pid = 7, .name = "example", .command = ""};
    made->threads[0] = (struct profile_thread){7, 7, "main"};
    made->threads[1] = (struct profile_thread){8, 7, "worker"};
    made->heap =
        (struct profile_heap){.name = "libc.malloc", .dumps = made->dumps, .dump_count = 2};
    for (int i = 0; i < 2; i++) {
        made->dumps[i].samples = made->pointers[i];
        made->chosen[i] = (struct export_dump){&made->heap, &made->dumps[i]};
        made->sides[i] = (struct diff_side){&made->profile, &made->chosen[i], 1};
    }
    made->profile = (struct profile){.mappings = made->mappings,
                                     .mapping_count = 2,
                                     .frames = made->frames,
                                     .callsites = made->callsites,
                                     .processes = &made->process,
                                     .process_count = 1,
                                     .threads = made->threads,
                                     .thread_count = 2,
                                     .heaps = &made->heap,
                                     .heap_count = 1,
                                     .warning = ""};
}

/* Functions whose names begin with 'o' are in the other module. */
static uint32_t frame_of(struct made *made, const char *name, size_t length)
{
    for (uint32_t i = 0; i < made->profile.frame_count; i++)
        if (strlen(made->names[i]) == length && strncmp(made->names[i], name, length) == 0)
            return i;
    uint32_t index = (uint32_t)made->profile.frame_count++;
    assert_uint_in_range(index, 0, FRAMES_MAX - 1);
    snprintf(made->names[index], sizeof(made->names[index]), "%.*s", (int)length, name);
    made->frames[index] = (struct profile_frame){.name = made->names[index],
                                                 .linkage_name = made->names[index],
                                                 .obfuscated_name = "",
                                                 .source_file = "",
                                                 .mapping = *name == 'o' ? 1 : 0};
    return index;
}

static uint32_t callsite_of(struct made *made, const char *stack)
{
    uint32_t at = PROFILE_NONE, depth = 0;
    while (*stack != '\0') {
        size_t length = strcspn(stack, " ");
        uint32_t next = (uint32_t)made->profile.callsite_count++;
        assert_uint_in_range(next, 0, SITES_MAX * DEPTH_MAX - 1);
        made->callsites[next] =
            (struct profile_callsite){at, frame_of(made, stack, length), depth++};
        at = next;
        stack += length + (stack[length] != '\0');
    }
    return at;
}

/* Add live bytes in dumps 0 and 1, ten bytes an allocation. */
static void add(struct made *made, const char *stack, const char *type, int thread, double first,
                double last)
{
    const double bytes[2] = {first, last};
    uint32_t callsite = callsite_of(made, stack);
    for (int i = 0; i < 2; i++) {
        size_t index = made->dumps[i].sample_count++;
        struct profile_sample *sample = &made->samples[i][index];
        struct profile_part *part = &made->parts[i][index];
        made->pointers[i][index] = sample;
        sample->callsite = callsite;
        sample->figures.allocated_bytes = bytes[i] * 2;
        sample->figures.allocated_count = bytes[i] / 5;
        sample->figures.freed_bytes = bytes[i];
        sample->figures.freed_count = bytes[i] / 10;
        sample->peak.bytes = bytes[i] * 1.5;
        *part = (struct profile_part){.tid = 7 + thread,
                                      .type = type,
                                      .context = "",
                                      .figures = sample->figures,
                                      .peak.bytes = sample->peak.bytes};
        sample->parts = part;
        sample->part_count = 1;
        sample->tagged = *type != '\0';
        made->dumps[i].part_count++;
    }
}

/* --- a breakdown as text: "f=30 g=20", by size --- */

struct seen {
    struct sites *sites;
    struct breakdown *breakdown;
    struct breakdown_rows rows;
    char text[4096];
};

static void see(struct seen *seen, struct made *made, size_t first, size_t columns)
{
    memset(seen, 0, sizeof(*seen));
    seen->sites = sites_new(&made->sides[first], columns);
    assert_non_null(seen->sites);
    seen->breakdown = breakdown_new(seen->sites);
    assert_non_null(seen->breakdown);
}

static void stop_seeing(struct seen *seen)
{
    breakdown_rows_free(&seen->rows);
    breakdown_free(seen->breakdown);
    sites_free(seen->sites);
}

static const char *rows_of(struct seen *seen, enum sites_dimension dimension)
{
    const struct breakdown_order order = {.column = BREAKDOWN_ALL_COLUMNS};
    size_t used = 0;
    seen->text[0] = '\0';
    breakdown_rows(seen->breakdown, dimension, &seen->rows);
    breakdown_sort(seen->breakdown, dimension, &order, &seen->rows);
    for (size_t i = 0; i < seen->rows.count; i++) {
        struct sites_value value = breakdown_aggregate_of(
            &seen->rows.rows[i], seen->sites->column_count, BREAKDOWN_DIFFERENCE);
        used += (size_t)snprintf(
            seen->text + used, sizeof(seen->text) - used, "%s%s=%g", i > 0 ? " " : "",
            seen->sites->keys[dimension].keys[seen->rows.rows[i].key].label, value.bytes);
        assert_true(used < sizeof(seen->text));
    }
    return seen->text;
}

static uint32_t key_of(const struct seen *seen, enum sites_dimension dimension, const char *label)
{
    const struct sites_keys *keys = &seen->sites->keys[dimension];
    for (uint32_t i = 0; i < keys->count; i++)
        if (strcmp(keys->keys[i].label, label) == 0)
            return i;
    fail_msg("nothing is called %s", label);
    return 0;
}

static void enter(struct seen *seen, enum sites_dimension dimension, const char *label)
{
    struct breakdown_step step = {dimension, key_of(seen, dimension, label)};
    assert_int_equal(breakdown_enter(seen->breakdown, step), 0);
}

static double total_of(const struct seen *seen)
{
    size_t steps;
    breakdown_path(seen->breakdown, &steps);
    return breakdown_total(seen->breakdown, steps).values[0].bytes;
}

static void make_example(struct made *made)
{
    make(made);
    add(made, "main f g", "Text", 0, 10, 40);
    add(made, "main f", "Text", 0, 20, 20);
    add(made, "main f other", "Image", 1, 30, 0);
    add(made, "main g f g", "Image", 0, 40, 50);
    add(made, "start other", "", 1, 50, 50);
}

static struct made made;
static struct seen seen;

#define EXAMPLE_TEST(test) cmocka_unit_test_setup_teardown(test, open_example, close_example)

/* Tests of the example begin with its first dump. */
static int open_example(void **state)
{
    (void)state;
    make_example(&made);
    see(&seen, &made, 0, 1);
    return 0;
}

static int close_example(void **state)
{
    (void)state;
    stop_seeing(&seen);
    return 0;
}

static void tree(void **state)
{
    (void)state;
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=100 start=50");
    enter(&seen, SITES_FRAME, "main");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "f=60 g=40");
    enter(&seen, SITES_FRAME, "f");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "other=30 <self>=20 g=10");
    assert_true(total_of(&seen) == 60);
    enter(&seen, SITES_FRAME, "<self>");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "");
    assert_string_equal(rows_of(&seen, SITES_TYPE), "Text=20");
    while (breakdown_leave(seen.breakdown))
        ;
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=100 start=50");
}

static void type_and_stack_in_any_order(void **state)
{
    (void)state;
    assert_string_equal(rows_of(&seen, SITES_TYPE), "Image=70 [no type]=50 Text=30");
    enter(&seen, SITES_TYPE, "Image");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=70");
    enter(&seen, SITES_FRAME, "main");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "g=40 f=30");
    assert_string_equal(rows_of(&seen, SITES_TYPE), "Image=70");
    struct breakdown_step again = {SITES_TYPE, key_of(&seen, SITES_TYPE, "Text")};
    assert_int_equal(breakdown_enter(seen.breakdown, again), -EEXIST);
    breakdown_leave(seen.breakdown);
    breakdown_leave(seen.breakdown);
    enter(&seen, SITES_FRAME, "main");
    assert_string_equal(rows_of(&seen, SITES_TYPE), "Image=70 Text=30");
    enter(&seen, SITES_TYPE, "Image");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "g=40 f=30");
}

static void heavy(void **state)
{
    (void)state;
    breakdown_set_mode(seen.breakdown, BREAKDOWN_HEAVY);
    /* g is twice on one stack, and counts once. */
    assert_string_equal(rows_of(&seen, SITES_FRAME),
                        "<self>=150 f=100 main=100 other=80 g=50 start=50");
    enter(&seen, SITES_FRAME, "g");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "<self>=50 f=40");
    assert_true(total_of(&seen) == 50);
    enter(&seen, SITES_FRAME, "f");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "g=40");
}

static void bottom_up(void **state)
{
    (void)state;
    enter(&seen, SITES_FRAME, "main");
    enter(&seen, SITES_THREAD, "main (7)");
    breakdown_set_mode(seen.breakdown, BREAKDOWN_BOTTOM_UP);
    assert_true(total_of(&seen) == 70); /* the thread's total: the steps into frames are undone */
    breakdown_leave(seen.breakdown);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "other=80 g=50 f=20");
    assert_string_equal(rows_of(&seen, SITES_MODULE), "libother.so.1=80 example=70");
    enter(&seen, SITES_FRAME, "other");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "start=50 f=30");
    enter(&seen, SITES_FRAME, "f");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=30");
    enter(&seen, SITES_FRAME, "main");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "");
    assert_true(total_of(&seen) == 30);
}

static void types_if_the_profile_has_any(void **state)
{
    (void)state;
    for (int typed = 0; typed < 2; typed++) {
        make(&made);
        add(&made, "main f", typed ? "Text" : "", 0, 10, 10);
        see(&seen, &made, 0, 1);
        assert_int_equal(sites_has_dimension(seen.sites, SITES_TYPE), typed == 1);
        stop_seeing(&seen);
    }
}

static void modules_and_threads(void **state)
{
    (void)state;
    assert_string_equal(rows_of(&seen, SITES_THREAD), "worker (8)=80 main (7)=70");
    assert_string_equal(rows_of(&seen, SITES_MODULE), "libother.so.1=80 example=70");
    enter(&seen, SITES_MODULE, "libother.so.1");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "start=50 main=30");
    breakdown_set_mode(seen.breakdown, BREAKDOWN_HEAVY);
    assert_string_equal(rows_of(&seen, SITES_MODULE), "example=150 libother.so.1=80");
    assert_string_equal(rows_of(&seen, SITES_PROCESS), "example (7)=150");
    assert_string_equal(rows_of(&seen, SITES_HEAP), "libc.malloc=150");
}

static void two_dumps(void **state)
{
    (void)state;
    make_example(&made);
    see(&seen, &made, 0, 2);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=10 start=0");
    enter(&seen, SITES_FRAME, "main");
    enter(&seen, SITES_FRAME, "f");
    assert_string_equal(rows_of(&seen, SITES_FRAME), "g=30 <self>=0 other=-30");
    const struct breakdown_row *shrunk = &seen.rows.rows[2];
    assert_true(shrunk->values[0].bytes == 30 && shrunk->values[1].bytes == 0);
    assert_true(breakdown_aggregate_of(shrunk, 2, BREAKDOWN_MAX).bytes == 30);
    stop_seeing(&seen);
}

/* Two runs of a program: the pids and the numbers of frames differ. */
static void two_profiles(void **state)
{
    static struct made other;
    (void)state;
    make_example(&made);
    make(&other);
    add(&other, "start other", "", 1, 0, 70);
    add(&other, "main f g", "Text", 0, 0, 15);
    other.process.pid = 9;
    other.threads[0].pid = other.threads[1].pid = 9;
    struct diff_side sides[2] = {made.sides[0], other.sides[1]};
    seen = (struct seen){.sites = sites_new(sides, 2)};
    seen.breakdown = breakdown_new(seen.sites);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "start=20 main=-85");
    assert_string_equal(rows_of(&seen, SITES_THREAD), "worker=-10 main=-55");
    assert_string_equal(rows_of(&seen, SITES_PROCESS), "example=-65");
    assert_string_equal(rows_of(&seen, SITES_TYPE), "[no type]=20 Text=-15 Image=-70");
    stop_seeing(&seen);
}

static void figures(void **state)
{
    (void)state;
    breakdown_set_figure(seen.breakdown, DIFF_ALLOCATED);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=200 start=100");
    assert_true(seen.rows.rows[0].values[0].count == 20);
    breakdown_set_figure(seen.breakdown, DIFF_PEAK);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=150 start=75");
    /* Freed memory leaves no live row. */
    breakdown_set_figure(seen.breakdown, DIFF_LIVE);
    breakdown_free(seen.breakdown);
    sites_free(seen.sites);
    made.samples[0][4].figures.freed_bytes = 110;
    made.samples[0][4].figures.freed_count = 10;
    seen.sites = sites_new(made.sides, 1);
    seen.breakdown = breakdown_new(seen.sites);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "main=100");
}

/* A sample of several threads: the peak of each thread is unknown. */
static void peak_by_thread(void **state)
{
    struct profile_part parts[2] = {{.tid = 7, .type = "", .context = ""},
                                    {.tid = 8, .type = "", .context = ""}};
    (void)state;
    make(&made);
    add(&made, "main", "", 0, 100, 100);
    parts[0].figures.allocated_bytes = 60;
    parts[1].figures.allocated_bytes = 140;
    made.samples[0][0].parts = parts;
    made.samples[0][0].part_count = 2;
    see(&seen, &made, 0, 1);
    breakdown_set_figure(seen.breakdown, DIFF_ALLOCATED);
    assert_string_equal(rows_of(&seen, SITES_THREAD), "worker (8)=140 main (7)=60");
    breakdown_set_figure(seen.breakdown, DIFF_PEAK);
    assert_string_equal(rows_of(&seen, SITES_THREAD), "[not known]=150");
    stop_seeing(&seen);
}

/* <self> precedes rows of the same size, whatever their names. */
static void self_first(void **state)
{
    (void)state;
    make(&made);
    add(&made, "!first", "", 0, 10, 0);
    see(&seen, &made, 0, 1);
    breakdown_set_mode(seen.breakdown, BREAKDOWN_HEAVY);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "<self>=10 !first=10");
    stop_seeing(&seen);
}

static bool is_called(void *context, const struct sites_key *key)
{
    return strcmp(key->label, context) == 0;
}

static void search(void **state)
{
    struct breakdown_finds finds = {0};
    (void)state;
    breakdown_search(seen.breakdown, is_called, "other", &finds);
    assert_int_equal(finds.count, 2);
    assert_int_equal(finds.finds[0].length, 2);
    assert_true(finds.finds[0].bytes == 50);
    assert_int_equal(finds.finds[0].frames[0], key_of(&seen, SITES_FRAME, "start"));
    assert_int_equal(finds.finds[1].length, 3);
    breakdown_finds_free(&finds);
    /* The match nearest to the root of a stack: main g, not main g f g. */
    breakdown_search(seen.breakdown, is_called, "g", &finds);
    assert_int_equal(finds.count, 2);
    assert_int_equal(finds.finds[0].length, 2);
    assert_true(finds.finds[0].bytes == 40);
    breakdown_finds_free(&finds);
    enter(&seen, SITES_FRAME, "start");
    breakdown_search(seen.breakdown, is_called, "other", &finds);
    assert_int_equal(finds.count, 0); /* it is a row */
    breakdown_finds_free(&finds);
}

static void go_and_back(void **state)
{
    (void)state;
    enter(&seen, SITES_TYPE, "Text");
    enter(&seen, SITES_FRAME, "main");
    struct breakdown_step steps[2] = {{SITES_FRAME, key_of(&seen, SITES_FRAME, "start")},
                                      {SITES_FRAME, key_of(&seen, SITES_FRAME, "other")}};
    assert_int_equal(breakdown_go(seen.breakdown, steps, 2), 0);
    assert_true(total_of(&seen) == 50);
    assert_true(breakdown_total(seen.breakdown, 0).values[0].bytes == 150);
    /* An impossible path leaves the old path in place. */
    struct breakdown_step twice[2] = {{SITES_TYPE, 0}, {SITES_TYPE, 1}};
    assert_int_equal(breakdown_go(seen.breakdown, twice, 2), -EEXIST);
    assert_true(total_of(&seen) == 50);
    assert_string_equal(rows_of(&seen, SITES_FRAME), "<self>=50");
}

/* --- random profiles: each row is the sum over the callsites of a plain definition --- */

struct site {
    char stack[64];
    double bytes;
};

/* Return whether `stack` has the functions of `path` in this mode. Both are texts like "a b c". */
static bool has_path(const char *stack, const char *path, enum breakdown_mode mode)
{
    char outer[128], inner[128];
    snprintf(outer, sizeof(outer), " %.100s <self> ", stack);
    snprintf(inner, sizeof(inner), " %.100s ", path);
    if (mode == BREAKDOWN_BOTTOM_UP) {
        char end[140];
        snprintf(end, sizeof(end), "%s<self> ", inner);
        return strlen(end) <= strlen(outer) &&
               strcmp(outer + strlen(outer) - strlen(end), end) == 0;
    }
    const char *found = strstr(outer, inner);
    return mode == BREAKDOWN_TREE ? found == outer : found != NULL;
}

static void turn_around(const char *path, char *turned)
{
    char words[8][16];
    int count = sscanf(path, "%15s %15s %15s %15s", words[0], words[1], words[2], words[3]);
    *turned = '\0';
    while (count-- > 0) {
        strcat(turned, words[count]);
        strcat(turned, count > 0 ? " " : "");
    }
}

static void check_path(const struct site *sites, size_t count, enum breakdown_mode mode,
                       const char *path)
{
    char whole[80], turned[80];
    breakdown_rows(seen.breakdown, SITES_FRAME, &seen.rows);
    for (size_t i = 0; i < seen.sites->keys[SITES_FRAME].count; i++) {
        const char *label = seen.sites->keys[SITES_FRAME].keys[i].label;
        double wanted = 0, is = 0;
        snprintf(whole, sizeof(whole), "%s%s%s", path, *path != '\0' ? " " : "", label);
        turn_around(whole, turned);
        for (size_t j = 0; j < count; j++)
            if (has_path(sites[j].stack, mode == BREAKDOWN_BOTTOM_UP ? turned : whole, mode))
                wanted += sites[j].bytes;
        for (size_t j = 0; j < seen.rows.count; j++)
            if (seen.rows.rows[j].key == i)
                is = seen.rows.rows[j].values[0].bytes;
        assert_true(is == wanted);
    }
}

static void random_profiles(void **state)
{
    static struct site sites[60];
    (void)state;
    srandom(7);
    for (int round = 0; round < 60; round++) {
        make(&made);
        for (size_t i = 0; i < 60; i++) {
            size_t depth = 1 + (size_t)random() % 7;
            sites[i].stack[0] = '\0';
            for (size_t j = 0; j < depth; j++) {
                char name[8];
                snprintf(name, sizeof(name), "%s%c", j > 0 ? " " : "", (char)('a' + random() % 4));
                strcat(sites[i].stack, name);
            }
            sites[i].bytes = (double)(1 + random() % 1000);
            add(&made, sites[i].stack, "", 0, sites[i].bytes, 0);
        }
        see(&seen, &made, 0, 1);
        for (int mode = 0; mode < BREAKDOWN_MODES; mode++) {
            char path[80] = "";
            breakdown_set_mode(seen.breakdown, (enum breakdown_mode)mode);
            for (int step = 0; step < 3; step++) {
                check_path(sites, 60, (enum breakdown_mode)mode, path);
                if (seen.rows.count == 0)
                    break;
                uint32_t key = seen.rows.rows[(size_t)random() % seen.rows.count].key;
                const char *label = seen.sites->keys[SITES_FRAME].keys[key].label;
                enter(&seen, SITES_FRAME, label);
                strcat(path, *path != '\0' ? " " : "");
                strcat(path, label);
            }
        }
        stop_seeing(&seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXAMPLE_TEST(tree),
        EXAMPLE_TEST(type_and_stack_in_any_order),
        EXAMPLE_TEST(heavy),
        EXAMPLE_TEST(bottom_up),
        cmocka_unit_test(types_if_the_profile_has_any),
        EXAMPLE_TEST(modules_and_threads),
        cmocka_unit_test(two_dumps),
        cmocka_unit_test(two_profiles),
        EXAMPLE_TEST(figures),
        cmocka_unit_test(peak_by_thread),
        cmocka_unit_test(self_first),
        EXAMPLE_TEST(search),
        EXAMPLE_TEST(go_and_back),
        cmocka_unit_test(random_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
