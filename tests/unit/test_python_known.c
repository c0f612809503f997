/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the last stacks: found again as long as nothing of them has changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/interp/python_known.h"

/* Objects as CPython's: a header of two words, then a length. */
struct text {
    uint64_t head[2], length, hash;
    uint32_t state, pad;
    char bytes[24];
};
struct table {
    uint64_t head[2], length, hash;
    char bytes[32];
};
struct code {
    uint64_t head[2], size;
    struct text *name, *qualified, *file;
    struct table *table;
    uint32_t first_line;
};

static const struct python_layout layout = {
    .code_name = offsetof(struct code, name),
    .code_qualified_name = offsetof(struct code, qualified),
    .code_file = offsetof(struct code, file),
    .code_first_line = offsetof(struct code, first_line),
    .code_table = offsetof(struct code, table),
    .text_ascii = offsetof(struct text, bytes),
};

static struct text name, qualified, file, other;
static struct table table, other_table;
static struct code code;
static struct python_known_functions functions;

static void fill_text(struct text *text, uint64_t hash, const char *bytes)
{
    *text = (struct text){.length = strlen(bytes), .hash = hash, .state = PYTHON_TEXT_LAYOUT};
    strcpy(text->bytes, bytes);
}

static int fill(void **state)
{
    (void)state;
    memset(&functions, 0, sizeof(functions));
    fill_text(&name, 1, "walk");
    fill_text(&qualified, 2, "Tree.walk");
    fill_text(&file, UINT64_MAX, "/usr/lib/tree.py");
    fill_text(&other, 1, "walk");
    table = (struct table){.length = 20};
    memset(table.bytes, 7, sizeof(table.bytes));
    other_table = table;
    code = (struct code){.size = 9,
                         .name = &name,
                         .qualified = &qualified,
                         .file = &file,
                         .table = &table,
                         .first_line = 30};
    return 0;
}

static bool is_known(const struct code *at)
{
    const struct python_known *known = python_known_of(&functions, (uintptr_t)at);
    return python_is_known(known, &layout, (uintptr_t)at, (const uint8_t *)at);
}

static void know(const struct code *at, uint64_t key)
{
    python_know(&functions, &layout, (uintptr_t)at, (const uint8_t *)at, key);
}

static void a_function_is_known_once_it_was_noted(void **state)
{
    (void)state;
    assert_false(is_known(&code));
    know(&code, 5);
    assert_true(is_known(&code));
    assert_int_equal(python_known_of(&functions, (uintptr_t)&code)->key, 5);
}

/* Change a word, expect that the function is not known, and restore the word. */
#define CHANGED(place, value)                                                                      \
    do {                                                                                           \
        __typeof__(place) old_ = (place);                                                          \
        (place) = (value);                                                                         \
        assert_false(is_known(&code));                                                             \
        (place) = old_;                                                                            \
        assert_true(is_known(&code));                                                              \
    } while (0)

static void another_function_at_its_address_is_not_it(void **state)
{
    (void)state;
    know(&code, 5);
    CHANGED(code.name, &other);
    CHANGED(code.qualified, &other);
    CHANGED(code.file, &other);
    CHANGED(code.table, &other_table);
    CHANGED(code.size, 10);
    CHANGED(code.first_line, 31);
    CHANGED(name.hash, 3);
    CHANGED(qualified.hash, 3);
    CHANGED(table.length, 21);
    CHANGED(table.bytes[5], 8);  /* its middle */
    CHANGED(table.bytes[19], 8); /* its end */
}

static void a_text_without_a_hash_is_told_by_its_end(void **state)
{
    (void)state;
    know(&code, 5);
    CHANGED(file.hash, 3);
    CHANGED(file.length, 15);
    CHANGED(file.state, PYTHON_TEXT_COMPACT);
    CHANGED(file.bytes[15], 'c');
    CHANGED(file.bytes[9], 'T');
}

static void a_text_that_is_not_ascii_has_no_bytes_that_count(void **state)
{
    (void)state;
    file.state = PYTHON_TEXT_COMPACT;
    know(&code, 5);
    assert_true(is_known(&code));
    CHANGED(file.state, PYTHON_TEXT_LAYOUT);
    CHANGED(file.length, 15);
}

static void another_interpreters_function_is_not_it(void **state)
{
    (void)state;
    struct python_layout another = layout;
    know(&code, 5);
    assert_false(python_is_known(python_known_of(&functions, (uintptr_t)&code), &another,
                                 (uintptr_t)&code, (const uint8_t *)&code));
}

static void an_update_that_was_left_is_no_function(void **state)
{
    (void)state;
    know(&code, 5);
    functions.sets[python_known_set((uintptr_t)&code)][0].code = 0;
    assert_false(is_known(&code));
}

/* A stack of more functions than there is room for, again and again: some are found each time, and
 * functions that are gone leave. */
static void many_functions_do_not_replace_all(void **state)
{
    (void)state;
    enum { MANY = 3 * PYTHON_KNOWN_SETS, ROUNDS = 400 };
    static struct code codes[2 * MANY];
    unsigned found = 0;
    for (unsigned i = 0; i < 2 * MANY; i++)
        codes[i] = code;
    for (unsigned round = 0; round < 2 * ROUNDS; round++) {
        struct code *live = &codes[round < ROUNDS ? 0 : MANY];
        found = 0;
        for (unsigned i = 0; i < MANY; i++) {
            found += is_known(&live[i]);
            if (!is_known(&live[i]))
                know(&live[i], i);
        }
        if (round % ROUNDS == ROUNDS - 1)
            assert_true(found > PYTHON_KNOWN_SETS / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_function_is_known_once_it_was_noted, fill),
        cmocka_unit_test_setup(another_function_at_its_address_is_not_it, fill),
        cmocka_unit_test_setup(a_text_without_a_hash_is_told_by_its_end, fill),
        cmocka_unit_test_setup(a_text_that_is_not_ascii_has_no_bytes_that_count, fill),
        cmocka_unit_test_setup(another_interpreters_function_is_not_it, fill),
        cmocka_unit_test_setup(an_update_that_was_left_is_no_function, fill),
        cmocka_unit_test_setup(many_functions_do_not_replace_all, fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
