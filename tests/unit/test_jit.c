/* SPDX-License-Identifier: Apache-2.0 */
/* Names of generated code: the forms of names, perf maps, jitdump files, executable ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/jit/code_ranges.h"
#include "recorder/jit/jit_names.h"
#include "recorder/jit/jitdump.h"
#include "recorder/jit/perf_map.h"
#include "uint_in_range.h"

static int file_of(const void *bytes, size_t length)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), (ssize_t)length);
    return fd;
}

static void check_name(const struct jit_names *names, uint64_t pc, const char *name)
{
    const struct jit_address *found = jit_names_find(names, pc);
    if (name == NULL) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_string_equal(found->name->bytes, name);
}

static void check_place(const struct jit_names *names, uint64_t pc, const char *file, uint32_t line)
{
    const struct jit_address *found = jit_names_find(names, pc);
    assert_non_null(found);
    if (file == NULL)
        assert_null(found->file);
    else
        assert_string_equal(found->file->bytes, file);
    assert_int_equal(found->line, line);
}

/* --- names --- */

static void check_form(const char *whole, const char *name, const char *file, uint32_t line,
                       bool interpreted)
{
    const uint64_t pc = 0x1000;
    struct jit_names names;
    assert_int_equal(jit_names_open(&names, &pc, 1), 0);
    assert_int_equal(jit_names_set(&names, 0x1000, 1, whole, strlen(whole)), 0);
    check_name(&names, pc, name);
    check_place(&names, pc, file, line);
    assert_int_equal(jit_names_find(&names, pc)->interpreted, interpreted);
    jit_names_close(&names);
}

static void a_certain_source_position_is_split_off(void **state)
{
    (void)state;
    check_form("JS:*leaf /a/b.js:12:3", "JS:*leaf", "/a/b.js", 12, false);
    check_form("JS:~leaf /a/b.js:12:3", "JS:~leaf", "/a/b.js", 12, true);
    check_form("LazyCompile:^leaf file:///a/b.mjs:1:1", "LazyCompile:^leaf", "file:///a/b.mjs", 1,
               false);
    check_form("JS:*get size node:internal/map:4:9", "JS:*get size", "node:internal/map", 4, false);
    check_form("JS:+leaf /my files/b.js:12:3", "JS:+leaf", "/my files/b.js", 12, false);
    check_form("JS:*leaf evalmachine.<anonymous>:2:3", "JS:*leaf", "evalmachine.<anonymous>", 2,
               false);
    check_form("py::f:/a/b.py", "py::f", "/a/b.py", 0, true);
    check_form("py::<module>:<frozen importlib._bootstrap>", "py::<module>",
               "<frozen importlib._bootstrap>", 0, true);
}

