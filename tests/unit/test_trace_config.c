/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: defaults, invalid values, and equal results for text and binary form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "config.pb-c.h"
#include "trace/config/trace_config.h"

static struct heap_config fresh(void)
{
    struct heap_config config;
    heap_config_init(&config);
    return config;
}

static void defaults_are_valid(void **state)
{
    (void)state;
    struct heap_config config = fresh();
    assert_int_equal(heap_config_check(&config, NULL), 0);
    assert_int_equal(config.sampling_interval_bytes, 4096);
    assert_int_equal(config.shmem_size_bytes, 8388608);
    assert_true(config.block_client);
}

static void both_names_of_the_data_source_are_known(void **state)
{
    (void)state;
    static const char text[] = "data_sources { config { name: \"heapprofd\" heapprofd_config {\n"
                               "sampling_interval_bytes: 77 } } }";
    struct heap_config config;
    struct heap_config_warnings warnings = {0};
    assert_int_equal(heap_config_read(text, strlen(text), &config, &warnings, NULL), 0);
    assert_int_equal(config.sampling_interval_bytes, 77);
    assert_int_equal(warnings.count, 0);
    heap_config_clear(&config);
    assert_true(heap_config_is_source("android.heapprofd", 17));
    assert_false(heap_config_is_source("heapprofd2", 10) || heap_config_is_source(NULL, 0));
}

static void an_interval_of_zero_is_refused(void **state)
{
    (void)state;
    struct heap_config config = fresh();
    struct error error = {0};
    config.sampling_interval_bytes = 0;
    assert_int_equal(heap_config_check(&config, &error), -EINVAL);
    assert_non_null(strstr(error.message, "interval is 0"));
}

static void odd_ring_sizes_are_refused(void **state)
{
    (void)state;
    static const uint64_t bad[] = {0, 1, 4096, 8191, 12288, 8388609, 100000000};
    struct heap_config config = fresh();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        config.shmem_size_bytes = bad[i];
        assert_int_equal(heap_config_check(&config, NULL), -EINVAL);
    }
    config.shmem_size_bytes = 8192;
    assert_int_equal(heap_config_check(&config, NULL), 0);
    config.shmem_size_bytes = UINT64_C(600) << 20; /* truncated, not refused */
    assert_int_equal(heap_config_check(&config, NULL), 0);
}

static void text_is_as_heap_profile_prints_it(void **state)
{
    (void)state;
    struct heap_config config = fresh();
    char *names[] = {"jq", "a \"b\"", NULL};
    config.process_cmdline = names;
    config.duration_ms = 1500;
    config.dump_interval_ms = 100;
    char *text = heap_config_to_text(&config);
    assert_string_equal(text, "buffers {\n"
                              "  size_kb: 63488\n"
                              "}\n\n"
                              "data_sources {\n"
                              "  config {\n"
                              "    name: \"android.heapprofd\"\n"
                              "    target_buffer: 0\n"
                              "    heapprofd_config {\n"
                              "      sampling_interval_bytes: 4096\n"
                              "      process_cmdline: \"jq\"\n"
                              "      process_cmdline: \"a \\\"b\\\"\"\n"
                              "      continuous_dump_config {\n"
                              "        dump_phase_ms: 0\n"
                              "        dump_interval_ms: 100\n"
                              "      }\n"
                              "      shmem_size_bytes: 8388608\n"
                              "      block_client: true\n"
                              "    }\n"
                              "  }\n"
                              "}\n\n"
                              "duration_ms: 1500\n"
                              "write_into_file: true\n"
                              "flush_period_ms: 30000\n"
                              "flush_timeout_ms: 30000\n"
                              "data_source_stop_timeout_ms: 30000\n");
    free(text);
}

static void binary_and_text_configurations_are_equal(void **state)
{
    (void)state;
    struct heap_config config = fresh();
    char *names[] = {"jq", NULL};
    size_t length;
    config.process_cmdline = names;
    config.dump_at_max = true;
    void *bytes = heap_config_to_bytes(&config, &length);
    Perfetto__Protos__TraceConfig *trace =
        perfetto__protos__trace_config__unpack(NULL, length, bytes);
    assert_non_null(trace);
    assert_int_equal(trace->n_data_sources, 1);
    assert_true(trace->write_into_file);
    assert_int_equal(trace->flush_period_ms, 30000);
    assert_int_equal(trace->buffers[0]->size_kb, 63488);
    const Perfetto__Protos__HeapprofdConfig *heapprofd =
        trace->data_sources[0]->config->heapprofd_config;
    assert_int_equal(heapprofd->sampling_interval_bytes, 4096);
    assert_string_equal(heapprofd->process_cmdline[0], "jq");
    assert_true(heapprofd->dump_at_max);
    assert_false(heapprofd->has_no_startup);
    perfetto__protos__trace_config__free_unpacked(trace, NULL);
    free(bytes);
}

