/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of samples by function, by what they are divided into, and over the tree of callsites. */
#include "profile/sums.h"

#include <errno.h>
#include <stdlib.h>

#include "profile/function_numbers.h"
#include "profile/tree_sums.h"
#include "trace/intern.h"
#include "util/array.h"
#include "util/id_map.h"

void sums_tables_clear(struct sums_tables *tables)
{
    if (tables->nodes.profile != NULL)
        callsite_nodes_free(&tables->nodes);
    free(tables->functions);
    free(tables->places);
    *tables = (struct sums_tables){.profile = tables->profile};
}

const uint32_t *sums_functions(struct sums_tables *tables, size_t *count)
{
    struct function_numbers numbers = {0};
    if (tables->functions == NULL) {
        tables->functions = calloc(tables->profile->frame_count + 1, sizeof(*tables->functions));
        if (tables->functions != NULL &&
            function_numbers_add(&numbers, tables->profile, NULL, tables->functions) == 0)
            tables->places = calloc(numbers.functions.count + 1, sizeof(*tables->places));
        tables->function_count = numbers.functions.count + 1;
        function_numbers_free(&numbers);
    }
    *count = tables->function_count;
    return tables->places != NULL ? tables->functions : NULL;
}

/* List the callsites that are on the stacks of a dump. */
static int sums_list_callsites(struct sums_tables *tables, const struct profile_dump *dump)
{
    if (tables->nodes.profile == NULL && callsite_nodes_begin(&tables->nodes, tables->profile) < 0)
        return -ENOMEM;
    callsite_nodes_clear(&tables->nodes);
    callsite_nodes_mark_dump(&tables->nodes, dump);
    return callsite_nodes_list(&tables->nodes);
}

static uint32_t frame_of_node(const struct sums_tables *tables, size_t node)
{
    return tables->profile->callsites[tables->nodes.nodes[node].callsite].frame;
}

/* --- by function --- */

static int compare_functions(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct sums_row *left = left_pointer, *right = right_pointer;
    const uint32_t *functions = context;
    uint32_t one = functions[left->frame], other = functions[right->frame];
    return one < other ? -1 : one > other;
}

/* Make a row for each function of the listed callsites, in the order of functions. Set node_rows[i]
 * to that of node i. */
static int make_rows(struct sums *sums, struct sums_tables *tables, uint32_t *node_rows)
{
    size_t capacity = 0;
    for (size_t i = 0; i < tables->nodes.count; i++) {
        const struct sums_row row = {.callsite = PROFILE_NONE, .frame = frame_of_node(tables, i)};
        node_rows[i] = tables->functions[row.frame];
        if (tables->places[node_rows[i]]++ == 0 &&
            ARRAY_ADD(&sums->rows, &sums->row_count, &capacity, row) < 0)
            return -ENOMEM;
    }
    if (sums->row_count > 1)
        qsort_r(sums->rows, sums->row_count, sizeof(*sums->rows), compare_functions,
                tables->functions);
    for (size_t i = 0; i < sums->row_count; i++)
        tables->places[tables->functions[sums->rows[i].frame]] = (uint32_t)i;
    for (size_t i = 0; i < tables->nodes.count; i++)
        node_rows[i] = tables->places[node_rows[i]];
    for (size_t i = 0; i < sums->row_count; i++)
        tables->places[tables->functions[sums->rows[i].frame]] = 0;
    return 0;
}

static void add_values(void *sum, const void *more)
{
    rollup_values_add(sum, more);
}

struct sums *sums_by_function(struct sums_tables *tables, const struct profile_dump *dump)
{
    const struct callsite_nodes *nodes = &tables->nodes;
    size_t count;
    if (sums_functions(tables, &count) == NULL || sums_list_callsites(tables, dump) < 0)
        return NULL;
    struct sums *sums = calloc(1, sizeof(*sums));
    uint32_t *node_rows = calloc(nodes->count + 1, sizeof(*node_rows));
    struct rollup_values *values = calloc(nodes->count + 1, sizeof(*values));
    bool has_memory = sums != NULL && node_rows != NULL && values != NULL &&
                      make_rows(sums, tables, node_rows) == 0;
    for (size_t i = 0; i < dump->sample_count && has_memory; i++) {
        const struct rollup_values own = rollup_values_of(dump->samples[i]);
        rollup_values_add(&values[nodes->places[dump->samples[i]->callsite] - 1], &own);
    }
    if (has_memory)
        has_memory = tree_sums_add(&(struct tree_sums){
                         .count = nodes->count,
                         .row_count = sums->row_count,
                         .parents = TREE_COLUMN(nodes->nodes, parent),
                         .rows = node_rows,
                         .values = values,
                         .value_bytes = sizeof(*values),
                         .totals = TREE_COLUMN(sums->rows, values),
                         .add = add_values,
                     }) == 0;
    free(node_rows);
    free(values);
    if (has_memory)
        return sums;
    sums_free(sums);
    return NULL;
}

