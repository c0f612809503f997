/* SPDX-License-Identifier: Apache-2.0 */
/* Growth between profiles: thresholds and order, equal numbers for equal callsites of two profiles
 * only, and the pairing of processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/diff_pairs.h"
#include "profile/compare/growth.h"
#include "profile/compare/matching.h"

/* --- lists --- */

static const struct {
    double size, count;
} changes[] = {{100, 10}, {50, 5}, {-70, -7}, {100, 11}, {0, 3}, {8000, 0}, {-5, 2}, {50, 5}};
#define ROWS (sizeof(changes) / sizeof(changes[0]))

static void make_pair(struct diff_pair *pair, struct diff_row rows[ROWS])
{
    memset(rows, 0, ROWS * sizeof(*rows));
    for (size_t i = 0; i < ROWS; i++) {
        rows[i].changes[EXPORT_SPACE].value = changes[i].size;
        rows[i].changes[EXPORT_OBJECTS].value = changes[i].count;
    }
    *pair = (struct diff_pair){.rows = rows, .row_count = ROWS};
}

static void assert_lists(const struct growth_options *options, bool shrunk, const size_t *wanted,
                         size_t count)
{
    struct diff_row rows[ROWS];
    struct diff_pair pair;
    struct growth_list list;
    double size = 0, calls = 0;
    make_pair(&pair, rows);
    assert_int_equal(growth_list_make(&pair, options, shrunk, &list), 0);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list.entries[i].row - rows, wanted[i]);
        size += list.entries[i].size;
        calls += list.entries[i].count;
    }
    assert_true(list.size_sum == size && list.count_sum == calls);
    growth_list_clear(&list);
    assert_null(list.entries);
}

static void growth_is_listed_by_size(void **state)
{
    (void)state;
    static const size_t wanted[] = {5, 3, 0, 1, 7};
    assert_lists(&(struct growth_options){0}, false, wanted, 5);
}

static void shrinkage_is_listed_separately(void **state)
{
    (void)state;
    static const size_t wanted[] = {2, 6};
    assert_lists(&(struct growth_options){0}, true, wanted, 2);
}

static void entries_are_strictly_above_both_thresholds(void **state)
{
    (void)state;
    static const size_t by_count[] = {3, 0}, by_size[] = {5, 3, 0}, by_both[] = {3},
                        of_zero[] = {3, 0, 1, 7};
    assert_lists(&(struct growth_options){.has_count_threshold = true, .count_threshold = 5}, false,
                 by_count, 2);
    assert_lists(&(struct growth_options){.size_threshold = 50}, false, by_size, 3);
    assert_lists(&(struct growth_options){true, 10, 50}, false, by_both, 1);
    assert_lists(&(struct growth_options){.has_count_threshold = true}, false, of_zero, 4);
    assert_lists(&(struct growth_options){.size_threshold = 8000}, false, NULL, 0);
}

static void types_differ_by_more_than_rounding(void **state)
{
    (void)state;
    struct diff_type type = {
        .gained_count = 0.1 + 0.2, .lost_count = 0.3, .gained_bytes = 1e15 + 1, .lost_bytes = 1e15};
    assert_true(growth_type_count(&type) == 0);
    assert_true(growth_type_size(&type) == 1); /* whole numbers are exact */
    type.lost_count = 0.5;
    assert_true(growth_type_count(&type) < 0);
}

/* --- numbers of callsites --- */

#define CALLSITES 3000
#define NAMES 3

struct tree {
    struct profile profile;
    struct profile_frame frames[2 * NAMES];
    struct profile_callsite callsites[CALLSITES];
};

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % limit;
}

/* Each name has two frames, which differ by address. */
static void make_tree(struct tree *tree, uint64_t seed)
{
    static const char *const names[NAMES] = {"a", "b", "c"};
    memset(tree, 0, sizeof(*tree));
    for (uint32_t i = 0; i < 2 * NAMES; i++)
        tree->frames[i] = (struct profile_frame){.name = names[i % NAMES],
                                                 .linkage_name = names[i % NAMES],
                                                 .obfuscated_name = "",
                                                 .source_file = "",
                                                 .mapping = PROFILE_NONE,
                                                 .rel_pc = i};
    for (uint32_t i = 0; i < CALLSITES; i++) {
        uint32_t parent = i == 0 || random_below(&seed, 5) == 0
                              ? PROFILE_NONE
                              : random_below(&seed, i < 40 ? i : 40);
        tree->callsites[i] =
            (struct profile_callsite){.parent = parent, .frame = random_below(&seed, 2 * NAMES)};
    }
    tree->profile = (struct profile){.frames = tree->frames,
                                     .frame_count = 2 * NAMES,
                                     .callsites = tree->callsites,
                                     .callsite_count = CALLSITES,
                                     .warning = ""};
}

static bool is_same_stack(const struct tree *one, uint32_t at, const struct tree *other,
                          uint32_t with, bool addresses)
{
    while (at != PROFILE_NONE && with != PROFILE_NONE) {
        uint32_t frame = one->callsites[at].frame, same = other->callsites[with].frame;
        if (addresses ? frame != same : frame % NAMES != same % NAMES)
            return false;
        at = one->callsites[at].parent;
        with = other->callsites[with].parent;
    }
    return at == with;
}

