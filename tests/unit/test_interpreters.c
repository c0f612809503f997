/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a language among native ones. The language is made by hand: it finds its loop in one
 * module, and reads the groups that the test sets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/interp/interpreter.h"
#include "client/sample/ring_writer.h"
#include "client/system.h"

#define LOOP UINT64_C(0x10100)   /* in the loop */
#define HELPER UINT64_C(0x10900) /* another function of the interpreter */
#define OTHER UINT64_C(0x50000)  /* a function of the program, or generated code */
#define LANGUAGE(number) (UINT64_C(0xf000000000000000) + (number)) /* a frame of the language */

/* What interpreters.c uses of others. */
struct client client;

void *system_map_wiped(size_t bytes)
{
    return calloc(1, bytes);
}

void system_unmap(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

void system_wipe(void *memory, size_t bytes)
{
    memset(memory, 0, bytes);
}

long system_read_memory(void *to, uintptr_t from, size_t bytes)
{
    (void)to;
    (void)from;
    (void)bytes;
    return -1;
}

bool elf_tables_peek(bool direct, void *to, uintptr_t from, size_t bytes)
{
    (void)direct;
    (void)to;
    (void)from;
    (void)bytes;
    return false;
}

bool elf_tables_read(bool direct, uintptr_t base, uintptr_t dynamic, struct elf_tables *tables)
{
    (void)direct;
    (void)base;
    (void)dynamic;
    (void)tables;
    return false;
}

void module_keep(const struct module *module)
{
    (void)module;
}

void interpreter_noticed(const struct interpreter *interpreter)
{
    (void)interpreter;
}

/* --- the language --- */

static const struct module module = {.start = 0x10000, .end = 0x11000};
static struct interpreter_item items[16];
static unsigned item_count;

static bool find(const struct module *in, struct interpreter *found)
{
    found->loop = (struct code_range){0x10000, 0x10800};
    return in == &module;
}

static bool find_none(const struct module *in, struct interpreter *found)
{
    (void)in;
    (void)found;
    return false;
}

static enum interpreter_result read_groups(struct interpreter *interpreter,
                                           struct interpreter_stack *into)
{
    (void)interpreter;
    memcpy(into->items, items, sizeof(items));
    into->count = item_count;
    return INTERPRETER_READ;
}

const struct interpreter_language interpreter_python = {.find = find_none};
const struct interpreter_language interpreter_php = {.find = find_none};
const struct interpreter_language interpreter_ruby = {
    .read_in_loop = true, .find = find, .read = read_groups};

/* --- the tests --- */

static struct ring_control control;
static struct interpreter_merge merge;
static uint64_t frames[32];

static int begin(void **state)
{
    (void)state;
    client.control = &control;
    assert_int_equal(interpreters_init(), 0);
    interpreters_notice(&module, 1);
    return 0;
}

/* Two activations of the loop. The inner one executes functions 1 and 2, the outer one 3. */
static void set_groups(void)
{
    const struct interpreter_item all[] = {{.frame = LANGUAGE(1), .key = 1},
                                           {.frame = LANGUAGE(2), .key = 2},
                                           {0},
                                           {.frame = LANGUAGE(3), .key = 3},
                                           {0}};
    memcpy(items, all, sizeof(all));
    item_count = sizeof(all) / sizeof(all[0]);
}

/* Merge these frames, of which the first `proven` were reached by unwind information. Return
 * whether that gave frames of the language, and how many stacks were in doubt. */
static bool merge_frames(const uint64_t *from, unsigned count, unsigned proven,
                         enum unwind_stop stop, uint64_t *doubts)
{
    struct unwind_walk walk = {.count = count, .proven = proven, .stop = stop, .hash = 1};
    memcpy(frames, from, count * sizeof(*from));
    uint64_t before = control.lost[RING_LOST_INTERPRETER_STATE];
    interpreters_merge(&merge, &walk, frames, 1);
    *doubts = control.lost[RING_LOST_INTERPRETER_STATE] - before;
    return merge.interpreter != NULL;
}

#define MERGE(proven, stop)                                                                        \
    merge_frames(walked, sizeof(walked) / sizeof(walked[0]), proven, stop, &doubts)

#define CHECK_MERGED(...)                                                                          \
    do {                                                                                           \
        const uint64_t wanted_[] = {__VA_ARGS__};                                                  \
        assert_int_equal(merge.count, sizeof(wanted_) / sizeof(wanted_[0]));                       \
        assert_memory_equal(merge.frames, wanted_, sizeof(wanted_));                               \
    } while (0)

static void functions_stand_before_their_loop(void **state)
{
    (void)state;
    const uint64_t walked[] = {OTHER, LOOP, HELPER, LOOP, OTHER};
    uint64_t doubts;
    set_groups();
    assert_true(MERGE(5, UNWIND_OUTERMOST));
    assert_int_equal(doubts, 0);
    CHECK_MERGED(OTHER, LANGUAGE(1), LANGUAGE(2), LOOP, HELPER, LANGUAGE(3), LOOP, OTHER);
}

static void a_walk_that_ended_has_the_inner_functions(void **state)
{
    (void)state;
    const uint64_t walked[] = {HELPER, LOOP, OTHER};
    uint64_t doubts;
    set_groups();
    assert_true(MERGE(3, UNWIND_NO_RULE));
    assert_int_equal(doubts, 0);
    CHECK_MERGED(HELPER, LANGUAGE(1), LANGUAGE(2), LOOP, OTHER);
}

static void a_missing_loop_is_in_doubt(void **state)
{
    (void)state;
    const uint64_t walked[] = {HELPER, LOOP, OTHER};
    uint64_t doubts;
    set_groups();
    assert_false(MERGE(3, UNWIND_OUTERMOST));
    assert_int_equal(doubts, 1);
}

/* A guess through generated code may have skipped the loop of the second group, so that the loop
 * which is left is the third one's. */
static void a_guess_may_have_skipped_loops(void **state)
{
    (void)state;
    const uint64_t walked[] = {HELPER, LOOP, OTHER, LOOP, OTHER};
    uint64_t doubts;
    set_groups();
    items[item_count++] = (struct interpreter_item){.frame = LANGUAGE(4), .key = 4};
    items[item_count++] = (struct interpreter_item){0};
    assert_false(MERGE(3, UNWIND_NO_RULE));
    assert_int_equal(doubts, 1);
    assert_true(MERGE(5, UNWIND_NO_RULE));
    /* All groups have a loop. */
    set_groups();
    assert_true(MERGE(3, UNWIND_NO_RULE));
    assert_int_equal(doubts, 0);
}

/* Two groups whose places are in the frames 1 and 3 of five, of 64 bytes each. */
static void set_places(void)
{
    set_groups();
    items[2].anchor = 0x7000 + 64 + 8;
    items[4].anchor = 0x7000 + 3 * 64 + 8;
    for (unsigned i = 0; i <= 5; i++)
        merge.places[i] = 0x7000 + i * 64;
}

static void functions_stand_where_their_places_are(void **state)
{
    (void)state;
    const uint64_t walked[] = {OTHER, LOOP, HELPER, LOOP, OTHER};
    uint64_t doubts;
    set_places();
    assert_true(MERGE(5, UNWIND_OUTERMOST));
    assert_int_equal(doubts, 0);
    CHECK_MERGED(OTHER, LANGUAGE(1), LANGUAGE(2), LOOP, HELPER, LANGUAGE(3), LOOP, OTHER);
}

/* The loop is between generated code, whose range is too large, and the caller that was guessed. */
static void a_skipped_loops_functions_have_no_place(void **state)
{
    (void)state;
    const uint64_t walked[] = {OTHER, LOOP, HELPER, OTHER, OTHER};
    uint64_t doubts;
    set_places();
    merge.places[3] |= UNWIND_PLACE_GUESSED;
    assert_true(MERGE(4, UNWIND_NO_RULE));
    assert_int_equal(doubts, 0);
    CHECK_MERGED(OTHER, LANGUAGE(1), LANGUAGE(2), LOOP, HELPER, OTHER, OTHER);
    assert_false(MERGE(4, UNWIND_OUTERMOST));
    assert_int_equal(doubts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_stand_before_their_loop),
        cmocka_unit_test(a_walk_that_ended_has_the_inner_functions),
        cmocka_unit_test(a_missing_loop_is_in_doubt),
        cmocka_unit_test(a_guess_may_have_skipped_loops),
        cmocka_unit_test(functions_stand_where_their_places_are),
        cmocka_unit_test(a_skipped_loops_functions_have_no_place),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
