/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of the text report: callsites, functions, threads, groups. */
#include "tools/cli/report/report_tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "profile/partial.h"
#include "tools/print/margin.h"
#include "tools/print/row_stacks.h"
#include "tools/print/turnover_text.h"
#include "util/ranked.h"
#include "util/xmalloc.h"

#define STACK_INDENT "              "
#define TOP_STACKS 3       /* rows whose stacks are shown whole */
#define TOP_STACK_LINES 40 /* at most, for each of these stacks */

bool printer_is_partial(const struct printer *printer)
{
    return profile_dump_is_partial(printer->heap, printer->dump);
}

bool printer_is_exact(const struct printer *printer)
{
    return profile_dump_is_exact(printer->heap, printer->dump);
}

const char *report_process_title(const struct profile_process *process)
{
    if (process->command[strspn(process->command, "' ")] != '\0')
        return process->command;
    if (process->name[0] != '\0')
        return process->name;
    return process->pid != 0 ? "(a process without a name)" : "(the file names no process)";
}

const char *printer_view_title(enum export_view view)
{
    static const char *const titles[EXPORT_VIEWS] = {
        [EXPORT_SPACE] = "Bytes live",
        [EXPORT_OBJECTS] = "Allocations live",
        [EXPORT_ALLOC_SPACE] = "Bytes ever allocated",
        [EXPORT_ALLOC_OBJECTS] = "Allocations ever made",
        [EXPORT_MAX] = "Bytes live at the peak",
    };
    return titles[view];
}

void printer_title(const struct printer *printer, const char *title)
{
    format_print_title(printer->out, title, printer->options->colours);
}

void printer_frame(const struct printer *printer, uint32_t index, size_t used)
{
    size_t columns = printer->stacks.columns;
    stack_format_print_frame(&printer->stacks, index, stack_format_room(columns, used), false, true,
                             printer->out);
}

/* --- tables --- */

#define FIGURES_COLUMNS 60u /* columns before a row's text; without the last two figures: */
#define FEW_FIGURES_COLUMNS 39u
#define TEXT_LEAST 48u /* if it would get less, drop two figures */

void printer_set_format(struct printer *printer, const struct folding *folding)
{
    size_t columns = printer->options->columns;
    printer->is_narrow = columns > 0 && columns < FIGURES_COLUMNS + TEXT_LEAST;
    printer->stacks = (struct stack_format){
        .profile = printer->profile,
        .folding = folding,
        .python_lines = true,
        .simple = printer->options->simple_names,
        .columns =
            stack_format_room(columns, printer->is_narrow ? FEW_FIGURES_COLUMNS : FIGURES_COLUMNS),
        .line_columns = columns,
    };
}

/* Return a row's share of a total, "12.3%". */
static struct formatted share_of(double value, double total)
{
    double percent = total > 0 ? 100 * value / total : 0;
    struct formatted text;
    snprintf(text.bytes, sizeof(text.bytes), "%s%.1f%%", percent <= -0.05 ? FORMAT_MINUS : "",
             fabs(percent));
    return text;
}

void printer_figures(const struct printer *printer, const struct profile_estimate *figure,
                     double total, enum export_view view)
{
    bool counts = export_view_counts_calls(view);
    double rank = estimate_rank(figure, view);
    struct formatted value = format_amount(rank, counts);
    struct formatted margin = margin_of_figure(figure, counts, printer->heap, printer->dump);
    struct formatted other = format_amount(counts ? figure->bytes : figure->count, !counts);
    bool counts_unknown = (printer->heap->unknown & PROFILE_UNKNOWN_COUNTS) != 0;
    bool sizes_unknown = (printer->heap->unknown & PROFILE_UNKNOWN_SIZES) != 0;
    if (counts ? sizes_unknown : counts_unknown)
        other = (struct formatted){"?"};
    struct formatted share = share_of(rank, total);
    fprintf(printer->out, "%*s %*s %-*s ", format_width(&value, 10), value.bytes,
            format_width(&share, 6), share.bytes, format_width(&margin, 19), margin.bytes);
    if (!printer->is_narrow)
        fprintf(printer->out, "%*s %9s ", format_width(&other, 10), other.bytes,
                counts_unknown || sizes_unknown ? "?"
                : fabs(figure->count) >= 0.5    ? format_bytes(figure->bytes / figure->count).bytes
                                                : "-");
    fputc(' ', printer->out);
}

