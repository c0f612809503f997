/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreted functions: lines by CPython's tables, and the places of frames.
 *
 * The tables are those of one function, with lines that jump back and forth, compiled by each
 * version. The lines are what that version's own co_lines() (3.9: dis.findlinestarts()) says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile/interp/code_lines.h"
#include "recorder/ledger/code_table.h"

/* clang-format off */
static const uint8_t table_9[] = {0, 1, 2, 127, 0, 24, 6, 128, 0, 233, 4, 127, 0, 25, 4, 1, 2, 1,
    2, 1, 2, 254, 6, 6, 4, 250, 2, 3, 14, 1, 24, 2, 12, 1, 8, 1, 8, 1, 8, 1, 8, 1, 8, 1, 8, 1, 8,
    1, 8, 1, 8, 1, 8, 1, 8, 1, 8, 4};
static const uint16_t lines_9[] = {11, 162, 162, 162, 11, 11, 163, 163, 164, 165, 166, 164, 164,
    164, 170, 170, 164, 167, 167, 167, 167, 167, 167, 167, 168, 168, 168, 168, 168, 168, 168, 168,
    168, 168, 168, 168, 170, 170, 170, 170, 170, 170, 171, 171, 171, 171, 172, 172, 172, 172, 173,
    173, 173, 173, 174, 174, 174, 174, 175, 175, 175, 175, 176, 176, 176, 176, 177, 177, 177, 177,
    178, 178, 178, 178, 179, 179, 179, 179, 180, 180, 180, 180, 181, 181, 181, 181, 182, 182, 182,
    182, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186};
static const uint8_t table_10[] = {2, 128, 2, 1, 0, 127, 6, 24, 0, 129, 4, 232, 0, 127, 4, 25, 2,
    1, 2, 1, 2, 1, 6, 254, 6, 6, 14, 253, 12, 1, 8, 128, 2, 255, 2, 1, 12, 2, 8, 1, 8, 1, 8, 1, 8,
    1, 8, 1, 8, 1, 8, 1, 8, 1, 8, 1, 8, 1, 8, 1, 8, 1, 20, 4};
static const uint16_t lines_10[] = {0, 11, 162, 162, 162, 11, 11, 163, 163, 164, 165, 166, 164,
    164, 164, 170, 170, 170, 167, 167, 167, 167, 167, 167, 167, 168, 168, 168, 168, 168, 168, 0,
    0, 0, 0, 167, 168, 170, 170, 170, 170, 170, 170, 171, 171, 171, 171, 172, 172, 172, 172, 173,
    173, 173, 173, 174, 174, 174, 174, 175, 175, 175, 175, 176, 176, 176, 176, 177, 177, 177, 177,
    178, 178, 178, 178, 179, 179, 179, 179, 180, 180, 180, 180, 181, 181, 181, 181, 182, 182, 182,
    182, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186};
static const uint8_t table_11[] = {232, 0, 232, 0, 128, 0, 216, 7, 8, 240, 110, 4, 0, 8, 9, 136,
    49, 129, 117, 240, 111, 4, 87, 2, 7, 14, 128, 33, 240, 112, 4, 7, 3, 10, 221, 11, 12, 216, 8,
    9, 216, 8, 9, 241, 5, 2, 12, 11, 244, 0, 2, 12, 11, 240, 12, 0, 9, 10, 128, 65, 128, 65, 248,
    245, 7, 0, 10, 20, 240, 0, 1, 3, 9, 240, 0, 1, 3, 9, 240, 0, 1, 3, 9, 216, 4, 8, 128, 68, 128,
    68, 128, 68, 128, 68, 248, 248, 248, 248, 240, 3, 1, 3, 9, 248, 248, 248, 216, 4, 8, 224, 8,
    9, 128, 65, 128, 65, 248, 136, 1, 128, 65, 128, 69, 128, 69, 128, 69, 128, 69, 216, 6, 7, 136,
    33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101,
    128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6,
    7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129,
    101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33,
    216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 240, 8, 0, 12,
    13, 208, 2, 21, 208, 2, 21, 128, 97, 144, 65, 136, 103, 136, 103, 136, 103, 136, 103, 208, 2,
    21, 208, 2, 21};
static const uint16_t lines_11[] = {10, 10, 10, 11, 162, 162, 162, 162, 11, 11, 163, 164, 164,
    164, 164, 164, 164, 165, 166, 164, 164, 164, 164, 164, 164, 164, 170, 170, 170, 0, 167, 167,
    167, 167, 167, 167, 167, 167, 167, 168, 168, 168, 168, 168, 0, 0, 0, 0, 167, 0, 0, 0, 168,
    170, 170, 170, 0, 170, 170, 170, 170, 170, 170, 171, 171, 171, 171, 171, 172, 172, 172, 172,
    172, 173, 173, 173, 173, 173, 174, 174, 174, 174, 174, 175, 175, 175, 175, 175, 176, 176, 176,
    176, 176, 177, 177, 177, 177, 177, 178, 178, 178, 178, 178, 179, 179, 179, 179, 179, 180, 180,
    180, 180, 180, 181, 181, 181, 181, 181, 182, 182, 182, 182, 182, 186, 186, 186, 186, 186, 186,
    186, 186, 186, 186, 186};