static void an_uncertain_source_position_stays_in_the_name(void **state)
{
    (void)state;
    static const char *const names[] = {
        "JS:*a b c.js:1:2",
        "JS:*f /a /b.js:1:2",
        "JS:*f /a/b.js",
        "JS:*f :1:2",
        "JS:*f /b.js:99999999999:1",
        "JS:",
        "JS:*",
        "py_::f:/a",
        "Lfoo/Bar;::method",
        "Builtin:x /a:1:2",
        "RegExp:/a b/:1:2",
        "x",
        "_ZN1a1bEv",
        "a /b.js:1:2",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        check_form(names[i], names[i], NULL, 0, false);
    check_form("py::f", "py::f", NULL, 0, true);
    check_form("py::f:", "py::f:", NULL, 0, true);
    check_form("JS:~f", "JS:~f", NULL, 0, true);
    check_form("Interpreter", "Interpreter", NULL, 0, true);
    /* A shorter form would leave no name. */
    check_form("JS:* /a/b.js:3:4", "JS:* /a/b.js:3:4", "/a/b.js", 3, false);
}

static void the_last_entry_counts(void **state)
{
    (void)state;
    const uint64_t pcs[] = {0x1000, 0x1010, 0x1020, UINT64_MAX};
    struct jit_names names;
    assert_int_equal(jit_names_open(&names, pcs, 4), 0);
    assert_int_equal(jit_names_set(&names, 0x1000, 0x21, "first", 5), 0);
    assert_int_equal(jit_names_set(&names, 0x1010, 0x10, "second", 6), 0);
    assert_int_equal(jit_names_set(&names, 0x1030, 0x10, "elsewhere", 9), 0);
    assert_int_equal(jit_names_set(&names, UINT64_MAX - 1, 100, "wraps", 5), 0);
    check_name(&names, 0x1000, "first");
    check_name(&names, 0x1010, "second");
    check_name(&names, 0x1020, "first");
    check_name(&names, UINT64_MAX, NULL);
    check_name(&names, 0x1001, NULL);
    jit_names_close(&names);
}

static void endless_work_is_refused(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    uint64_t *pcs = calloc(COUNT, sizeof(*pcs));
    struct jit_names names;
    int result = 0;
    for (size_t i = 0; i < COUNT; i++)
        pcs[i] = i;
    assert_int_equal(jit_names_open(&names, pcs, COUNT), 0);
    for (int i = 0; i < 10000 && result == 0; i++)
        result = jit_names_set(&names, 0, COUNT, "all", 3);
    assert_int_equal(result, -E2BIG);
    jit_names_close(&names);
    free(pcs);
}

/* --- perf maps --- */

static struct jit_file_report read_map(struct jit_names *names, const char *text)
{
    static const uint64_t pcs[] = {0x1000, 0x1010, 0x2000, 0xffffffffffff0000};
    struct jit_file_report report;
    int fd = file_of(text, strlen(text));
    assert_int_equal(jit_names_open(names, pcs, 4), 0);
    assert_int_equal(perf_map_read(fd, names, &report), 0);
    close(fd);
    return report;
}

static void a_perf_map_is_read(void **state)
{
    (void)state;
    struct jit_names names;
    struct jit_file_report report =
        read_map(&names, "1000 10 one\n0x0000000000001010 0x10 two words \r\n"
                         "FFFFFFFFFFFF0000 1 high\n2000 1 not ended");
    assert_int_equal(report.entries, 3);
    assert_int_equal(report.damaged, 0);
    assert_int_equal(report.error, 0);
    assert_false(report.cut);
    check_name(&names, 0x1000, "one");
    check_name(&names, 0x1010, "two words ");
    check_name(&names, 0xffffffffffff0000, "high");
    check_name(&names, 0x2000, NULL);
    jit_names_close(&names);
}

static void damaged_lines_are_skipped(void **state)
{
    (void)state;
    struct jit_names names;
    struct jit_file_report report = read_map(
        &names, "1000\n1000 \n1000 10\n1000 10 \nxyz 10 name\n 1000 10 name\n1000  10 name\n"
                "-1000 10 name\n11111111111111111 10 name\n\n\n0x 10 name\n1000 10 good\n");
    assert_int_equal(report.entries, 1);
    assert_int_equal(report.damaged, 10);
    check_name(&names, 0x1000, "good");
    jit_names_close(&names);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    struct jit_names names;
    size_t length = 300000;
    char *text = malloc(length + 100);
    assert_non_null(text);
    int used = sprintf(text, "1000 10 ");
    memset(text + used, 'n', length);
    strcpy(text + used + length, "\n1010 1 next\n");
    struct jit_file_report report = read_map(&names, text);
    assert_int_equal(report.entries, 2);
    assert_int_equal(strlen(jit_names_find(&names, 0x1000)->name->bytes), JIT_NAME_BYTES_MAX);
    check_name(&names, 0x1010, "next");
    jit_names_close(&names);
    free(text);
}

static void unreadable_files_are_reported(void **state)
{
    (void)state;
    const uint64_t pc = 1;
    struct jit_names names;
    struct jit_file_report report;
    assert_int_equal(jit_names_open(&names, &pc, 1), 0);
    int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(perf_map_read(directory, &names, &report), 0);
    assert_int_equal(report.error, -EISDIR);
    assert_int_equal(jitdump_read(directory, &names, &report), 0);
    assert_int_equal(report.error, -EISDIR);
    close(directory);
    jit_names_close(&names);
}

/* --- jitdump --- */

struct bytes {
    uint8_t at[4096];
    size_t length;
    bool swapped;
};

static void put32(struct bytes *bytes, uint32_t value)
{
    value = bytes->swapped ? __builtin_bswap32(value) : value;
    memcpy(bytes->at + bytes->length, &value, sizeof(value));
    bytes->length += sizeof(value);
}

static void put64(struct bytes *bytes, uint64_t value)
{
    value = bytes->swapped ? __builtin_bswap64(value) : value;
    memcpy(bytes->at + bytes->length, &value, sizeof(value));
    bytes->length += sizeof(value);
}

static void put_text(struct bytes *bytes, const char *text)
{
    memcpy(bytes->at + bytes->length, text, strlen(text) + 1);
    bytes->length += strlen(text) + 1;
}

static void put_head(struct bytes *bytes)
{
    put32(bytes, 0x4A695444);
    put32(bytes, 1);
    put32(bytes, 40);
    put32(bytes, 62);
    put32(bytes, 0);
    put32(bytes, 1234);
    put64(bytes, 0);
    put64(bytes, 0);
}

static void put_record(struct bytes *bytes, uint32_t id, uint32_t body)
{
    put32(bytes, id);
    put32(bytes, 16 + body);
    put64(bytes, 0);
}

static void put_load(struct bytes *bytes, uint64_t start, uint64_t size, uint64_t index,
                     const char *name)
{
    put_record(bytes, 0, 40 + (uint32_t)strlen(name) + 1 + 3);
    put32(bytes, 1);
    put32(bytes, 1);
    put64(bytes, start);
    put64(bytes, start);
    put64(bytes, size);
    put64(bytes, index);
    put_text(bytes, name);
    bytes->length += 3; /* the code */
}

static void put_move(struct bytes *bytes, uint64_t to, uint64_t size, uint64_t index)
{
    put_record(bytes, 1, 48);
    put64(bytes, 0);
    put64(bytes, 0);
    put64(bytes, 0);
    put64(bytes, to);
    put64(bytes, size);
    put64(bytes, index);
}

/* Two lines of one file and one of another; the second is encoded as "the same". */
static void put_lines(struct bytes *bytes, uint64_t of, uint64_t first)
{
    put_record(bytes, 2, 16 + 3 * 16 + 5 + 2 + 5);
    put64(bytes, of);
    put64(bytes, 3);
    put64(bytes, first);
    put32(bytes, 10);
    put32(bytes, 0);
    put_text(bytes, "a.js");
    put64(bytes, first + 0x10);
    put32(bytes, 20);
    put32(bytes, 0);
    put_text(bytes, "\xff");
    put64(bytes, first + 0x20);
    put32(bytes, 30);
    put32(bytes, 0);
    put_text(bytes, "b.js");
}

static struct jit_file_report read_dump(struct jit_names *names, const struct bytes *bytes)
{
    static const uint64_t pcs[] = {0x1000, 0x100f, 0x1010, 0x1028, 0x2000, 0x3000};
    struct jit_file_report report;
    int fd = file_of(bytes->at, bytes->length);
    assert_int_equal(jit_names_open(names, pcs, 6), 0);
    assert_int_equal(jitdump_read(fd, names, &report), 0);
    close(fd);
    return report;
}

static void a_jitdump_is_read(void **state)
{
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct bytes bytes = {.swapped = swapped};
        struct jit_names names;
        put_head(&bytes);
        put_record(&bytes, 77, 8); /* an unknown kind */
        put64(&bytes, 1);
        put_lines(&bytes, 0x1000, 0x1000);
        put_load(&bytes, 0x1000, 0x40, 5, "lined");
        put_load(&bytes, 0x5000, 0x10, 6, "mover");
        put_move(&bytes, 0x2000, 0x10, 6);
        put_record(&bytes, 3, 0);
        put_load(&bytes, 0x3000, 0x10, 7, "behind the end");
        struct jit_file_report report = read_dump(&names, &bytes);
        assert_int_equal(report.entries, 4);
        assert_int_equal(report.damaged, 0);
        assert_int_equal(report.error, 0);
        check_name(&names, 0x1000, "lined");
        check_place(&names, 0x1000, "a.js", 10);
        check_place(&names, 0x100f, "a.js", 10);
        check_place(&names, 0x1010, "a.js", 20);
        check_place(&names, 0x1028, "b.js", 30);
        check_name(&names, 0x2000, "mover");
        check_name(&names, 0x3000, NULL);
        jit_names_close(&names);
    }
}