/* --- by parts --- */

#define DEPTH_MOST 2u

struct parts_adder {
    const enum dimension *by;
    size_t depth;
    struct sums_level {
        struct sums_row *rows;
        size_t count, capacity;
        struct intern_table ids;
    } levels[DEPTH_MOST];
};

/* Return an empty row for a part of a sample. */
static struct sums_row row_of_part(enum dimension by, uint32_t callsite,
                                   const struct profile_part *part)
{
    struct sums_row row = {.callsite = PROFILE_NONE, .frame = PROFILE_NONE};
    if (by == DIMENSION_CALLSITE)
        row.callsite = callsite;
    else if (by == DIMENSION_THREAD)
        row.tid = part->tid;
    else
        row.label = by == DIMENSION_TYPE ? part->type : part->context;
    return row;
}

/* Return the index of the group's row with the same key. SIZE_MAX: no memory. */
static size_t find_row(struct sums_level *level, struct sums_row wanted, size_t group)
{
    /* Equal labels of a profile are the same pointer, except "" of a sample without parts. */
    const char *label = wanted.label != NULL && *wanted.label == '\0' ? "" : wanted.label;
    const uint64_t key[] = {group, (uint64_t)wanted.callsite << 32 | (uint32_t)wanted.tid,
                            (uint64_t)(uintptr_t)label};
    bool added;
    uint64_t id = intern_bytes(&level->ids, key, sizeof(key), &added);
    wanted.first = group;
    if (id == 0 || (added && ARRAY_ADD(&level->rows, &level->count, &level->capacity, wanted) < 0))
        return SIZE_MAX;
    return id - 1;
}

static int add_part(struct parts_adder *adder, uint32_t callsite, const struct profile_part *part,
                    const struct rollup_values *values)
{
    size_t row = 0;
    for (size_t i = 0; i < adder->depth; i++) {
        struct sums_level *level = &adder->levels[i];
        row = find_row(level, row_of_part(adder->by[i], callsite, part), row);
        if (row == SIZE_MAX)
            return -ENOMEM;
        rollup_values_add(&level->rows[row].values, values);
    }
    return 0;
}

static int add_sample(struct parts_adder *adder, uint32_t callsite,
                      const struct profile_sample *sample)
{
    static const struct profile_part nothing = {.type = "", .context = ""};
    bool by_thread = adder->by[0] == DIMENSION_THREAD;
    int code = 0;
    /* Without tags, all of it has no type and no context, and the peak is known. */
    if (!sample->tagged && !by_thread) {
        const struct rollup_values values = rollup_values_of(sample);
        return add_part(adder, callsite, &nothing, &values);
    }
    for (uint32_t i = 0; i < sample->part_count && code == 0; i++) {
        const struct profile_part *part = &sample->parts[i];
        struct rollup_values values = {.figures = part->figures};
        if (!by_thread)
            values.peak = part->peak;
        code = add_part(adder, callsite, part, &values);
    }
    return code;
}

static int compare_groups(const void *left_pointer, const void *right_pointer)
{
    const struct sums_row *left = left_pointer, *right = right_pointer;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* Up to here, an inner row's `first` is the index of its outer row. */
static void gather_inner(struct sums *sums)
{
    if (sums->inner_count > 1)
        qsort(sums->inner, sums->inner_count, sizeof(*sums->inner), compare_groups);
    for (size_t i = 0; i < sums->inner_count; i++) {
        struct sums_row *outer = &sums->rows[sums->inner[i].first];
        if (outer->count++ == 0)
            outer->first = i;
    }
}

struct sums *sums_by_parts(const struct profile_dump *dump, const enum dimension *by, size_t depth,
                           const uint32_t *alike)
{
    struct parts_adder adder = {.by = by, .depth = depth};
    struct sums *sums = calloc(1, sizeof(*sums));
    int code = sums == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < dump->sample_count && code == 0; i++) {
        uint32_t callsite = dump->samples[i]->callsite;
        code = add_sample(&adder, alike != NULL ? alike[callsite] : callsite, dump->samples[i]);
    }
    const struct sums_level *outer = &adder.levels[0], *inner = &adder.levels[1];
    if (sums != NULL)
        *sums = (struct sums){outer->rows, inner->rows, outer->count, inner->count};
    intern_free(&adder.levels[0].ids);
    intern_free(&adder.levels[1].ids);
    if (code < 0) {
        sums_free(sums);
        return NULL;
    }
    gather_inner(sums);
    return sums;
}

