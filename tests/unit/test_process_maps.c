/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/PID/maps: well-formed, malformed and forged ones. */
#include "util/process_maps.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void a_line_has_all_fields(void **state)
{
    (void)state;
    struct process_map map;
    assert_true(process_map_parse("7f00deadb000-7f00deadc000 r-xs 00002000 103:0a 4294967297"
                                  "                    /opt/my lib.so (deleted)",
                                  &map));
    assert_int_equal(map.start, 0x7f00deadb000);
    assert_int_equal(map.end, 0x7f00deadc000);
    assert_int_equal(map.offset, 0x2000);
    assert_int_equal(map.device, UINT64_C(0x103) << 32 | 0x0a);
    assert_int_equal(map.inode, UINT64_C(4294967297));
    assert_true(map.readable && !map.writable && map.executable && map.shared);
    assert_string_equal(map.path, "/opt/my lib.so (deleted)");
}

static void memory_without_a_file_has_no_path(void **state)
{
    (void)state;
    struct process_map map;
    assert_true(process_map_parse("00400000-00401000 -w-p 00000000 00:00 0 ", &map));
    assert_string_equal(map.path, "");
    assert_true(!map.readable && map.writable && !map.executable && !map.shared);
    assert_true(process_map_parse("00400000-00401000 ---p 00000000 00:00 0", &map));
    assert_string_equal(map.path, "");
    assert_true(process_map_parse(
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
        &map));
    assert_int_equal(map.end, UINT64_C(0xffffffffff601000));
    assert_string_equal(map.path, "[vsyscall]");
}

static void other_lines_are_no_mappings(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "Rss:                  12 kB",
        "Anonymous:             4 kB",
        "VmFlags: rd ex mr mw me sd",
        "00401000-00400000 r-xp 00000000 00:00 0", /* ends before it begins */
        "00400000-00400000 r-xp 00000000 00:00 0", /* empty */
        "00400000 00401000 r-xp 00000000 00:00 0", /* no '-' */
        "00400000--0401000 r-xp 00000000 00:00 0", /* a sign */
        "-0400000-00401000 r-xp 00000000 00:00 0",
        "00400000-10000000000000000 r-xp 00000000 00:00 0", /* more than 64 bits */
        "00400000-00401000 r-x 00000000 00:00 0",           /* three flags */
        "00400000-00401000 r-xpp 00000000 00:00 0",
        "00400000-00401000 r-xp 00000000 0000 0", /* no ':' */
        "00400000-00401000 r-xp 00000000 00:00",  /* no inode */
        "00400000-00401000 r-xp 00000000 00:00 1f /bin/a",
        "00400000-00401000 r-xp zero 00:00 0",
        "00400000-00401000",
        "/bin/a",
    };
    struct process_map map;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        if (process_map_parse(lines[i], &map))
            fail_msg("taken for a mapping: %s", lines[i]);
    }
}

/* A path can be longer than any buffer, and its end can look like a mapping. */
static void the_end_of_a_long_path_is_no_mapping(void **state)
{
    (void)state;
    enum { PATH_BYTES = 8192 };
    char path[] = "/tmp/test_process_maps_XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs("nonsense\n00400000-00401000 r-xp 00000000 08:01 5    /", file);
    for (int i = 0; i < PATH_BYTES; i++)
        putc('a', file);
    fputs("70000000-70001000 rw-s 00000000 08:01 7 /forged\n", file);
    fputs("00500000-00501000 r-xp 00000000 08:01 6    /last", file); /* no newline */
    fclose(file);

    struct process_maps maps;
    struct process_map map;
    assert_int_equal(process_maps_open_file(&maps, path), 0);
    unlink(path);
    assert_true(process_maps_next(&maps, &map));
    assert_int_equal(map.start, 0x400000);
    assert_true(strlen(map.path) > PATH_BYTES);
    assert_true(process_maps_next(&maps, &map));
    assert_string_equal(map.path, "/last");
    assert_false(process_maps_next(&maps, &map));
    assert_int_equal(process_maps_close(&maps), 0);
}

static void own_mappings_are_read(void **state)
{
    (void)state;
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    struct process_maps maps;
    struct process_map map;
    bool found = false;
    assert_int_equal(process_maps_open(&maps, getpid()), 0);
    while (process_maps_next(&maps, &map))
        found |= map.start == (uintptr_t)memory && map.end == map.start + bytes && map.shared &&
                 map.readable && !map.writable && map.inode != 0;
    assert_int_equal(process_maps_close(&maps), 0);
    assert_true(found);
    munmap(memory, bytes);
}

static void a_missing_file_has_no_mappings(void **state)
{
    (void)state;
    struct process_maps maps;
    struct process_map map;
    assert_int_equal(process_maps_open_file(&maps, "/nowhere"), -ENOENT);
    assert_false(process_maps_next(&maps, &map));
    assert_int_equal(process_maps_close(&maps), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_all_fields),
        cmocka_unit_test(memory_without_a_file_has_no_path),
        cmocka_unit_test(other_lines_are_no_mappings),
        cmocka_unit_test(the_end_of_a_long_path_is_no_mapping),
        cmocka_unit_test(own_mappings_are_read),
        cmocka_unit_test(a_missing_file_has_no_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
