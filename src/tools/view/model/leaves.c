/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the samples of a selection by the node of their stack. */
#include "tools/view/model/leaves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "profile/partial.h"
#include "tools/view/model/limits.h"
#include "util/xmalloc.h"

struct collector {
    struct view_leaves *leaves;
    const struct view_profiles *profiles;
    const struct view_selection *selection;
    uint32_t *places; /* by node: index of its leaf + 1 */
};

void view_sum_set_sides(struct flame_sum *sum, double before, double after, enum view_width width)
{
    sum->before = before;
    sum->after = after;
    sum->width = width == VIEW_CHANGE   ? fabs(after - before)
                 : width == VIEW_LARGER ? fmax(before, after)
                                         : after;
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
static void reserve_leaves(struct collector *collector, size_t samples)
{
    size_t nodes = view_profiles_tree(collector->profiles)->count;
    collector->places = xcalloc(nodes + 1, sizeof(*collector->places));
    collector->leaves->items = xreallocarray(NULL, (samples < nodes ? samples : nodes) + 1,
                                             sizeof(*collector->leaves->items));
}

/* Return whether some of a heap's calls are missing, each of which was to be recorded. */
static bool is_partial(const struct profile_heap *heap, const struct profile_dump *dump)
{
    return heap->interval_bytes == 1 &&
           (profile_dump_is_partial(heap, dump) || profile_lacks_frees(heap));
}

static void add_dump(struct collector *collector)
{
    const struct view_dump *chosen = &collector->selection->at;
    const struct profile_heap *heap = chosen->dump.heap;
    const struct profile_dump *dump = view_shown(collector->selection, chosen);
    struct view_leaves *leaves = collector->leaves;
    reserve_leaves(collector, dump->sample_count);
    leaves->exact = profile_dump_is_exact(heap, dump);
    leaves->partial = is_partial(heap, dump);
    leaves->unknown = export_view_is_unknown(heap, collector->selection->view);
    for (int counts = 0; counts < 2; counts++)
        leaves->bounds[counts].gained_most = rollup_most(heap, chosen->dump.dump, counts != 0);
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        struct flame_sum sum = {.gained = estimate_of_view(&values, collector->selection->view)};
        sum.width = estimate_rank(&sum.gained, collector->selection->view);
        if (sum.gained.bytes != 0 || sum.gained.count != 0)
            add_sum(collector, chosen->of, dump->samples[i]->callsite, &sum);
    }
}

/* Add the lower bound of what was retained, as what is lost: stacks are as wide as the upper one.
 */
static void add_least(struct collector *collector)
{
    const struct view_dump *chosen = &collector->selection->least;
    const struct profile_dump *dump = view_shown(collector->selection, chosen);
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        const struct flame_sum sum = {.lost =
                                          estimate_of_view(&values, collector->selection->view)};
        add_sum(collector, chosen->of, dump->samples[i]->callsite, &sum);
    }
}

static void add_pair(struct collector *collector, const struct diff_pair *pair)
{
    enum export_view view = collector->selection->view;
    enum diff_figure figure = diff_figure_of(view);
    struct view_leaves *leaves = collector->leaves;
    reserve_leaves(collector, pair->row_count);
    leaves->exact = pair->exact;
    leaves->same_process = pair->same_process;
    leaves->partial = pair->partial;
    memcpy(leaves->bounds, pair->bounds[figure], sizeof(leaves->bounds));
    leaves->unknown = diff_is_unknown(pair, view);
    for (size_t i = 0; i < pair->row_count; i++) {
        const struct diff_row *row = &pair->rows[i];
        const struct change_parts *parts = &row->parts[figure];
        struct flame_sum sum = {.gained = parts->gained, .lost = parts->lost};
        view_sum_set_sides(&sum, estimate_rank(&row->before[figure], view),
                           estimate_rank(&row->after[figure], view), collector->selection->width);
        const struct view_profile *profile =
            view_profiles_of((struct view_profiles *)collector->profiles, row->profile);
        add_sum(collector, profile, row->callsite, &sum);
    }
}

/* --- two dumps of one heap --- */

const struct profile_part *view_part_like(const struct profile_sample *sample,
                                          const struct profile_part *other)
{
    for (uint32_t i = 0; sample != NULL && i < sample->part_count; i++) {
        const struct profile_part *part = &sample->parts[i];
        if (part->tid == other->tid && part->type == other->type && part->context == other->context)
            return part;
    }
    return NULL;
}

static struct rollup_values values_of(const struct profile_part *part)
{
    return part == NULL ? (struct rollup_values){0}
                        : (struct rollup_values){part->figures, part->peak};
}

static struct flame_sum sum_of_change(enum export_view view, struct rollup_values before,
                                      struct rollup_values after)
{
    const struct rollup_values values[] = {before, after};
    const struct change_parts parts = diff_parts_of(values, diff_figure_of(view), true);
    struct flame_sum sum = {.gained = parts.gained, .lost = parts.lost};
    view_sum_set_sides(&sum, estimate_rank(&parts.lost, view), estimate_rank(&parts.gained, view),
                       VIEW_CHANGE);
    return sum;
}

