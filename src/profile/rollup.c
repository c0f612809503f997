/* SPDX-License-Identifier: Apache-2.0 */
/* See rollup.h. */
#include "profile/rollup.h"

#include <stdlib.h>
#include <string.h>

#include "profile/agreement.h"
#include "profile/callsite_nodes.h"
#include "profile/id_map.h"
#include "trace/intern.h"
#include "wire/ring.h"

double rollup_live_bytes_variance(const struct trace_figures *figures)
{
    double variance = figures->allocated_bytes_variance - figures->freed_bytes_variance;
    return variance > 0 ? variance : 0;
}

double rollup_live_count_variance(const struct trace_figures *figures)
{
    double variance = figures->allocated_count_variance - figures->freed_count_variance;
    return variance > 0 ? variance : 0;
}

double rollup_most(const struct profile_heap *heap, const struct profile_dump *dump, bool counts)
{
    /* Totals lack what the program sampled by itself, and threads without a slot. */
    if (heap->status.weighed_samples > 0 || heap->status.lost[RING_LOST_NO_THREAD_SLOT] > 0)
        return 0;
    struct profile_agreement agreement = profile_agreement_of(heap, dump);
    const struct profile_gap *gap = counts ? &agreement.calls : &agreement.bytes;
    if (agreement.known && gap->missing < 0 && profile_gap_is_real(gap))
        return 0; /* samples say that the total is too low */
    return counts ? (double)dump->exact_calls : (double)dump->exact_bytes;
}

struct rollup_values rollup_total_of(const struct profile_dump *dump)
{
    struct rollup_values total = {dump->total, dump->left_out.sum.peak};
    for (size_t i = 0; i < dump->sample_count; i++)
        trace_peak_figures_add(&total.peak, &dump->samples[i]->peak);
    return total;
}

struct rollup_size rollup_size_of(const struct profile_dump *dump)
{
    double live = rollup_live_bytes(&dump->total), peak = 0;
    for (size_t i = 0; i < dump->sample_count; i++)
        peak += dump->samples[i]->peak.bytes;
    return (struct rollup_size){peak > live ? peak : live, dump->total.allocated_bytes};
}

int rollup_size_compare(const struct rollup_size *left, const struct rollup_size *right)
{
    if (left->held != right->held)
        return left->held > right->held ? -1 : 1;
    return left->allocated > right->allocated ? -1 : left->allocated < right->allocated;
}

/* --- by function or mapping --- */

/* Which row each frame belongs to: rows[frame], counted in *row_count. */
static uint32_t *row_of_frames(const struct profile *profile, enum rollup_key key,
                               size_t *row_count)
{
    struct intern_table names = {0}, table = {0};
    uint32_t *rows = calloc(profile->frame_count + 1, sizeof(*rows));
    for (size_t i = 0; rows != NULL && i < profile->frame_count; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        const char *path =
            frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
        uint64_t parts[3] = {0};
        bool added;
        parts[0] = intern_bytes(&names, path, strlen(path), &added);
        if (key == ROLLUP_FUNCTION && *frame->name != '\0')
            parts[1] = intern_bytes(&names, frame->name, strlen(frame->name), &added);
        else if (key == ROLLUP_FUNCTION)
            parts[2] = frame->rel_pc;
        uint64_t id = intern_bytes(&table, parts, sizeof(parts), &added);
        if (id == 0) {
            free(rows);
            rows = NULL;
            break;
        }
        rows[i] = (uint32_t)(id - 1);
    }
    *row_count = table.count;
    intern_free(&names);
    intern_free(&table);
    return rows;
}

static uint64_t row_number(const void *row_of, uint32_t frame)
{
    return ((const uint32_t *)row_of)[frame];
}

/* Fill what rows have themselves, and mark the callsites of all stacks. */
static void add_selves(struct rollup *rollup, const struct profile_dump *dump,
                       const uint32_t *row_of, bool *met, struct callsite_nodes *nodes)
{
    const struct profile_callsite *callsites = nodes->profile->callsites;
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        uint32_t at = dump->samples[i]->callsite;
        rollup_values_add(&rollup->rows[row_of[callsites[at].frame]].self, &values);
        for (; at != PROFILE_NONE && callsite_nodes_mark(nodes, at); at = callsites[at].parent) {
            uint32_t row = row_of[callsites[at].frame];
            if (!met[row])
                rollup->rows[row].frame = callsites[at].frame;
            met[row] = true;
        }
    }
}

