/* The report for people: a head of facts, then tables. See report.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "cli/words.h"
#include "wire/ring.h"

#define BRIEF_LINES 5
#define SECTION_LINES 5     /* of the sections that follow the main table */
#define STACK_FRAMES 4      /* callers shown beside a callsite's function */
#define TREE_SHARE_MIN 0.01 /* subtrees below it are summed up */
#define TREE_DEPTH_MAX 400
#define COMMAND_WIDTH 4096 /* as much as the profile keeps */
#define MODULE_WIDTH 255
#define REMARK_WIDTH 2000
#define NAME_COLUMN 16u /* of processes that were not profiled */

#define BOLD "\033[1m"
#define PLAIN "\033[0m"

struct printer {
    const struct profile *profile;
    const struct report_options *options;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    FILE *out;
};

struct line {
    uint32_t index; /* of a sample, or of a rollup row */
    double rank;
};

/* --- words --- */

/* Whether allocations are missing from the figures (not only stacks or frees). */
static bool is_partial(const struct printer *printer)
{
    const struct trace_heap_dump *status = &printer->heap->status;
    return printer->dump->incomplete || status->buffer_overran || status->buffer_corrupted ||
           status->hit_guardrail || status->client_error != 0 || status->unsent_bytes_of_ring > 0 ||
           status->lost[RING_LOST_OVERRUN] > 0 || status->lost[RING_LOST_REENTRANT] > 0 ||
           status->lost[RING_LOST_NO_THREAD_SLOT] > 0;
}

static bool is_exact(const struct printer *printer)
{
    return printer->heap->interval_bytes == 1 && !is_partial(printer);
}

/* "± 12 kB"; "-8 kB +20 kB" where the two sides differ by a quarter, which they do for few
 * samples; or "exact": at interval 1 what was recorded has no error, but is not all. */
static struct words margin_text(const struct printer *printer, const struct report_figure *figure,
                                bool counts)
{
    struct words text;
    if (printer->heap->interval_bytes == 1) {
        snprintf(text.bytes, sizeof(text.bytes), is_exact(printer) ? "exact" : "partial");
        return text;
    }
    struct profile_interval interval = report_interval_of(figure, counts, printer->heap);
    double estimate = counts ? figure->count : figure->bytes;
    double below = estimate - interval.low, above = interval.high - estimate;
    struct words first = counts ? words_of_count(below) : words_of_bytes(below);
    struct words second = counts ? words_of_count(above) : words_of_bytes(above);
    if (above <= 1.25 * below && below <= above)
        snprintf(text.bytes, sizeof(text.bytes), "± %.26s", second.bytes);
    else
        snprintf(text.bytes, sizeof(text.bytes), "-%.12s +%.12s", first.bytes, second.bytes);
    return text;
}

static bool view_counts(enum report_view view)
{
    return view == REPORT_OBJECTS || view == REPORT_ALLOC_OBJECTS;
}

static const char *view_title(enum report_view view)
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