static void numbers_are_equal_where_stacks_are(void **state)
{
    (void)state;
    static struct tree before, after;
    make_tree(&before, 1);
    make_tree(&after, 2);
    for (int addresses = 0; addresses < 2; addresses++) {
        struct matching_options options = {.addresses = addresses != 0};
        struct matching *matching = matching_new(&before.profile, &after.profile, &options);
        assert_non_null(matching);
        size_t same = 0;
        for (uint32_t i = 0; i < CALLSITES; i++) {
            for (uint32_t j = 0; j < CALLSITES; j += 7) {
                const struct matching_side *sides = matching->sides;
                bool equal = is_same_stack(&before, i, &after, j, false);
                assert_int_equal(sides[0].callsites[i] == sides[1].callsites[j], equal);
                if (addresses)
                    assert_int_equal(sides[0].exact[i] == sides[1].exact[j],
                                     is_same_stack(&before, i, &after, j, true));
                else
                    assert_int_equal(sides[0].exact[i] == sides[1].exact[j], equal);
                same += equal;
            }
        }
        assert_true(same > 1000);
        matching_free(matching);
    }
}

/* --- processes --- */

#define PROCESSES 3

struct side {
    struct profile profile;
    struct profile_process processes[PROCESSES];
    struct profile_heap heaps[PROCESSES];
    struct profile_dump dump;
    struct export_dump dumps[PROCESSES];
    struct diff_side side;
};

/* Each has a heap "malloc" with a dump. */
static void make_side(struct side *side, const struct profile_process *processes, uint32_t count)
{
    memset(side, 0, sizeof(*side));
    for (uint32_t i = 0; i < count; i++) {
        side->processes[i] = processes[i];
        side->heaps[i] = (struct profile_heap){.process = i, .name = "malloc"};
        side->dumps[i] = (struct export_dump){&side->heaps[i], &side->dump};
    }
    side->profile = (struct profile){.processes = side->processes, .process_count = count};
    side->side = (struct diff_side){&side->profile, side->dumps, count};
}

/* wanted: the pids of each pair before and after, 0 for none. */
static void assert_pairs(const struct side *before, const struct side *after, enum diff_pairing by,
                         const char *wanted)
{
    struct diff diff = {0};
    char got[256] = "";
    size_t length = 0;
    assert_int_equal(diff_pairs_make(&before->side, &after->side, by, &diff), 0);
    for (size_t i = 0; i < diff.pair_count; i++) {
        const struct diff_pair *pair = &diff.pairs[i];
        for (size_t j = 0; j < pair->before_count; j++)
            length += (size_t)snprintf(got + length, sizeof(got) - length, "%d",
                                       before->processes[pair->before[j].heap->process].pid);
        length += (size_t)snprintf(got + length, sizeof(got) - length, ">");
        for (size_t j = 0; j < pair->after_count; j++)
            length += (size_t)snprintf(got + length, sizeof(got) - length, "%d",
                                       after->processes[pair->after[j].heap->process].pid);
        length += (size_t)snprintf(got + length, sizeof(got) - length,
                                   pair->process_missing ? "! " : " ");
        free(diff.pairs[i].before);
        free(diff.pairs[i].after);
    }
    free(diff.pairs);
    assert_string_equal(got, wanted);
}

static void processes_are_paired_as_requested(void **state)
{
    (void)state;
    static struct side before, after, nothing, one, other;
    make_side(&before,
              (struct profile_process[]){{.pid = 1, .name = "a", .command = "a x"},
                                         {.pid = 2, .name = "a", .command = "a y"},
                                         {.pid = 3, .name = "GPU", .command = "old"}},
              3);
    make_side(&after,
              (struct profile_process[]){{.pid = 2, .name = "a", .command = "a x"},
                                         {.pid = 1, .name = "b", .command = "b"},
                                         {.pid = 4, .name = "GPU", .command = "new"}},
              3);
    assert_pairs(&before, &after, DIFF_PAIR_PIDS, "2>2 1>1 >4! 3>! ");
    assert_pairs(&before, &after, DIFF_PAIR_LABELS, "1>2 >1! 3>4 2>! ");
    assert_pairs(&before, &after, DIFF_PAIR_NAMES, "12>2 >1! 3>4 ");
    make_side(&one, (struct profile_process[]){{.pid = 8, .name = "a", .command = "a x"}}, 1);
    make_side(&other, (struct profile_process[]){{.pid = 9, .name = "c", .command = ""}}, 1);
    assert_pairs(&one, &other, DIFF_PAIR_PIDS, "8>9 ");
    assert_pairs(&one, &other, DIFF_PAIR_LABELS, ">9! 8>! ");
    make_side(&nothing, NULL, 0);
    assert_pairs(&nothing, &before, DIFF_PAIR_LABELS, ">1! >2! >3! ");
}

/* Two consecutive processes had the same pid. */
static void names_distinguish_processes_with_equal_pids(void **state)
{
    (void)state;
    static struct side before, after, nothing;
    static const struct profile_process shell = {.pid = 5, .name = "sh", .command = "sh"},
                                        program = {.pid = 5, .name = "app", .command = "app"};
    make_side(&before, (struct profile_process[]){shell, program}, 2);
    make_side(&after, (struct profile_process[]){program, shell}, 2);
    assert_pairs(&before, &after, DIFF_PAIR_PIDS, "5>5 5>5 ");
    make_side(&nothing, NULL, 0);
    assert_pairs(&nothing, &before, DIFF_PAIR_PIDS, ">5! >5! ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_is_listed_by_size),
        cmocka_unit_test(shrinkage_is_listed_separately),
        cmocka_unit_test(entries_are_strictly_above_both_thresholds),
        cmocka_unit_test(types_differ_by_more_than_rounding),
        cmocka_unit_test(numbers_are_equal_where_stacks_are),
        cmocka_unit_test(processes_are_paired_as_requested),
        cmocka_unit_test(names_distinguish_processes_with_equal_pids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
