/* SPDX-License-Identifier: Apache-2.0 */
/* The purposes of mappings, their sums, and the sizes that allocators report. */
#include "recorder/dump/memory_maps.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "profile/compare/rss.h"
#include "recorder/dump/memory_watch.h"
#include "recorder/dump/unexplained.h"
#include "recorder/ledger/usable_size.h"
#include "util/clock.h"

#define STACK_LIMIT ((8u << 20) + 4096)

static struct memory_maps read_maps(const char *text)
{
    struct memory_maps maps;
    char path[] = "/tmp/test-maps-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_int_equal(memory_maps_read(&maps, path), 0);
    unlink(path);
    return maps;
}

static struct memory_maps maps_of(const char *text)
{
    struct memory_maps maps = read_maps(text);
    memory_maps_classify(&maps, STACK_LIMIT);
    return maps;
}

static void kinds_by_name(void **state)
{
    (void)state;
    struct memory_maps maps =
        maps_of("1000-3000 r-xp 00000000 fe:00 12                 /usr/bin/true\n"
                "Rss: 8 kB\nAnonymous: 0 kB\n"
                "3000-5000 rw-p 00002000 fe:00 12                 /usr/bin/true\n"
                "Rss: 8 kB\nAnonymous: 4 kB\nSwap: 4 kB\n"
                "5000-6000 rw-p 00000000 00:00 0 \nRss: 4 kB\nAnonymous: 4 kB\n"
                "10000-20000 rw-p 00000000 00:00 0                [heap]\nRss: 12 kB\n"
                "30000-40000 rw-s 00000000 00:01 9   /memfd:heapprofd-ring (deleted)\nRss: 16 kB\n"
                "50000-60000 rw-s 00000000 00:01 9   /dev/shm/a b\nRss: 20 kB\n"
                "70000-80000 rw-p 00000000 00:00 0                [stack]\nRss: 24 kB\n"
                "90000-91000 r-xp 00000000 00:00 0                [vdso]\nRss: 4 kB\n");
    struct memory_part parts[MEMORY_KINDS];
    memory_maps_sum(&maps, parts);
    assert_int_equal(maps.count, 8);
    assert_int_equal(parts[MEMORY_FILES_CLEAN].rss_bytes, 12 * 1024);
    /* The page of data, and the .bss after it. */
    assert_int_equal(parts[MEMORY_FILES_WRITTEN].rss_bytes, 8 * 1024);
    assert_int_equal(parts[MEMORY_FILES_WRITTEN].swap_bytes, 4 * 1024);
    assert_int_equal(parts[MEMORY_ALLOCATOR].rss_bytes, 12 * 1024);
    assert_int_equal(parts[MEMORY_PROFILER].rss_bytes, 16 * 1024);
    assert_int_equal(parts[MEMORY_SHARED].rss_bytes, 20 * 1024);
    assert_int_equal(parts[MEMORY_MAIN_STACK].rss_bytes, 24 * 1024);
    assert_int_equal(parts[MEMORY_KERNEL].rss_bytes, 4 * 1024);
    assert_int_equal(parts[MEMORY_ANONYMOUS].rss_bytes, 0);
    memory_maps_clear(&maps);
}