/* Add up what is at each node and below; where it is the outermost of its row, that is the row's.
 */
static int add_cumulative(struct rollup *rollup, const struct profile_dump *dump,
                          const uint32_t *row_of, size_t row_count, struct callsite_nodes *nodes)
{
    struct rollup_values *sums = NULL;
    int code = callsite_nodes_list(nodes);
    if (code == 0)
        code = callsite_nodes_find_outermost(nodes, row_number, row_of, row_count);
    if (code == 0 && (sums = calloc(nodes->count + 1, sizeof(*sums))) == NULL)
        code = -ENOMEM;
    if (code < 0)
        return code;
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        rollup_values_add(&sums[nodes->places[dump->samples[i]->callsite] - 1], &values);
    }
    for (size_t i = nodes->count; i-- > 0;) {
        const struct callsite_node *node = &nodes->nodes[i];
        uint32_t row = row_of[nodes->profile->callsites[node->callsite].frame];
        if (node->outermost)
            rollup_values_add(&rollup->rows[row].cumulative, &sums[i]);
        if (node->parent != 0)
            rollup_values_add(&sums[node->parent - 1], &sums[i]);
    }
    free(sums);
    return 0;
}

static int rollup_by_frame(struct rollup *rollup, const struct profile *profile,
                           const struct profile_dump *dump, enum rollup_key key)
{
    size_t row_count = 0;
    struct callsite_nodes nodes;
    uint32_t *row_of = row_of_frames(profile, key, &row_count);
    bool *met = calloc(row_count + 1, sizeof(*met));
    int code = callsite_nodes_begin(&nodes, profile);
    rollup->rows = calloc(row_count + 1, sizeof(*rollup->rows));
    if (row_of == NULL || met == NULL || rollup->rows == NULL)
        code = -ENOMEM;
    if (code == 0) {
        add_selves(rollup, dump, row_of, met, &nodes);
        code = add_cumulative(rollup, dump, row_of, row_count, &nodes);
    }
    /* Frames of other heaps and dumps leave rows that nothing fell into. */
    for (size_t i = 0; i < row_count && code == 0; i++) {
        if (met[i])
            rollup->rows[rollup->row_count++] = rollup->rows[i];
    }
    callsite_nodes_free(&nodes);
    free(row_of);
    free(met);
    return code;
}

/* --- by thread --- */

static int add_thread(struct rollup *rollup, struct id_map *rows, const struct profile_part *thread)
{
    uint32_t index = id_map_find(rows, (uint32_t)thread->tid);
    if (index == ID_MAP_NONE) {
        index = (uint32_t)rollup->row_count++;
        if (id_map_set(rows, (uint32_t)thread->tid, index) < 0)
            return -ENOMEM;
        rollup->rows[index].frame = PROFILE_NONE;
        rollup->rows[index].tid = thread->tid;
    }
    trace_figures_add(&rollup->rows[index].self.figures, &thread->figures);
    return 0;
}

static int rollup_by_thread(struct rollup *rollup, const struct profile_dump *dump)
{
    struct id_map rows = {0};
    int code = 0;
    rollup->rows = calloc(dump->part_count + 1, sizeof(*rollup->rows));
    if (rollup->rows == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < dump->sample_count; i++) {
        for (uint32_t j = 0; j < dump->samples[i]->part_count && code == 0; j++)
            code = add_thread(rollup, &rows, &dump->samples[i]->parts[j]);
    }
    for (size_t i = 0; i < rollup->row_count; i++)
        rollup->rows[i].cumulative = rollup->rows[i].self;
    id_map_free(&rows);
    return code;
}

struct rollup *rollup_new(const struct profile *profile, const struct profile_dump *dump,
                          enum rollup_key key)
{
    struct rollup *rollup = calloc(1, sizeof(*rollup));
    if (rollup == NULL)
        return NULL;
    int code = key == ROLLUP_THREAD ? rollup_by_thread(rollup, dump)
                                    : rollup_by_frame(rollup, profile, dump, key);
    if (code < 0) {
        rollup_free(rollup);
        return NULL;
    }
    return rollup;
}

