/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the leaks as text. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/compare/growth_table.h"
#include "tools/cli/compare/leaks.h"
#include "tools/print/turnover_text.h"

#define TYPE_WIDTH 80
#define TYPES_SHOWN 6

#define BOLD "\033[1m"
#define PLAIN "\033[0m"

struct page {
    const struct leaks *leaks;
    const struct leaks_heap *heap;
    FILE *out;
    bool *has_marks; /* a printed row is marked */
};

static bool is_difference(const struct page *page)
{
    return page->leaks->before != NULL;
}

static bool is_unknown(const struct page *page, enum export_view view)
{
    return diff_is_unknown(page->heap->pair, view);
}

static struct formatted size_text(const struct page *page, double value, bool counts)
{
    if (counts && is_unknown(page, EXPORT_OBJECTS))
        return (struct formatted){"?"};
    return is_difference(page) ? format_signed(value, counts) : format_amount(value, counts);
}

/* --- an entry --- */

static void print_types(const struct page *page, const struct diff_row *row)
{
    const struct diff_type *types = &page->heap->pair->types[row->type_first];
    size_t shown = 0, left = 0;
    bool named = false;
    for (size_t i = 0; i < row->type_count; i++)
        named |= strcmp(types[i].type, DIFF_NO_TYPE) != 0;
    for (size_t i = 0; named && i < row->type_count; i++) {
        double count = growth_type_count(&types[i]);
        if (count == 0)
            continue;
        if (shown == TYPES_SHOWN) {
            left++;
            continue;
        }
        fputs(shown++ == 0 ? GROWTH_TABLE_INDENT "by type: " : ", ", page->out);
        bool is_typed = strcmp(types[i].type, DIFF_NO_TYPE) != 0;
        format_print(page->out, is_typed ? types[i].type : dimension_info[DIMENSION_TYPE].nothing,
                     TYPE_WIDTH);
        fprintf(page->out, " %s", size_text(page, count, true).bytes);
    }
    if (left > 0)
        fprintf(page->out, ", %zu type%s more", left, left == 1 ? "" : "s");
    if (shown > 0)
        fputc('\n', page->out);
}

/* Print how a row lives, and its types. */
static void print_below(const void *context, const struct diff_row *row, FILE *out)
{
    const struct page *page = context;
    turnover_print_line(leak_rows_turnover(&page->heap->rows, row), GROWTH_TABLE_INDENT, out);
    print_types(page, row);
}

static void print_list(const struct page *page, const struct growth_list *list, bool shrunk)
{
    const struct growth_table table = {
        .stacks = &page->leaks->stacks,
        .pair = page->heap->pair,
        .top = page->leaks->options->top,
        .is_growth = is_difference(page),
        .marks_bytes = is_difference(page),
        .marks_counts = is_difference(page),
        .whole = page->leaks->options->stacks,
        .print_below = print_below,
        .context = page,
    };
    if (shrunk && list->count > 0)
        fputs("  shrank:\n", page->out);
    *page->has_marks |= growth_table_print(&table, list, page->out);
}

/* --- a heap --- */

/* Files of other profilers may have no pid. */
static void print_pid(FILE *out, int32_t pid)
{
    if (pid != 0)
        fprintf(out, "[%d]", pid);
    fputc(' ', out);
}

static void print_process(const struct page *page)
{
    const struct profile_process *process = page->heap->process;
    const char *bold = page->leaks->options->colours ? BOLD : "";
    fprintf(page->out, "%sProcess", bold);
    print_pid(page->out, process->pid);
    format_print(page->out, process->name, FORMAT_WORD_WIDTH);
    fputs(": ", page->out);
    format_print(page->out, process->command, FORMAT_LINE_WIDTH);
    fputs(page->leaks->options->colours ? PLAIN "\n" : "\n", page->out);
    if (page->heap->process_count > 1)
        fprintf(page->out, "  %zu processes of that name and command, added up\n",
                page->heap->process_count);
}

