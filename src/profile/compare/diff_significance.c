/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the rows of a difference: bounds the memory that each side may have had without samples,
 * then computes the changes and marks those beyond chance. */
#include "profile/compare/diff_significance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "profile/partial.h"

static bool is_judged(const struct diff_options *options, enum export_view view)
{
    return options->views == 0 || (options->views >> view & 1) != 0;
}

/* --- bounds by the exact totals --- */

/* Set the bounds of one side: the sums over all its processes. */
static void bound_side(const struct export_dump *dumps, size_t count, bool counts, double *most,
                       struct unseen *unseen)
{
    bool known = true;
    *most = 0;
    *unseen = (struct unseen){0};
    for (size_t i = 0; i < count; i++) {
        double one = rollup_most(dumps[i].heap, dumps[i].dump, counts);
        *unseen = unseen_add(*unseen, unseen_of(dumps[i].heap, dumps[i].dump, counts));
        *most += one;
        known &= one > 0;
    }
    if (!known)
        *most = 0;
}

/* Set the bounds of a process's later dump: memory that only this dump has was allocated after the
 * earlier dump. */
static void bound_later(const struct export_dump *earlier, const struct export_dump *later,
                        bool counts, double *most, struct unseen *unseen)
{
    double before = rollup_most(earlier->heap, earlier->dump, counts);
    *most = before > 0 && *most > before ? *most - before : 0;
    *unseen = unseen_between(later->heap, earlier->dump, later->dump, counts);
}

static enum export_view view_of(enum diff_figure figure, bool counts)
{
    return figure == DIFF_PEAK        ? EXPORT_MAX
           : figure == DIFF_ALLOCATED ? (counts ? EXPORT_ALLOC_OBJECTS : EXPORT_ALLOC_SPACE)
                                      : (counts ? EXPORT_OBJECTS : EXPORT_SPACE);
}

/* Return the sum of one side's heaps as reports show them. Clear bounds->has_totals if a filter
 * leaves out a part of one, bounds->counted unless all of them are counted. Set bounds->partial if
 * a count lacks calls. */
static double total_of_side(const struct export_dump *dumps, size_t count, enum export_view view,
                            bool counts, struct change_bounds *bounds)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct profile_dump *dump = dumps[i].dump;
        bounds->has_totals &= dump->left_out.callsites == 0;
        bounds->counted &= estimate_is_counted(dumps[i].heap, dump, view);
        bounds->partial |= profile_totals_why_partial(dumps[i].heap, dump) != NULL;
        sum += estimate_total(dumps[i].heap, dump, view, counts).value;
    }
    return sum;
}

static void set_totals(struct change_bounds *bounds, const struct diff_pair *pair,
                       enum diff_figure figure, bool counts)
{
    enum export_view view = view_of(figure, counts);
    bounds->has_totals = bounds->counted = true;
    bounds->before = total_of_side(pair->before, pair->before_count, view, counts, bounds);
    bounds->after = total_of_side(pair->after, pair->after_count, view, counts, bounds);
    bounds->counted &= bounds->has_totals;
    bounds->partial &= bounds->counted;
}

struct change_bounds diff_bounds_of(const struct diff_pair *pair, enum diff_figure figure,
                                    bool counts)
{
    struct change_bounds bounds = {.apart = !pair->same_process};
    set_totals(&bounds, pair, figure, counts);
    bound_side(pair->before, pair->before_count, counts, &bounds.lost_most, &bounds.lost_unseen);
    bound_side(pair->after, pair->after_count, counts, &bounds.gained_most, &bounds.gained_unseen);
    if (!pair->same_process)
        return bounds;
    const struct profile_dump *before = pair->before->dump, *after = pair->after->dump;
    bounds.same = before->boottime_ns == after->boottime_ns;
    bool forward = after->boottime_ns >= before->boottime_ns;
    struct unseen *early = forward ? &bounds.lost_unseen : &bounds.gained_unseen;
    if (figure == DIFF_PEAK)
        bounds.same |=
            profile_estimate_is_same(&pair->total.before[figure], &pair->total.after[figure]);
    else if (forward)
        bound_later(pair->before, pair->after, counts, &bounds.gained_most, &bounds.gained_unseen);
    else
        bound_later(pair->after, pair->before, counts, &bounds.lost_most, &bounds.lost_unseen);
    if (figure == DIFF_ALLOCATED)
        *early = (struct unseen){0};
    if (bounds.same)
        bounds.lost_unseen = bounds.gained_unseen = (struct unseen){0};
    return bounds;
}

/* --- judging --- */

static void judge_row(const struct diff_options *options, const struct diff_pair *pair,
                      struct diff_row *row)
{
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
        enum diff_figure figure = diff_figure_of(view);
        bool counts = export_view_counts_calls(view);
        if (is_judged(options, view))
            row->changes[view] = (row == &pair->total ? change_of_heap : change_of_row)(
                &row->parts[figure], counts, &pair->sampling, &pair->bounds[figure][counts]);
    }
}

/* Let the sides of the total be what reports show. */
static void show_totals(struct diff_pair *pair)
{
    for (enum diff_figure figure = 0; figure < DIFF_FIGURES; figure++) {
        const struct change_bounds *bytes = &pair->bounds[figure][0],
                                   *counts = &pair->bounds[figure][1];
        if (!bytes->has_totals)
            continue;
        pair->total.before[figure].bytes = bytes->before;
        pair->total.before[figure].count = counts->before;
        pair->total.after[figure].bytes = bytes->after;
        pair->total.after[figure].count = counts->after;
    }
}

int diff_judge_significance(const struct diff_options *options, struct diff_pair *pair)
{
    struct change *changes = calloc(pair->row_count + 1, sizeof(*changes));
    bool *marks = calloc(pair->row_count + 1, sizeof(*marks));
    int code = changes == NULL || marks == NULL ? -ENOMEM : 0;
    for (enum diff_figure figure = 0; figure < DIFF_FIGURES; figure++)
        for (int counts = 0; counts < 2; counts++)
            pair->bounds[figure][counts] = diff_bounds_of(pair, figure, counts != 0);
    judge_row(options, pair, &pair->total);
    show_totals(pair);
    for (size_t i = 0; i < pair->row_count; i++)
        judge_row(options, pair, &pair->rows[i]);
    for (enum export_view view = 0; view < EXPORT_VIEWS && code == 0; view++) {
        if (!is_judged(options, view))
            continue;
        for (size_t i = 0; i < pair->row_count; i++)
            changes[i] = pair->rows[i].changes[view];
        code = change_mark(changes, pair->row_count, marks);
        /* A row's figure at the peak depends on which moment is the peak, and samples decide that,
         * too. */
        if (view == EXPORT_MAX && !pair->exact)
            memset(marks, 0, pair->row_count * sizeof(*marks));
        for (size_t i = 0; i < pair->row_count && code == 0; i++)
            pair->rows[i].marks[view] = marks[i];
        if (code == 0)
            code = change_mark(&pair->total.changes[view], 1, &pair->total.marks[view]);
    }
    free(changes);
    free(marks);
    return code;
}
