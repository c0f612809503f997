/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a difference as text: a header with both sides and the totals, then the largest
 * changes. */
#include <math.h>
#include <stdlib.h>

#include "profile/compare/first_view.h"
#include "profile/partial.h"
#include "tools/cli/compare/compare.h"
#include "tools/cli/compare/compare_format.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

#define FIGURES_COLUMNS 72 /* of a row, before its text */
/* The peak comes first if it changed this many times as much as what was live at the end. */
#define PEAK_TIMES 10

struct page {
    const struct diff_pair *pair;
    const struct compare_options *options;
    enum export_view view;
    FILE *out;
    bool *has_marks; /* a printed line is marked */
};

/* --- names of rows --- */

static void print_module(const struct page *page, const struct diff_row *row)
{
    const struct profile_frame *frame = &row->profile->frames[row->frame];
    const char *path =
        frame->mapping == PROFILE_NONE ? "" : row->profile->mappings[frame->mapping].path;
    format_print(page->out,
                 *path == '\0' ? dimension_info[DIMENSION_MODULE].nothing : base_name(path),
                 FORMAT_WORD_WIDTH);
}

static void print_name(const struct page *page, const struct diff_row *row)
{
    enum dimension by = page->options->diff.by;
    if (by == DIMENSION_CALLSITE) {
        compare_print_row(page->options->shown, page->pair, row, page->view, page->options->stacks,
                          FIGURES_COLUMNS, page->out);
        return;
    } else if (by == DIMENSION_FUNCTION) {
        const struct stack_format format =
            compare_stacks_format(page->options->shown, row->profile, FIGURES_COLUMNS);
        stack_format_print_frame(&format, row->frame, format.columns, format.lines, true,
                                 page->out);
    } else if (by == DIMENSION_MODULE) {
        print_module(page, row);
    } else {
        if (row->tid != 0)
            fprintf(page->out, "%d ", row->tid);
        format_print(page->out, *row->label != '\0' ? row->label : dimension_info[by].nothing,
                     FORMAT_LINE_WIDTH);
    }
    fputc('\n', page->out);
}

/* --- tables --- */

static void print_row(const struct page *page, const struct diff_row *row)
{
    const struct compare_columns columns = {page->view, 11, 21, true, true};
    bool counts = export_view_counts_calls(page->view);
    const struct profile_estimate *before = &row->before[diff_figure_of(page->view)];
    const struct profile_estimate *after = &row->after[diff_figure_of(page->view)];
    double other = counts ? after->bytes - before->bytes : after->count - before->count;
    const struct formatted with = format_signed(other, !counts);
    *page->has_marks |= compare_print_change(&columns, page->pair, row, page->out);
    fprintf(page->out, "%*s %10s %10s  ", format_width(&with, 11), with.bytes,
            format_amount(counts ? before->count : before->bytes, counts).bytes,
            format_amount(counts ? after->count : after->bytes, counts).bytes);
    print_name(page, row);
}

static bool is_shown(const struct page *page, const struct diff_row *row)
{
    /* Less than half a byte is rounding. */
    return fabs(row->changes[page->view].value) >= 0.5;
}

static void print_table(const struct page *page, const struct diff_row **rows, size_t count,
                        bool grown)
{
    enum export_view view = page->view;
    bool counts = export_view_counts_calls(view);
    size_t shown = 0, all = 0, top = page->options->top;
    for (size_t i = 0; i < count; i++) {
        if (!is_shown(page, rows[i]) || (rows[i]->changes[view].value > 0) != grown)
            continue;
        if (all++ == 0) {
            char title[80];
            snprintf(title, sizeof(title), "%s%s%s", grown ? "What grew" : "What shrank",
                     view != EXPORT_SPACE ? ": " : "",
                     view != EXPORT_SPACE ? export_view_info[view].title : "");
            format_print_title(page->out, title, page->options->colours);
            fprintf(page->out, "%11s   %-21s %11s %10s %10s  %s\n", counts ? "count" : "bytes",
                    "95 %", counts ? "bytes" : "count", "before", "after",
                    dimension_info[page->options->diff.by].head);
        }
        if (top != 0 && all > top)
            continue;
        print_row(page, rows[i]);
        shown++;
    }
    if (shown < all)
        fprintf(page->out, "%11s   (%s more; --top 0 shows all)\n", "...",
                format_count((double)(all - shown)).bytes);
}

/* --- the head --- */

