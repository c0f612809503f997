/* SPDX-License-Identifier: Apache-2.0 */
/* Formats changes, their margins and what was left out. */
#include "tools/cli/compare/compare_format.h"

#include <math.h>
#include <stdlib.h>

#include "profile/view.h"
#include "tools/cli/options/profile_options.h"
#include "util/xmalloc.h"

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
