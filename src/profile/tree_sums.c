/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the outermost nodes of each row on a walk through the tree, then adds up backwards. */
#include "profile/tree_sums.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* The way down the tree. Nodes are counted from 1 here: 0 is above all, and no node. */
struct tree_links {
    uint32_t first_child, next_sibling;
};

static void *tree_item(const struct tree_column *column, size_t index)
{
    return (char *)column->items + index * column->item_bytes + column->offset;
}

/* Return the parent of a node, both counted from 1: TREE_SUMS_NONE becomes 0. */
static uint32_t tree_parent(const struct tree_sums *sums, uint32_t node)
{
    return *(const uint32_t *)tree_item(&sums->parents, node - 1) + 1;
}

/* Set whether no node above a node has its row. `above` counts, by row, the nodes of the current
 * path; all are 0 before and after. */
static void mark_outermost(const struct tree_sums *sums, struct tree_links *links, uint32_t *above,
                           bool *outermost)
{
    for (uint32_t at = (uint32_t)sums->count; at > 0; at--) {
        struct tree_links *parent = &links[tree_parent(sums, at)];
        links[at].next_sibling = parent->first_child;
        parent->first_child = at;
    }
    for (uint32_t at = links[0].first_child; at != 0;) {
        outermost[at - 1] = above[sums->rows[at - 1]]++ == 0;
        if (links[at].first_child != 0) {
            at = links[at].first_child;
            continue;
        }
        for (; at != 0; at = tree_parent(sums, at)) {
            above[sums->rows[at - 1]]--;
            if (links[at].next_sibling != 0)
                break;
        }
        at = links[at].next_sibling;
    }
}

int tree_sums_add(const struct tree_sums *sums)
{
    struct tree_links *links = calloc(sums->count + 1, sizeof(*links));
    uint32_t *above = calloc(sums->row_count + 1, sizeof(*above));
    bool *outermost = calloc(sums->count + 1, sizeof(*outermost));
    int code = links == NULL || above == NULL || outermost == NULL ? -ENOMEM : 0;
    if (code == 0)
        mark_outermost(sums, links, above, outermost);
    for (uint32_t at = code == 0 ? (uint32_t)sums->count : 0; at > 0; at--) {
        const void *value = (char *)sums->values + (at - 1) * sums->value_bytes;
        uint32_t parent = tree_parent(sums, at);
        if (outermost[at - 1])
            sums->add(tree_item(&sums->totals, sums->rows[at - 1]), value);
        if (parent != 0)
            sums->add((char *)sums->values + (parent - 1) * sums->value_bytes, value);
    }
    free(links);
    free(above);
    free(outermost);
    return code;
}