/* A pagemap has 8 bytes for each page of the address space: a sparse file. */
static void stacks_with_guards_inside(void **state)
{
    (void)state;
    static const uint64_t guarded[] = {0x100000, 0x2000000, 0x6000000, 0x8000000};
    const uint64_t guard = UINT64_C(1) << 58;
    char path[] = "/tmp/test-maps-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    for (size_t i = 0; i < sizeof(guarded) / sizeof(guarded[0]); i++)
        assert_int_equal(
            pwrite(fd, &guard, sizeof(guard), (off_t)(guarded[i] / 4096 * sizeof(guard))),
            sizeof(guard));
    struct memory_maps maps = read_maps(/* Three stacks that the kernel has merged. */
                                        "100000-1900000 rw-p 00000000 00:00 0 \nRss: 12 kB\n"
                                        "VmFlags: rd wr mr mw me gu ac nh sd \n"
                                        /* One, of a kernel without huge pages. */
                                        "2000000-2800000 rw-p 00000000 00:00 0 \nRss: 20 kB\n"
                                        "VmFlags: rd wr mr mw me gu ac sd \n"
                                        /* It does not begin with a guard. */
                                        "4000000-4800000 rw-p 00000000 00:00 0 \nRss: 40 kB\n"
                                        "VmFlags: rd wr mr mw me gu ac nh sd \n"
                                        /* It is longer than a stack, and may be huge. */
                                        "6000000-7000000 rw-p 00000000 00:00 0 \nRss: 80 kB\n"
                                        "VmFlags: rd wr mr mw me gu ac sd \n"
                                        /* Linux before 6.18. */
                                        "8000000-8800000 rw-p 00000000 00:00 0 \nRss: 160 kB\n"
                                        "VmFlags: rd wr mr mw me ac nh sd \n");
    memory_maps_find_guards(&maps, fd, 4096);
    memory_maps_classify(&maps, STACK_LIMIT);
    struct memory_part parts[MEMORY_KINDS];
    memory_maps_sum(&maps, parts);
    assert_int_equal(parts[MEMORY_THREAD_STACKS].rss_bytes, (12 + 20 + 160) * 1024);
    assert_int_equal(parts[MEMORY_ANONYMOUS].rss_bytes, (40 + 80) * 1024);
    memory_maps_clear(&maps);
    close(fd);
}

static void kinds_by_neighbours(void **state)
{
    (void)state;
    struct memory_maps maps =
        maps_of("7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \nRss: 100 kB\n"
                "7f0000021000-7f0004000000 ---p 00000000 00:00 0 \nRss: 0 kB\n"
                "7f1000001000-7f1000002000 ---p 00000000 00:00 0 \nRss: 0 kB\n"
                "7f1000002000-7f1000802000 rw-p 00000000 00:00 0 \nRss: 8 kB\n"
                "7f2000001000-7f2000002000 ---p 00000000 00:00 0 \nRss: 0 kB\n"
                "7f2000002000-7f2004002000 rw-p 00000000 00:00 0 \nRss: 40 kB\n"
                "7f3000000000-7f3000100000 rw-p 00000000 00:00 0 \nRss: 16 kB\n"
                "VmFlags: rd wr mr mw me nr wf dd nh \n"
                "7f4000001000-7f4000100000 rw-p 00000000 00:00 0 \nRss: 20 kB\n"
                "VmFlags: rd wr mr mw me nr dd \n");
    const enum memory_kind kinds[] = {
        MEMORY_ALLOCATOR,     MEMORY_ANONYMOUS, MEMORY_ANONYMOUS,
        MEMORY_THREAD_STACKS, MEMORY_ANONYMOUS, MEMORY_ANONYMOUS, /* longer than any stack */
        MEMORY_PROFILER,      MEMORY_ANONYMOUS,                   /* other flags */
    };
    assert_int_equal(maps.count, sizeof(kinds) / sizeof(kinds[0]));
    for (size_t i = 0; i < maps.count; i++)
        assert_int_equal(maps.items[i].kind, kinds[i]);
    assert_ptr_equal(memory_maps_find(&maps, 0x7f1000002000), &maps.items[3]);
    assert_ptr_equal(memory_maps_find(&maps, 0x7f1000801fff), &maps.items[3]);
    assert_null(memory_maps_find(&maps, 0x7f1000802000));
    assert_null(memory_maps_find(&maps, 0));
    assert_null(memory_maps_find(&maps, UINT64_MAX));
    memory_maps_clear(&maps);
}

