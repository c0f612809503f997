/* See report_tables.h. */
#include "cli/report_tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/ring.h"

#define STACK_FRAMES 4 /* callers shown beside a callsite's function */

#define BOLD "\033[1m"
#define PLAIN "\033[0m"

struct line {
    uint32_t index; /* of a sample, or of a rollup row */
    double rank;
};

bool printer_is_partial(const struct printer *printer)
{
    return profile_dump_is_partial(printer->heap, printer->dump);
}

bool printer_is_exact(const struct printer *printer)
{
    return printer->heap->interval_bytes == 1 && printer->heap->status.weighed_samples == 0 &&
           !printer_is_partial(printer);
}

struct words printer_margin(const struct printer *printer, const struct report_figure *figure,
                            bool counts)
{
    struct words text;
    const struct trace_heap_dump *status = &printer->heap->status;
    bool all_weighed = status->weighed_samples == status->heap_samples;
    /* How well the program sampled is not for us to say. */
    if (status->weighed_samples > 0 && !printer_is_partial(printer) &&
        (all_weighed || printer->heap->interval_bytes == 1)) {
        snprintf(text.bytes, sizeof(text.bytes), "as reported");
        return text;
    }
    if (printer->heap->interval_bytes == 1) {
        snprintf(text.bytes, sizeof(text.bytes), printer_is_exact(printer) ? "exact" : "partial");
        return text;
    }
    if (printer->heap->interval_bytes == 0) {
        snprintf(text.bytes, sizeof(text.bytes), "± unknown");
        return text;
    }
    struct profile_interval interval =
        report_interval_of(figure, counts, printer->heap, printer->dump);
    return words_of_margin(counts ? figure->count : figure->bytes, interval.low, interval.high,
                           counts);
}

static bool view_counts(enum report_view view)
{
    return view == REPORT_OBJECTS || view == REPORT_ALLOC_OBJECTS;
}

const char *printer_view_title(enum report_view view)
{
    static const char *const titles[REPORT_VIEWS] = {
        [REPORT_SPACE] = "Bytes live",
        [REPORT_OBJECTS] = "Allocations live",
        [REPORT_ALLOC_SPACE] = "Bytes ever allocated",
        [REPORT_ALLOC_OBJECTS] = "Allocations ever made",
        [REPORT_MAX] = "Bytes live at the peak",
    };
    return titles[view];
}