static void data_sources_beside_the_heap_are_read_and_printed(void **state)
{
    (void)state;
    static const char text[] =
        "data_sources { config { name: \"android.heapprofd\" heapprofd_config {} } }\n"
        "data_sources { config { name: \"linux.process_stats\" process_stats_config {\n"
        "proc_stats_poll_ms: 20 scan_smaps_rollup: true resolve_process_fds: true } } }\n"
        "data_sources { config { name: \"linux.sys_stats\" sys_stats_config {\n"
        "psi_period_ms: 2000 vmstat_period_ms: 3000 vmstat_counters: VMSTAT_PGFAULT } } }\n"
        "data_sources { config { name: \"linux.ftrace\" } }";
    struct heap_config config, copy;
    struct heap_config_warnings warnings = {0};
    struct error error = {0};
    assert_int_equal(heap_config_read_text(text, strlen(text), &config, &warnings, &error), 0);
    assert_int_equal(warnings.count, 2);
    assert_non_null(strstr(warnings.messages[0], "resolve_process_fds"));
    assert_non_null(strstr(warnings.messages[1], "linux.ftrace"));
    heap_config_warnings_clear(&warnings);
    assert_int_equal(heap_config_copy(&copy, &config), 0);
    const struct heap_timeline *timelines[] = {&config.timeline, &copy.timeline};
    for (size_t i = 0; i < 2; i++) {
        const struct heap_timeline *timeline = timelines[i];
        assert_int_equal(timeline->process_ms, HEAP_TIMELINE_MS); /* the shortest */
        assert_true(timeline->smaps_rollup && !timeline->off);
        assert_int_equal(timeline->psi_ms, 2000);
        assert_int_equal(timeline->meminfo_ms, 0);
        assert_int_equal(timeline->vmstat_ms, 3000);
        assert_true(timeline->vmstat_counters[0] == UINT64_C(1) << 49); /* PGFAULT */
        assert_true(timeline->vmstat_counters[1] == 0 && timeline->vmstat_counters[2] == 0);
    }
    char *printed = heap_config_to_text(&copy);
    assert_non_null(strstr(printed, "vmstat_counters: VMSTAT_PGFAULT\n"));
    free(printed);
    heap_config_clear(&config);
    heap_config_clear(&copy);
}

static void stack_modes_are_read_and_printed(void **state)
{
    (void)state;
    static const char text[] =
        "data_sources { config { name: \"android.heapprofd\"\n"
        "heapprofd_config { sampling_interval_bytes: 1 stack_mode: MIXED } } }";
    struct heap_config config, copy;
    struct error error = {0};
    assert_int_equal(heap_config_read_text(text, strlen(text), &config, NULL, &error), 0);
    assert_int_equal(config.stack_mode, HEAP_STACK_MIXED);
    assert_int_equal(heap_config_copy(&copy, &config), 0);
    assert_int_equal(copy.stack_mode, HEAP_STACK_MIXED);
    char *printed = heap_config_to_text(&copy);
    assert_non_null(strstr(printed, "\n      # heapprofd: stack_mode: MIXED\n"));
    /* What is a comment to others is a field to us. */
    heap_config_clear(&config);
    assert_int_equal(heap_config_read_text(printed, strlen(printed), &config, NULL, &error), 0);
    assert_int_equal(config.stack_mode, HEAP_STACK_MIXED);
    free(printed);
    copy.stack_mode = (enum heap_stack_mode)77;
    assert_true(heap_config_check(&copy, &error) < 0);
    assert_non_null(strstr(error.message, "stack_mode 77"));
    heap_config_clear(&config);
    heap_config_clear(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_sources_beside_the_heap_are_read_and_printed),
        cmocka_unit_test(stack_modes_are_read_and_printed),
        cmocka_unit_test(defaults_are_valid),
        cmocka_unit_test(both_names_of_the_data_source_are_known),
        cmocka_unit_test(an_interval_of_zero_is_refused),
        cmocka_unit_test(odd_ring_sizes_are_refused),
        cmocka_unit_test(text_is_as_heap_profile_prints_it),
        cmocka_unit_test(binary_and_text_configurations_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