/* Print the other process's name, if processes were paired by pid only. */
static void print_other_name(const struct page *page)
{
    const struct diff_pair *pair = page->heap->pair;
    if (!is_difference(page) || pair->before_count == 0 || pair->after_count == 0)
        return;
    const struct profile_process *process =
        &page->leaks->before->profile->processes[pair->before[0].heap->process];
    if (strcmp(process->name, page->heap->process->name) == 0 &&
        process->pid == page->heap->process->pid)
        return;
    fputs("  compared with process ", page->out);
    if (process->pid != 0)
        fprintf(page->out, "%d ", process->pid);
    format_print(page->out, process->name, FORMAT_WORD_WIDTH);
    fputc('\n', page->out);
}

/* Print the heap's total, unless the profile is exact: samples may not show all stacks. If others
 * shrank so much that it would contradict the rows below, print that instead. */
static void print_total(const struct page *page)
{
    const struct diff_pair *pair = page->heap->pair;
    const struct growth_list *grown = &page->heap->rows.grown, *shrunk = &page->heap->rows.shrunk;
    const struct change *total = &pair->total.changes[EXPORT_SPACE];
    struct formatted margin = compare_margin(pair, total, false);
    double largest = 0;
    for (size_t i = 0; i < grown->count; i++)
        largest = grown->entries[i].size > largest ? grown->entries[i].size : largest;
    if (grown->count > 0 && shrunk->count > 0 && total->value < largest) {
        fprintf(page->out, "; others shrank by %s", format_bytes(shrunk->size_sum).bytes);
        return;
    }
    if (pair->exact)
        return;
    fputs("; in all ", page->out);
    fprintf(page->out, "%s %s", size_text(page, total->value, false).bytes, margin.bytes);
}

static void print_shrunk_sum(const struct page *page, const struct growth_list *shrunk)
{
    struct formatted bytes = format_bytes(shrunk->size_sum);
    if (shrunk->count == 1)
        fprintf(page->out, "  1 call stack shrank, by %s; --shrunk lists it\n", bytes.bytes);
    else
        fprintf(page->out, "  %s call stacks shrank, by %s together; --shrunk lists them\n",
                format_count((double)shrunk->count).bytes, bytes.bytes);
}

/* Print of which dump the live memory is, if a program that freed most at its end made it another
 * one than the last. */
static void print_moment(const struct page *page)
{
    const struct export_dump *after = page->heap->pair->after;
    if (page->heap->pair->after_count != 1 || !compare_is_before_end(page->leaks->after, after))
        return;
    const struct profile_heap *heap = after->heap;
    fprintf(page->out, "  moment   at %s, before the program freed most of it at its end, at %s\n",
            compare_time_of(heap, after->dump).bytes,
            compare_time_of(heap, &heap->dumps[heap->dump_count - 1]).bytes);
}

/* If the profile is too short to tell growth, return the time that it needs. Else return 0. */
static uint64_t lacks_ms(const struct page *page)
{
    const struct leak_rows_of of = leaks_rows_of(page->leaks);
    return leak_rows_lack_ms(&page->heap->rows, &of);
}

/* Print what is live, and that the profile is too short to tell a leak. "0 found" would be wrong.
 */
static void print_too_short(const struct page *page, uint64_t needed_ms)
{
    const struct diff_pair *pair = page->heap->pair;
    const struct export_dump *after = pair->after;
    const struct change *total = &pair->total.changes[EXPORT_SPACE];
    const struct formatted margin = compare_margin(pair, total, false);
    bool has_exited = after->dump->final && after->heap->status.exit_status >= 0;
    size_t count = page->heap->rows.grown.count;
    fprintf(page->out, ": %s%s%s %s", size_text(page, total->value, false).bytes,
            pair->exact ? "" : " ", pair->exact ? "" : margin.bytes,
            has_exited           ? "was never freed"
            : after->dump->final ? "was live when the profile ended"
                                 : "is live");
    if (count > 0)
        fprintf(page->out, ", at %s callsite%s", format_count((double)count).bytes,
                count == 1 ? "" : "s");
    fprintf(page->out, ". %s are too short to tell growth from setup: that takes %s",
            compare_time_of(after->heap, after->dump).bytes,
            format_time((double)needed_ms / 1000).bytes);
}

