/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other profilers as profiles: recognition of formats, conversion of figures, and
 * positions of damage. Our own exports are read back unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "export/pprof.h"
#include "import/import.h"
#include "profile/partial.h"
#include "profile/rollup.h"
#include "trace_fixture.h"

static struct profile *read_text(const char *text)
{
    struct error error = {0};
    struct profile *profile = import_profile_bytes(text, strlen(text), NULL, &error);
    if (profile == NULL)
        print_message("%s\n", error.message);
    return profile;
}

static void check_error(const char *text, const char *reason)
{
    struct error error = {0};
    assert_null(import_profile_bytes(text, strlen(text), NULL, &error));
    if (strstr(error.message, reason) == NULL)
        fail_msg("'%s' is not in: %s", reason, error.message);
}

static const struct profile_dump *dump_of(const struct profile *profile)
{
    assert_int_equal(profile->heap_count, 1);
    assert_int_equal(profile->heaps[0].dump_count, 1);
    return &profile->heaps[0].dumps[0];
}

/* Return the name of the frame `up` calls above a sample's innermost frame. */
static const char *name_at(const struct profile *profile, uint32_t callsite, unsigned up)
{
    while (up-- > 0)
        callsite = profile->callsites[callsite].parent;
    return profile->frames[profile->callsites[callsite].frame].name;
}

struct kind_case {
    const char *text;
    enum import_kind kind;
};

static void check_kinds(const struct kind_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(import_kind_of(cases[i].text, strlen(cases[i].text), true), cases[i].kind);
}

static void formats_are_recognized_by_their_first_bytes(void **state)
{
    (void)state;
    static const struct kind_case cases[] = {
        {"v 10400 3\nX a\n", IMPORT_HEAPTRACK},
        {"heap profile:    1:   2 [  3:  4] @ heapprofile\n", IMPORT_TEXT_HEAP},
        {"heap_v2/524288\n", IMPORT_TEXT_HEAP},
        {"main;f 12\n", IMPORT_COLLAPSED},
        {"main 12", IMPORT_COLLAPSED},
        {"main;f 1.5\r\n", IMPORT_COLLAPSED},
        {"hello, world\n", IMPORT_TRACE},
        {"12\n", IMPORT_TRACE},
        {"", IMPORT_TRACE},
        {"\x0a\x04\x08\x01\x10\x02", IMPORT_PPROF},
        {"\x48\x01\x0a\x04\x08\x01\x10\x02", IMPORT_PPROF},
        {"\x0a\x02\x40\x01", IMPORT_TRACE}, /* a packet with a timestamp */
    };
    check_kinds(cases, sizeof(cases) / sizeof(cases[0]));
    /* Only the beginning of the first line is available. */
    assert_int_equal(import_kind_of("main;f", 6, false), IMPORT_COLLAPSED);
    assert_int_equal(import_kind_of("main f", 6, false), IMPORT_TRACE);
}

static void memory_infra_is_distinguished_from_similar_formats(void **state)
{
    (void)state;
    static const struct kind_case cases[] = {
        {"{\"traceEvents\":[", IMPORT_MEMORY_INFRA},
        {" {\r\n\t\"metadata\"", IMPORT_MEMORY_INFRA},
        {"[{\"a;b\":1}] 5", IMPORT_MEMORY_INFRA},
        {"[", IMPORT_MEMORY_INFRA},
        {"[vdso];f 12\n", IMPORT_COLLAPSED},
        {"{closure};f 12\n", IMPORT_COLLAPSED},
        {"\xef\xbb\xbf{\"traceEvents\":[", IMPORT_MEMORY_INFRA},
        {"\n {\"traceEvents\" : [", IMPORT_MEMORY_INFRA},
        {"\n{\"traceEvents\":[]}", IMPORT_MEMORY_INFRA},
        {"\n\n[\n{\"pid\":1}]", IMPORT_MEMORY_INFRA},
        {"\n{\"", IMPORT_TRACE}, /* a packet of 123 bytes */
        {"\n{\"t\":\x01", IMPORT_TRACE},
        {"[1]", IMPORT_TRACE},
    };
    check_kinds(cases, sizeof(cases) / sizeof(cases[0]));
}

