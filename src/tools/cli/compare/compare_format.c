/* SPDX-License-Identifier: Apache-2.0 */
/* Formats changes, their margins and call stacks. */
#include "tools/cli/compare/compare_format.h"

#include <math.h>
#include <stdlib.h>

#include "profile/view.h"
#include "tools/cli/options/profile_options.h"
#include "tools/cli/report/row_stacks.h"
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

/* The stacks of a row on the side that is printed: after a growth the later one. */
struct shown_stacks {
    const struct profile *profile;
    struct row_stack *items; /* the rank is the change: above 0 if it goes the row's way */
    size_t count;
    struct row_lines lines;
};

static const struct profile *profile_of_side(const struct compare_stacks *stacks, int side)
{
    return stacks->profiles[side] != NULL ? stacks->profiles[side] : stacks->profiles[1];
}

/* List the stacks to print, and add up the changes of lines over both sides. */
static void list_stacks(const struct compare_stacks *stacks, const struct diff_pair *pair,
                        const struct diff_row *row, enum export_view view, double direction,
                        struct shown_stacks *shown)
{
    const struct diff_stack *from = pair->stacks + row->stack_first;
    shown->profile = profile_of_side(stacks, direction < 0 ? 0 : 1);
    for (size_t i = 0; i < row->stack_count; i++) {
        const struct profile *profile = profile_of_side(stacks, from[i].side);
        uint32_t callsite = from[i].sample->callsite;
        double value = export_view_value(from[i].sample, view);
        double change = from[i].side == 0 ? -value : value;
        bool may_show = profile == shown->profile;
        row_lines_add(&shown->lines, compare_stacks_format(stacks, profile, 0).folding, profile,
                      callsite, change, may_show ? value : -1);
        if (!may_show)
            continue;
        if (shown->count == 0 || shown->items[shown->count - 1].callsite != callsite)
            shown->items[shown->count++] = (struct row_stack){.callsite = callsite};
        shown->items[shown->count - 1].rank += direction * change;
    }
}

/* Take out what changed the other way, and put the greatest change first. */
static void keep_changed(struct shown_stacks *shown)
{
    size_t count = 0, heaviest = 0;
    for (size_t i = 0; i < shown->count; i++)
        if (shown->items[i].rank > 0)
            shown->items[count++] = shown->items[i];
    shown->count = count;
    for (size_t i = 1; i < count; i++)
        heaviest = shown->items[i].rank > shown->items[heaviest].rank ? i : heaviest;
    if (count > 0) {
        struct row_stack first = shown->items[0];
        shown->items[0] = shown->items[heaviest];
        shown->items[heaviest] = first;
    }
}

void compare_print_row(const struct compare_stacks *stacks, const struct diff_pair *pair,
                       const struct diff_row *row, enum export_view view, bool whole,
                       size_t figures, FILE *out)
{
    const double direction = row->changes[view].value < 0 ? -1 : 1;
    bool is_one = stacks->profiles[0] == NULL || stacks->profiles[0] == stacks->profiles[1];
    struct shown_stacks shown = {.items = xcalloc(row->stack_count + 1, sizeof(*shown.items))};
    struct stack_format format = compare_stacks_format(stacks, row->profile, figures);
    uint32_t callsite = row->callsite;
    if (row->stack_count > 0) {
        list_stacks(stacks, pair, row, view, direction, &shown);
        keep_changed(&shown);
    }
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
            format.own_lines = row_lines_most(&shown.lines, direction, &callsite);
        }
        stack_format_print_row(&format, callsite, out);
        fputc('\n', out);
    }
    if (whole)
        stack_format_print_stack(&format, callsite, 0, STACK_INDENT, out);
    free(shown.items);
}
