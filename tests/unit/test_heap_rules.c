/* SPDX-License-Identifier: Apache-2.0 */
/* The heaps that a configuration selects, as rules for the client: names, intervals and
 * precedence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/session/heap_rules.h"

static struct ring_heaps rules;

/* Read the configuration in this text into the client's rules. */
static void read_config(const char *fields, struct heap_config *config)
{
    char text[1024];
    struct error error = {0};
    snprintf(text, sizeof(text),
             "data_sources { config { name: \"android.heapprofd\" heapprofd_config {\n"
             "sampling_interval_bytes: 4096 process_cmdline: \"x\" %s } } }",
             fields);
    int code = heap_config_read_text(text, strlen(text), config, NULL, &error);
    if (code < 0)
        fail_msg("%s", error.message);
    heap_rules_fill(&rules, config);
}

/* Return the interval that a client derives from the rules: of the first rule with the heap's name,
 * or else of the other heaps. */
static uint64_t client_interval(const char *name)
{
    for (uint32_t i = 0; i < rules.count; i++) {
        if (strcmp(rules.rules[i].name, name) == 0)
            return rules.rules[i].interval_bytes;
    }
    return rules.other_interval_bytes;
}

static void expect(const char *fields, uint64_t malloc_bytes, uint64_t pool_bytes,
                   uint64_t other_bytes, uint64_t mmap_bytes)
{
    struct heap_config config;
    struct error error = {0};
    read_config(fields, &config);
    assert_int_equal(0, heap_config_check_targets(&config, &error));
    assert_int_equal(malloc_bytes, heap_config_interval_of(&config, HEAP_CONFIG_MALLOC));
    assert_int_equal(pool_bytes, client_interval("pool"));
    assert_int_equal(other_bytes, client_interval("other"));
    assert_int_equal(mmap_bytes, client_interval(HEAP_CONFIG_MMAP));
    heap_config_clear(&config);
}

static void test_malloc_alone_is_the_default(void **state)
{
    (void)state;
    expect("", 4096, 0, 0, 0);
    expect("exclude_heaps: \"pool\"", 4096, 0, 0, 0);
}

static void test_named_heaps_are_profiled_and_no_other(void **state)
{
    (void)state;
    expect("heaps: \"pool\"", 0, 4096, 0, 0);
    expect("heaps: [\"pool\", \"libc.malloc\"]", 4096, 4096, 0, 0);
    expect("heaps: [\"pool\", \"other\"] exclude_heaps: \"other\"", 0, 4096, 0, 0);
}

static void test_all_heaps_but_those_excluded(void **state)
{
    (void)state;
    expect("all_heaps: true", 4096, 4096, 4096, 0);
    expect("all_heaps: true exclude_heaps: [\"pool\", \"libc.malloc\"]", 0, 0, 4096, 0);
}

static void test_allocators_of_libraries_unless_heaps_are_named(void **state)
{
    static const struct {
        const char *fields;
        uint64_t interval_bytes;
    } cases[] = {{"", 4096},
                 {"all_heaps: true", 4096},
                 {"heaps: \"libc.malloc\"", 0},
                 {"exclude_heaps: \"engine.malloc\"", 4096}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct heap_config config;
        read_config(cases[i].fields, &config);
        assert_int_equal(cases[i].interval_bytes, rules.families_interval_bytes);
        heap_config_clear(&config);
    }
    assert_int_equal(0, client_interval("engine.malloc")); /* a rule of its own */
}

static void test_each_heap_has_its_interval(void **state)
{
    (void)state;
    expect("heaps: [\"pool\", \"libc.malloc\"] heap_sampling_intervals: [5, 1]", 1, 5, 0, 0);
    expect("heaps: [\"libc.malloc\"] heap_sampling_intervals: [77] all_heaps: true", 77, 4096, 4096,
           0);
    expect("heaps: [\"pool\", \"other\"] heap_sampling_intervals: [5, 6] exclude_heaps: \"pool\"",
           0, 0, 6, 0);
}