static void print_title(const struct printer *printer, const char *title)
{
    fputs(printer->options->colours ? "\n" BOLD : "\n", printer->out);
    words_print(printer->out, title, COMMAND_WIDTH);
    fputs(printer->options->colours ? PLAIN "\n" : "\n", printer->out);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* A frame's name, or its address in its module. */
static void print_frame(const struct printer *printer, uint32_t index, size_t width)
{
    const struct profile_frame *frame = &printer->profile->frames[index];
    const char *module = frame->mapping != PROFILE_NONE
                             ? base_name(printer->profile->mappings[frame->mapping].path)
                             : "unknown code";
    if (frame->name[0] == '\0') {
        fprintf(printer->out, "0x%" PRIx64 " @ ", frame->rel_pc);
        words_print(printer->out, module, MODULE_WIDTH);
    } else {
        words_print(printer->out, frame->name, width);
    }
}

static void print_module(const struct printer *printer, uint32_t index)
{
    const struct profile_frame *frame = &printer->profile->frames[index];
    if (frame->mapping == PROFILE_NONE || frame->name[0] == '\0')
        return;
    fputs(" [", printer->out);
    words_print(printer->out, base_name(printer->profile->mappings[frame->mapping].path),
                MODULE_WIDTH);
    fputc(']', printer->out);
}

/* --- the head --- */

static void print_losses(const struct printer *printer)
{
    const struct trace_heap_dump *status = &printer->heap->status;
    for (size_t i = 0; i < sizeof(status->lost) / sizeof(status->lost[0]); i++)
        if (status->lost[i] > 0 && report_loss_name(i) != NULL)
            fprintf(printer->out, "  lost          %s %s\n",
                    words_of_count((double)status->lost[i]).bytes, report_loss_name(i));
    if (status->unsent_bytes_of_ring > 0)
        fprintf(printer->out, "  lost          %s of records unfinished at the process's death\n",
                words_of_bytes((double)status->unsent_bytes_of_ring).bytes);
    if (status->blocked_us > 0)
        fprintf(printer->out, "  slowed down   waited %.1f ms for the profiler in all\n",
                (double)status->blocked_us / 1000);
    if (status->buffer_overran)
        fprintf(printer->out, "  ended early   the ring overran; use --block-client, a larger "
                              "--shmem-size or a larger --interval\n");
    if (status->buffer_corrupted)
        fprintf(printer->out, "  ended early   the process damaged the ring\n");
    if (status->client_error == 1)
        fprintf(printer->out, "  ended early   --block-client-timeout passed while the ring was "
                              "full; use a larger --shmem-size or --interval\n");
    if (status->hit_guardrail)
        fprintf(printer->out, "  ended early   a limit of the daemon was reached\n");
    if (status->rejected_concurrent)
        fprintf(printer->out, "  no profile    another session was profiling this process\n");
}

static void print_others(const struct printer *printer)
{
    const struct trace_heap_dump *status = &printer->heap->status;
    if (status->other_types > 0)
        fprintf(printer->out, "  other types   %s samples, of types beyond the 65,536th\n",
                words_of_count((double)status->other_types).bytes);
    if (status->other_contexts > 0)
        fprintf(printer->out, "  other contexts %s samples, of contexts beyond the 65,536th\n",
                words_of_count((double)status->other_contexts).bytes);
}

/* Exact, unless the program sampled by itself. */
static void print_allocated(const struct printer *printer)
{
    const struct profile_dump *dump = printer->dump;
    if (dump->exact_calls > 0 || dump->total.samples == 0) {
        fprintf(printer->out, "\n  allocated     %s in %s calls, exact\n",
                words_of_bytes((double)dump->exact_bytes).bytes,
                words_of_count((double)dump->exact_calls).bytes);
        return;
    }
    const struct report_figure all = report_total_of(dump, REPORT_ALLOC_SPACE);
    fprintf(printer->out, "\n  allocated     %s %s in %s allocations, estimated\n",
            words_of_bytes(all.bytes).bytes, margin_text(printer, &all, false).bytes,
            words_of_count(all.count).bytes);
}

static void print_head(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_dump *dump = printer->dump;
    const struct profile_process *process = &printer->profile->processes[heap->process];
    const struct report_figure live = report_total_of(dump, REPORT_SPACE);
    FILE *out = printer->out;

    print_title(printer, process->command[0] != '\0' ? process->command : process->name);
    fprintf(out, "  process       %d, %.2f s, heap ", process->pid,
            (double)(dump->boottime_ns - heap->start_boottime_ns) / 1e9);
    words_print(out, heap->name, MODULE_WIDTH);
    if (heap->status.allocator != NULL && heap->status.allocator[0] != '\0') {
        fputs(" (", out);
        words_print(out, heap->status.allocator, MODULE_WIDTH);
        fputc(')', out);
    }
    if (heap->dump_count > 1)
        fprintf(out, ", dump %zu of %zu", (size_t)(dump - heap->dumps) + 1, heap->dump_count);
    print_allocated(printer);
    fprintf(out, "  live          %s %s", words_of_bytes(live.bytes).bytes,
            margin_text(printer, &live, false).bytes);
    fprintf(out, " in %s allocations %s\n", words_of_count(live.count).bytes,
            margin_text(printer, &live, true).bytes);
    const struct report_figure peak = report_total_of(dump, REPORT_MAX);
    fprintf(out, "  peak          %s %s", words_of_bytes(heap->status.peak_live_bytes).bytes,
            margin_text(printer, &peak, false).bytes);
    if (report_peak_rss(process) > 0)
        fprintf(out, "; resident memory at most %s",
                words_of_bytes((double)report_peak_rss(process)).bytes);
    if (printer->heap->interval_bytes == 1)
        fprintf(out, "\n  samples       %s, every allocation%s\n",
                words_of_count((double)dump->total.samples).bytes,
                is_exact(printer) ? ": all figures are exact" : " that was not lost");
    else
        fprintf(out,
                "\n  samples       %s, one in %s B on average; ± is 95 %%, a callsite below %s may "
                "go unseen\n",
                words_of_count((double)dump->total.samples).bytes,
                words_of_count((double)heap->interval_bytes).bytes,
                words_of_bytes(profile_floor_bytes(heap->interval_bytes)).bytes);
    print_losses(printer);
    print_others(printer);
    if (dump->incomplete)
        fputs("  partial       samples of this dump are missing from the trace: all but the exact "
              "totals are too low\n",
              out);
    else if (is_partial(printer))
        fputs("  partial       all but the exact totals leave out what was lost\n", out);
    if (heap->status.remark != NULL && heap->status.remark[0] != '\0') {
        fputs("  note          ", out);
        words_print(out, heap->status.remark, REMARK_WIDTH);
        fputc('\n', out);
    }
}

/* There are no figures, and zeros would look like some. */
static void print_absent(const struct printer *printer)
{
    const struct profile_process *process = &printer->profile->processes[printer->heap->process];
    print_title(printer, process->command[0] != '\0' ? process->command : process->name);
    fprintf(printer->out, "  process       %d, not profiled\n  note          ", process->pid);
    words_print(printer->out, printer->heap->status.remark, REMARK_WIDTH);
    fputc('\n', printer->out);
}

/* --- tables --- */

static int compare_lines(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* One line's figures. */
static void print_figures(const struct printer *printer, const struct report_figure *figure,
                          double total, enum report_view view)
{
    bool counts = view_counts(view);
    double rank = report_rank(figure, view);
    struct words value = counts ? words_of_count(figure->count) : words_of_bytes(figure->bytes);
    struct words margin = margin_text(printer, figure, counts);
    struct words other = counts ? words_of_bytes(figure->bytes) : words_of_count(figure->count);
    /* The ± sign is two bytes wide and one column. */
    int margin_width = strncmp(margin.bytes, "±", strlen("±")) == 0 ? 20 : 19;
    fprintf(printer->out, "%10s %5.1f%% %-*s %10s %9s  ", value.bytes,
            total > 0 ? 100 * rank / total : 0, margin_width, margin.bytes, other.bytes,
            figure->count >= 0.5 ? words_of_bytes(figure->bytes / figure->count).bytes : "-");
}

static void print_columns(const struct printer *printer, enum report_view view, const char *what)
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
    print_frame(printer, profile->callsites[at].frame, 60);
    print_module(printer, profile->callsites[at].frame);
    if (printer->options->stacks) {
        fputc('\n', printer->out);
        for (at = callsite; at != PROFILE_NONE; at = profile->callsites[at].parent) {
            fputs("              ", printer->out);
            print_frame(printer, profile->callsites[at].frame, 200);
            print_module(printer, profile->callsites[at].frame);
            fputc('\n', printer->out);
        }
        return;
    }
    at = profile->callsites[at].parent;
    for (int i = 0; i < STACK_FRAMES && at != PROFILE_NONE; i++) {
        fputs(" < ", printer->out);
        print_frame(printer, profile->callsites[at].frame, 40);
        at = profile->callsites[at].parent;
    }
    fputs(at != PROFILE_NONE ? " < ...\n" : "\n", printer->out);
}

/* The callsites that rank highest; how a callsite ranks is the caller's. */
static void print_callsites(const struct printer *printer, struct line *lines, size_t count,
                            double total, enum report_view view, size_t top)
{
    qsort(lines, count, sizeof(*lines), compare_lines);
    size_t shown = top == 0 || top > count ? count : top;
    print_columns(printer, view, "function < its callers");
    for (size_t i = 0; i < shown; i++) {
        const struct profile_sample *sample = &printer->dump->samples[lines[i].index];
        struct rollup_values values = rollup_values_of(sample);
        struct report_figure figure = report_figure_of(&values, view);
        print_figures(printer, &figure, total, view);
        print_callsite(printer, sample->callsite);
    }
    if (shown < count)
        fprintf(printer->out, "%10s        (%s more callsites; --top 0 shows all)\n", "...",
                words_of_count((double)(count - shown)).bytes);
}

static void print_callsite_table(const struct printer *printer, enum report_view view, size_t top,
                                 const char *title)
{
    const struct profile_dump *dump = printer->dump;
    struct line *lines = calloc(dump->sample_count + 1, sizeof(*lines));
    if (lines == NULL)
        return;
    size_t count = 0;
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(&dump->samples[i]);
        struct report_figure figure = report_figure_of(&values, view);
        double rank = report_rank(&figure, view);
        if (rank >= 0.5)
            lines[count++] = (struct line){(uint32_t)i, rank};
    }
    struct report_figure total = report_total_of(dump, view);
    print_title(printer, title);
    if (count == 0)
        fputs("  nothing\n", printer->out);
    else
        print_callsites(printer, lines, count, report_rank(&total, view), view, top);
    free(lines);
}