void printer_title(const struct printer *printer, const char *title)
{
    fputs(printer->options->colours ? "\n" BOLD : "\n", printer->out);
    words_print(printer->out, title, PRINTER_COMMAND_WIDTH);
    fputs(printer->options->colours ? PLAIN "\n" : "\n", printer->out);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

void printer_frame(const struct printer *printer, uint32_t index, size_t width)
{
    const struct profile_frame *frame = &printer->profile->frames[index];
    const char *module = frame->mapping != PROFILE_NONE
                             ? base_name(printer->profile->mappings[frame->mapping].path)
                             : "unknown code";
    if (frame->name[0] == '\0') {
        fprintf(printer->out, "0x%" PRIx64 " @ ", frame->rel_pc);
        words_print(printer->out, module, PRINTER_MODULE_WIDTH);
    } else {
        words_print(printer->out, frame->name, width);
    }
}

void printer_module(const struct printer *printer, uint32_t index)
{
    const struct profile_frame *frame = &printer->profile->frames[index];
    if (frame->mapping == PROFILE_NONE || frame->name[0] == '\0')
        return;
    const char *kind = profile_frame_kind(frame);
    const char *module = base_name(printer->profile->mappings[frame->mapping].path);
    if (*kind != '\0')
        module = kind;
    fputs(" [", printer->out);
    words_print(printer->out, module, PRINTER_MODULE_WIDTH);
    fputc(']', printer->out);
}

/* --- tables --- */

static int compare_lines(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void printer_figures(const struct printer *printer, const struct report_figure *figure,
                     double total, enum report_view view)
{
    bool counts = view_counts(view);
    double rank = report_rank(figure, view);
    struct words value = counts ? words_of_count(figure->count) : words_of_bytes(figure->bytes);
    struct words margin = printer_margin(printer, figure, counts);
    struct words other = counts ? words_of_bytes(figure->bytes) : words_of_count(figure->count);
    bool counts_untold = (printer->heap->untold & PROFILE_UNTOLD_COUNTS) != 0;
    if (!counts && counts_untold)
        other = (struct words){"?"};
    /* The ± sign is two bytes wide and one column. */
    int margin_width = strncmp(margin.bytes, "±", strlen("±")) == 0 ? 20 : 19;
    fprintf(printer->out, "%10s %5.1f%% %-*s %10s %9s  ", value.bytes,
            total > 0 ? 100 * rank / total : 0, margin_width, margin.bytes, other.bytes,
            counts_untold          ? "?"
            : figure->count >= 0.5 ? words_of_bytes(figure->bytes / figure->count).bytes
                                   : "-");
}

void printer_columns(const struct printer *printer, enum report_view view, const char *what)
{
    bool counts = view_counts(view);
    fprintf(printer->out, "%10s %6s %-19s %10s %9s  %s\n", counts ? "count" : "bytes", "share",
            "95 %", counts ? "bytes" : "count", "mean", what);
}

/* The function that a callsite is charged to, behind the allocator's own entrances,
 * and the callers behind it. */
static void print_callsite(const struct printer *printer, uint32_t callsite)
{
    const struct profile *profile = printer->profile;
    uint32_t at = callsite;
    while (report_is_allocator_frame(profile->frames[profile->callsites[at].frame].name) &&
           profile->callsites[at].parent != PROFILE_NONE)
        at = profile->callsites[at].parent;
    printer_frame(printer, profile->callsites[at].frame, 60);
    printer_module(printer, profile->callsites[at].frame);
    if (printer->options->stacks) {
        fputc('\n', printer->out);
        for (at = callsite; at != PROFILE_NONE; at = profile->callsites[at].parent) {
            fputs("              ", printer->out);
            printer_frame(printer, profile->callsites[at].frame, 200);
            printer_module(printer, profile->callsites[at].frame);
            fputc('\n', printer->out);
        }
        return;
    }
    at = profile->callsites[at].parent;
    for (int i = 0; i < STACK_FRAMES && at != PROFILE_NONE; i++) {
        fputs(" < ", printer->out);
        printer_frame(printer, profile->callsites[at].frame, 40);
        at = profile->callsites[at].parent;
    }
    fputs(at != PROFILE_NONE ? " < ...\n" : "\n", printer->out);
}

/* What stands in a line of a table of callsites. */
struct callsite_line {
    XXH128_hash_t text; /* of the stack as it is printed */
    uint32_t callsite;
    struct rollup_values values;
    double rank;
    size_t order; /* of equal ones */
};

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
    if (x->rank != y->rank)
        return x->rank < y->rank ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* How a callsite ranks in a table: in a view, or by its temporary allocations. */
enum { BY_TEMPORARY = REPORT_VIEWS };

static double rank_of(const struct rollup_values *values, int by)
{
    if (by == BY_TEMPORARY)
        return values->figures.temporary_count;
    struct report_figure figure = report_figure_of(values, (enum report_view)by);
    return report_rank(&figure, (enum report_view)by);
}

/* Adds up those that are printed the same. The number that is left. */
static size_t merge_lines(struct callsite_line *lines, size_t count)
{
    size_t kept = 0;
    qsort(lines, count, sizeof(*lines), compare_texts);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && XXH128_isEqual(lines[kept - 1].text, lines[i].text))
            rollup_values_add(&lines[kept - 1].values, &lines[i].values);
        else
            lines[kept++] = lines[i];
    }
    return kept;
}

/* The lines of a table, that which ranks highest first: a line for each stack that can be told
 * from the others by what is printed of it. NULL: no memory. */
