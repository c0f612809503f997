/* SPDX-License-Identifier: Apache-2.0 */
/* Breakpad's symbol files, and directories of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "profile/symbols/breakpad.h"
#include "profile/symbols/breakpad_store.h"

#define HEAD "MODULE Linux x86_64 0102030405060708090A0B0C0D0E0F100 demo\n"
#define TEXT_BYTES 4096

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/breakpad.XXXXXX");
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int remove_directory(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", directory);
    return system(command);
}

/* Write a file with this content, create its directory if needed, and return its path. */
static const char *write_bytes(const char *name, const char *text, size_t length)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    for (char *at = path + strlen(directory) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0777);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    return write_bytes(name, text, strlen(text));
}

/* All reported entries as text: "ADDRESS:function@file:line<function@file:line;...". */
struct report {
    const uint64_t *addresses;
    char text[TEXT_BYTES];
};

static int append_entry(void *context, size_t index, struct source_frame *frames, size_t count)
{
    struct report *report = context;
    size_t length = strlen(report->text);
    length += (size_t)snprintf(report->text + length, TEXT_BYTES - length,
                               "%llx:", (unsigned long long)report->addresses[index]);
    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(report->text + length, TEXT_BYTES - length, "%s%s@%s:%u",
                                   i > 0 ? "<" : "", frames[i].function,
                                   frames[i].file == NULL ? "" : frames[i].file, frames[i].line);
    snprintf(report->text + length, TEXT_BYTES - length, ";");
    return 0;
}

static int find(const char *text, const uint64_t *addresses, size_t count, struct report *report,
                struct error *error)
{
    *report = (struct report){.addresses = addresses};
    return breakpad_find(write_text("one.sym", text), addresses, count, append_entry, report,
                         error);
}

#define ASSERT_REPORT(expected, symbols, ...)                                                      \
    do {                                                                                           \
        static const uint64_t asked[] = {__VA_ARGS__};                                             \
        static struct report report;                                                               \
        struct error error = {0};                                                                  \
        int result = find(symbols, asked, sizeof(asked) / sizeof(*asked), &report, &error);        \
        assert_string_equal(error.message, "");                                                    \
        assert_int_equal(result, 0);                                                               \
        assert_string_equal(report.text, expected);                                                \
    } while (0)

static void assert_refused(const char *text, const char *reason)
{
    static const uint64_t asked[] = {0x1000, 0x1001, 0x1010};
    static struct report report;
    struct error error = {0};
    if (find(text, asked, 3, &report, &error) != -EBADMSG)
        fail_msg("taken: %s", text);
    assert_non_null(strstr(error.message, reason));
    assert_non_null(strstr(error.message, "/one.sym: line "));
    assert_string_equal(report.text, "");
}

static void functions_have_files_and_lines(void **state)
{
    (void)state;
    ASSERT_REPORT("1000:one(int)@/a/one file.c:7;1004:one(int)@/b.c:8;1010:two@:0;",
                  HEAD "INFO CODE_ID 0102 demo\nFILE 0 /a/one file.c\nFILE 3 /b.c\n"
                       "FUNC 1000 10 0 one(int)\n1000 4 7 0\n1004 c 8 3\n"
                       "FUNC m 1010 8 4 two\nSTACK CFI INIT 1000 10 .cfa: $rsp 8 +\n",
                  0xfff, 0x1000, 0x1004, 0x1010, 0x1018);
}

static void inlined_functions_are_frames(void **state)
{
    (void)state;
    ASSERT_REPORT("1000:outer@a.c:1;"
                  "1002:inner@b.c:3<middle@b.c:20<outer@a.c:10;"
                  "1004:middle@b.c:4<outer@a.c:10;"
                  "1008:outer@a.c:5;",
                  HEAD "FILE 0 a.c\nFILE 1 b.c\nINLINE_ORIGIN 0 middle\nINLINE_ORIGIN 5 inner\n"
                       "FUNC 1000 10 0 outer\n"
                       "INLINE 0 10 0 0 1002 4 100a 2\nINLINE 1 20 1 5 1002 2\n"
                       "1000 2 1 0\n1002 2 3 1\n1004 4 4 1\n1008 2 5 0\n",
                  0x1000, 0x1002, 0x1004, 0x1008);
}