static void test_mappings_must_be_requested(void **state)
{
    (void)state;
    expect("heaps: [\"libc.mmap\"]", 0, 0, 0, 1);
    expect("heaps: [\"libc.mmap\"] all_heaps: true", 4096, 4096, 4096, 1);
    expect("heaps: [\"libc.mmap\", \"pool\"] heap_sampling_intervals: [1, 5]", 0, 5, 0, 1);
    expect("heaps: [\"libc.mmap\"] all_heaps: true exclude_heaps: \"libc.mmap\"", 4096, 4096, 4096,
           0);
}

static void expect_refused(const char *fields, const char *reason)
{
    struct heap_config config;
    struct error error = {0};
    read_config(fields, &config);
    assert_true(heap_config_check_targets(&config, &error) < 0);
    assert_non_null(strstr(error.message, reason));
    heap_config_clear(&config);
}

static void test_contradictory_rules_are_refused(void **state)
{
    (void)state;
    expect_refused("exclude_heaps: \"libc.malloc\"", "no heap is left");
    expect_refused("heaps: \"pool\" exclude_heaps: \"pool\"", "no heap is left");
    expect_refused("heaps: \"pool\" heap_sampling_intervals: [1, 2]",
                   "(--heap-intervals) are 2, heaps (--heaps) 1");
    expect_refused("heaps: \"pool\" heap_sampling_intervals: 0", "heap pool is 0");
    expect_refused("heaps: \"libc.mmap\" heap_sampling_intervals: 4096", "in full");
    expect_refused("exclude_heaps: \"\"", "heap name");
    expect_refused("heaps: \"a2345678901234567890123456789012345678901234567890123456789012345\"",
                   "heap name");
}

static void expect_others(const char *text, bool wanted)
{
    struct heap_config config;
    read_config(text, &config);
    assert_int_equal(wanted, heap_rules_want_others(&config));
    heap_config_clear(&config);
}

static void test_malloc_does_not_count_as_other_heap(void **state)
{
    (void)state;
    expect_others("", false);
    expect_others("heaps: \"libc.malloc\"", false);
    expect_others("heaps: \"libc.malloc\" heaps: \"pool\"", true);
    expect_others("heaps: \"libc.mmap\"", true);
    expect_others("heaps: \"libc.malloc\" heaps: \"pool\" exclude_heaps: \"pool\"", false);
    expect_others("all_heaps: true", true);
}

static void test_rules_never_overflow(void **state)
{
    (void)state;
    struct heap_config config;
    char names[300][8], *list[301];
    for (int i = 0; i < 300; i++) {
        snprintf(names[i], sizeof(names[i]), "h%d", i);
        list[i] = names[i];
    }
    list[300] = NULL;
    heap_config_init(&config);
    config.heaps = list;
    struct error error = {0};
    assert_true(heap_config_check(&config, &error) < 0);
    heap_rules_fill(&rules, &config);
    assert_int_equal(RING_HEAPS_MAX, rules.count);
    list[254] = NULL;
    assert_int_equal(0, heap_config_check(&config, &error));
    heap_rules_fill(&rules, &config);
    assert_int_equal(4096, client_interval("h253"));
    assert_int_equal(0, client_interval(HEAP_CONFIG_MMAP));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malloc_alone_is_the_default),
        cmocka_unit_test(test_named_heaps_are_profiled_and_no_other),
        cmocka_unit_test(test_all_heaps_but_those_excluded),
        cmocka_unit_test(test_allocators_of_libraries_unless_heaps_are_named),
        cmocka_unit_test(test_each_heap_has_its_interval),
        cmocka_unit_test(test_mappings_must_be_requested),
        cmocka_unit_test(test_contradictory_rules_are_refused),
        cmocka_unit_test(test_malloc_does_not_count_as_other_heap),
        cmocka_unit_test(test_rules_never_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