static void print_temporary(const struct printer *printer)
{
    const struct profile_dump *dump = printer->dump;
    const struct trace_figures *all = &dump->total;
    struct line *lines = calloc(dump->sample_count + 1, sizeof(*lines));
    size_t count = 0;
    for (size_t i = 0; lines != NULL && i < dump->sample_count; i++)
        if (dump->samples[i].figures.temporary_count >= 0.5)
            lines[count++] = (struct line){(uint32_t)i, dump->samples[i].figures.temporary_count};
    if (count > 0) {
        qsort(lines, count, sizeof(*lines), compare_lines);
        print_title(printer, "Temporary allocations");
        fprintf(printer->out,
                "  %.1f %% of all allocations were freed by their thread before it allocated "
                "again\n%10s %6s %10s %9s  %s\n",
                100 * all->temporary_count / fmax(all->allocated_count, 1), "count", "share",
                "bytes", "mean", "function < its callers");
    }
    for (size_t i = 0; i < count && i < SECTION_LINES; i++) {
        const struct profile_sample *sample = &dump->samples[lines[i].index];
        const struct trace_figures *figures = &sample->figures;
        fprintf(printer->out, "%10s %5.1f%% %10s %9s  ",
                words_of_count(figures->temporary_count).bytes,
                100 * figures->temporary_count / fmax(figures->allocated_count, 1),
                words_of_bytes(figures->temporary_bytes).bytes,
                words_of_bytes(figures->temporary_bytes / figures->temporary_count).bytes);
        print_callsite(printer, sample->callsite);
    }
    free(lines);
}