/* Print the process and its dump, as far as the file tells them. */
static void print_moment(const struct page *page, const struct profile_process *process,
                         const struct export_dump *dump)
{
    const struct profile_heap *heap = dump->heap;
    if (process->pid != 0)
        fprintf(page->out, " %d", process->pid);
    fprintf(page->out, "%sdump %zu of %zu",
            process->pid != 0 || process->name[0] != '\0' ? ", " : "",
            (size_t)(dump->dump - heap->dumps) + 1, heap->dump_count);
    if (profile_has_duration(heap, dump->dump))
        fprintf(page->out, ", at %.2f s",
                (double)(dump->dump->boottime_ns - heap->start_boottime_ns) / 1e9);
}

static void print_side(const struct page *page, const char *name,
                       const struct compare_source *source, const struct export_dump *dumps,
                       size_t count)
{
    fprintf(page->out, "  %-9s", name);
    if (count == 0) {
        fputs("not there\n", page->out);
        return;
    }
    const struct profile_heap *heap = dumps[0].heap;
    const struct profile_process *process = &source->profile->processes[heap->process];
    format_print(page->out, source->argument, FORMAT_LINE_WIDTH);
    fputs(": ", page->out);
    format_print(page->out, process->name, FORMAT_WORD_WIDTH);
    if (count > 1)
        fprintf(page->out, ", %zu processes", count);
    else
        print_moment(page, process, &dumps[0]);
    if (heap->interval_bytes > 0)
        fprintf(page->out, ", interval %s B\n", format_count((double)heap->interval_bytes).bytes);
    else
        fputs(", at an unknown interval: no ± can be computed\n", page->out);
    compare_print_widened(page->out, dumps, count);
    if (compare_is_unseen(dumps, count))
        fputs("  unknown  no call of the allocator was seen: heap_profile report explains why\n",
              page->out);
    for (size_t i = 0; i < count; i++) {
        if (!dumps[i].heap->unseen && profile_dump_is_partial(dumps[i].heap, dumps[i].dump)) {
            fputs("  partial  samples are missing on this side: heap_profile report lists which\n",
                  page->out);
            break;
        }
    }
}

/* Return whether a change without samples is possible. */
static bool has_margin(const struct change *change)
{
    return change->interval.high >= 0.5 || change->interval.low <= -0.5;
}

/* Return whether any row differs in any view. */
static bool differs(const struct diff_pair *pair)
{
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
        if (!diff_is_unknown(pair, view) && has_margin(&pair->total.changes[view]))
            return true;
    for (size_t i = 0; i < pair->row_count; i++)
        for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
            if (!diff_is_unknown(pair, view) && pair->rows[i].changes[view].value != 0)
                return true;
    return false;
}

static void print_head(const struct page *page, const struct compare_source sources[2])
{
    static const enum export_view views[] = {EXPORT_SPACE, EXPORT_OBJECTS, EXPORT_ALLOC_SPACE,
                                             EXPORT_ALLOC_OBJECTS, EXPORT_MAX};
    const struct diff_pair *pair = page->pair;
    const struct export_dump *dump = pair->after_count > 0 ? pair->after : pair->before;
    const struct profile *profile = sources[pair->after_count > 0].profile;
    const struct profile_process *process = &profile->processes[dump->heap->process];
    char title[FORMAT_WORD_WIDTH * 2];
    snprintf(title, sizeof(title), "%.200s, heap %.200s",
             *process->name != '\0' ? process->name : "(a process without a name)",
             dump->heap->name);
    format_print_title(page->out, title, page->options->colours);
    print_side(page, "before", &sources[0], pair->before, pair->before_count);
    print_side(page, "after", &sources[1], pair->after, pair->after_count);
    if (pair->same_process)
        fputs("  same      one process: samples that live in both dumps cancel\n", page->out);
    compare_print_filter(page->out, profile->filter, pair, page->view);
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]) && differs(pair); i++) {
        enum export_view view = views[i];
        const struct change *change = &pair->total.changes[view];
        bool counts = export_view_counts_calls(view);
        if (diff_is_unknown(pair, view)) {
            fprintf(page->out, "    %-38s %11s not in both files\n", export_view_info[view].title,
                    "?");
            continue;
        }
        const struct formatted margin = compare_margin(page->pair, change, counts);
        *page->has_marks |= pair->total.marks[view];
        const struct formatted value = format_signed(change->value, counts);
        fprintf(page->out, "  %c %-38s %*s %s\n", pair->total.marks[view] ? '*' : ' ',
                export_view_info[view].title, format_width(&value, 11), value.bytes, margin.bytes);
    }
}