/* Return whether a sample is compared as a whole: its parts are unknown, or have no peak. */
static bool is_whole(const struct profile_sample *sample, enum export_view view)
{
    return sample != NULL && (sample->part_count == 0 || (view == EXPORT_MAX && !sample->tagged));
}

void view_change_each(const struct view_change *change, view_change_taker *take, void *context)
{
    static const struct rollup_values none;
    static const struct profile_part whole = {.type = "", .context = ""};
    const bool whole_before = is_whole(change->before, change->view),
               whole_after = is_whole(change->after, change->view);
    const struct profile_sample *before = whole_before ? NULL : change->before,
                                *after = whole_after ? NULL : change->after;
    if (whole_before || whole_after) {
        const struct flame_sum sum =
            sum_of_change(change->view, whole_before ? rollup_values_of(change->before) : none,
                          whole_after ? rollup_values_of(change->after) : none);
        take(context, &whole, &sum);
    }
    for (uint32_t i = 0; after != NULL && i < after->part_count; i++) {
        const struct profile_part *part = &after->parts[i];
        const struct flame_sum sum =
            sum_of_change(change->view, values_of(view_part_like(before, part)), values_of(part));
        take(context, part, &sum);
    }
    for (uint32_t i = 0; before != NULL && i < before->part_count; i++) {
        const struct profile_part *part = &before->parts[i];
        if (view_part_like(after, part) != NULL)
            continue;
        const struct flame_sum sum = sum_of_change(change->view, values_of(part), none);
        take(context, part, &sum);
    }
}

static void add_part_change(void *context, const struct profile_part *part,
                            const struct flame_sum *more)
{
    (void)part;
    flame_sum_add(context, more);
}

/* Return what a sample has in a view; NULL: nothing. */
static double leaves_rank_of(const struct profile_sample *sample, enum export_view view)
{
    if (sample == NULL)
        return 0;
    const struct rollup_values values = rollup_values_of(sample);
    const struct profile_estimate figure = estimate_of_view(&values, view);
    return estimate_rank(&figure, view);
}

/* Add a stack of two dumps, which may have the same sample. */
static void add_change(void *context, const struct view_change *change)
{
    struct collector *collector = context;
    struct flame_sum sum = {.width = 0};
    if (change->before != change->after)
        view_change_each(change, add_part_change, &sum);
    view_sum_set_sides(&sum, leaves_rank_of(change->before, change->view),
                       leaves_rank_of(change->after, change->view), collector->selection->width);
    if (sum.gained.count != 0 || sum.lost.count != 0 || sum.before != 0 || sum.after != 0)
        add_sum(collector, collector->selection->at.of,
                change->after != NULL ? change->after->callsite : change->before->callsite, &sum);
}

/* Set the bounds of the changes between two dumps of one heap. */
static void bound_changes(struct view_leaves *leaves, const struct view_selection *selection)
{
    enum diff_figure figure = diff_figure_of(selection->view);
    struct export_dump before = selection->base.dump, after = selection->at.dump;
    struct diff_pair pair = {.before = &before,
                             .after = &after,
                             .before_count = 1,
                             .after_count = 1,
                             .same_process = true};
    pair.total.before[figure] = estimate_of_dump(before.dump, selection->view);
    pair.total.after[figure] = estimate_of_dump(after.dump, selection->view);
    for (int counts = 0; counts < 2; counts++)
        leaves->bounds[counts] = diff_bounds_of(&pair, figure, counts != 0);
}

/* Call `take` for each stack of two dumps of one heap; with_unchanged: also for those that both
 * have alike. */
static void leaves_walk_dumps(const struct view_selection *selection, bool with_unchanged,
                              void (*take)(void *context, const struct view_change *change),
                              void *context)
{
    const struct profile_dump *before = view_shown(selection, &selection->base),
                              *after = view_shown(selection, &selection->at);
    const struct profile_sample **by_callsite =
        xcalloc(selection->at.of->profile->callsite_count + 1, sizeof(struct profile_sample *));
    for (size_t i = 0; i < before->sample_count; i++)
        by_callsite[before->samples[i]->callsite] = before->samples[i];
    for (size_t i = 0; i < after->sample_count; i++) {
        const struct profile_sample *sample = after->samples[i];
        const struct view_change change = {by_callsite[sample->callsite], sample, selection->view};
        if (with_unchanged || change.before != sample)
            take(context, &change);
        by_callsite[sample->callsite] = NULL;
    }
    for (size_t i = 0; i < before->sample_count; i++) {
        const struct view_change change = {before->samples[i], NULL, selection->view};
        if (by_callsite[change.before->callsite] != NULL)
            take(context, &change);
    }
    free(by_callsite);
}

void view_changes_walk(const struct view_selection *selection,
                       void (*take)(void *context, const struct view_change *change), void *context)
{
    leaves_walk_dumps(selection, false, take, context);
}