static void print_rollup(const struct printer *printer, enum rollup_key key, const char *title)
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
    print_title(printer, title);
    if (count == 0)
        fputs(key == ROLLUP_THREAD && view == REPORT_MAX
                  ? "  the peak is not known by thread: choose another --view\n"
                  : "  nothing\n",
              printer->out);
    else
        print_columns(printer, view, key == ROLLUP_THREAD ? "thread" : "function and all it calls");
    for (size_t i = 0; i < count && (top == 0 || i < top); i++) {
        const struct rollup_row *row = &rollup->rows[lines[i].index];
        struct report_figure figure =
            report_figure_of(key == ROLLUP_THREAD ? &row->self : &row->cumulative, view);
        print_figures(printer, &figure, report_rank(&total, view), view);
        if (key == ROLLUP_THREAD) {
            int32_t pid = printer->profile->processes[printer->heap->process].pid;
            fprintf(printer->out, "%d ", row->tid);
            words_print(printer->out, profile_thread_name(printer->profile, pid, row->tid),
                        MODULE_WIDTH);
            fputc('\n', printer->out);
        } else {
            print_frame(printer, row->frame, 80);
            print_module(printer, row->frame);
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
    print_figures(printer, &figure, total, view);
    fputs(indent, printer->out);
    if (key == GROUPING_BACKTRACE) {
        print_callsite(printer, row->callsite);
        return;
    }
    if (row->label[0] == '\0')
        fputs(key == GROUPING_TYPE ? "[no type]" : "[no context]", printer->out);
    words_print(printer->out, row->label, COMMAND_WIDTH);
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
            print_group_rows(printer, grouping, row, total, top == 0 ? 0 : SECTION_LINES);
    }
    if (top != 0 && count > top)
        fprintf(printer->out, "%10s        %*s(%s more; --top 0 shows all)\n", "...",
                outer != NULL ? 2 : 0, "", words_of_count((double)(count - top)).bytes);
    free(order);
}