/* --- collapsed --- */

static void collapsed_stacks_are_live_bytes(void **state)
{
    (void)state;
    struct profile *profile =
        read_text("main;f g(int);h 12\n# a comment\n\nmain;f g(int);h 3\nmain 5\n;x 1");
    assert_non_null(profile);
    const struct profile_dump *dump = dump_of(profile);
    assert_int_equal(dump->sample_count, 3);
    assert_string_equal(name_at(profile, dump->samples[0]->callsite, 0), "h");
    assert_string_equal(name_at(profile, dump->samples[0]->callsite, 1), "f g(int)");
    assert_true(rollup_live_bytes(&dump->samples[0]->figures) == 15);
    assert_true(rollup_live_bytes(&dump->total) == 21);
    assert_string_equal(name_at(profile, dump->samples[2]->callsite, 1), "?");
    assert_non_null(profile->heaps[0].status.remark);
    profile_free(profile);
    check_error("main;f 12\nmain\n", "line 2");
    check_error("main;f 12\nmain;g 1x\n", "no number at its end");
    check_error("main;f 12\n 7\n", "no stack before the number");
}

/* --- heaptrack --- */

#define HEAPTRACK_HEAD                                                                             \
    "v 10400 3\nX ./app --x\nI 1000 100\ns 7 /bin/ap\ns 4 main\ns 1 f\ns 3 a.c\ns 1 g\n"           \
    "i 1000 1 2 4 a\nt 1 0\ni 2000 1 5 4 7 3 4 9\nt 2 1\na 64 2\na 1000 1\n"

static void heaptrack_events_are_summed(void **state)
{
    (void)state;
    struct profile *profile = read_text(HEAPTRACK_HEAD "+ 0\n+ 0\n- 0\n+ 1\n- 1\nc a\nR 2\n+ 0\n"
                                                       "+ 0\n- 0\n- 0\n");
    assert_non_null(profile);
    const struct profile_dump *dump = dump_of(profile);
    assert_int_equal(dump->sample_count, 2);
    const struct profile_sample *small = dump->samples[0], *large = dump->samples[1];
    /* g was inlined into f, which main called. */
    assert_string_equal(name_at(profile, small->callsite, 0), "g");
    assert_string_equal(name_at(profile, small->callsite, 1), "f");
    assert_string_equal(name_at(profile, small->callsite, 2), "main");
    assert_string_equal(name_at(profile, large->callsite, 0), "main");
    const struct profile_frame *frame = &profile->frames[profile->callsites[small->callsite].frame];
    assert_int_equal(frame->line, 7);
    assert_string_equal(frame->source_file, "a.c");
    assert_string_equal(profile->mappings[frame->mapping].path, "/bin/ap");
    assert_true(small->figures.allocated_count == 4 && small->figures.freed_count == 3);
    assert_true(small->figures.allocated_bytes == 400);
    /* Two of the frees immediately followed an allocation of the same kind; the last one did
     * not. */
    assert_true(small->figures.temporary_count == 2 && large->figures.temporary_count == 1);
    assert_true(rollup_live_bytes(&dump->total) == 100);
    /* The peak was one block of each kind. */
    assert_true(profile->heaps[0].status.peak_live_bytes == 4196);
    assert_true(small->peak.bytes == 100 && small->peak.count == 1);
    assert_true(large->peak.bytes == 4096 && large->peak.count == 1);
    assert_int_equal(profile->heaps[0].interval_bytes, 1);
    assert_int_equal(dump->exact_calls, 5);
    assert_string_equal(profile->processes[0].name, "app");
    assert_int_equal(profile->processes[0].timeline_count, 1);
    assert_int_equal(profile->processes[0].timeline[0].rss_bytes, 8192);
    assert_int_equal(profile->processes[0].timeline[0].boottime_ns, 10000000);
    profile_free(profile);
}