static void allocations_carved_out(void **state)
{
    (void)state;
    struct memory_part parts[MEMORY_KINDS];
    struct memory_maps maps =
        maps_of("100000-200000 rw-p 00000000 00:00 0 \nRss: 400 kB\nSwap: 8 kB\n");
    maps.items[0].allocator_rss = 100 * 1024;
    maps.items[0].allocator_swap = 1e30; /* the estimate can be too large; the mapping limits it */
    memory_maps_sum(&maps, parts);
    assert_int_equal(parts[MEMORY_ALLOCATOR].rss_bytes, 100 * 1024);
    assert_int_equal(parts[MEMORY_ANONYMOUS].rss_bytes, 300 * 1024);
    assert_int_equal(parts[MEMORY_ALLOCATOR].swap_bytes, 8 * 1024);
    assert_int_equal(parts[MEMORY_ANONYMOUS].swap_bytes, 0);
    memory_maps_clear(&maps);
}

static void invalid_lists(void **state)
{
    (void)state;
    struct memory_maps maps;
    assert_int_equal(memory_maps_read(&maps, "/dev/null"), -ENODATA);
    assert_int_equal(memory_maps_read(&maps, "/nowhere/smaps"), -ENOENT);
    maps = maps_of("Rss: 5 kB\n2000-1000 rw-p 0 00:00 0\n1000-2000 rw-p 0 00:00 0 \n"
                   "Rss: many kB\nSwap:\nVmFlags:\n\n-\n");
    assert_int_equal(maps.count, 1);
    assert_int_equal(maps.items[0].rss_bytes, 0);
    memory_maps_clear(&maps);
}

static void sizes_of_allocators(void **state)
{
    (void)state;
    const struct usable_size_rule *glibc = usable_size_rule_of("/lib/x86_64-linux-gnu/libc.so.6");
    const struct usable_size_rule *jemalloc = usable_size_rule_of("libjemalloc.so.2");
    assert_non_null(glibc);
    assert_non_null(jemalloc);
    assert_null(usable_size_rule_of("libsomething.so"));
    assert_null(usable_size_rule_of(NULL));
    assert_int_equal(glibc->taken(24, 0), 32);
    assert_int_equal(glibc->taken(25, 0), 48);
    assert_int_equal(glibc->taken(1 << 20, 0x7f0000000010), (1 << 20) + 4096);
    assert_int_equal(jemalloc->taken(0, 0), 8);
    assert_int_equal(jemalloc->taken(17, 0), 32);
    assert_int_equal(jemalloc->taken(129, 0), 160);
    assert_int_equal(jemalloc->taken(257, 0), 320);
    assert_int_equal(jemalloc->taken(4097, 0), 5120);
    assert_int_equal(jemalloc->taken(5120, 0), 5120);
    assert_int_equal(jemalloc->taken(UINT64_MAX, 0), UINT64_MAX);
}

/* Measure a process of these mappings. Return the bytes that are in no heap. */
static uint64_t measured(struct unexplained *unexplained, const struct unexplained_facts *facts,
                         const char *text)
{
    struct memory_maps maps = maps_of(text);
    struct memory_snapshot snapshot = {0};
    memory_maps_sum(&maps, snapshot.parts);
    unexplained_measure(unexplained, &maps, facts, &snapshot);
    memory_maps_clear(&maps);
    assert_true(snapshot.has_unexplained);
    assert_true(snapshot.unexplained.bytes <= snapshot.unexplained.of_bytes);
    assert_true(snapshot.unexplained.bytes <= snapshot.most_unexplained.bytes);
    return snapshot.unexplained.bytes;
}