static void print_groups(const struct printer *printer)
{
    const enum grouping_key *by = printer->options->by;
    struct grouping *grouping = grouping_new(printer->dump, by[0], by[1]);
    if (grouping == NULL)
        return;
    struct report_figure total = report_total_of(printer->dump, printer->options->view);
    print_title(printer, title_of_groups(by[0]));
    print_columns(printer, printer->options->view, report_group_key_name(by[0]));
    print_group_rows(printer, grouping, NULL, report_rank(&total, printer->options->view),
                     printer->options->top);
    grouping_free(grouping);
}

/* --- tree --- */

static void print_tree_level(const struct printer *printer, const struct rollup_tree *tree,
                             uint32_t first, double total, unsigned depth)
{
    enum report_view view = printer->options->view;
    size_t count = 0, small = 0;
    double small_rank = 0;
    for (uint32_t at = first; at != PROFILE_NONE; at = tree->next_sibling[at])
        count++;
    struct line *lines = calloc(count + 1, sizeof(*lines));
    if (lines == NULL)
        return;
    count = 0;
    for (uint32_t at = first; at != PROFILE_NONE; at = tree->next_sibling[at]) {
        struct report_figure figure = report_figure_of(&tree->cumulative[at], view);
        double rank = report_rank(&figure, view);
        if (rank >= total * TREE_SHARE_MIN && rank >= 0.5) {
            lines[count++] = (struct line){at, rank};
        } else if (rank >= 0.5) {
            small++;
            small_rank += rank;
        }
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = lines[i].index;
        struct report_figure figure = report_figure_of(&tree->cumulative[at], view);
        print_figures(printer, &figure, total, view);
        fprintf(printer->out, "%*s", (int)(depth < 40 ? depth : 40), "");
        print_frame(printer, printer->profile->callsites[at].frame, 80);
        print_module(printer, printer->profile->callsites[at].frame);
        fputc('\n', printer->out);
        if (depth < TREE_DEPTH_MAX)
            print_tree_level(printer, tree, tree->first_child[at], total, depth + 1);
    }
    if (small > 0)
        fprintf(
            printer->out, "%10s %5.1f%% %12s %10s %9s  %*s(%zu smaller ones, below 1 %% each)\n",
            view_counts(view) ? words_of_count(small_rank).bytes : words_of_bytes(small_rank).bytes,
            total > 0 ? 100 * small_rank / total : 0, "", "", "", (int)(depth < 40 ? depth : 40),
            "", small);
    free(lines);
}