/* Print that nothing differs. If both sides are one dump, say so. */
static void print_no_difference(const struct page *page)
{
    const struct export_dump *before = page->pair->before, *after = page->pair->after;
    bool is_one = page->pair->before_count == 1 && page->pair->after_count == 1 &&
                  before->dump == after->dump;
    fputs("\nno difference\n", page->out);
    if (is_one && after->heap->dump_count == 1)
        fputs("both are the only dump of the profile: record with -c 1s for one each second\n",
              page->out);
    else if (is_one)
        fputs("both are the same dump\n", page->out);
}

static void print_legend(const struct page *page, bool has_rows)
{
    if (*page->has_marks)
        fputs("\n* more than sampling alone explains (99 % for the whole table, by Holm)\n",
              page->out);
    if (has_rows && !page->pair->exact && page->view == EXPORT_MAX)
        fputs("\nat the peak only the total is marked: samples decide which moment that is\n",
              page->out);
}

static void print_pair(const struct page *page, const struct compare_source sources[2])
{
    size_t count = 0, shown = 0;
    const struct diff_row **rows = xmalloc_made(diff_rank(page->pair, page->view, &count));
    print_head(page, sources);
    if (compare_is_unseen(page->pair->before, page->pair->before_count) ||
        compare_is_unseen(page->pair->after, page->pair->after_count)) {
        fputs("\nA side is unknown: nothing can be compared\n", page->out);
        free(rows);
        return;
    }
    if (diff_is_unknown(page->pair, page->view)) {
        fprintf(page->out, "\n%s: not in one of the files; try --view %s\n",
                export_view_info[page->view].title,
                page->view == EXPORT_SPACE ? "alloc_space" : "space");
        free(rows);
        return;
    }
    for (size_t i = 0; i < count; i++)
        shown += is_shown(page, rows[i]);
    print_table(page, rows, count, true);
    print_table(page, rows, count, false);
    if (!differs(page->pair))
        print_no_difference(page);
    else if (page->options->diff.by == DIMENSION_THREAD && page->view == EXPORT_MAX)
        fputs("\nthe peaks of threads are unknown: choose another --view\n", page->out);
    else if (shown == 0)
        fprintf(page->out, "\nno difference in %s by %s\n", export_view_info[page->view].title,
                dimension_names[page->options->diff.by]);
    print_legend(page, shown > 0);
    free(rows);
}

/* Return whether one of the programs still held memory at its dump. */
static bool is_held(const struct compare_stacks *stacks, int side, const struct export_dump *dumps,
                    size_t count)
{
    const struct folding *folding = stacks->all_frames ? NULL : &stacks->foldings[side];
    for (size_t i = 0; i < count; i++)
        if (first_view(stacks->profiles[side], folding, dumps[i].heap, dumps[i].dump) ==
            EXPORT_SPACE)
            return true;
    return false;
}

static bool has_ended(const struct export_dump *dumps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!dumps[i].dump->final || dumps[i].heap->status.exit_status < 0)
            return false;
    return count > 0;
}

/* Return whether all programs have ended, and their peaks differ much more than what they held
 * then. */
static bool differs_at_peak(const struct diff_pair *pair)
{
    const struct diff_row *total = &pair->total;
    return has_ended(pair->before, pair->before_count) &&
           has_ended(pair->after, pair->after_count) && total->marks[EXPORT_MAX] &&
           fabs(total->changes[EXPORT_MAX].value) >=
               PEAK_TIMES * fabs(total->changes[EXPORT_SPACE].value);
}

/* Return the view that answers first. Peaks of threads are unknown. */
static enum export_view view_of(const struct diff_pair *pair, const struct compare_options *options)
{
    if (options->view != EXPORT_VIEWS)
        return options->view;
    if (options->diff.by == DIMENSION_THREAD || diff_is_unknown(pair, EXPORT_MAX))
        return EXPORT_SPACE;
    bool is_any_held = is_held(options->shown, 0, pair->before, pair->before_count) ||
                       is_held(options->shown, 1, pair->after, pair->after_count);
    return is_any_held && !differs_at_peak(pair) ? EXPORT_SPACE : EXPORT_MAX;
}

void compare_print_text(const struct diff *diff, const struct compare_source sources[2],
                        const struct compare_options *options, FILE *out)
{
    for (size_t i = 0; i < diff->pair_count; i++) {
        bool has_marks = false;
        const struct diff_pair *pair = &diff->pairs[i];
        struct page page = {pair, options, view_of(pair, options), out, &has_marks};
        print_pair(&page, sources);
    }
}