static void the_first_form_of_inlines_is_read(void **state)
{
    (void)state;
    ASSERT_REPORT("1000:inner of old@a.c:3<outer@:10;",
                  HEAD "FILE 0 a.c\nINLINE_ORIGIN 2 0 inner of old\nFUNC 1000 10 0 outer\n"
                       "INLINE 0 10 2 1000 4\n1000 4 3 0\n",
                  0x1000);
}

static void names_may_come_after_their_use_and_be_missing(void **state)
{
    (void)state;
    ASSERT_REPORT("1000:<name omitted>@z.c:1<<name omitted>@:4;",
                  HEAD "FUNC 1000 10 0 \nINLINE 0 4 7 9 1000 1\n1000 1 1 2\nFILE 2 z.c\n", 0x1000);
}

static void public_symbols_reach_to_the_next_symbol(void **state)
{
    (void)state;
    ASSERT_REPORT("20:start@:0;2f:start@:0;30:f@:0;50:later@:0;60:later@:0;",
                  HEAD "PUBLIC 20 0 start\nFUNC 30 8 0 f\nPUBLIC m 50 0 later\nPUBLIC 10 0 early\n"
                       "FUNC 80 8 0 g\n",
                  0x8, 0x20, 0x2f, 0x30, 0x3f, 0x50, 0x60, 0x88);
}

static void of_overlapping_functions_the_nearest_has_the_address(void **state)
{
    (void)state;
    ASSERT_REPORT("1000:big@:0;1008:small@:0;1010:big@:0;",
                  HEAD "FUNC 1008 4 0 small\nFUNC 1000 20 0 big\nFUNC 1000 20 0 same\n", 0x1000,
                  0x1008, 0x1010);
}

static void carriage_returns_and_unknown_records_are_passed_over(void **state)
{
    (void)state;
    ASSERT_REPORT("1000:f@a.c:2;",
                  "MODULE windows x86_64 01020304 demo.pdb\r\nNEWER 1 2 3\r\nFILE 1 a.c\r\n\r\n"
                  "FUNC 1000 4 0 f\r\n1000 4 2 1\r\nSTACK WIN 4 2170 14\r\n",
                  0x1000);
}

static void damage_is_told_with_its_line(void **state)
{
    (void)state;
    assert_refused("", "line 1: no Breakpad symbol file");
    assert_refused("\177ELF\n", "line 1: no Breakpad symbol file");
    assert_refused("MODULE Linux\n", "line 1: MODULE needs");
    assert_refused("MODULE Linux x86_64 xyz demo\n", "line 1: MODULE has no id");
    assert_refused(HEAD "FUNC 1000\n", "line 2: FUNC needs");
    assert_refused(HEAD "FUNC 11111111111111111 1 0 f\n", "line 2: FUNC needs");
    assert_refused(HEAD "FUNC 0x1000 1 0 f\n", "line 2: FUNC needs");
    assert_refused(HEAD "PUBLIC what 0 f\n", "line 2: PUBLIC needs");
    assert_refused(HEAD "1000 4 1 1\n", "line 2: unknown record outside a function");
    assert_refused(HEAD "INLINE 0 1 1 1 1000 4\n", "line 2: INLINE is outside a function");
    assert_refused(HEAD "FUNC 1000 4 0 f\n1000 4 1\n", "line 3: a line of a function needs");
    assert_refused(HEAD "FUNC 1000 4 0 f\n1000 4 99999999999 1\n", "line 3: a line of");
    assert_refused(HEAD "FUNC 1000 4 0 f\nINLINE 0 1 1 1\n", "line 3: INLINE needs");
    assert_refused(HEAD "FUNC 1000 4 0 f\nINLINE 0 1 1 1 1000 q\n", "line 3: a range of INLINE");
    assert_refused(HEAD "FUNC 1000 4 0 f\n1000 4 1 1\nFILE one a.c\n", "line 4: FILE needs");
}