static struct callsite_line *rank_callsites(const struct printer *printer, int by,
                                            size_t *line_count)
{
    const struct profile_dump *dump = printer->dump;
    struct callsite_line *lines = calloc(dump->sample_count + 1, sizeof(*lines));
    size_t count = 0, kept = 0;
    char *text = NULL;
    size_t length = 0;
    struct printer to_text = *printer;
    to_text.out = open_memstream(&text, &length);
    if (lines == NULL || to_text.out == NULL) {
        free(lines);
        lines = NULL;
    }
    for (size_t i = 0; lines != NULL && i < dump->sample_count; i++) {
        struct callsite_line line = {.values = rollup_values_of(dump->samples[i]), .order = i};
        if (!(rank_of(&line.values, by) > 0))
            continue;
        line.callsite = dump->samples[i]->callsite;
        rewind(to_text.out);
        print_callsite(&to_text, line.callsite);
        if (fflush(to_text.out) == 0)
            line.text = XXH3_128bits(text, length);
        lines[count++] = line;
    }
    if (to_text.out != NULL)
        fclose(to_text.out);
    free(text);
    count = lines != NULL ? merge_lines(lines, count) : 0;
    for (size_t i = 0; i < count; i++) {
        lines[i].rank = rank_of(&lines[i].values, by);
        if (lines[i].rank >= 0.5)
            lines[kept++] = lines[i];
    }
    if (kept > 0)
        qsort(lines, kept, sizeof(*lines), compare_ranks);
    *line_count = kept;
    return lines;
}

static void print_callsites(const struct printer *printer, const struct callsite_line *lines,
                            size_t count, double total, enum report_view view, size_t top)
{
    size_t shown = top == 0 || top > count ? count : top;
    printer_columns(printer, view, "function < its callers");
    for (size_t i = 0; i < shown; i++) {
        struct report_figure figure = report_figure_of(&lines[i].values, view);
        printer_figures(printer, &figure, total, view);
        print_callsite(printer, lines[i].callsite);
    }
    if (shown < count)
        fprintf(printer->out, "%10s        (%s more callsites; --top 0 shows all)\n", "...",
                words_of_count((double)(count - shown)).bytes);
}

void printer_callsites(const struct printer *printer, enum report_view view, size_t top,
                       const char *title)
{
    size_t count = 0;
    struct callsite_line *lines = rank_callsites(printer, (int)view, &count);
    if (lines == NULL)
        return;
    struct report_figure total = report_total_of(printer->dump, view);
    printer_title(printer, title);
    if (count == 0)
        fputs("  nothing\n", printer->out);
    else
        print_callsites(printer, lines, count, report_rank(&total, view), view, top);
    free(lines);
}

void printer_temporary(const struct printer *printer)
{
    const struct trace_figures *all = &printer->dump->total;
    size_t count = 0;
    struct callsite_line *lines = rank_callsites(printer, BY_TEMPORARY, &count);
    if (lines != NULL && count > 0) {
        printer_title(printer, "Temporary allocations");
        fprintf(printer->out,
                "  %.1f %% of all allocations were freed by their thread before it allocated "
                "again\n%10s %6s %10s %9s  %s\n",
                100 * all->temporary_count / fmax(all->allocated_count, 1), "count", "share",
                "bytes", "mean", "function < its callers");
    }
    for (size_t i = 0; lines != NULL && i < count && i < PRINTER_SECTION_LINES; i++) {
        const struct trace_figures *figures = &lines[i].values.figures;
        fprintf(printer->out, "%10s %5.1f%% %10s %9s  ",
                words_of_count(figures->temporary_count).bytes,
                100 * figures->temporary_count / fmax(figures->allocated_count, 1),
                words_of_bytes(figures->temporary_bytes).bytes,
                words_of_bytes(figures->temporary_bytes / figures->temporary_count).bytes);
        print_callsite(printer, lines[i].callsite);
    }
    free(lines);
}