void printer_columns(const struct printer *printer, enum export_view view, const char *what)
{
    bool counts = export_view_counts_calls(view);
    fprintf(printer->out, "%10s %6s %-19s ", counts ? "count" : "bytes", "share", "95 %");
    if (!printer->is_narrow)
        fprintf(printer->out, "%10s %9s ", counts ? "bytes" : "count", "mean");
    fprintf(printer->out, " %s\n", what);
}

/* Print the function that a callsite is charged to, and its callers. */
static void print_callsite(const struct printer *printer, uint32_t callsite)
{
    stack_format_print_row(&printer->stacks, callsite, printer->out);
    fputc('\n', printer->out);
    if (printer->options->stacks)
        stack_format_print_stack(&printer->stacks, callsite, 0, STACK_INDENT, printer->out);
}

/* A row of a table of callsites. */
struct callsite_line {
    XXH128_hash_t text;                  /* hash of the printed stack */
    uint32_t callsite;                   /* of the highest-ranking stack in the row */
    const struct profile_sample *sample; /* of the first stack */
    struct rollup_values values;
    double rank, highest; /* of all stacks in the row; of that one */
    size_t first, stacks; /* in callsite_lines.stacks */
    size_t order;         /* order of equal ranks */
};

struct callsite_lines {
    struct callsite_line *items;
    size_t count;
    struct row_stack *stacks; /* of all lines */
};

static void free_lines(struct callsite_lines *lines)
{
    free(lines->items);
    free(lines->stacks);
}

static int compare_texts(const void *a, const void *b)
{
    const struct callsite_line *x = a, *y = b;
    int difference = XXH128_cmp(&x->text, &y->text);
    if (difference != 0)
        return difference;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct callsite_line *x = a, *y = b;
    if (fabs(x->rank) != fabs(y->rank))
        return fabs(x->rank) < fabs(y->rank) ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* How a callsite ranks in a table: in a view, or by its temporary allocations. */
enum { BY_TEMPORARY = EXPORT_VIEWS };

static double rank_of(const struct rollup_values *values, int by)
{
    if (by == BY_TEMPORARY)
        return values->figures.temporary_count;
    struct profile_estimate figure = estimate_of_view(values, (enum export_view)by);
    return estimate_rank(&figure, (enum export_view)by);
}

/* Merge rows that are printed alike, and list their stacks. */
static void merge_lines(struct callsite_lines *lines)
{
    struct callsite_line *items = lines->items;
    size_t kept = 0;
    qsort(items, lines->count, sizeof(*items), compare_texts);
    for (size_t i = 0; i < lines->count; i++) {
        struct callsite_line *last = kept > 0 ? &items[kept - 1] : NULL;
        lines->stacks[i] = (struct row_stack){items[i].callsite, items[i].highest, items[i].sample};
        if (last == NULL || !XXH128_isEqual(last->text, items[i].text)) {
            items[kept] = items[i];
            items[kept++].first = i;
            continue;
        }
        rollup_values_add(&last->values, &items[i].values);
        last->stacks++;
        if (fabs(items[i].highest) > fabs(last->highest)) {
            last->highest = items[i].highest;
            last->callsite = items[i].callsite;
        }
    }
    lines->count = kept;
}

/* Return a line for each stack of the dump, with how it is printed. */
static struct callsite_line *list_callsites(const struct printer *printer, int by,
                                            size_t *line_count)
{
    const struct profile_dump *dump = printer->dump;
    struct callsite_line *lines = xcalloc(dump->sample_count + 1, sizeof(*lines));
    size_t count = 0;
    char *text = NULL;
    size_t length = 0;
    struct printer to_text = *printer;
    to_text.out = xopen_memstream(&text, &length);
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct callsite_line line = {
            .values = rollup_values_of(dump->samples[i]), .stacks = 1, .order = i};
        line.highest = rank_of(&line.values, by);
        line.callsite = dump->samples[i]->callsite;
        line.sample = dump->samples[i];
        rewind(to_text.out);
        print_callsite(&to_text, line.callsite);
        if (fflush(to_text.out) != 0)
            xmalloc_fail(0);
        line.text = XXH3_128bits(text, length);
        lines[count++] = line;
    }
    xclose_memstream(to_text.out);
    free(text);
    *line_count = count;
    return lines;
}