static void heaptrack_damage_is_reported(void **state)
{
    (void)state;
    check_error(HEAPTRACK_HEAD "+ 2\n", "line 15 of the heaptrack file: an unknown allocation");
    check_error("v 10400 3\nt 1 0\n", "line 2");
    check_error("v 10400 4\n", "newer heaptrack");
    check_error("v 10400 3\nx 4 /a/b\n", "heaptrack_interpret");
    check_error("v 10400 3\ns 100 ab\n", "a string is cut off");
    /* The part before the damage is shown. */
    struct profile *profile = read_text(HEAPTRACK_HEAD "+ 0\n+ 0");
    assert_non_null(profile);
    assert_non_null(strstr(profile->warning, "cut off"));
    assert_true(dump_of(profile)->total.allocated_count == 1);
    profile_free(profile);
}

static void heaptrack_frees_of_earlier_allocations_are_ignored(void **state)
{
    (void)state;
    struct profile *profile = read_text(HEAPTRACK_HEAD "- 0\n+ 0\n");
    assert_non_null(profile);
    assert_true(rollup_live_bytes(&dump_of(profile)->total) == 100);
    assert_non_null(profile->heaps[0].status.remark);
    profile_free(profile);
}

/* --- text of gperftools and jemalloc --- */

#define MAPS                                                                                       \
    "\nMAPPED_LIBRARIES:\n00001000-00002000 r--p 00000000 08:01 12   /bin/a\n"                     \
    "00002000-00003000 r-xp 00001000 08:01 12      /bin/a b\n"

static void gperftools_text_is_exact(void **state)
{
    (void)state;
    struct profile *profile =
        read_text("heap profile:  3: 300 [ 5: 500] @ heapprofile\n"
                  "  2: 200 [ 4: 400] @ 0x2011 0x2021\n  1: 100 [1: 100] @ 0x9999\n" MAPS);
    assert_non_null(profile);
    const struct profile_dump *dump = dump_of(profile);
    assert_int_equal(dump->sample_count, 2);
    assert_true(dump->total.allocated_bytes == 500 && dump->total.freed_bytes == 200);
    assert_true(dump->total.allocated_count == 5 && rollup_live_count(&dump->total) == 3);
    assert_true(dump->total.allocated_bytes_variance == 0);
    const struct profile_callsite *inner = &profile->callsites[dump->samples[0]->callsite];
    const struct profile_frame *frame = &profile->frames[inner->frame];
    assert_int_equal(frame->rel_pc, 0x1010);
    assert_string_equal(profile->mappings[frame->mapping].path, "/bin/a b");
    assert_int_equal(profile->frames[profile->callsites[inner->parent].frame].rel_pc, 0x1020);
    frame = &profile->frames[profile->callsites[dump->samples[1]->callsite].frame];
    assert_int_equal(frame->mapping, PROFILE_NONE);
    profile_free(profile);
}

static void jemalloc_text_is_scaled_up_from_samples(void **state)
{
    (void)state;
    struct profile *profile =
        read_text("heap_v2/1000\n  t*: 3: 1100 [0: 0]\n  t0: 1: 100 [0: 0]\n  t1: 2: 1000 [0: 0]\n"
                  "@ 0x2011 0x2021\n  t*: 3: 1100 [0: 0]\n  t0: 1: 100 [0: 0]\n"
                  "  t1: 2: 1000 [0: 0]\n" MAPS);
    assert_non_null(profile);
    const struct profile_dump *dump = dump_of(profile);
    assert_int_equal(dump->sample_count, 1);
    double seen = 1 - exp(-1100.0 / 3 / 1000);
    assert_true(fabs(dump->total.allocated_bytes - 1100 / seen) < 1e-6);
    assert_true(fabs(dump->total.allocated_count - 3 / seen) < 1e-9);
    assert_true(dump->total.freed_bytes == 0 && dump->total.samples == 3);
    assert_true(fabs(dump->total.allocated_count_variance - 3 * (1 - seen) / (seen * seen)) < 1e-9);
    assert_int_equal(profile->heaps[0].interval_bytes, 1000);
    assert_int_equal(dump->part_count, 2);
    assert_int_equal(dump->samples[0]->parts[1].tid, 1);
    profile_free(profile);
}