void sums_free(struct sums *sums)
{
    if (sums == NULL)
        return;
    free(sums->rows);
    free(sums->inner);
    free(sums);
}

/* --- the tree --- */

void sums_tree_free(struct sums_tree *tree)
{
    if (tree == NULL)
        return;
    free(tree->nodes);
    free(tree);
}

/* Make the tree's nodes, and set by_callsite to the node of each listed callsite. Without
 * functions (NULL) each callsite has a node of its own. With them, callsites of one function share
 * a node if their parents share one. */
static int make_nodes(struct sums_tree *tree, const struct sums_tables *tables,
                      const uint32_t *functions, uint32_t *by_callsite)
{
    const struct callsite_nodes *nodes = &tables->nodes;
    struct id_map first = {0}; /* by parent's node and function */
    int code = 0;
    for (size_t i = 0; i < nodes->count && code == 0; i++) {
        const struct listed_callsite *from = &nodes->nodes[i];
        uint32_t parent = from->parent == PROFILE_NONE ? PROFILE_NONE : by_callsite[from->parent];
        uint32_t known = ID_MAP_NONE;
        if (functions != NULL) {
            uint64_t key = (uint64_t)parent << 32 | functions[frame_of_node(tables, i)];
            known = id_map_find(&first, key);
            if (known == ID_MAP_NONE)
                code = id_map_set(&first, key, (uint32_t)tree->count);
        }
        by_callsite[i] = known != ID_MAP_NONE ? known : (uint32_t)tree->count;
        if (known == ID_MAP_NONE)
            tree->nodes[tree->count++] = (struct sums_node){
                .callsite = from->callsite,
                .parent = parent,
                .first_child = PROFILE_NONE,
                .next_sibling = PROFILE_NONE,
            };
    }
    id_map_free(&first);
    return code;
}

/* Link children to their parents, and add them up. Children come after their parents, so going
 * backwards each node is complete when it is added to its parent. */
static void link_nodes(struct sums_tree *tree)
{
    tree->first_root = PROFILE_NONE;
    for (size_t i = tree->count; i-- > 0;) {
        struct sums_node *node = &tree->nodes[i];
        struct sums_node *parent = node->parent == PROFILE_NONE ? NULL : &tree->nodes[node->parent];
        uint32_t *list = parent == NULL ? &tree->first_root : &parent->first_child;
        node->next_sibling = *list;
        *list = (uint32_t)i;
        if (parent != NULL)
            rollup_values_add(&parent->cumulative, &node->cumulative);
    }
}

struct sums_tree *sums_tree_new(struct sums_tables *tables, const struct profile_dump *dump,
                                bool by_function)
{
    struct sums_tree *tree = calloc(1, sizeof(*tree));
    size_t count;
    const uint32_t *functions = by_function ? sums_functions(tables, &count) : NULL;
    uint32_t *by_callsite = NULL;
    if (tree == NULL || (by_function && functions == NULL) || sums_list_callsites(tables, dump) < 0)
        goto no_memory;
    by_callsite = calloc(tables->nodes.count + 1, sizeof(*by_callsite));
    tree->nodes = calloc(tables->nodes.count + 1, sizeof(*tree->nodes));
    if (by_callsite == NULL || tree->nodes == NULL ||
        make_nodes(tree, tables, functions, by_callsite) < 0)
        goto no_memory;
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        uint32_t place = tables->nodes.places[dump->samples[i]->callsite] - 1;
        rollup_values_add(&tree->nodes[by_callsite[place]].cumulative, &values);
    }
    link_nodes(tree);
    free(by_callsite);
    return tree;

no_memory:
    free(by_callsite);
    sums_tree_free(tree);
    return NULL;
}