/* A process that grows is read before its pause is over: it may end within it. */
static void readings_of_growth(void **state)
{
    (void)state;
    const uint64_t mib = UINT64_C(1) << 20, hour_us = UINT64_C(3600) * 1000000;
    uint64_t now_us = clock_read_us(CLOCK_MONOTONIC);
    struct memory_watch watch = {.taken_us = now_us, .pause_us = hour_us, .rss_bytes = 40 * mib};
    assert_false(memory_watch_is_due(&watch, 1));
    assert_false(memory_watch_is_growth_due(&watch, 1));
    watch.taken_us = now_us - hour_us / 5;
    assert_false(memory_watch_is_due(&watch, 1));
    assert_true(memory_watch_is_growth_due(&watch, 1));
    assert_false(memory_watch_is_growth_due(&watch, 11));
    assert_false(memory_watch_has_grown(&watch, 1, 54 * mib));
    assert_true(memory_watch_has_grown(&watch, 1, 55 * mib));
    /* One that has doubled is read sooner. */
    assert_false(memory_watch_has_grown(&watch, 4, 84 * mib));
    assert_true(memory_watch_has_grown(&watch, 4, 85 * mib));
    /* One that has changed and stands still is read, once its counters did not change for a while.
     */
    assert_false(memory_watch_has_settled(&watch, 1, 20 * mib, 0));
    watch.seen_us -= 99000;
    assert_false(memory_watch_has_settled(&watch, 1, 10 * mib, 0));
    watch.seen_us -= 200000;
    assert_true(memory_watch_has_settled(&watch, 1, 10 * mib, 0));
    assert_false(memory_watch_has_settled(&watch, 4, 10 * mib, 0));
    watch.rss_bytes = 10 * mib;
    assert_false(memory_watch_has_settled(&watch, 1, 10 * mib, 0));
    watch.live_bytes = (double)(5 * mib);
    assert_true(memory_watch_has_settled(&watch, 1, 10 * mib, 0));
    /* The first reading waits for nothing. */
    watch = (struct memory_watch){0};
    assert_true(memory_watch_is_due(&watch, 200));
}

static void drained(void *context)
{
    ++*(int *)context;
}

#define MAPPED(end, kb) "7f0000100000-" end " rw-p 00000000 00:00 0 \nRss: " kb " kB\n"

static void memory_in_no_heap(void **state)
{
    (void)state;
    struct ledger *ledger = ledger_open(4096);
    int drains = 0;
    struct unexplained_facts facts = {ledger, true, true, drained, &drains};
    struct unexplained found = {0};
    /* Not [heap], code, stacks, or what chance may have left without a sample. */
    assert_int_equal(measured(&found, &facts,
                              "1000-2000000 rw-p 00000000 00:00 0    [heap]\nRss: 20480 kB\n"
                              "7f0000100000-7f0001500000 rwxp 00000000 00:00 0 \nRss: 20480 kB\n"
                              "7f1000002000-7f1000802000 rw-p 00000000 00:00 0 \nRss: 12 kB\n"
                              "7f2000001000-7f2000002000 ---p 00000000 00:00 0 \nRss: 0 kB\n"
                              "7f2000002000-7f2000802000 rw-p 00000000 00:00 0 \nRss: 8192 kB\n"),
                     0);
    assert_int_equal(drains, 0);
    assert_int_equal(measured(&found, &facts, MAPPED("7f0001500000", "20480")), 20480 * 1024);
    assert_int_equal(drains, 1);
    /* At a dump, a block may be newer than the samples: what both readings have counts. */
    facts.drain = NULL;
    assert_int_equal(measured(&found, &facts, MAPPED("7f0002000000", "30720")), 20480 * 1024);
    assert_int_equal(measured(&found, &facts, MAPPED("7f0002000000", "10240")), 10240 * 1024);
    assert_int_equal(found.most.bytes, 20480 * 1024);
    unexplained_clear(&found);
    /* Of a process that ran before, only what came later counts. */
    facts.from_start = false;
    facts.drain = drained;
    assert_int_equal(measured(&found, &facts, MAPPED("7f0001500000", "20480")), 0);
    assert_int_equal(measured(&found, &facts, MAPPED("7f0002900000", "40960")), 20480 * 1024);
    unexplained_clear(&found);
    ledger_close(ledger);
}

/* Pages that are either the kernel's zeros or shared with a child: as many are shared as smaps
 * says, and the rest is not resident. */
