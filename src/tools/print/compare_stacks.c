/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the stack of each row that is printed. */
#include "tools/print/compare_stacks.h"

#include <math.h>
#include <stdlib.h>

#include "profile/view.h"
#include "util/xmalloc.h"

#define STACK_INDENT "              "

void compare_stacks_make(struct compare_stacks *stacks)
{
    for (int i = 0; i < 2 && !stacks->all_frames; i++)
        if (stacks->profiles[i] != NULL)
            xmalloc_code(folding_make(&stacks->foldings[i], stacks->profiles[i]));
}

void compare_stacks_clear(struct compare_stacks *stacks)
{
    folding_clear(&stacks->foldings[0]);
    folding_clear(&stacks->foldings[1]);
}

struct stack_format compare_stacks_format(const struct compare_stacks *stacks,
                                          const struct profile *profile, size_t figures)
{
    int side = profile == stacks->profiles[0] ? 0 : 1;
    return (struct stack_format){
        .profile = profile,
        .folding = stacks->all_frames ? NULL : &stacks->foldings[side],
        .lines = stacks->lines,
        .simple = stacks->simple,
        .columns = stack_format_room(stacks->columns, figures),
        .line_columns = stacks->columns,
    };
}

static const struct profile *profile_of_side(const struct compare_stacks *stacks, int side)
{
    return stacks->profiles[side] != NULL ? stacks->profiles[side] : stacks->profiles[1];
}

/* Return whether a row has grown, 1, or shrunk, -1. */
static double direction_of(const struct diff_row *row, enum export_view view)
{
    return row->changes[view].value < 0 ? -1 : 1;
}

/* Return by how much a stack's side changes its row. */
static double change_of(const struct diff_stack *stack, enum export_view view)
{
    double value = export_view_value(stack->sample, view);
    return stack->side == 0 ? -value : value;
}

struct compare_row_stacks compare_row_stacks_of(const struct compare_stacks *stacks,
                                                const struct diff_pair *pair,
                                                const struct diff_row *row, enum export_view view)
{
    const double direction = direction_of(row, view);
    struct compare_row_stacks all = {
        .profile = profile_of_side(stacks, direction < 0 ? 0 : 1),
        .items = xcalloc(row->stack_count + 1, sizeof(*all.items)),
    };
    size_t used = 0, most = 0;
    for (size_t i = 0; i < row->stack_count; i++) {
        const struct diff_stack *stack = &pair->stacks[row->stack_first + i];
        uint32_t callsite = stack->sample->callsite;
        if (profile_of_side(stacks, stack->side) != all.profile)
            continue;
        if (used == 0 || all.items[used - 1].callsite != callsite)
            all.items[used++] = (struct row_stack){.callsite = callsite};
        all.items[used - 1].rank += direction * change_of(stack, view);
    }
    for (size_t i = 0; i < used; i++)
        if (all.items[i].rank > 0)
            all.items[all.count++] = all.items[i];
    for (size_t i = 1; i < all.count; i++)
        most = all.items[i].rank > all.items[most].rank ? i : most;
    const struct row_stack first = all.items[0];
    all.items[0] = all.items[most];
    all.items[most] = first;
    return all;
}

/* Find the source line that changed most over both sides. Return how many lines there are, and set
 * *callsite to a stack of that line, as row_lines_most(). */
static uint32_t find_line(const struct compare_stacks *stacks, const struct diff_pair *pair,
                          const struct diff_row *row, enum export_view view,
                          const struct profile *shown, uint32_t *callsite)
{
    struct row_lines lines = {0};
    for (size_t i = 0; i < row->stack_count; i++) {
        const struct diff_stack *stack = &pair->stacks[row->stack_first + i];
        const struct profile *profile = profile_of_side(stacks, stack->side);
        double change = change_of(stack, view);
        row_lines_add(&lines, compare_stacks_format(stacks, profile, 0).folding, profile,
                      stack->sample->callsite, change, profile == shown ? fabs(change) : -1);
    }
    return row_lines_most(&lines, direction_of(row, view), callsite);
}

void compare_print_row(const struct compare_stacks *stacks, const struct diff_pair *pair,
                       const struct diff_row *row, enum export_view view, bool whole,
                       size_t figures, FILE *out)
{
    bool is_one = stacks->profiles[0] == NULL || stacks->profiles[0] == stacks->profiles[1];
    struct stack_format format = compare_stacks_format(stacks, row->profile, figures);
    struct compare_row_stacks shown = compare_row_stacks_of(stacks, pair, row, view);
    uint32_t callsite = row->callsite;
    if (shown.count > 0) {
        format = compare_stacks_format(stacks, shown.profile, figures);
        callsite = shown.items[0].callsite;
    }
    if (shown.count > 0 && is_one) {
        row_stacks_print(&format, callsite, shown.items, shown.count, out);
    } else {
        /* Of two profiles, how the callers share the change is unknown. */
        if (shown.count > 0) {
            uint32_t run_time =
                row_stacks_run_time(format.folding, shown.profile, shown.items, shown.count);
            format.run_time_frame = run_time == PROFILE_NONE ? 0 : 1 + run_time;
            format.own_lines = find_line(stacks, pair, row, view, shown.profile, &callsite);
        }
        stack_format_print_row(&format, callsite, out);
        fputc('\n', out);
    }
    if (whole)
        stack_format_print_stack(&format, callsite, 0, STACK_INDENT, out);
    free(shown.items);
}
