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

#include "profile/import/import.h"
#include "profile/partial.h"
#include "profile/rollup.h"
#include "tools/export/pprof.h"
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
        {"main 12\nmain;f 3\n", IMPORT_COLLAPSED},
        {"main;f 12\nmain\n", IMPORT_COLLAPSED}, /* damaged in its second line */
        {"total 48\n-rw-r--r-- 1 root\n", IMPORT_UNKNOWN},
        {"hello, world\n", IMPORT_UNKNOWN},
        {"12\n", IMPORT_UNKNOWN},
        {"--- heapz 1 ---\n", IMPORT_TEXT_HEAP},
        {"--- symbol\nbinary=a\n", IMPORT_TEXT_HEAP},
        {"<jemalloc>: Warning: a\n%warn b\n\nheap_v2/1\n", IMPORT_TEXT_HEAP},
        {"desc: (none)\ncmd: ./a\ntime_unit: i\n", IMPORT_MASSIF},
        {"{\"dhatFileVersion\":2\n", IMPORT_DHAT},
        {"", IMPORT_TRACE},
        {"\x0a\x04\x08\x01\x10\x02", IMPORT_PPROF},
        {"\x48\x01\x0a\x04\x08\x01\x10\x02", IMPORT_PPROF},
        {"\x0a\x02\x40\x01", IMPORT_TRACE}, /* a packet with a timestamp */
    };
    check_kinds(cases, sizeof(cases) / sizeof(cases[0]));
    /* Only the beginning of the first line is available. */
    assert_int_equal(import_kind_of("main;f", 6, false), IMPORT_COLLAPSED);
    assert_int_equal(import_kind_of("main f", 6, false), IMPORT_UNKNOWN);
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
        {"[1]", IMPORT_UNKNOWN},
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
    check_error("main;f 12 15\nmain;g 3 0\n", "comparison of two profiles");
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
    check_error("heap profile: 1: 2 [3: 4] @ other\n", "of an unknown kind, 'other'");
    check_error("--- symbol\n0x1 f\n---\nhello\n", "line 4");
    check_error("--- symbol\n0x1 f\n", "cut off before its first stack");
    check_error("--- heapz 1 ---\n 5 0 @ 0x1\n", "line 2");
    check_error("heap_v2/100\nhello\n", "neither a stack nor figures");
    check_error("heap_v2/100\n@ 0x1\n t*: 1: [2: 3]\n", "line 3");
}

static void text_is_scaled_by_what_its_header_says(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        uint64_t interval;
    } kinds[] = {{"heapz_v2/1000", 1000}, {"heap_v2/1000", 1000}, {"heap/2000", 1000},
                 {"heapprofile", 1},      {"growthz", 1},         {"heap/2", 1}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), "heap profile: 2: 200 [3: 300] @ %s\n2: 200 [3: 300] @ 0x1\n",
                 kinds[i].kind);
        struct profile *profile = read_text(text);
        assert_non_null(profile);
        double seen = kinds[i].interval == 1 ? 1 : 1 - exp(-100.0 / 1000);
        assert_int_equal(profile->heaps[0].interval_bytes, kinds[i].interval);
        assert_true(fabs(rollup_live_bytes(&dump_of(profile)->total) - 200 / seen) < 1e-6);
        profile_free(profile);
    }
}

/* Go's names are in comments, those of jeprof and of Java in sections of their own. */
static void text_names_its_addresses(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "heap profile: 1: 100 [1: 100] @ heap/2\n1: 100 [1: 100] @ 0x1235 0x2235 0x3235\n"
        "#\t0x1234\tf+0x14\t\t/a/b.c:12\n#\t0x2234\tmain+0x14\t/a/b.c:20\n\n# Alloc = 1\n",
        "--- symbol\nbinary=/bin/a\n0x1234 main--f<0000000000001159>\n---\n--- heap\n"
        "heap_v2/1\n@ 0x1235\n  t*: 1: 100 [0: 0]\n",
        "--- symbol\n0x2234 main\n0x1235 f\n---\nheap_v2/1\n@ 0x1235 0x2235\n"
        "  t*: 1: 100 [0: 0]\n",
        "--- heapz 1 ---\nformat = java\n 100 1 @ 0x1 0x2\n\n 0x1 f (b.c:12)\n 0x2 main "
        "(liba.so)\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct profile *profile = read_text(texts[i]);
        assert_non_null(profile);
        uint32_t callsite = dump_of(profile)->samples[0]->callsite;
        assert_int_equal(profile->callsites[callsite].depth, 1);
        assert_string_equal(name_at(profile, callsite, 0), "f");
        assert_string_equal(name_at(profile, callsite, 1), "main");
        if (i == 0 || i == 3)
            assert_int_equal(profile->frames[profile->callsites[callsite].frame].line, 12);
        profile_free(profile);
    }
}