static void damaged_text_heaps_are_reported(void **state)
{
    (void)state;
    check_error("heap profile: 1: 2 [3: 4] @ heapprofile\n 1: 2 [3 4] @ 0x1\n", "line 2");
    check_error("heap profile: 1: 2 [3: 4] @ heap_v2/0\n", "interval is 0");
    check_error("heap profile: 1: 2 [3: 4] @ heapprofile\n 1: 2 [3: 4]\n", "no stack after");
    check_error("heap_v2/100\n@ 0x1 zz\n", "an address is wrong");
    check_error("heap_v2/100\nhello\n", "neither a stack nor figures");
    check_error("heap_v2/100\n@ 0x1\n t*: 1: [2: 3]\n", "line 3");
}

/* --- pprof --- */

static struct profile *make_ours(void)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    uint64_t nameless[] = {trace_writer_frame(writer, stacks.program, 0x1400, NULL), stacks.main};
    uint64_t in_nameless = trace_writer_callstack(writer, nameless, 2, NULL);
    /* Without the figures that pprof stores only as comments. */
    struct trace_heap_dump like = fixture_dump();
    struct trace_heap_dump dump = {.pid = like.pid,
                                   .heap_name = like.heap_name,
                                   .timestamp_ns = like.timestamp_ns,
                                   .start_timestamp_ns = like.start_timestamp_ns,
                                   .exact_bytes = 12345,
                                   .exact_calls = 67,
                                   .unsent_bytes_of_ring = 64,
                                   .hit_guardrail = true,
                                   .client_error = TRACE_CLIENT_TIMED_OUT,
                                   .unseen_allocator = "je_malloc (own)",
                                   .exit_status = -1};
    dump.lost[TRACE_LOST_REENTRANT] = 3;
    dump.lost[TRACE_LOST_ALLOCATED_BYTES] = 4096;
    struct trace_thread thread = {.tid = 7, .pid = FIXTURE_PID, .name = "worker"};
    dump.interval_bytes = 4096;
    trace_writer_clock_snapshot(writer);
    trace_writer_process_tree(writer, NULL, 0, &thread, 1);
    trace_writer_dump_begin(writer, &dump);
    struct trace_figures figures = {.allocated_bytes = 1000.4,
                                    .freed_bytes = 300.2,
                                    .allocated_count = 10.3,
                                    .freed_count = 3.1,
                                    .samples = 5};
    struct trace_thread_figures parts[2] = {{.tid = 7, .figures = figures},
                                            {.tid = 8, .figures = figures}};
    parts[1].type = trace_writer_heap_name(writer, "Widget");
    struct trace_heap_sample sample = {
        .callstack = stacks.in_inner, .threads = parts, .thread_count = 2};
    sample.figures = figures;
    trace_figures_add(&sample.figures, &figures);
    trace_writer_dump_sample(writer, &sample);
    sample = (struct trace_heap_sample){.callstack = stacks.in_outer, .figures = figures};
    trace_writer_dump_sample(writer, &sample);
    sample.callstack = in_nameless;
    trace_writer_dump_sample(writer, &sample);
    trace_writer_dump_end(writer);
    trace_writer_close(writer);
    return fixture_take_profile(fd);
}

static struct fixture_trace write_pprof(const struct profile *profile)
{
    int fd = memfd_create("pprof", MFD_CLOEXEC);
    const struct profile_heap *heap = &profile->heaps[0];
    assert_int_equal(pprof_write(profile, heap, &heap->dumps[0],
                                 &(struct pprof_options){.gzip = false}, fd, NULL),
                     0);
    return fixture_take(fd);
}