static void lines_of_v8_are_corrected(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    struct jit_names names;
    put_head(&bytes);
    put_lines(&bytes, 0x1000, 0x1000 + 64);
    put_load(&bytes, 0x1000, 0x40, 5, "JS:*f a.js:5:1");
    put_lines(&bytes, 0x2fff, 0x2fff); /* no code follows these lines */
    put_load(&bytes, 0x3000, 0x40, 5, "JS:*g /c.js:7:1");
    read_dump(&names, &bytes);
    check_name(&names, 0x1028, "JS:*f");
    check_place(&names, 0x1000, "a.js", 10);
    check_place(&names, 0x1010, "a.js", 20);
    check_place(&names, 0x1028, "a.js", 5); /* b.js is inlined code */
    check_place(&names, 0x3000, "/c.js", 7);
    jit_names_close(&names);
}

/* V8 11 writes such names: it reads them from freed memory. */
static void lines_with_a_damaged_file_name_do_not_count(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    struct jit_names names;
    put_head(&bytes);
    put_lines(&bytes, 0x1000, 0x1000 + 64);
    memcpy(strstr((char *)bytes.at + 40 + 16 + 16 + 16, "a.js"), "\x80\0\x01.", 4);
    put_load(&bytes, 0x1000, 0x40, 5, "JS:*f a.js:5:1");
    struct jit_file_report report = read_dump(&names, &bytes);
    assert_int_equal(report.damaged, 1);
    check_place(&names, 0x1000, "a.js", 5);
    check_place(&names, 0x1028, "a.js", 5);
    jit_names_close(&names);
}