/* A few bytes may name thousands of functions for each address of a stack. */
static void a_named_stack_has_a_greatest_depth(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fputs("--- symbol\n0x1 f", out);
    for (int i = 0; i < 3000; i++)
        fputs("--f", out);
    fputs("\n---\nheap_v2/1\n@", out);
    for (int i = 0; i < 100; i++)
        fputs(" 0x1", out);
    fputs("\n t*: 1: 1 [0: 0]\n", out);
    fclose(out);
    check_error(text, "a stack of more than 65,536 frames");
    free(text);
}

static void mapped_regions_are_a_heap_of_their_own(void **state)
{
    (void)state;
    struct profile *profile = read_text("heap profile: 3: 300 [5: 500] @ heapprofile\n"
                                        "1: 4096 [1: 4096] @ 0x1\n-1: 4096 [1: 8192] @ 0x2\n"
                                        "2: 200 [4: 400] @ 0x3\n1: 100 [1: 100] @ 0x4\n");
    assert_non_null(profile);
    assert_int_equal(profile->heap_count, 2);
    assert_string_equal(profile->heaps[0].name, "libc.malloc");
    assert_string_equal(profile->heaps[1].name, "mmap");
    const struct profile_dump *mapped = &profile->heaps[1].dumps[0];
    assert_true(rollup_live_bytes(&profile->heaps[0].dumps[0].total) == 300);
    assert_true(rollup_live_bytes(&mapped->total) == 8192 &&
                rollup_live_count(&mapped->total) == 0);
    assert_true(rollup_live_count(&mapped->samples[1]->figures) == -1);
    profile_free(profile);
}

/* --- Valgrind --- */

#define MASSIF_HEAD "desc: (none)\ncmd: /bin/a x\ntime_unit: ms\n"
#define MASSIF_SNAPSHOT(number, time, bytes)                                                       \
    "#-----------\nsnapshot=" number "\n#-----------\ntime=" time "\nmem_heap_B=" bytes            \
    "\nmem_heap_extra_B=0\nmem_stacks_B=0\n"

static void massif_trees_are_dumps(void **state)
{
    (void)state;
    struct profile *profile =
        read_text(MASSIF_HEAD MASSIF_SNAPSHOT("0", "0", "0") "heap_tree=empty\n" MASSIF_SNAPSHOT(
            "1", "5", "1000") "heap_tree=peak\nn2: 1000 (heap allocation functions) malloc\n"
                              " n2: 900 0x10: f (a.c:6)\n  n0: 600 0x20: main (a.c:9)\n"
                              "  n0: 200 in 2 places, all below massif's threshold (1.00%)\n"
                              " n0: 100 0x30: ??? (in /lib/b.so)\n" MASSIF_SNAPSHOT(
                                  "2", "7",
                                  "50") "heap_tree=detailed\nn1: 50 (heap allocation functions) m\n"
                                        " n0: 50 0x10: f (a.c:6)\n" MASSIF_SNAPSHOT(
                                            "3", "8", "30") "heap_tree=empty\n");
    assert_non_null(profile);
    const struct profile_heap *heap = &profile->heaps[0];
    assert_int_equal(profile->heap_count, 1);
    assert_int_equal(heap->dump_count, 2);
    assert_int_equal(heap->dumps[1].boottime_ns, 7000000);
    assert_true(heap->dumps[1].final && !heap->dumps[0].final);
    assert_true(rollup_live_bytes(&heap->dumps[0].total) == 1000);
    assert_true(rollup_live_bytes(&heap->dumps[1].total) == 50);
    assert_true(heap->status.peak_live_bytes == 1000);
    assert_non_null(strstr(heap->status.remark, "snapshot 3 of 4"));
    assert_string_equal(profile->processes[0].name, "a");
    const struct profile_sample *first = heap->dumps[0].samples[0];
    assert_string_equal(name_at(profile, first->callsite, 0), "f");
    assert_string_equal(name_at(profile, first->callsite, 1), "main");
    assert_true(rollup_live_bytes(&first->figures) == 600 && first->peak.bytes == 600);
    const struct profile_sample *below = heap->dumps[0].samples[1];
    assert_string_equal(name_at(profile, below->callsite, 1), "[below massif's threshold]");
    /* What f has and none of its callers. */
    assert_true(rollup_live_bytes(&heap->dumps[0].samples[2]->figures) == 100);
    profile_free(profile);
}

