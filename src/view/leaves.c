/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the samples of a selection by the node of their stack. */
#include "view/leaves.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "compare/estimates.h"
#include "profile/partial.h"

struct collector {
    struct view_leaves *leaves;
    const struct view_profiles *profiles;
    const struct view_selection *selection;
    uint32_t *places; /* by node: index of its leaf + 1 */
};

/* Return the sum over one stack with its width: how much the stack has changed. */
static struct flame_sum with_width(struct flame_sum sum, enum export_view view)
{
    sum.width = fabs(estimate_rank(&sum.gained, view) - estimate_rank(&sum.lost, view));
    return sum;
}

/* Add a sum to the leaf of its stack; to left_out if the filters remove the whole stack. */
static void add_sum(struct collector *collector, const struct view_profile *profile,
                    uint32_t callsite, const struct flame_sum *sum)
{
    struct view_leaves *leaves = collector->leaves;
    uint32_t node =
        view_profiles_node(collector->profiles, &collector->selection->filter, profile, callsite);
    flame_sum_add(&leaves->total, sum);
    if (node == STACK_NONE) {
        flame_sum_add(&leaves->left_out, sum);
        return;
    }
    if (collector->places[node] == 0) {
        leaves->items[leaves->count] = (struct flame_leaf){.node = node};
        collector->places[node] = (uint32_t)++leaves->count;
    }
    flame_sum_add(&leaves->items[collector->places[node] - 1].own, sum);
}

/* Make room for all leaves: at most one for each sample, and one for each node. */
static int reserve_leaves(struct collector *collector, size_t samples)
{
    size_t nodes = view_profiles_tree(collector->profiles)->count;
    collector->places = calloc(nodes + 1, sizeof(*collector->places));
    collector->leaves->items = reallocarray(NULL, (samples < nodes ? samples : nodes) + 1,
                                            sizeof(*collector->leaves->items));
    return collector->places == NULL || collector->leaves->items == NULL ? -ENOMEM : 0;
}

static int add_dump(struct collector *collector)
{
    const struct view_dump *chosen = &collector->selection->at;
    const struct profile_heap *heap = chosen->dump.heap;
    const struct profile_dump *dump = chosen->dump.dump;
    struct view_leaves *leaves = collector->leaves;
    int code = reserve_leaves(collector, dump->sample_count);
    leaves->exact = profile_dump_is_exact(heap, dump);
    leaves->partial = heap->interval_bytes == 1 &&
                      (profile_dump_is_partial(heap, dump) || profile_lacks_frees(heap));
    leaves->sampling = (struct change_sampling){heap->interval_bytes, heap->interval_bytes};
    leaves->unknown = export_view_is_unknown(heap, collector->selection->view);
    for (size_t i = 0; i < dump->sample_count && code == 0; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        struct flame_sum sum = {.gained = estimate_of_view(&values, collector->selection->view)};
        sum.width = estimate_rank(&sum.gained, collector->selection->view);
        if (sum.gained.bytes != 0 || sum.gained.count != 0)
            add_sum(collector, chosen->of, dump->samples[i]->callsite, &sum);
    }
    return code;
}

static int add_pair(struct collector *collector, const struct diff_pair *pair)
{
    enum export_view view = collector->selection->view;
    enum diff_figure figure = diff_figure_of(view);
    struct view_leaves *leaves = collector->leaves;
    int code = reserve_leaves(collector, pair->row_count);
    leaves->exact = pair->exact;
    leaves->partial = pair->partial;
    leaves->sampling = pair->sampling;
    leaves->unknown = diff_is_unknown(pair, view);
    for (size_t i = 0; i < pair->row_count && code == 0; i++) {
        const struct diff_row *row = &pair->rows[i];
        const struct change_parts *parts = &row->parts[figure];
        const struct flame_sum sum =
            with_width((struct flame_sum){.gained = parts->gained, .lost = parts->lost}, view);
        const struct view_profile *profile =
            view_profiles_of((struct view_profiles *)collector->profiles, row->profile);
        add_sum(collector, profile, row->callsite, &sum);
    }
    return code;
}

static int add_difference(struct collector *collector)
{
    const struct view_selection *selection = collector->selection;
    const struct diff_side before = {selection->base.of->profile, &selection->base.dump, 1},
                           after = {selection->at.of->profile, &selection->at.dump, 1};
    const struct diff_options options = {.by = DIFF_CALLSITE, .views = 1u << selection->view};
    struct diff *diff = diff_new(&before, &after, &options);
    int code = diff == NULL            ? -ENOMEM
               : diff->pair_count == 0 ? reserve_leaves(collector, 0)
                                       : add_pair(collector, &diff->pairs[0]);
    diff_free(diff);
    return code;
}

int view_leaves_make(struct view_leaves *leaves, struct view_profiles *profiles,
                     const struct view_selection *selection)
{
    struct collector collector = {.leaves = leaves, .profiles = profiles, .selection = selection};
    *leaves = (struct view_leaves){0};
    int code =
        view_selection_is_difference(selection) ? add_difference(&collector) : add_dump(&collector);
    free(collector.places);
    if (code < 0)
        view_leaves_free(leaves);
    return code;
}

void view_leaves_free(struct view_leaves *leaves)
{
    free(leaves->items);
    *leaves = (struct view_leaves){0};
}