static const uint8_t table_12[] = {232, 0, 248, 128, 0, 216, 7, 8, 240, 110, 4, 0, 8, 9, 136, 49,
    129, 117, 240, 111, 4, 87, 2, 7, 14, 128, 33, 240, 112, 4, 7, 3, 10, 220, 11, 12, 216, 8, 9,
    216, 8, 9, 243, 5, 2, 12, 11, 240, 12, 0, 9, 10, 129, 65, 248, 244, 7, 0, 10, 20, 242, 0, 1,
    3, 9, 220, 4, 8, 251, 240, 3, 1, 3, 9, 250, 216, 4, 8, 224, 8, 9, 129, 65, 248, 136, 1, 129,
    65, 250, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6,
    7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129,
    101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33,
    216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136,
    33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101,
    128, 33, 240, 8, 0, 12, 13, 210, 2, 21, 128, 97, 144, 65, 139, 103, 209, 2, 21, 249};
static const uint16_t lines_12[] = {10, 0, 10, 11, 162, 162, 162, 162, 11, 11, 163, 164, 164, 164,
    164, 164, 165, 166, 164, 164, 164, 164, 170, 170, 170, 0, 167, 167, 167, 167, 167, 167, 167,
    167, 168, 168, 168, 168, 168, 0, 0, 0, 0, 167, 0, 0, 0, 168, 170, 170, 170, 0, 170, 170, 170,
    0, 0, 0, 171, 171, 171, 171, 171, 172, 172, 172, 172, 172, 173, 173, 173, 173, 173, 174, 174,
    174, 174, 174, 175, 175, 175, 175, 175, 176, 176, 176, 176, 176, 177, 177, 177, 177, 177, 178,
    178, 178, 178, 178, 179, 179, 179, 179, 179, 180, 180, 180, 180, 180, 181, 181, 181, 181, 181,
    182, 182, 182, 182, 182, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186, 0, 0};
static const uint8_t table_13[] = {233, 0, 128, 0, 216, 7, 8, 240, 110, 4, 0, 8, 9, 136, 49, 129,
    117, 240, 111, 4, 87, 2, 7, 14, 128, 33, 240, 112, 4, 7, 3, 10, 220, 11, 12, 216, 8, 9, 216,
    8, 9, 243, 5, 2, 12, 11, 240, 12, 0, 9, 10, 129, 65, 248, 244, 7, 0, 10, 20, 243, 0, 1, 3, 9,
    220, 4, 8, 251, 240, 3, 1, 3, 9, 250, 216, 4, 8, 224, 8, 9, 129, 65, 248, 136, 1, 129, 65,
    250, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7,
    136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129,
    101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33,
    216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136,
    33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101, 128, 33, 216, 6, 7, 136, 33, 129, 101,
    128, 33, 243, 8, 0, 12, 13, 128, 97, 140, 103, 138, 49, 249};
static const uint16_t lines_13[] = {10, 10, 10, 11, 162, 162, 162, 162, 11, 11, 163, 164, 164,
    164, 164, 164, 165, 166, 164, 164, 164, 164, 170, 170, 170, 0, 167, 167, 167, 167, 167, 167,
    167, 167, 167, 168, 168, 168, 168, 168, 0, 0, 0, 0, 167, 0, 0, 0, 168, 170, 170, 170, 0, 170,
    170, 170, 0, 0, 0, 171, 171, 171, 171, 171, 172, 172, 172, 172, 172, 173, 173, 173, 173, 173,
    174, 174, 174, 174, 174, 175, 175, 175, 175, 175, 176, 176, 176, 176, 176, 177, 177, 177, 177,
    177, 178, 178, 178, 178, 178, 179, 179, 179, 179, 179, 180, 180, 180, 180, 180, 181, 181, 181,
    181, 181, 182, 182, 182, 182, 182, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186, 186,
    186, 0, 0};
/* clang-format on */

#define FIRST_LINE 10u

static void check(enum record_line_table kind, const uint8_t *bytes, size_t length,
                  const uint16_t *lines, size_t count)
{
    struct code_lines table = {
        .kind = kind, .bytes = bytes, .length = length, .first_line = FIRST_LINE};
    assert_int_equal(code_lines_find(&table, 0), FIRST_LINE);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(code_lines_find(&table, i + 1), lines[i]);
    assert_int_equal(code_lines_find(&table, RECORD_CODE_PLACE_UNKNOWN), 0);
    /* With less of the table, a place has the same line or none. */
    table.is_cut = true;
    for (table.length = 0; table.length < length; table.length++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t line = code_lines_find(&table, i + 1);
            assert_true(line == 0 || line == lines[i]);
        }
    }
}