void rollup_free(struct rollup *rollup)
{
    if (rollup == NULL)
        return;
    free(rollup->rows);
    free(rollup);
}

/* --- the tree --- */

void rollup_tree_free(struct rollup_tree *tree)
{
    if (tree == NULL)
        return;
    free(tree->cumulative);
    free(tree->self);
    free(tree->first_child);
    free(tree->next_sibling);
    free(tree);
}

/* The node that each callsite is a part of: itself, or the first one of the same function under the
 * same node. NULL: no memory. */
static uint32_t *nodes_of_callsites(const struct profile *profile, bool by_function)
{
    size_t row_count;
    uint32_t *nodes = malloc((profile->callsite_count + 1) * sizeof(*nodes));
    uint32_t *rows = by_function ? row_of_frames(profile, ROLLUP_FUNCTION, &row_count) : NULL;
    struct id_map first = {0}; /* by parent's node and row */
    if (nodes == NULL || (by_function && rows == NULL))
        goto no_memory;
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t parent = callsite->parent == PROFILE_NONE ? PROFILE_NONE : nodes[callsite->parent];
        nodes[i] = (uint32_t)i;
        if (!by_function)
            continue;
        uint64_t key = (uint64_t)parent << 32 | rows[callsite->frame];
        uint32_t known = id_map_find(&first, key);
        if (known != ID_MAP_NONE)
            nodes[i] = known;
        else if (id_map_set(&first, key, (uint32_t)i) < 0)
            goto no_memory;
    }
    id_map_free(&first);
    free(rows);
    return nodes;

no_memory:
    id_map_free(&first);
    free(rows);
    free(nodes);
    return NULL;
}

struct rollup_tree *rollup_tree_new(const struct profile *profile, const struct profile_dump *dump,
                                    bool by_function)
{
    size_t count = profile->callsite_count;
    struct rollup_tree *tree = calloc(1, sizeof(*tree));
    bool *used = calloc(count + 1, sizeof(*used));
    uint32_t *nodes = nodes_of_callsites(profile, by_function);
    if (tree == NULL || used == NULL || nodes == NULL)
        goto no_memory;
    tree->cumulative = calloc(count + 1, sizeof(*tree->cumulative));
    tree->self = calloc(count + 1, sizeof(*tree->self));
    tree->first_child = malloc((count + 1) * sizeof(*tree->first_child));
    tree->next_sibling = malloc((count + 1) * sizeof(*tree->next_sibling));
    if (tree->cumulative == NULL || tree->self == NULL || tree->first_child == NULL ||
        tree->next_sibling == NULL)
        goto no_memory;
    /* All bytes 0xff: PROFILE_NONE. */
    memset(tree->first_child, 0xff, (count + 1) * sizeof(*tree->first_child));
    memset(tree->next_sibling, 0xff, (count + 1) * sizeof(*tree->next_sibling));
    tree->first_root = PROFILE_NONE;
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t at = nodes[dump->samples[i]->callsite];
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        rollup_values_add(&tree->self[at], &values);
        rollup_values_add(&tree->cumulative[at], &values);
        used[at] = true;
    }
    /* A parent comes before its children: backwards, each is complete when it is added. */
    for (size_t i = count; i-- > 0;) {
        uint32_t parent = profile->callsites[i].parent;
        if (!used[i])
            continue;
        parent = parent == PROFILE_NONE ? parent : nodes[parent];
        uint32_t *list = parent == PROFILE_NONE ? &tree->first_root : &tree->first_child[parent];
        tree->next_sibling[i] = *list;
        *list = (uint32_t)i;
        if (parent != PROFILE_NONE) {
            rollup_values_add(&tree->cumulative[parent], &tree->cumulative[i]);
            used[parent] = true;
        }
    }
    free(nodes);
    free(used);
    return tree;

no_memory:
    free(nodes);
    free(used);
    rollup_tree_free(tree);
    return NULL;
}