/* The file has only a name of 2 MiB. */
static void a_line_without_end_is_refused(void **state)
{
    (void)state;
    static const uint64_t asked[] = {0x1000};
    size_t length = strlen(HEAD "FUNC 1000 4 0 "), all = length + (2 << 20);
    char *text = malloc(all);
    struct report report = {.addresses = asked};
    struct error error = {0};
    assert_non_null(text);
    memcpy(text, HEAD "FUNC 1000 4 0 ", length);
    memset(text + length, 'a', all - length);
    const char *path = write_bytes("long.sym", text, all);
    assert_int_equal(breakpad_find(path, asked, 1, append_entry, &report, &error), -EBADMSG);
    assert_non_null(strstr(error.message, "line 2: is longer than 1 MiB"));
    free(text);
}

static void functions_that_overlap_without_end_are_refused(void **state)
{
    (void)state;
    enum { ADDRESSES = 8192, FUNCTIONS = 64 };
    static uint64_t asked[ADDRESSES];
    static char text[sizeof(HEAD) + FUNCTIONS * 32];
    struct report report = {.addresses = asked};
    struct error error = {0};
    size_t length = (size_t)sprintf(text, "%s", HEAD);
    for (size_t i = 0; i < ADDRESSES; i++)
        asked[i] = i;
    for (int i = 0; i < FUNCTIONS; i++)
        length += (size_t)sprintf(text + length, "FUNC 0 ffffff 0 f%d\n", i);
    assert_int_equal(
        breakpad_find(write_text("one.sym", text), asked, ADDRESSES, append_entry, &report, &error),
        -EBADMSG);
    assert_non_null(strstr(error.message, ": functions overlap"));
}

static void ranges_at_the_end_of_the_address_space_are_whole(void **state)
{
    (void)state;
    ASSERT_REPORT("fffffffffffffff8:f@a.c:3;",
                  HEAD "FILE 0 a.c\nFUNC fffffffffffffff0 ffff 0 f\nfffffffffffffff0 ffff 3 0\n",
                  0xfffffffffffffff8);
}

static void ids_are_made_of_build_ids(void **state)
{
    (void)state;
    char id[BREAKPAD_ID_DIGITS + 2];
    static const uint8_t build_id[20] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd,
                                         0xef, 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5,
                                         0xf6, 0xf7, 0xff, 0xff, 0xff, 0xff};
    breakpad_id_of_build(build_id, 20, id);
    assert_string_equal(id, "67452301AB89EFCDF0F1F2F3F4F5F6F70");
    breakpad_id_of_build(build_id, 8, id);
    assert_string_equal(id, "67452301AB89EFCD00000000000000000");
}

/* --- directories --- */

static const uint8_t build_id[20] = {4,  3,  2,  1,  6,  5,  8, 7, 9, 10,
                                     11, 12, 13, 14, 15, 16, 1, 2, 3, 4};
static const uint8_t another_id[20] = {9};

static void assert_found(const char *path, const uint8_t *id, const char *found, const char *other)
{
    struct error warning, error;
    struct breakpad_found result;
    char expected[256];
    struct breakpad_store *store = breakpad_store_open(directory, &warning, &error);
    assert_non_null(store);
    assert_string_equal(warning.message, "");
    assert_int_equal(breakpad_store_find(store, path, id, id == NULL ? 0 : 20, &result), 0);
    for (int i = 0; i < 2; i++) {
        const char *is = i == 0 ? result.path : result.other, *should = i == 0 ? found : other;
        snprintf(expected, sizeof(expected), "%s/%s", directory, should == NULL ? "" : should);
        if (should == NULL)
            assert_null(is);
        else
            assert_string_equal(is, expected);
    }
    breakpad_store_close(store);
}