static void print_found(const struct page *page)
{
    const struct leaks_heap *heap = page->heap;
    fprintf(page->out, ": %zu potential leak%s found", heap->rows.leak_count,
            heap->rows.leak_count == 1 ? "" : "s");
    print_total(page);
    if (heap->rows.leak_count < heap->rows.grown.count)
        fprintf(page->out, ", among %s callsite%s",
                format_count((double)heap->rows.grown.count).bytes,
                heap->rows.grown.count == 1 ? "" : "s");
}

static void print_heap(const struct page *page)
{
    const struct leaks_heap *heap = page->heap;
    fputs("  ", page->out);
    format_print(page->out, heap->name, FORMAT_WORD_WIDTH);
    if (compare_is_unseen(heap->pair->before, heap->pair->before_count) ||
        compare_is_unseen(heap->pair->after, heap->pair->after_count)) {
        fputs(": live memory is unknown, because no call of the allocator was seen (heap_profile "
              "report explains why)\n",
              page->out);
        return;
    }
    if (is_unknown(page, EXPORT_SPACE)) {
        fprintf(page->out, ": live memory is not in the file%s\n", is_difference(page) ? "s" : "");
        return;
    }
    if (page->leaks->options->growth.has_count_threshold && is_unknown(page, EXPORT_OBJECTS)) {
        fprintf(page->out, ": counts are not in the file%s: nothing is above --threshold\n",
                is_difference(page) ? "s" : "");
        return;
    }
    uint64_t needed_ms = lacks_ms(page);
    if (needed_ms > 0)
        print_too_short(page, needed_ms);
    else
        print_found(page);
    fputs(".\n", page->out);
    print_moment(page);
    compare_print_widened(page->out, heap->pair->after, heap->pair->after_count);
    compare_print_filter(page->out, heap->profile->filter, heap->pair, EXPORT_SPACE);
    print_list(page, &heap->rows.grown, false);
    if (page->leaks->options->shrunk)
        print_list(page, &heap->rows.shrunk, true);
    else if (heap->rows.grown.count == 0 && heap->rows.shrunk.count > 0)
        print_shrunk_sum(page, &heap->rows.shrunk);
}

static void print_unpaired(const struct leaks *leaks, FILE *out)
{
    for (size_t i = 0; i < leaks->unpaired_count; i++) {
        const struct leaks_heap *heap = &leaks->unpaired[i];
        if (heap->is_reported)
            continue;
        fputs("Process", out);
        print_pid(out, heap->process->pid);
        format_print(out, heap->process->name, FORMAT_WORD_WIDTH);
        fputs(heap->pair->before_count == 0 ? ": not there before, in " : ": not there in ", out);
        format_print(
            out, heap->pair->before_count == 0 ? leaks->before->argument : leaks->after->argument,
            FORMAT_LINE_WIDTH);
        fputs("; left out\n", out);
    }
}

void leaks_print_text(const struct leaks *leaks, FILE *out)
{
    bool has_marks = false;
    struct page page = {
        .leaks = leaks,
        .out = out,
        .has_marks = &has_marks,
    };
    for (size_t i = 0; i < leaks->heap_count; i++) {
        page.heap = &leaks->heaps[i];
        if (leaks_is_first_of_process(leaks, i)) {
            print_process(&page);
            print_other_name(&page);
        }
        print_heap(&page);
    }
    print_unpaired(leaks, out);
    if (has_marks)
        fputs(
            "\n* more than sampling alone explains (99 % for all call stacks of a heap, by Holm)\n",
            out);
}
