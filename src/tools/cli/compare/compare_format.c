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

/* List the row's stacks of the side that its name is taken from; of one process, what both dumps
 * have is taken off. Return how many. */
static size_t list_stacks(const struct compare_stacks *stacks, const struct diff_pair *pair,
                          const struct diff_row *row, enum export_view view,
                          struct row_stack *listed)
{
    const struct diff_stack *from = pair->stacks + row->stack_first;
    size_t used = 0, count = 0;
    for (size_t i = 0; i < row->stack_count; i++) {
        double value = export_view_value(from[i].sample, view);
        uint32_t callsite = from[i].sample->callsite;
        if (stacks->profiles[from[i].side] != row->profile)
            continue;
        if (used == 0 || listed[used - 1].callsite != callsite)
            listed[used++] = (struct row_stack){.callsite = callsite};
        listed[used - 1].rank += pair->same_process && from[i].side == 0 ? -value : value;
    }
    for (size_t i = 0; i < used; i++) {
        listed[i].rank = fabs(listed[i].rank);
        if (listed[i].rank > 0)
            listed[count++] = listed[i];
    }
    return count;
}

void compare_print_row(const struct compare_stacks *stacks, const struct diff_pair *pair,
                       const struct diff_row *row, enum export_view view, bool whole,
                       size_t figures, FILE *out)
{
    const struct stack_format format = compare_stacks_format(stacks, row->profile, figures);
    struct row_stack *listed = xcalloc(row->stack_count + 1, sizeof(*listed));
    size_t count = row->stack_count > 0 ? list_stacks(stacks, pair, row, view, listed) : 0;
    uint32_t callsite = row->callsite;
    if (count > 0) {
        size_t heaviest = 0;
        for (size_t i = 1; i < count; i++)
            heaviest = listed[i].rank > listed[heaviest].rank ? i : heaviest;
        callsite = listed[heaviest].callsite;
        row_stacks_print(&format, callsite, listed, count, out);
    } else {
        stack_format_print_row(&format, callsite, out);
        fputc('\n', out);
    }
    if (whole)
        stack_format_print_stack(&format, callsite, 0, STACK_INDENT, out);
    free(listed);
}