static void count_pause(void *context)
{
    ++*(unsigned *)context;
}

/* Rings are read in the pauses. One record may have gigabytes of lines. */
static void there_are_pauses_within_a_record(void **state)
{
    enum { LINES = 100000, LINE_BYTES = 16 + 2 };
    static const uint64_t pc = 0x1000;
    (void)state;
    struct jit_names names;
    struct jit_file_report report;
    unsigned pauses = 0;
    struct bytes head = {.length = 0}, line = {.length = 0}, load = {.length = 0};
    put_head(&head);
    put_record(&head, 2, 16 + LINES * LINE_BYTES);
    put64(&head, pc);
    put64(&head, LINES);
    put64(&line, pc + 0x20);
    put32(&line, 7);
    put32(&line, 0);
    put_text(&line, "a");
    put_load(&load, pc, 0x30, 1, "f");
    uint8_t *file = malloc(head.length + LINES * LINE_BYTES + load.length), *at = file;
    assert_non_null(file);
    at = mempcpy(at, head.at, head.length);
    for (unsigned i = 0; i < LINES; i++)
        at = mempcpy(at, line.at, line.length);
    at = mempcpy(at, load.at, load.length);
    int fd = file_of(file, (size_t)(at - file));
    assert_int_equal(jit_names_open(&names, &pc, 1), 0);
    names.pause = count_pause;
    names.pause_context = &pauses;
    assert_int_equal(jitdump_read(fd, &names, &report), 0);
    check_name(&names, pc, "f");
    assert_uint_in_range(pauses, LINES / 10000, LINES);
    assert_uint_in_range(names.work, LINES, 10 * LINES);
    jit_names_close(&names);
    close(fd);
    free(file);
}

static void every_cut_of_a_jitdump_is_survived(void **state)
{
    (void)state;
    struct bytes whole = {0};
    put_head(&whole);
    put_lines(&whole, 0x1000, 0x1000);
    put_load(&whole, 0x1000, 0x40, 5, "lined");
    put_move(&whole, 0x2000, 0x10, 5);
    for (size_t length = 0; length < whole.length; length++) {
        struct bytes cut = whole;
        struct jit_names names;
        cut.length = length;
        struct jit_file_report report = read_dump(&names, &cut);
        assert_int_equal(report.error, length < 40 ? -EBADMSG : 0);
        check_name(&names, 0x2000, NULL);
        jit_names_close(&names);
    }
}

static void damaged_records_are_reported(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    struct jit_names names;
    put_head(&bytes);
    put_record(&bytes, 0, 8); /* too short for a load */
    put64(&bytes, 0);
    put_move(&bytes, 0x2000, 0x10, 99); /* this code was never loaded */
    put32(&bytes, 0);
    put32(&bytes, 4); /* shorter than its header */
    put64(&bytes, 0);
    size_t offset = bytes.length - 16;
    struct jit_file_report report = read_dump(&names, &bytes);
    assert_int_equal(report.damaged, 2);
    assert_int_equal(report.error, -EBADMSG);
    assert_int_equal(report.error_offset, offset);
    jit_names_close(&names);
}

/* --- executable ranges --- */