static void our_pprof_is_read_back_unchanged(void **state)
{
    (void)state;
    struct error error = {0};
    struct profile *profile = make_ours();
    struct fixture_trace first = write_pprof(profile);
    struct profile *again = import_profile_bytes(first.bytes, first.length, NULL, &error);
    assert_non_null(again);
    const struct profile_dump *dump = dump_of(again);
    assert_int_equal(dump->sample_count, 3);
    assert_int_equal(dump->part_count, dump_of(profile)->part_count);
    assert_string_equal(name_at(again, dump->samples[0]->callsite, 0), "inner(int)");
    const struct profile_frame *inner =
        &again->frames[again->callsites[dump->samples[0]->callsite].frame];
    assert_string_equal(inner->linkage_name, "_Z5inneri");
    assert_int_equal(inner->rel_pc, 0x1300);
    assert_string_equal(again->mappings[inner->mapping].build_id, "deadbeef");
    assert_string_equal(name_at(again, dump->samples[2]->callsite, 0), "");
    assert_string_equal(profile_thread_name(again, FIXTURE_PID, 7), "worker");
    assert_string_equal(again->heaps[0].name, profile->heaps[0].name);
    assert_int_equal(again->heaps[0].interval_bytes, 4096);
    assert_int_equal(again->processes[0].pid, FIXTURE_PID);
    const struct trace_heap_dump *status = &again->heaps[0].status;
    for (enum trace_loss_id id = 0; id < TRACE_LOSS_IDS; id++)
        assert_int_equal(trace_loss_amount(status, id),
                         trace_loss_amount(&profile->heaps[0].status, id));
    assert_string_equal(status->unseen_allocator, "je_malloc (own)");
    assert_true(profile_dump_is_partial(&again->heaps[0], dump));
    assert_non_null(profile_totals_why_partial(&again->heaps[0], &again->heaps[0].dumps[0]));
    assert_true(again->heaps[0].unfinished);
    struct fixture_trace second = write_pprof(again);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.bytes, second.bytes, first.length);
    profile_free(profile);
    profile_free(again);
    free(first.bytes);
    free(second.bytes);
}

/* Other versions have other words for a loss. */
static void losses_in_other_words_stay_losses(void **state)
{
    (void)state;
    static const char *const known[] = {"missing: ", "ended early: ", "lost: "};
    struct profile *profile = make_ours();
    struct fixture_trace written = write_pprof(profile);
    char *bytes = (char *)written.bytes, *end = bytes + written.length;
    /* Only one kind of comment remains, with one letter changed. */
    for (size_t kind = 1; kind < 3; kind++) {
        char *copy = malloc(written.length);
        memcpy(copy, written.bytes, written.length);
        for (size_t i = 0; i < 3; i++) {
            size_t length = strlen(known[i]);
            for (char *at = bytes; (at = memmem(at, (size_t)(end - at), known[i], length)); at++)
                copy[i == kind ? at - bytes + (ptrdiff_t)length + 5 : at - bytes] = '~';
        }
        struct profile *again = import_profile_bytes(copy, written.length, NULL, NULL);
        assert_non_null(again);
        assert_true(profile_dump_is_partial(&again->heaps[0], dump_of(again)));
        assert_int_equal(profile_totals_why_partial(&again->heaps[0], &again->heaps[0].dumps[0]) !=
                             NULL,
                         kind == 1);
        profile_free(again);
        free(copy);
    }
    profile_free(profile);
    free(written.bytes);
}

static void damaged_pprof_is_refused_or_read(void **state)
{
    (void)state;
    struct profile *profile = make_ours();
    struct fixture_trace file = write_pprof(profile);
    for (size_t length = 0; length < file.length; length++) {
        uint8_t *part = malloc(length + 1); /* a separate allocation, for sanitizers */
        memcpy(part, file.bytes, length);
        profile_free(import_profile_bytes(part, length, NULL, NULL));
        free(part);
    }
    for (size_t i = 0; i < file.length; i++) {
        file.bytes[i] ^= 0x55;
        profile_free(import_profile_bytes(file.bytes, file.length, NULL, NULL));
        file.bytes[i] ^= 0x55;
    }
    struct error error = {0};
    assert_null(import_profile_bytes(file.bytes, file.length - 1, NULL, &error));
    assert_non_null(strstr(error.message, "offset"));
    profile_free(profile);
    free(file.bytes);
}