/* Return the rows of a table, highest rank first: one for each stack that is printed differently.
 * Free them with free_lines(). */
static struct callsite_lines rank_callsites(const struct printer *printer, int by)
{
    size_t count = 0, kept = 0;
    struct callsite_lines lines = {.items = list_callsites(printer, by, &count)};
    lines.stacks = xcalloc(count + 1, sizeof(*lines.stacks));
    for (size_t i = 0; i < count; i++)
        if (lines.items[i].highest != 0)
            lines.items[lines.count++] = lines.items[i];
    merge_lines(&lines);
    for (size_t i = 0; i < lines.count; i++) {
        lines.items[i].rank = rank_of(&lines.items[i].values, by);
        if (fabs(lines.items[i].rank) >= 0.5)
            lines.items[kept++] = lines.items[i];
    }
    lines.count = kept;
    if (kept > 0)
        qsort(lines.items, kept, sizeof(*lines.items), compare_ranks);
    return lines;
}

static void print_line(const struct printer *printer, const struct callsite_lines *lines,
                       const struct callsite_line *line)
{
    row_stacks_print(&printer->stacks, line->callsite, &lines->stacks[line->first], line->stacks,
                     printer->out);
    if (printer->options->stacks)
        stack_format_print_stack(&printer->stacks, line->callsite, 0, STACK_INDENT, printer->out);
}

/* Return whether each line grows or turns over; malloc'd. */
static struct turnover *judge_lines(const struct printer *printer,
                                    const struct callsite_lines *lines)
{
    const struct export_dump dump = {printer->heap, printer->dump};
    struct turnover *rows = xcalloc(lines->count + 1, sizeof(*rows));
    for (size_t i = 0; i < lines->count; i++) {
        struct turnover_facts facts = {0};
        for (size_t j = 0; j < lines->items[i].stacks; j++)
            turnover_facts_add(&facts, lines->stacks[lines->items[i].first + j].sample);
        rows[i] = turnover_of(&facts, printer->profile, &dump, true);
    }
    xmalloc_code(turnover_judge(rows, lines->count));
    return rows;
}

static void print_callsites(const struct printer *printer, const struct callsite_lines *lines,
                            double total, enum export_view view, size_t top)
{
    size_t count = lines->count, shown = top == 0 || top > count ? count : top;
    struct turnover *turnovers = printer->options->lifetimes ? judge_lines(printer, lines) : NULL;
    printer_columns(printer, view, "function < its callers");
    for (size_t i = 0; i < shown; i++) {
        struct profile_estimate figure = estimate_of_view(&lines->items[i].values, view);
        printer_figures(printer, &figure, total, view);
        print_line(printer, lines, &lines->items[i]);
        if (turnovers != NULL)
            turnover_print_line(&turnovers[i], STACK_INDENT, printer->out);
    }
    free(turnovers);
    if (shown < count)
        fprintf(printer->out, "%10s        (%s more callsite%s; --top 0 shows all)\n", "...",
                format_count((double)(count - shown)).bytes, count - shown == 1 ? "" : "s");
}

/* Print the stacks of the first rows with the row's share. If a row has several stacks, print the
 * largest stack's own share, too. */
static void print_top_stacks(const struct printer *printer, const struct callsite_line *lines,
                             size_t count, double total, enum export_view view)
{
    bool counts = export_view_counts_calls(view);
    count = count < TOP_STACKS ? count : TOP_STACKS;
    printer_title(printer, count == 1 ? "Its stack" : "Stacks of the first rows");
    for (size_t i = 0; i < count; i++) {
        const struct callsite_line *line = &lines[i];
        struct formatted all = format_amount(line->rank, counts);
        struct formatted own = format_amount(line->highest, counts);
        struct formatted share = share_of(line->rank, total);
        fprintf(printer->out, "%*s %*s  ", format_width(&all, 10), all.bytes,
                format_width(&share, 6), share.bytes);
        if (line->stacks > 1)
            fprintf(printer->out, "in %s stacks; the largest has %s\n",
                    format_count((double)line->stacks).bytes, own.bytes);
        else
            fputs("in one stack\n", printer->out);
        stack_format_print_stack(&printer->stacks, line->callsite, TOP_STACK_LINES, STACK_INDENT,
                                 printer->out);
    }
}