static void executable_ranges_are_distinguished(void **state)
{
    (void)state;
    static const char maps[] =
        "00400000-00500000 r-xp 00002000 fe:00 123                             /usr/bin/node\n"
        "10000000-10100000 ---p 00000000 00:00 0 \n"
        "10100000-10200000 rwxp 00000000 00:00 0 \n"
        "10200000-10300000 ---p 00000000 00:00 0 \n"
        "10300000-10400000 r-xp 00000000 00:00 0 \n"
        "10400000-10500000 rw-p 00000000 00:00 0 \n"
        "20000000-20001000 r-xp 00000000 fe:00 7                               /tmp/jit-55.dump\n"
        "30000000-30001000 r-xs 00000000 00:01 9                               /memfd:x (deleted)\n"
        "40000000-40001000 r-xp 00000000 00:00 0                               [anon:v8]\n"
        "50000000-50001000 r-xp 00000000 00:00 0                               [vdso]\n"
        "60000000-60001000 r-xp 00001000 fe:00 8                               /opt/my lib.so\n"
        "nonsense\n";
    char path[] = "/tmp/test_jit_XXXXXX";
    struct code_ranges ranges = {0};
    int fd = mkstemp(path);
    assert_int_equal(write(fd, maps, sizeof(maps) - 1), (ssize_t)sizeof(maps) - 1);
    close(fd);
    assert_int_equal(code_ranges_read_file(&ranges, path), 0);
    unlink(path);
    const struct code_range *file = code_ranges_find(&ranges, 0x400000);
    assert_non_null(file);
    assert_int_equal(file->offset, 0x2000);
    assert_string_equal(ranges.texts + file->path, "/usr/bin/node");
    assert_string_equal(ranges.texts + code_ranges_find(&ranges, 0x60000000)->path,
                        "/opt/my lib.so");
    assert_string_equal(ranges.texts + ranges.jitdump, "/tmp/jit-55.dump");
    const uint64_t generated[] = {0x10000000, 0x10150000, 0x10250000,
                                  0x103fffff, 0x30000000, 0x40000fff};
    for (size_t i = 0; i < sizeof(generated) / sizeof(*generated); i++) {
        assert_non_null(code_ranges_find(&ranges, generated[i]));
        assert_int_equal(code_ranges_find(&ranges, generated[i])->path, 0);
    }
    const uint64_t nothing[] = {0, 0x500000, 0x10400000, 0x20000000, 0x50000000, UINT64_MAX};
    for (size_t i = 0; i < sizeof(nothing) / sizeof(*nothing); i++)
        assert_null(code_ranges_find(&ranges, nothing[i]));
    /* Failed reads keep the old ranges. */
    assert_int_equal(code_ranges_read_file(&ranges, "/dev/null"), -ESRCH);
    assert_non_null(code_ranges_find(&ranges, 0x400000));
    code_ranges_clear(&ranges);
}

/* A path can be longer than any buffer, and its end can look like a mapping. */
static void a_long_path_is_not_taken_for_a_mapping(void **state)
{
    (void)state;
    enum { PATH_BYTES = 8192 };
    static char maps[PATH_BYTES + 512];
    static const char rest[] = "70000000-70001000 r-xp 00000000 08:01 7 /bin/forged\n";
    struct code_ranges ranges = {0};
    char path[64];
    int length = sprintf(maps, "00400000-00401000 r-xp 00000000 08:01 5    /");
    memset(maps + length, 'a', (size_t)(PATH_BYTES - 1 - length));
    strcpy(maps + PATH_BYTES - 1, rest);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of(maps, strlen(maps)));
    assert_int_equal(code_ranges_read_file(&ranges, path), 0);
    assert_int_equal(ranges.count, 1);
    assert_int_equal(strlen(ranges.texts + ranges.items[0].path),
                     PATH_BYTES - (size_t)length + strlen(rest) - 1);
    code_ranges_clear(&ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certain_source_position_is_split_off),
        cmocka_unit_test(an_uncertain_source_position_stays_in_the_name),
        cmocka_unit_test(the_last_entry_counts),
        cmocka_unit_test(endless_work_is_refused),
        cmocka_unit_test(a_perf_map_is_read),
        cmocka_unit_test(damaged_lines_are_skipped),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(unreadable_files_are_reported),
        cmocka_unit_test(a_jitdump_is_read),
        cmocka_unit_test(lines_of_v8_are_corrected),
        cmocka_unit_test(lines_with_a_damaged_file_name_do_not_count),
        cmocka_unit_test(there_are_pauses_within_a_record),
        cmocka_unit_test(every_cut_of_a_jitdump_is_survived),
        cmocka_unit_test(damaged_records_are_reported),
        cmocka_unit_test(executable_ranges_are_distinguished),
        cmocka_unit_test(a_long_path_is_not_taken_for_a_mapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