/* Each process has its own program with one callsite. */
static struct profile *make_many_processes(int count)
{
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    for (int i = 0; i < count; i++) {
        const uint8_t build_id[] = {1, (uint8_t)i, (uint8_t)(i >> 8), (uint8_t)(i >> 16)};
        const struct trace_mapping mapping = {.path = "/usr/bin/example",
                                              .build_id = build_id,
                                              .build_id_length = sizeof(build_id),
                                              .start = 0x400000,
                                              .end = 0x500000};
        uint64_t frame =
            trace_writer_frame(writer, trace_writer_mapping(writer, &mapping), 0x1100, "main");
        struct trace_heap_dump dump = fixture_dump();
        dump.pid = FIXTURE_PID + i / 2; /* each pid has two programs */
        dump.heap_name = i % 2 == 0 ? "libc.malloc (sh, before exec)" : "libc.malloc";
        trace_writer_dump_begin(writer, &dump);
        const struct trace_heap_sample sample = {
            .callstack = trace_writer_callstack(writer, &frame, 1, NULL),
            .figures = {.allocated_bytes = 1000, .allocated_count = 10, .samples = 1}};
        trace_writer_dump_sample(writer, &sample);
        trace_writer_dump_end(writer);
    }
    trace_writer_close(writer);
    return fixture_take_profile(fd);
}

/* The time must not grow with the square of the number of processes: 20,000 took minutes. */
static void pprof_time_is_linear_in_processes(void **state)
{
    (void)state;
    enum { PROCESSES = 40000, CPU_SECONDS_MAX = 15 };
    struct profile *profile = make_many_processes(PROCESSES);
    struct pprof_file_names names;
    struct timespec used;
    char name[256];
    assert_int_equal(profile->heap_count, PROCESSES);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pprof_file_names_make(&names, profile), 0);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        pprof_file_name(&names, heap, &heap->dumps[0], name, sizeof(name));
        assert_int_equal(pprof_write(profile, heap, &heap->dumps[0],
                                     &(struct pprof_options){.gzip = false}, fd, NULL),
                         0);
    }
    assert_string_equal(name, "process.24710.libc.malloc.1.pb.gz");
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    if (used.tv_sec >= CPU_SECONDS_MAX)
        fail_msg("%d files took %ld s of CPU time", PROCESSES, (long)used.tv_sec);
    close(fd);
    pprof_file_names_clear(&names);
    profile_free(profile);
}

static void other_profiles_are_refused_by_type(void **state)
{
    (void)state;
    /* samples/count, cpu/nanoseconds */
    static const char cpu[] = "\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04"
                              "\x32\0\x32\x07"
                              "samples\x32\x05"
                              "count\x32\x03"
                              "cpu\x32\x0b"
                              "nanoseconds";
    char bytes[sizeof(cpu)];
    memcpy(bytes, cpu, sizeof(cpu));
    struct error error = {0};
    assert_null(import_profile_bytes(bytes, sizeof(cpu) - 1, NULL, &error));
    assert_non_null(strstr(error.message, "its sample types are samples, cpu"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_recognized_by_their_first_bytes),
        cmocka_unit_test(memory_infra_is_distinguished_from_similar_formats),
        cmocka_unit_test(collapsed_stacks_are_live_bytes),
        cmocka_unit_test(heaptrack_events_are_summed),
        cmocka_unit_test(heaptrack_damage_is_reported),
        cmocka_unit_test(heaptrack_frees_of_earlier_allocations_are_ignored),
        cmocka_unit_test(gperftools_text_is_exact),
        cmocka_unit_test(jemalloc_text_is_scaled_up_from_samples),
        cmocka_unit_test(damaged_text_heaps_are_reported),
        cmocka_unit_test(our_pprof_is_read_back_unchanged),
        cmocka_unit_test(losses_in_other_words_stay_losses),
        cmocka_unit_test(damaged_pprof_is_refused_or_read),
        cmocka_unit_test(pprof_time_is_linear_in_processes),
        cmocka_unit_test(other_profiles_are_refused_by_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
