/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of Ruby's instructions by the index that Ruby 3.1 makes, here made from the positions at
 * which entries begin. The truth is a search in these positions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/interp/interpreter.h"
#include "client/interp/ruby_layout.h"
#include "client/interp/ruby_lines.h"

#define CODE UINT64_C(0x10000000) /* address of the instructions, which nobody reads */
#define ENTRIES_MAX 2000u

static const struct ruby_layout layout = {
    .body_entries = 15,
    .body_entry_count = 17,
    .body_index = 18,
};

struct made {
    uint64_t body[RUBY_BODY_WORDS];
    uint64_t *index;
    size_t index_bytes;
    uint8_t entries[ENTRIES_MAX * RUBY_ENTRY_BYTES];
    uint32_t positions[ENTRIES_MAX], count, size;
};

static const struct made *readable; /* what interpreter_view() may return */

const uint8_t *interpreter_view(bool direct, uintptr_t from, void *room, size_t bytes)
{
    uintptr_t index = (uintptr_t)readable->index, entries = (uintptr_t)readable->entries;
    bool in_index = from >= index && from + bytes <= index + readable->index_bytes;
    bool in_entries =
        from >= entries && from + bytes <= entries + readable->count * RUBY_ENTRY_BYTES;
    if (!in_index && !in_entries)
        return NULL;
    if (direct)
        return (const uint8_t *)from;
    memcpy(room, (const void *)from, bytes);
    return room;
}

/* Return how many entries begin at positions up to this one. */
static uint32_t entries_up_to(const struct made *made, uint32_t position)
{
    uint32_t count = 0;
    while (count < made->count && made->positions[count] <= position)
        count++;
    return count;
}

static void set_line(struct made *made, uint32_t entry, int32_t line)
{
    memcpy(made->entries + entry * RUBY_ENTRY_BYTES, &line, sizeof(line));
}

/* Make a function of `size` words whose entries begin at the first one and at every `step`th or
 * so. */
static void make(struct made *made, uint32_t size, uint32_t step)
{
    uint32_t blocks = size / RUBY_INDEX_BLOCK + 1;
    *made = (struct made){.size = size};
    made->index_bytes = RUBY_INDEX_DIRECT_BYTES + blocks * (size_t)RUBY_INDEX_BLOCK_BYTES;
    made->index = calloc(1, made->index_bytes);
    assert_non_null(made->index);
    for (uint32_t at = 0; at < size && made->count < ENTRIES_MAX; at += 1 + (at * 7 + 3) % step) {
        set_line(made, made->count, (int32_t)(100 + made->count));
        made->positions[made->count++] = at;
    }
    for (uint32_t at = 0; at < RUBY_INDEX_DIRECT; at++)
        made->index[at / 9] |= (uint64_t)(entries_up_to(made, at) & 127) << at % 9 * 7;
    for (uint32_t i = 0; i < blocks; i++) {
        uint64_t *block = made->index + RUBY_INDEX_DIRECT_BYTES / 8 + i * RUBY_INDEX_BLOCK_WORDS;
        uint32_t first = RUBY_INDEX_DIRECT + i * RUBY_INDEX_BLOCK;
        uint32_t before = entries_up_to(made, first - 1);
        block[0] = before;
        for (uint32_t group = 1; group < 8; group++)
            block[1] |= (uint64_t)(entries_up_to(made, first + group * 64 - 1) - before)
                        << (group - 1) * 9;
        for (uint32_t j = 0; j < made->count; j++)
            if (made->positions[j] >= first && made->positions[j] < first + RUBY_INDEX_BLOCK)
                block[2 + (made->positions[j] - first) / 64] |=
                    UINT64_C(1) << (made->positions[j] - first) % 64;
    }
    made->body[RUBY_BODY_SIZE] = (uint64_t)size << 32;
    made->body[RUBY_BODY_CODE] = CODE;
    made->body[layout.body_entries] = (uintptr_t)made->entries;
    made->body[layout.body_entry_count] = made->count | UINT64_C(0xffffffff00000000);
    made->body[layout.body_index] = (uintptr_t)made->index;
    readable = made;
}

static bool find(const struct made *made, uint64_t word, uint64_t *line)
{
    uint64_t copied, direct;
    bool found = ruby_lines_find(&layout, false, made->body, CODE + word * 8, &copied);
    assert_int_equal(found, ruby_lines_find(&layout, true, made->body, CODE + word * 8, &direct));
    assert_true(!found || copied == direct);
    *line = copied;
    return found;
}

static void test_all_positions(void **state)
{
    static const uint32_t sizes[] = {1, 2, 53, 54, 55, 64, 565, 566, 567, 1590};
    static struct made made;
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (uint32_t step = 1; step < 40; step += 6) {
            uint64_t line;
            make(&made, sizes[i], step);
            /* A pc is that of the next instruction: one before it executes. */
            for (uint32_t word = 0; word <= made.size; word++) {
                assert_true(find(&made, word, &line));
                assert_int_equal(line, 99 + entries_up_to(&made, word > 0 ? word - 1 : 0));
            }
            free(made.index);
        }
    }
}

static void test_no_line(void **state)
{
    static struct made made;
    uint64_t line = 1;
    (void)state;
    make(&made, 60, 5);
    set_line(&made, 0, -7);
    assert_true(find(&made, 0, &line));
    assert_int_equal(line, 0);
    made.body[layout.body_entry_count] = 0;
    assert_true(find(&made, 30, &line));
    assert_int_equal(line, 0);
    free(made.index);
}

static void test_contradictions(void **state)
{
    static struct made made;
    uint64_t line;
    (void)state;
    make(&made, 600, 5);
    assert_false(find(&made, 601, &line)); /* after the end */
    assert_false(ruby_lines_find(&layout, false, made.body, CODE - 8, &line));
    assert_false(ruby_lines_find(&layout, false, made.body, CODE + 4, &line));
    made.index[0] = 0; /* no entry begins there */
    assert_false(find(&made, 3, &line));
    made.body[layout.body_entry_count] = 20; /* less than the index has */
    assert_false(find(&made, 600, &line));
    made.body[layout.body_entry_count] = made.count;
    made.body[layout.body_index] += 4;
    assert_false(find(&made, 3, &line));
    made.body[layout.body_index] = 0x1000;
    assert_false(find(&made, 600, &line));
    free(made.index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_positions),
        cmocka_unit_test(test_no_line),
        cmocka_unit_test(test_contradictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