#define CHECK(kind, version)                                                                       \
    check(kind, table_##version, sizeof(table_##version), lines_##version,                         \
          sizeof(lines_##version) / sizeof(*lines_##version))

static void test_lines(void **state)
{
    (void)state;
    CHECK(RECORD_LINES_PYTHON_39, 9);
    CHECK(RECORD_LINES_PYTHON_310, 10);
    CHECK(RECORD_LINES_PYTHON_311, 11);
    CHECK(RECORD_LINES_PYTHON_311, 12);
    CHECK(RECORD_LINES_PYTHON_311, 13);
}

static void add(struct code_table *table, uint64_t id, const char *name, const char *file,
                uint32_t first_line)
{
    uint64_t room[64] = {0};
    struct record_code *code = (void *)room;
    code->function = record_code_frame(RECORD_LANGUAGE_PYTHON, id, 0);
    code->first_line = first_line;
    code->name_length = (uint16_t)strlen(name);
    code->file_length = (uint16_t)strlen(file);
    code->table_length = sizeof(table_12) < 200 ? sizeof(table_12) : 200;
    code->lines = RECORD_LINES_PYTHON_311;
    memcpy(code->bytes, name, code->name_length);
    memcpy(code->bytes + code->name_length, file, code->file_length);
    memcpy(code->bytes + code->name_length + code->file_length, table_12, code->table_length);
    assert_int_equal(code_table_add(table, code), 0);
}

static uint32_t place(struct code_table *table, uint64_t id, uint64_t at)
{
    return code_table_place(table, record_code_frame(RECORD_LANGUAGE_PYTHON, id, at));
}

static const char *name_at(const struct code_table *table, uint32_t number)
{
    return table->functions[table->places[number].function].name;
}

static void test_places(void **state)
{
    (void)state;
    struct code_table table;
    assert_int_equal(code_table_init(&table), 0);
    add(&table, 7, "f", "/a.py", FIRST_LINE);
    add(&table, 8, "g", "/a.py", FIRST_LINE);
    /* The same function again: another copy, and the same record twice. */
    add(&table, 9, "f", "/a.py", FIRST_LINE);
    add(&table, 9, "f", "/a.py", FIRST_LINE);
    uint32_t f = place(&table, 7, 4);
    assert_string_equal(name_at(&table, f), "f");
    assert_int_equal(table.places[f].line, lines_12[3]);
    assert_int_equal(place(&table, 9, 4), f);
    assert_int_not_equal(place(&table, 8, 4), f);
    assert_int_not_equal(place(&table, 7, 5), f);

    /* Two functions with one id: nobody knows which one a frame means. */
    add(&table, 7, "h", "/b.py", FIRST_LINE);
    assert_string_equal(name_at(&table, place(&table, 7, 4)), "[unknown function]");
    assert_string_equal(name_at(&table, f), "f");
    assert_string_equal(name_at(&table, place(&table, 1234, 4)), "[unknown function]");
    code_table_clear(&table);
}

static void test_languages(void **state)
{
    (void)state;
    struct code_table table;
    assert_int_equal(code_table_init(&table), 0);
    uint64_t room[64] = {0};
    struct record_code *code = (void *)room;
    code->function = record_code_frame(RECORD_LANGUAGE_RUBY, 7, 0);
    code->name_length = 1;
    code->bytes[0] = 'f';
    assert_int_equal(code_table_add(&table, code), 0);

    /* The place is the line, unless it had no room. */
    uint64_t frame = record_code_frame(RECORD_LANGUAGE_RUBY, 7, 1234);
    uint32_t number = code_table_place(&table, frame);
    assert_string_equal(name_at(&table, number), "f");
    assert_int_equal(table.functions[table.places[number].function].language, RECORD_LANGUAGE_RUBY);
    assert_int_equal(table.places[number].line, 1234);
    frame = record_code_frame(RECORD_LANGUAGE_RUBY, 7, UINT64_C(1) << 30);
    assert_int_equal(table.places[code_table_place(&table, frame)].line, 0);

    /* Each language has its unknown function. A language that does not exist is Python. */
    uint32_t ruby = code_table_place(&table, record_code_frame(RECORD_LANGUAGE_RUBY, 8, 1));
    uint32_t python = code_table_place(&table, record_code_frame(RECORD_LANGUAGE_PYTHON, 8, 1));
    uint32_t other = code_table_place(&table, record_code_frame((enum record_language)7, 8, 1));
    assert_string_equal(name_at(&table, ruby), "[unknown function]");
    assert_int_equal(table.functions[table.places[ruby].function].language, RECORD_LANGUAGE_RUBY);
    assert_int_not_equal(ruby, python);
    assert_int_equal(other, python);
    code_table_clear(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_languages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