static void damaged_massif_files_are_reported(void **state)
{
    (void)state;
#define TREE MASSIF_HEAD MASSIF_SNAPSHOT("0", "0", "9") "heap_tree=peak\n"
    check_error(MASSIF_HEAD, "none of the 0 snapshots");
    check_error(TREE "n0: x\n", "line 12 of the massif file: a node without its bytes");
    check_error(TREE "hello\n", "line 12");
    check_error(TREE "n1: 9 a\n   n0: 9 0x1: f (a.c:1)\n", "no place in the tree");
#undef TREE
}

#define DHAT_HEAD                                                                                  \
    "{\"dhatFileVersion\":2,\"mode\":\"heap\",\"bklt\":true,\"tu\":\"instrs\",\"cmd\":\"/bin/a "   \
    "x\","                                                                                         \
    "\"pid\":7,\"other\":{\"a\":[1,{}]},\"te\":5,"

static void dhat_sites_have_totals_peak_and_end(void **state)
{
    (void)state;
    struct profile *profile = read_text(
        DHAT_HEAD "\"pps\":[{\"tb\":100,\"tbk\":10,\"tl\":9,\"gb\":60,\"gbk\":6,\"eb\":20,"
                  "\"ebk\":2,\"acc\":[1,-5,2],\"fs\":[1,2]}],"
                  "\"ftbl\":[\"[root]\",\"0x10: f (a.c:6)\",\"0x20: main (in /bin/a)\"]}");
    assert_non_null(profile);
    const struct profile_dump *dump = dump_of(profile);
    const struct profile_sample *sample = dump->samples[0];
    assert_true(sample->figures.allocated_bytes == 100 && sample->figures.allocated_count == 10);
    assert_true(rollup_live_bytes(&sample->figures) == 20 && sample->peak.bytes == 60);
    assert_int_equal(dump->exact_calls, 10);
    assert_string_equal(name_at(profile, sample->callsite, 0), "f");
    assert_string_equal(name_at(profile, sample->callsite, 1), "main");
    assert_int_equal(profile->processes[0].pid, 7);
    profile_free(profile);
    check_error(DHAT_HEAD "\"pps\":[{\"fs\":[3]}],\"ftbl\":[\"a\"]}", "frame 3 of 1");
    check_error(DHAT_HEAD "\"pps\":[{\"fs\":[\"a\"]}]}", "index of a frame is not a number");
    check_error(DHAT_HEAD "\"pps\":[5]}", "a callsite is not an object");
    check_error(DHAT_HEAD "\"ftbl\":[{}]}", "a frame is not a text");
    check_error(DHAT_HEAD "\"pps\":[", "cut off");
    check_error("{\"dhatFileVersion\":1}", "another version");
    check_error("{\"dhatFileVersion\":2,\"bklt\":false}", "not a heap profile");
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
                                   .other_types = 5,
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

/* Check that what was read from a file is written as the same bytes. Free both. */
static void assert_written_again(struct profile *read, struct fixture_trace file)
{
    struct fixture_trace again = write_pprof(read);
    assert_int_equal(file.length, again.length);
    assert_memory_equal(file.bytes, again.bytes, file.length);
    profile_free(read);
    free(file.bytes);
    free(again.bytes);
}

static void a_pprof_file_of_several_intervals_keeps_its_margins(void **state)
{
    (void)state;
    struct profile *profile = make_ours();
    struct profile_heap *heap = &profile->heaps[0];
    struct profile_dump *dump = &heap->dumps[0];
    heap->first_interval_bytes = 1;
    dump->interval_bytes = heap->interval_bytes = 1 << 20;
    /* No single interval gives these. Samples of several parts would have their sums. */
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct profile_sample *sample = (struct profile_sample *)(uintptr_t)dump->samples[i];
        sample->part_count = 0;
        sample->figures.allocated_bytes_variance = 5000 + (double)i;
        sample->figures.freed_bytes_variance = 4000;
        sample->figures.allocated_count_variance = 0.5;
        sample->figures.freed_count_variance = 0.25;
        sample->figures.samples = 9;
        sample->figures.freed_samples = 2;
    }
    struct fixture_trace first = write_pprof(profile);
    struct profile *again = import_profile_bytes(first.bytes, first.length, NULL, NULL);
    assert_non_null(again);
    assert_int_equal(again->heaps[0].first_interval_bytes, 1);
    assert_int_equal(again->heaps[0].interval_bytes, 1 << 20);
    assert_string_equal(again->heaps[0].name, "libc.malloc");
    const struct profile_dump *kept = dump_of(again);
    assert_int_equal(kept->sample_count, dump->sample_count);
    for (size_t i = 0; i < kept->sample_count; i++) {
        const struct trace_figures *before = &dump->samples[i]->figures;
        const struct trace_figures *after = &kept->samples[i]->figures;
        assert_true(after->allocated_bytes_variance == before->allocated_bytes_variance);
        assert_true(after->freed_bytes_variance == before->freed_bytes_variance);
        assert_true(after->allocated_count_variance == before->allocated_count_variance);
        assert_true(after->freed_count_variance == before->freed_count_variance);
        assert_int_equal(after->samples, before->samples);
        assert_int_equal(after->freed_samples, before->freed_samples);
    }
    assert_written_again(again, first);
    profile_free(profile);
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
    assert_written_again(again, first);
    profile_free(profile);
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

/* Return the processor time in seconds that the pprof files of so many processes take. */
static double pprof_seconds(int processes, char *name, size_t size)
{
    struct profile *profile = make_many_processes(processes);
    struct pprof_file_names names;
    struct timespec begun, ended;
    assert_int_equal(profile->heap_count, processes);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun), 0);
    pprof_file_names_make(&names, profile);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        pprof_file_name(&names, heap, &heap->dumps[0], name, size);
        assert_int_equal(pprof_write(profile, heap, &heap->dumps[0],
                                     &(struct pprof_options){.gzip = false}, fd, NULL),
                         0);
    }
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended), 0);
    close(fd);
    pprof_file_names_clear(&names);
    profile_free(profile);
    return (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9;
}