void printer_rollup(const struct printer *printer, enum rollup_key key, const char *title)
{
    enum report_view view = printer->options->view;
    struct rollup *rollup = rollup_new(printer->profile, printer->dump, key);
    struct line *lines = rollup != NULL ? calloc(rollup->row_count + 1, sizeof(*lines)) : NULL;
    if (lines == NULL) {
        rollup_free(rollup);
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < rollup->row_count; i++) {
        const struct rollup_row *row = &rollup->rows[i];
        struct report_figure figure =
            report_figure_of(key == ROLLUP_THREAD ? &row->self : &row->cumulative, view);
        double rank = report_rank(&figure, view);
        if (rank >= 0.5)
            lines[count++] = (struct line){(uint32_t)i, rank};
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    struct report_figure total = report_total_of(printer->dump, view);
    size_t top = printer->options->top;
    printer_title(printer, title);
    if (count == 0)
        fputs(key == ROLLUP_THREAD && view == REPORT_MAX
                  ? "  the peak is not known by thread: choose another --view\n"
                  : "  nothing\n",
              printer->out);
    else
        printer_columns(printer, view,
                        key == ROLLUP_THREAD ? "thread" : "function and all it calls");
    for (size_t i = 0; i < count && (top == 0 || i < top); i++) {
        const struct rollup_row *row = &rollup->rows[lines[i].index];
        struct report_figure figure =
            report_figure_of(key == ROLLUP_THREAD ? &row->self : &row->cumulative, view);
        printer_figures(printer, &figure, report_rank(&total, view), view);
        if (key == ROLLUP_THREAD) {
            int32_t pid = printer->profile->processes[printer->heap->process].pid;
            fprintf(printer->out, "%d ", row->tid);
            words_print(printer->out, profile_thread_name(printer->profile, pid, row->tid),
                        PRINTER_MODULE_WIDTH);
            fputc('\n', printer->out);
        } else {
            printer_frame(printer, row->frame, 80);
            printer_module(printer, row->frame);
            fputc('\n', printer->out);
        }
    }
    if (top != 0 && count > top)
        fprintf(printer->out, "%10s        (%s more; --top 0 shows all)\n", "...",
                words_of_count((double)(count - top)).bytes);
    free(lines);
    rollup_free(rollup);
}

/* --- by type and context --- */

static const char *title_of_groups(enum grouping_key key)
{
    return key == GROUPING_TYPE      ? "By type"
           : key == GROUPING_CONTEXT ? "By context"
                                     : "By callsite";
}

static void print_group(const struct printer *printer, const struct grouping_row *row,
                        enum grouping_key key, double total, const char *indent)
{
    enum report_view view = printer->options->view;
    struct report_figure figure = report_figure_of(&row->values, view);
    printer_figures(printer, &figure, total, view);
    fputs(indent, printer->out);
    if (key == GROUPING_BACKTRACE) {
        print_callsite(printer, row->callsite);
        return;
    }
    if (row->label[0] == '\0')
        fputs(key == GROUPING_TYPE ? "[no type]" : "[no context]", printer->out);
    words_print(printer->out, row->label, PRINTER_COMMAND_WIDTH);
    fputc('\n', printer->out);
}

/* Rows of one level; the outer one's have theirs below them. */
static void print_group_rows(const struct printer *printer, const struct grouping *grouping,
                             const struct grouping_row *outer, double total, size_t top)
{
    const struct grouping_row *rows =
        outer == NULL ? grouping->outer : grouping->inner + outer->first;
    size_t count = 0, rows_count = outer == NULL ? grouping->outer_count : outer->count;
    size_t *order = report_rank_rows(rows, rows_count, printer->options->view, &count);
    enum grouping_key key = printer->options->by[outer != NULL];
    if (order == NULL)
        return;
    if (count == 0 && outer == NULL)
        fputs("  nothing\n", printer->out);
    for (size_t i = 0; i < count && (top == 0 || i < top); i++) {
        const struct grouping_row *row = &rows[order[i]];
        print_group(printer, row, key, total, outer != NULL ? "  " : "");
        if (row->count > 0 && outer == NULL)
            print_group_rows(printer, grouping, row, total, top == 0 ? 0 : PRINTER_SECTION_LINES);
    }
    if (top != 0 && count > top)
        fprintf(printer->out, "%10s        %*s(%s more; --top 0 shows all)\n", "...",
                outer != NULL ? 2 : 0, "", words_of_count((double)(count - top)).bytes);
    free(order);
}

void printer_groups(const struct printer *printer)
{
    const enum grouping_key *by = printer->options->by;
    struct grouping *grouping = grouping_new(printer->dump, by[0], by[1]);
    if (grouping == NULL)
        return;
    struct report_figure total = report_total_of(printer->dump, printer->options->view);
    printer_title(printer, title_of_groups(by[0]));
    printer_columns(printer, printer->options->view, report_group_key_name(by[0]));
    print_group_rows(printer, grouping, NULL, report_rank(&total, printer->options->view),
                     printer->options->top);
    if (grouping->outer_count == 1 && grouping->outer[0].label != NULL &&
        grouping->outer[0].label[0] == '\0' && by[0] != GROUPING_BACKTRACE)
        fprintf(printer->out, "  the program says no %ss here: docs/heaps.md has how it can\n",
                report_group_key_name(by[0]));
    grouping_free(grouping);
}
