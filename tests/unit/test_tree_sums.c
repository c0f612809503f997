/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over trees of stacks, against a walk up from each node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "profile/tree_sums.h"

#define NODES 200u
#define ROWS 12u
#define TREES 500

struct node {
    uint32_t other; /* so that the parent is not the first member */
    uint32_t parent;
};

struct row {
    char name;
    uint64_t total;
};

static void add(void *sum, const void *more)
{
    *(uint64_t *)sum += *(const uint64_t *)more;
}

/* Add a node's value to each row of its stack once, and to each of its nodes. */
static void add_stack(const struct node *nodes, const uint32_t *rows, uint32_t node, uint64_t value,
                      uint64_t *totals, uint64_t *below)
{
    uint64_t seen = 0;
    for (uint32_t at = node; at != TREE_SUMS_NONE; at = nodes[at].parent) {
        below[at] += value;
        if ((seen >> rows[at] & 1) == 0)
            totals[rows[at]] += value;
        seen |= UINT64_C(1) << rows[at];
    }
}

/* Trees of few roots are deep, and of many flat. */
static void check_tree(uint32_t count, uint32_t one_root_in)
{
    struct node nodes[NODES];
    struct row made[ROWS] = {{0}};
    uint64_t values[NODES], below[NODES] = {0}, totals[ROWS] = {0};
    uint32_t rows[NODES];
    for (uint32_t i = 0; i < count; i++) {
        bool is_root = i == 0 || (uint32_t)rand() % one_root_in == 0;
        nodes[i].parent = is_root ? TREE_SUMS_NONE : (uint32_t)rand() % i;
        rows[i] = (uint32_t)rand() % ROWS;
        values[i] = (uint64_t)rand() % 1000;
    }
    for (uint32_t i = 0; i < count; i++)
        add_stack(nodes, rows, i, values[i], totals, below);
    const struct tree_sums sums = {
        .count = count,
        .row_count = ROWS,
        .parents = TREE_COLUMN(nodes, parent),
        .rows = rows,
        .values = values,
        .value_bytes = sizeof(*values),
        .totals = TREE_COLUMN(made, total),
        .add = add,
    };
    assert_int_equal(tree_sums_add(&sums), 0);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_int_equal(made[i].total, totals[i]);
    assert_memory_equal(values, below, count * sizeof(*values));
}

static void a_stack_counts_once_in_each_row(void **state)
{
    (void)state;
    srand(1);
    for (uint32_t i = 0; i < TREES; i++)
        check_tree(i % (NODES + 1), 1 + i % 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_counts_once_in_each_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