/* The time must not grow with the square of the number of processes, which would be 16 times:
 * 20,000 took minutes. */
static void pprof_time_is_linear_in_processes(void **state)
{
    (void)state;
    enum { FEW = 10000, MANY = 40000 };
    char name[256];
    double few = pprof_seconds(FEW, name, sizeof(name));
    double many = pprof_seconds(MANY, name, sizeof(name));
    assert_string_equal(name, "process.24710.libc.malloc.1.pb.gz");
    if (many > 10 * few)
        fail_msg("%d files took %.1f s of CPU time, %d took %.1f s", FEW, few, MANY, many);
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
        cmocka_unit_test(text_is_scaled_by_what_its_header_says),
        cmocka_unit_test(text_names_its_addresses),
        cmocka_unit_test(a_named_stack_has_a_greatest_depth),
        cmocka_unit_test(mapped_regions_are_a_heap_of_their_own),
        cmocka_unit_test(massif_trees_are_dumps),
        cmocka_unit_test(damaged_massif_files_are_reported),
        cmocka_unit_test(dhat_sites_have_totals_peak_and_end),
        cmocka_unit_test(our_pprof_is_read_back_unchanged),
        cmocka_unit_test(a_pprof_file_of_several_intervals_keeps_its_margins),
        cmocka_unit_test(losses_in_other_words_stay_losses),
        cmocka_unit_test(damaged_pprof_is_refused_or_read),
        cmocka_unit_test(pprof_time_is_linear_in_processes),
        cmocka_unit_test(other_profiles_are_refused_by_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
