/* SPDX-License-Identifier: Apache-2.0 */
/* Formats changes, their margins and call stacks. */
#include "tools/cli/compare/compare_format.h"

#include <math.h>
#include <stdlib.h>

#include "profile/view.h"
#include "tools/cli/options/profile_options.h"
#include "util/xmalloc.h"

#define STACK_INDENT "              "

struct formatted compare_margin(const struct diff_pair *pair, const struct change *change,
                                bool counts)
{
    struct formatted text;
    if (pair->exact || (change->counted && !change->partial))
        snprintf(text.bytes, sizeof(text.bytes), "exact");
    else if (change->partial || pair->partial)
        snprintf(text.bytes, sizeof(text.bytes), "partial");
    else if (change->uncertain)
        snprintf(text.bytes, sizeof(text.bytes), "± unknown");
    else
        return format_margin(change->value, change->interval.low, change->interval.high, counts);
    return text;
}

bool compare_print_change(const struct compare_columns *columns, const struct diff_pair *pair,
                          const struct diff_row *row, FILE *out)
{
    bool counts = export_view_counts_calls(columns->view),
         is_marked = columns->marks && row->marks[columns->view];
    const struct change *change = &row->changes[columns->view];
    struct formatted value = {"?"}, margin = {""};
    if (!diff_is_unknown(pair, columns->view)) {
        value = columns->is_signed ? format_signed(change->value, counts)
                                   : format_amount(change->value, counts);
        margin = compare_margin(pair, change, counts);
    }
    fprintf(out, "%*s %c %-*s ", format_width(&value, columns->value_width), value.bytes,
            is_marked ? '*' : ' ', format_width(&margin, columns->margin_width), margin.bytes);
    return is_marked;
}

struct formatted compare_time_of(const struct profile_heap *heap, const struct profile_dump *dump)
{
    return format_time((double)(dump->boottime_ns - heap->start_boottime_ns) / 1e9);
}

/* Return the dump of the heap that was widened most; NULL: none was. */
static const struct profile_heap *widest(const struct export_dump *dumps, size_t count)
{
    const struct profile_heap *widest = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct profile_heap *heap = dumps[i].heap;
        if (profile_is_widened(heap) &&
            (widest == NULL || heap->interval_bytes > widest->interval_bytes))
            widest = heap;
    }
    return widest;
}

struct widened_text compare_widened(const struct export_dump *dumps, size_t count)
{
    const struct profile_heap *heap = widest(dumps, count);
    return heap != NULL ? widened_text(heap) : (struct widened_text){""};
}

void compare_print_widened(FILE *out, const struct export_dump *dumps, size_t count)
{
    const struct profile_heap *heap = widest(dumps, count);
    if (heap != NULL)
        widened_print(out, "  note     ", heap);
}

bool compare_is_unseen(const struct export_dump *dumps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (dumps[i].heap->unseen)
            return true;
    return false;
}

void compare_left_out(const struct export_dump *dumps, size_t count, enum export_view view,
                      double *part, double *whole)
{
    bool counts = export_view_counts_calls(view);
    *part = *whole = 0;
    for (size_t i = 0; i < count; i++) {
        struct rollup_values left = rollup_values_of(&dumps[i].dump->left_out.sum);
        struct profile_estimate one = diff_estimate_of(&left, diff_figure_of(view));
        *part += counts ? one.count : one.bytes;
        for (size_t j = 0; j < dumps[i].dump->sample_count; j++) {
            struct rollup_values kept = rollup_values_of(dumps[i].dump->samples[j]);
            one = diff_estimate_of(&kept, diff_figure_of(view));
            *whole += counts ? one.count : one.bytes;
        }
    }
    *whole += *part;
}

void compare_print_filter(FILE *out, const char *filter, const struct diff_pair *pair,
                          enum export_view view)
{
    bool counts = export_view_counts_calls(view);
    double part, whole;
    if (*filter == '\0')
        return;
    fputs("  filter    ", out);
    format_print(out, filter, FORMAT_LINE_WIDTH);
    fputs(" leaves out ", out);
    compare_left_out(pair->before, pair->before_count, view, &part, &whole);
    if (pair->before_count > 0)
        fprintf(out, "%s before%s", profile_options_share(part, whole, counts).bytes,
                pair->after_count > 0 ? ", " : "");
    compare_left_out(pair->after, pair->after_count, view, &part, &whole);
    if (pair->after_count > 0)
        fprintf(out, "%s%s", profile_options_share(part, whole, counts).bytes,
                pair->before_count > 0 ? " after" : "");
    fputc('\n', out);
}

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