static void print_tree(const struct printer *printer)
{
    struct rollup_tree *tree = rollup_tree_new(printer->profile, printer->dump);
    if (tree == NULL)
        return;
    struct report_figure total = report_total_of(printer->dump, printer->options->view);
    print_title(printer, view_title(printer->options->view));
    print_columns(printer, printer->options->view, "function, below its caller");
    print_tree_level(printer, tree, tree->first_root, report_rank(&total, printer->options->view),
                     0);
    rollup_tree_free(tree);
}

/* --- all of it --- */

/* What a process still held when it ended has leaked; while it runs, nobody can say. */
static const char *title_of_rest(const struct trace_heap_dump *status)
{
    return status->exit_status >= 0 ? "Leaks: still live at the end" : "Still live at the end";
}

static void print_body(const struct printer *printer)
{
    const struct report_options *options = printer->options;
    if (options->tree)
        print_tree(printer);
    if (options->cumulative)
        print_rollup(printer, ROLLUP_FUNCTION, view_title(options->view));
    if (options->thread)
        print_rollup(printer, ROLLUP_THREAD, "By thread");
    if (options->by[0] != GROUPING_NONE)
        print_groups(printer);
    if (options->tree || options->cumulative || options->thread || options->by[0] != GROUPING_NONE)
        return;
    print_callsite_table(printer, options->view, options->top, view_title(options->view));
    if (options->view != REPORT_SPACE && printer->dump->final)
        print_callsite_table(printer, REPORT_SPACE, SECTION_LINES,
                             title_of_rest(&printer->heap->status));
    print_temporary(printer);
}

static void print_brief(const struct printer *printer)
{
    struct report_figure live = report_total_of(printer->dump, REPORT_SPACE);
    struct report_figure all = report_total_of(printer->dump, REPORT_ALLOC_SPACE);
    if (all.bytes < 0.5)
        return;
    print_callsite_table(printer, REPORT_MAX, BRIEF_LINES, view_title(REPORT_MAX));
    if (live.bytes >= 0.5)
        print_callsite_table(printer, REPORT_SPACE, BRIEF_LINES,
                             title_of_rest(&printer->heap->status));
}

static void print_unprofiled(const struct profile *profile, FILE *out)
{
    for (size_t i = 0; i < profile->unprofiled_count; i++) {
        const struct profile_unprofiled *process = &profile->unprofiled[i];
        size_t width = strlen(process->name);
        fputs(i == 0 ? "\nNot profiled\n  " : "  ", out);
        words_print(out, process->name, MODULE_WIDTH);
        fprintf(out, "%*s ", width < NAME_COLUMN ? (int)(NAME_COLUMN - width) : 0, "");
        words_print(out, process->reason, REMARK_WIDTH);
        fputc('\n', out);
    }
}

int report_print_text(const struct profile *profile, const struct report_options *options,
                      FILE *out)
{
    int found = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct printer printer = {
            .profile = profile,
            .options = options,
            .heap = &profile->heaps[i],
            .dump = report_dump_of(profile, &profile->heaps[i], options),
            .out = out,
        };
        if (printer.dump == NULL)
            continue;
        found++;
        if (report_is_absent(printer.heap, printer.dump)) {
            print_absent(&printer);
            continue;
        }
        print_head(&printer);
        if (options->brief)
            print_brief(&printer);
        else if (printer.dump->sample_count > 0)
            print_body(&printer);
    }
    if (found == 0)
        return -ENOENT;
    print_unprofiled(profile, out);
    if (profile->warning[0] != '\0') {
        fputs("\nwarning: ", out);
        words_print(out, profile->warning, REMARK_WIDTH);
        fputc('\n', out);
    }
    return 0;
}
