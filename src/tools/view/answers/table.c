/* SPDX-License-Identifier: Apache-2.0 */
/* Sums a selection by function, module and file over the tree of stacks. */
#include "tools/view/answers/table.h"

#include <stdlib.h>
#include <string.h>

#include "tools/view/answers/part_table.h"
#include "util/xmalloc.h"

static bool is_of_function(enum view_dimension key)
{
    return key == VIEW_FUNCTION || key == VIEW_HOLDER;
}

static void add_row(struct table *table, struct table_row row)
{
    XARRAY_ADD(&table->rows, &table->count, &table->capacity, row);
}

/* --- over the tree --- */

/* Make a row for each key of the functions, and set of_functions[i] to that of function i. */
static void number_rows(struct table *table, struct functions *functions, enum view_dimension key,
                        uint32_t *of_functions)
{
    struct intern_table ids = {0};
    struct function_names names;
    for (size_t i = 0; i < functions->count; i++) {
        functions_name(functions, (uint32_t)i, &names);
        const char *text = key == VIEW_MODULE ? names.path : names.file;
        bool added = true;
        uint64_t id = is_of_function(key)
                          ? i + 1
                          : xmalloc_id(intern_bytes(&ids, text, strlen(text), &added));
        of_functions[i] = (uint32_t)(id - 1);
        if (added)
            add_row(table,
                    (struct table_row){.label = is_of_function(key) ? NULL : text,
                                       .function = is_of_function(key) ? (uint32_t)i : STACK_NONE});
    }
    intern_free(&ids);
}

/* A walk over the tree of stacks, in depth-first order. */
struct walk {
    const struct stack_tree *tree;
    const uint32_t *rows; /* by function */
    uint32_t *next;       /* by depth: the next child to visit */
    uint32_t *path;       /* by depth: the node */
    uint32_t *above;      /* by row: how many nodes of the path have it */
};

/* Add the sum of each node to its row, unless a caller has the same row. */
static void walk_tree(struct walk *walk, const struct flame_sum *sums, struct table *table)
{
    const struct stack_tree *tree = walk->tree;
    size_t depth = 0;
    walk->path[0] = (uint32_t)tree->count;
    walk->next[0] = tree->first[tree->count];
    for (;;) {
        uint32_t node = walk->path[depth];
        if (walk->next[depth] < tree->first[node + 1]) {
            uint32_t child = tree->children[walk->next[depth]++];
            uint32_t row = walk->rows[tree->nodes[child].function];
            if (walk->above[row]++ == 0)
                flame_sum_add(&table->rows[row].total, &sums[child]);
            walk->path[++depth] = child;
            walk->next[depth] = tree->first[child];
        } else if (depth == 0) {
            break;
        } else {
            walk->above[walk->rows[tree->nodes[node].function]]--;
            depth--;
        }
    }
}

static size_t deepest_of(const struct stack_tree *tree, uint32_t *depths)
{
    size_t deepest = 0;
    for (size_t i = 0; i < tree->count; i++) {
        uint32_t parent = tree->nodes[i].parent;
        depths[i] = parent == STACK_NONE ? 1 : depths[parent] + 1;
        if (depths[i] > deepest)
            deepest = depths[i];
    }
    return deepest;
}

static void sum_tree(struct table *table, const struct stack_tree *tree,
                     const struct view_leaves *leaves, const uint32_t *rows)
{
    struct flame_sum *sums = flame_sum_below(tree, leaves->items, leaves->count);
    uint32_t *depths = xcalloc(tree->count + 1, sizeof(*depths));
    size_t deepest = deepest_of(tree, depths);
    struct walk walk = {
        .tree = tree,
        .rows = rows,
        .next = xcalloc(deepest + 1, sizeof(*walk.next)),
        .path = xcalloc(deepest + 1, sizeof(*walk.path)),
        .above = xcalloc(table->count + 1, sizeof(*walk.above)),
    };
    walk_tree(&walk, sums, table);
    for (size_t i = 0; i < leaves->count; i++)
        flame_sum_add(&table->rows[rows[tree->nodes[leaves->items[i].node].function]].self,
                      &leaves->items[i].own);
    free(sums);
    free(depths);
    free(walk.next);
    free(walk.path);
    free(walk.above);
}

static void sum_holders(struct table *table, struct view_profiles *profiles,
                        const struct view_leaves *leaves)
{
    const struct stack_tree *tree = view_profiles_tree(profiles);
    for (size_t i = 0; i < leaves->count; i++) {
        struct table_row *row =
            &table->rows[view_profiles_holder(profiles, tree, leaves->items[i].node)];
        flame_sum_add(&row->self, &leaves->items[i].own);
        flame_sum_add(&row->total, &leaves->items[i].own);
    }
}

static void by_function(struct table *table, struct view_profiles *profiles,
                        const struct view_leaves *leaves, enum view_dimension key)
{
    uint32_t *rows = xcalloc(profiles->functions.count + 1, sizeof(*rows));
    number_rows(table, &profiles->functions, key, rows);
    if (key == VIEW_HOLDER)
        sum_holders(table, profiles, leaves);
    else
        sum_tree(table, view_profiles_tree(profiles), leaves, rows);
    free(rows);
}

/* --- */

int table_make(struct table *table, struct view_profiles *profiles,
               const struct view_selection *selection, const struct view_leaves *leaves,
               enum view_dimension key, struct error *error)
{
    *table = (struct table){0};
    int code = 0;
    if (key >= VIEW_THREAD)
        code = part_table_make(table, profiles, selection, key, error);
    else
        by_function(table, profiles, leaves, key);
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].total.width != 0)
            table->rows[kept++] = table->rows[i];
    table->count = kept;
    return code;
}

void table_free(struct table *table)
{
    free(table->rows);
    *table = (struct table){0};
}