/* Return what the shares of rows are of: the dump's total, or if some rows are below 0, the sum of
 * their sizes, as in go tool pprof. */
static double total_of_lines(const struct printer *printer, const struct callsite_line *lines,
                             size_t count, enum export_view view)
{
    const struct profile_estimate total = estimate_of_dump(printer->dump, view);
    double sizes = 0;
    bool is_difference = false;
    for (size_t i = 0; i < count; i++) {
        sizes += fabs(lines[i].rank);
        is_difference |= lines[i].rank < 0;
    }
    return is_difference ? sizes : estimate_rank(&total, view);
}

void printer_callsites(const struct printer *printer, enum export_view view, size_t top,
                       const char *title, bool with_stacks)
{
    struct callsite_lines lines = rank_callsites(printer, (int)view);
    if (lines.items == NULL)
        return;
    double total = total_of_lines(printer, lines.items, lines.count, view);
    printer_title(printer, title);
    if (lines.count == 0)
        fputs("  nothing\n", printer->out);
    else
        print_callsites(printer, &lines, total, view, top);
    if (lines.count > 0 && with_stacks && !printer->options->stacks)
        print_top_stacks(printer, lines.items, lines.count, total, view);
    free_lines(&lines);
}

void printer_temporary(const struct printer *printer)
{
    const struct trace_figures *all = &printer->dump->total;
    struct callsite_lines lines = rank_callsites(printer, BY_TEMPORARY);
    if (lines.count > 0) {
        printer_title(printer, "Temporary allocations");
        fprintf(printer->out,
                "  %.1f %% of all allocations were freed by their thread before it allocated "
                "again\n%10s %6s %10s %9s  %s\n",
                100 * all->temporary_count / fmax(all->allocated_count, 1), "count", "share",
                "bytes", "mean", "function < its callers");
    }
    for (size_t i = 0; i < lines.count && i < PRINTER_SECTION_LINES; i++) {
        const struct trace_figures *figures = &lines.items[i].values.figures;
        fprintf(printer->out, "%10s %5.1f%% %10s %9s  ",
                format_count(figures->temporary_count).bytes,
                100 * figures->temporary_count / fmax(figures->allocated_count, 1),
                format_bytes(figures->temporary_bytes).bytes,
                format_bytes(figures->temporary_bytes / figures->temporary_count).bytes);
        print_line(printer, &lines, &lines.items[i]);
    }
    free_lines(&lines);
}

/* --- sums --- */

/* A table of sums: rows of the first dimension, each followed by its own rows of the second. */
struct sums_table {
    const struct printer *printer;
    const struct sums *sums;
    const enum dimension *by;
    double total;
};

static void print_sums_row(const struct printer *printer, enum dimension by,
                           const struct sums_row *row)
{
    int32_t pid = printer->profile->processes[printer->heap->process].pid;
    switch (by) {
    case DIMENSION_CALLSITE:
        print_callsite(printer, row->callsite);
        return;
    case DIMENSION_FUNCTION:
        printer_frame(printer, row->frame, 0);
        break;
    case DIMENSION_THREAD:
        fprintf(printer->out, "%d ", row->tid);
        format_print(printer->out, profile_thread_name(printer->profile, pid, row->tid),
                     FORMAT_WORD_WIDTH);
        break;
    default:
        format_print(printer->out, *row->label != '\0' ? row->label : dimension_info[by].nothing,
                     FORMAT_LINE_WIDTH);
    }
    fputc('\n', printer->out);
}

/* Remove folded functions from ranked rows. Return how many are left. */
static size_t drop_folded(const struct printer *printer, const struct sums_row *rows, size_t *order,
                          size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t frame = rows[order[i]].frame;
        if (frame == PROFILE_NONE || folding_of(printer->stacks.folding, frame) == NULL)
            order[kept++] = order[i];
    }
    return kept;
}