static void a_symbol_server_s_form_is_found(void **state)
{
    (void)state;
    write_text("demo/0102030405060708090A0B0C0D0E0F100/demo.sym", HEAD);
    assert_found("/usr/bin/demo", build_id, "demo/0102030405060708090A0B0C0D0E0F100/demo.sym",
                 NULL);
    assert_found("/usr/bin/demo (deleted)", build_id,
                 "demo/0102030405060708090A0B0C0D0E0F100/demo.sym", NULL);
    assert_found("/usr/bin/demo", another_id, NULL,
                 "demo/0102030405060708090A0B0C0D0E0F100/demo.sym");
    assert_found("/usr/bin/other", another_id, NULL, NULL);
}

static void any_file_is_found_by_its_first_line(void **state)
{
    (void)state;
    write_text("deep/er/whatever.sym", HEAD);
    write_text("not.txt", HEAD);
    write_text("broken.sym", "MODULE\n");
    assert_found("/opt/renamed", build_id, "deep/er/whatever.sym", NULL);
    assert_found("/opt/demo", another_id, NULL, "deep/er/whatever.sym");
}

static void without_a_build_id_the_name_counts_if_it_is_the_only_one(void **state)
{
    (void)state;
    write_text("a.sym", HEAD);
    assert_found("/opt/DEMO", NULL, "a.sym", NULL);
    assert_found("/opt/other", NULL, NULL, NULL);
    write_text("b.sym", "MODULE Linux x86_64 FF02030405060708090A0B0C0D0E0F100 demo\n");
    assert_found("/opt/demo", NULL, NULL, NULL);
}

static void a_file_that_claims_another_place_is_not_believed(void **state)
{
    (void)state;
    write_text("demo/0102030405060708090A0B0C0D0E0F100/demo.sym",
               "MODULE Linux x86_64 FF02030405060708090A0B0C0D0E0F100 demo\n");
    assert_found("/usr/bin/demo", build_id, NULL,
                 "demo/0102030405060708090A0B0C0D0E0F100/demo.sym");
}

static void a_missing_directory_is_a_warning(void **state)
{
    (void)state;
    struct error warning, error;
    struct breakpad_store *store = breakpad_store_open(":/nowhere/at/all:/tmp", &warning, &error);
    assert_non_null(store);
    assert_non_null(strstr(warning.message, "/nowhere/at/all"));
    breakpad_store_close(store);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(functions_have_files_and_lines),
        IN_DIRECTORY(inlined_functions_are_frames),
        IN_DIRECTORY(the_first_form_of_inlines_is_read),
        IN_DIRECTORY(names_may_come_after_their_use_and_be_missing),
        IN_DIRECTORY(public_symbols_reach_to_the_next_symbol),
        IN_DIRECTORY(of_overlapping_functions_the_nearest_has_the_address),
        IN_DIRECTORY(carriage_returns_and_unknown_records_are_passed_over),
        IN_DIRECTORY(damage_is_told_with_its_line),
        IN_DIRECTORY(a_line_without_end_is_refused),
        IN_DIRECTORY(functions_that_overlap_without_end_are_refused),
        IN_DIRECTORY(ranges_at_the_end_of_the_address_space_are_whole),
        cmocka_unit_test(ids_are_made_of_build_ids),
        IN_DIRECTORY(a_symbol_server_s_form_is_found),
        IN_DIRECTORY(any_file_is_found_by_its_first_line),
        IN_DIRECTORY(without_a_build_id_the_name_counts_if_it_is_the_only_one),
        IN_DIRECTORY(a_file_that_claims_another_place_is_not_believed),
        cmocka_unit_test(a_missing_directory_is_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