static void pages_of_zeros(void **state)
{
    (void)state;
    struct memory_maps maps = maps_of("10000-90000 rw-p 00000000 00:00 0 \nRss: 100 kB\n"
                                      "Shared_Clean: 8 kB\nShared_Dirty: 12 kB\n");
    assert_true(maps.items[0].is_anonymous);
    maps.items[0].doubtful_bytes = 300 * 1024;
    assert_true(memory_map_zeros(&maps.items[0]) == 280 * 1024);
    maps.items[0].doubtful_bytes = 16 * 1024;
    assert_true(memory_map_zeros(&maps.items[0]) == 0);
    memory_maps_clear(&maps);
}

/* A block above our ring is the program's; the .bss of our library is ours. */
static void beside_ours(void **state)
{
    (void)state;
    struct memory_part parts[MEMORY_KINDS];
    struct memory_maps maps =
        maps_of("10000-20000 rw-s 00000000 00:01 9   /memfd:heapprofd-ring (deleted)\nRss: 16 kB\n"
                "20000-40000 rw-p 00000000 00:00 0 \nRss: 32 kB\n"
                "50000-51000 rw-p 00004000 fe:00 12       /usr/lib/libheapprofd_preload.so\n"
                "Rss: 4 kB\n"
                "51000-60000 rw-p 00000000 00:00 0 \nRss: 8 kB\n");
    memory_maps_sum(&maps, parts);
    assert_int_equal(parts[MEMORY_ANONYMOUS].rss_bytes, 32 * 1024);
    assert_int_equal(parts[MEMORY_PROFILER].rss_bytes, 28 * 1024);
    memory_maps_clear(&maps);
}

static void huge_pages(void **state)
{
    (void)state;
    struct memory_part parts[MEMORY_KINDS];
    struct memory_maps maps =
        maps_of("200000-600000 rw-p 00000000 00:00 0    [heap]\nRss: 4096 kB\n"
                "AnonHugePages:      2048 kB\n");
    assert_true(maps.items[0].is_arena);
    memory_maps_sum(&maps, parts);
    assert_int_equal(parts[MEMORY_ALLOCATOR].huge_bytes, 2048 * 1024);
    assert_int_equal(parts[MEMORY_ALLOCATOR].rss_bytes, 4096 * 1024);
    memory_maps_clear(&maps);
}

static void rows_add_up(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 1000; round++) {
        struct memory_snapshot look = {.rounding_rule = round % 2 ? "glibc" : NULL,
                                       .pages_unknown = round % 3 == 0};
        for (int i = 0; i < MEMORY_KINDS; i++)
            look.parts[i].rss_bytes = (uint64_t)(rand_r(&seed) % 1000) * 4096;
        look.live_bytes = rand_r(&seed) / 7.0;
        look.rounding_bytes = look.rounding_rule != NULL ? rand_r(&seed) / 9.0 : 0;
        look.untouched_bytes = look.pages_unknown ? 0 : rand_r(&seed) / 11.0;
        look.swapped_bytes = look.pages_unknown ? 0 : rand_r(&seed) / 13.0;
        struct rss_table table;
        rss_table_fill(&table, &look);
        int64_t sum = 0;
        for (size_t i = 0; i < table.count; i++) {
            sum += table.rows[i].bytes;
            if (i + 1 == table.allocator_count)
                assert_int_equal(sum, look.parts[MEMORY_ALLOCATOR].rss_bytes);
            if (table.rows[i].source == RSS_NOT_KNOWN)
                assert_int_equal(table.rows[i].bytes, 0);
        }
        assert_int_equal(sum, memory_snapshot_sum(&look).rss_bytes);
        assert_int_equal(sum, table.rss_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_by_name),
        cmocka_unit_test(kinds_by_neighbours),
        cmocka_unit_test(stacks_with_guards_inside),
        cmocka_unit_test(allocations_carved_out),
        cmocka_unit_test(invalid_lists),
        cmocka_unit_test(sizes_of_allocators),
        cmocka_unit_test(rows_add_up),
        cmocka_unit_test(readings_of_growth),
        cmocka_unit_test(memory_in_no_heap),
        cmocka_unit_test(pages_of_zeros),
        cmocka_unit_test(huge_pages),
        cmocka_unit_test(beside_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