/* Print the rows of one level; `outer`: the row that they are of, NULL: the first level. */
static void print_sums_rows(const struct sums_table *table, const struct sums_row *outer,
                            size_t top)
{
    const struct printer *printer = table->printer;
    const struct sums *sums = table->sums;
    enum export_view view = printer->options->view;
    enum dimension by = table->by[outer != NULL];
    const struct sums_row *rows = outer == NULL ? sums->rows : sums->inner + outer->first;
    size_t all = 0;
    size_t *order =
        report_rank_rows(rows, outer == NULL ? sums->row_count : outer->count, view, &all);
    size_t count = drop_folded(printer, rows, order, all);
    if (count == 0 && outer == NULL)
        fputs(by == DIMENSION_THREAD && view == EXPORT_MAX
                  ? "  the peaks of threads are unknown: choose another --view\n"
                  : "  nothing\n",
              printer->out);
    else if (outer == NULL)
        printer_columns(printer, view,
                        by == DIMENSION_CALLSITE ? report_group_key_name(by)
                                                 : dimension_info[by].head);
    for (size_t i = 0; i < count && (top == 0 || i < top); i++) {
        const struct sums_row *row = &rows[order[i]];
        const struct profile_estimate figure = estimate_of_view(&row->values, view);
        printer_figures(printer, &figure, table->total, view);
        fputs(outer != NULL ? "  " : "", printer->out);
        print_sums_row(printer, by, row);
        if (outer == NULL && row->count > 0)
            print_sums_rows(table, row, top == 0 ? 0 : PRINTER_SECTION_LINES);
    }
    if (top != 0 && count > top)
        fprintf(printer->out, "%10s        %*s(%s more; --top 0 shows all)\n", "...",
                outer != NULL ? 2 : 0, "", format_count((double)(count - top)).bytes);
    if (count < all)
        fprintf(printer->out,
                "%10s        (%s functions of libraries and allocators; --frames all shows them)\n",
                "...", format_count((double)(all - count)).bytes);
    free(order);
}

static void print_sums(const struct printer *printer, const struct sums *sums,
                       const enum dimension *by, const char *title)
{
    const struct profile_estimate total = estimate_of_dump(printer->dump, printer->options->view);
    const struct sums_table table = {printer, sums, by,
                                     estimate_rank(&total, printer->options->view)};
    printer_title(printer, title);
    print_sums_rows(&table, NULL, printer->options->top);
}

void printer_functions(const struct printer *printer)
{
    const enum dimension by = DIMENSION_FUNCTION;
    struct sums *sums = xmalloc_made(sums_by_function(printer->tables, printer->dump));
    print_sums(printer, sums, &by, printer_view_title(printer->options->view));
    sums_free(sums);
}

void printer_threads(const struct printer *printer)
{
    const enum dimension by = DIMENSION_THREAD;
    struct sums *sums = xmalloc_made(sums_by_parts(printer->dump, &by, 1, NULL));
    print_sums(printer, sums, &by, "By thread");
    sums_free(sums);
}

/* Return, by callsite of the dump, the one with most among those that are printed alike; malloc'd.
 */
static uint32_t *callsites_alike(const struct printer *printer)
{
    uint32_t *alike = xcalloc(printer->profile->callsite_count + 1, sizeof(*alike));
    size_t count = 0;
    struct callsite_line *lines = list_callsites(printer, (int)printer->options->view, &count);
    if (count > 1)
        qsort(lines, count, sizeof(*lines), compare_texts);
    for (size_t first = 0, end; first < count; first = end) {
        size_t most = first;
        for (end = first + 1; end < count && XXH128_isEqual(lines[first].text, lines[end].text);
             end++)
            most = lines[end].highest > lines[most].highest ? end : most;
        for (size_t i = first; i < end; i++)
            alike[lines[i].callsite] = lines[most].callsite;
    }
    free(lines);
    return alike;
}

void printer_groups(const struct printer *printer)
{
    const struct report_groups *groups = &printer->options->groups;
    const enum dimension by = groups->by[0];
    uint32_t *alike = callsites_alike(printer);
    struct sums *sums =
        xmalloc_made(sums_by_parts(printer->dump, groups->by, groups->depth, alike));
    free(alike);
    char title[32];
    snprintf(title, sizeof(title), "By %s", dimension_names[by]);
    print_sums(printer, sums, groups->by, title);
    if (sums->row_count == 1 && sums->rows[0].label != NULL && *sums->rows[0].label == '\0')
        fprintf(printer->out,
                "  the program does not report %ss; docs/heaps.md explains how it can\n",
                dimension_names[by]);
    sums_free(sums);
}