/* Add the stacks of two dumps of one heap. Those that have not changed are a part of both sides. */
static void add_dumps(struct collector *collector)
{
    const struct view_selection *selection = collector->selection;
    const struct profile_heap *heap = selection->at.dump.heap;
    const struct profile_dump *before = view_shown(selection, &selection->base),
                              *after = view_shown(selection, &selection->at);
    struct view_leaves *leaves = collector->leaves;
    reserve_leaves(collector, before->sample_count + after->sample_count);
    leaves->same_process = true;
    leaves->exact = profile_dump_is_exact(heap, before) && profile_dump_is_exact(heap, after);
    leaves->partial = is_partial(heap, before) || is_partial(heap, after);
    leaves->unknown = export_view_is_unknown(heap, selection->view);
    bound_changes(leaves, selection);
    leaves_walk_dumps(selection, true, add_change, collector);
}

/* --- dumps of two heaps --- */

static void add_difference(struct collector *collector)
{
    const struct view_selection *selection = collector->selection;
    const struct export_dump dumps[] = {
        {selection->base.dump.heap, view_shown(selection, &selection->base)},
        {selection->at.dump.heap, view_shown(selection, &selection->at)},
    };
    const struct diff_side before = {selection->base.of->profile, &dumps[0], 1},
                           after = {selection->at.of->profile, &dumps[1], 1};
    const struct diff_options options = {.by = DIMENSION_CALLSITE, .views = 1u << selection->view};
    struct diff *diff = xmalloc_made(diff_new(&before, &after, &options));
    if (diff->pair_count == 0)
        reserve_leaves(collector, 0);
    else
        add_pair(collector, &diff->pairs[0]);
    diff_free(diff);
}

static struct change_sampling sampling_of(const struct view_selection *selection)
{
    const struct profile_heap *at = selection->at.dump.heap, *base = selection->base.dump.heap;
    const struct profile_dump *dump = selection->at.dump.dump,
                              *base_dump = selection->base.dump.dump;
    struct change_sampling sampling = {
        .gained_interval_bytes = view_limits_interval(at),
        .lost_interval_bytes = view_limits_interval(base != NULL ? base : at),
    };
    if (dump != NULL)
        sampling.gained_calibration = sampling.lost_calibration = rollup_calibration_of(at, dump);
    if (base != NULL && base_dump != NULL)
        sampling.lost_calibration = rollup_calibration_of(base, base_dump);
    if (selection->view == EXPORT_MAX && base == NULL)
        return sampling;
    sampling.gained_calibration.peak_bytes_bias = sampling.gained_calibration.peak_count_bias = 0;
    sampling.lost_calibration.peak_bytes_bias = sampling.lost_calibration.peak_count_bias = 0;
    return sampling;
}

void view_leaves_make(struct view_leaves *leaves, struct view_profiles *profiles,
                      const struct view_selection *selection)
{
    struct collector collector = {.leaves = leaves, .profiles = profiles, .selection = selection};
    bool of_heap = selection->base.dump.heap == selection->at.dump.heap;
    *leaves = (struct view_leaves){
        .view = selection->view,
        .sampling = sampling_of(selection),
        .is_of_heap = selection->only.count == 0,
    };
    if (!view_selection_is_difference(selection))
        add_dump(&collector);
    else if (of_heap)
        add_dumps(&collector);
    else
        add_difference(&collector);
    if (view_selection_is_retained(selection))
        add_least(&collector);
    free(collector.places);
}

struct profile_interval view_leaves_limits(const struct view_leaves *leaves,
                                           const struct change *change)
{
    bool partial = change->counted ? change->partial : leaves->partial;
    bool unknown = change->uncertain || partial;
    return unknown ? (struct profile_interval){NAN, NAN} : change->interval;
}

struct change view_leaves_change(const struct view_leaves *leaves, const struct flame_sum *sum,
                                 bool counts, bool of_heap)
{
    const struct change_parts parts = {sum->gained, sum->lost};
    return (of_heap ? change_of_heap : change_of_row)(&parts, counts, &leaves->sampling,
                                                      &leaves->bounds[counts]);
}

struct estimate_shown view_retained_shown(const struct view_selection *selection,
                                          const struct flame_sum *sum, bool counts, bool of_heap)
{
    const struct export_dump *at = &selection->at.dump;
    double value = counts ? sum->gained.count : sum->gained.bytes,
           least = counts ? sum->lost.count : sum->lost.bytes;
    const struct profile_interval low = view_limits(&sum->lost, counts, &selection->least.dump),
                                  high = of_heap ? view_total(at, selection->view, counts).interval
                                                 : view_limits(&sum->gained, counts, at);
    return (struct estimate_shown){value, {fmin(low.low, least), fmax(high.high, value)}};
}

bool view_leaves_are_judged(const struct view_leaves *leaves)
{
    return leaves->view != EXPORT_MAX || leaves->exact;
}

void view_leaves_mark(const struct view_leaves *leaves, const struct change *changes, size_t count,
                      bool *marks)
{
    xmalloc_code(change_mark(changes, count, marks));
    if (!view_leaves_are_judged(leaves))
        memset(marks, 0, count * sizeof(*marks));
}

void view_leaves_free(struct view_leaves *leaves)
{
    free(leaves->items);
    *leaves = (struct view_leaves){0};
}
