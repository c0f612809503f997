/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over a tree of stacks. The value of each node, with those of all nodes below it, is added to
 * the node's row: a function, a module, a line. A row that is on a stack several times counts it
 * once, so a recursive function gets the sums of its outermost nodes only. One pass over the nodes
 * does it; walking up from each stack would cost the length of all stacks.
 */
#ifndef HEAPPROFD_PROFILE_TREE_SUMS_H
#define HEAPPROFD_PROFILE_TREE_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* A member of all items of an array. */
struct tree_column {
    void *items;
    size_t item_bytes, offset;
};
#define TREE_COLUMN(items, member)                                                                 \
    {                                                                                              \
        (void *)(items), sizeof(*(items)), offsetof(__typeof__(*(items)), member)                  \
    }

#define TREE_SUMS_NONE UINT32_MAX

struct tree_sums {
    size_t count, row_count;    /* of nodes, of rows */
    struct tree_column parents; /* uint32_t by node, below its own index; or TREE_SUMS_NONE */
    const uint32_t *rows;       /* by node: its row */
    void *values;               /* by node: its own; afterwards with all below it */
    size_t value_bytes;
    struct tree_column totals; /* by row: where the values are added */
    void (*add)(void *sum, const void *value);
};

/* Add the values up. Return 0 or -ENOMEM. */
int tree_sums_add(const struct tree_sums *sums);

#endif
