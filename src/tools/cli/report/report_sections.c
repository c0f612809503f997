/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses, orders and cuts the sections of the report, and prints the table of its processes. */
#include "tools/cli/report/report_sections.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "util/id_map.h"
#include "util/xmalloc.h"

#define BRIEF_LINES 10u    /* of the table */
#define BRIEF_PROCESSES 3u /* with sections of their own */
#define BRIEF_HEAPS 8u     /* of a process: the one with its note, and the largest ones */
#define LONG_PROCESSES 10u /* of a report that is not brief */
/* A wrapper's heap, before its exec, has a brief section if it is this share of the largest. */
#define WRAPPER_SHARE_MIN 0.1
/* Columns of a title at most, of a figure, and of a pid with the space around it. */
#define TITLE_WIDTH 80u
#define FIGURE_COLUMNS 11u
#define PID_COLUMNS 10u

/* --- choice and order of sections --- */

/* Order by size, the larger one first. */
static int compare_figures(const struct report_section *left, const struct report_section *right)
{
    if (left->unseen != right->unseen)
        return left->unseen ? 1 : -1;
    if (left->rank != right->rank)
        return left->rank > right->rank ? -1 : 1;
    int order = rollup_size_compare(&left->size, &right->size);
    /* Equal ones keep the profile's order. */
    return order != 0 ? order : left->heap < right->heap ? -1 : left->heap > right->heap;
}

static int compare_alone(const void *left, const void *right)
{
    return compare_figures(left, right);
}

static int compare_by_process(const void *left_pointer, const void *right_pointer)
{
    const struct report_section *left = left_pointer, *right = right_pointer;
    if (left->process != right->process)
        return left->process < right->process ? -1 : 1;
    return compare_figures(left, right);
}

/* Return whether the section has its process's note: one heap of each process has it. */
static bool has_note(const struct report_section *section)
{
    return section->heap->status.remark != NULL;
}

/* Order processes by their largest heap. The programs that one pid ran (exec) are one process. */
static void order_sections(struct report_sections *sections, const struct profile *profile)
{
    struct id_map places = {0}; /* by pid */
    size_t processes = 0;
    if (sections->count > 1)
        qsort(sections->items, sections->count, sizeof(*sections->items), compare_alone);
    for (size_t i = 0; i < sections->count; i++) {
        struct report_section *section = &sections->items[i];
        uint32_t pid = (uint32_t)profile->processes[section->heap->process].pid;
        uint32_t place = id_map_find(&places, pid);
        if (place == ID_MAP_NONE) {
            place = (uint32_t)processes++;
            xmalloc_code(id_map_set(&places, pid, place));
            sections->process_count += !section->unseen;
        }
        section->process = place;
    }
    if (sections->count > 1)
        qsort(sections->items, sections->count, sizeof(*sections->items), compare_by_process);
    id_map_free(&places);
}

/* Return whether the section is of a wrapper (a shell, env) that by exec became the program with
 * the largest heap, and is much smaller than that heap. */
static bool is_small_wrapper(const struct report_section *section,
                             const struct report_section *largest)
{
    return section->heap->process != largest->heap->process &&
           section->dump->boottime_ns < largest->dump->boottime_ns &&
           section->rank < largest->rank * WRAPPER_SHARE_MIN;
}

static void hide_sections(struct report_sections *sections, const struct report_options *options)
{
    size_t most = options->brief ? BRIEF_PROCESSES : options->top == 0 ? SIZE_MAX : LONG_PROCESSES;
    const struct report_section *largest = NULL;
    size_t heaps = 0;
    for (size_t i = 0; i < sections->count; i++) {
        struct report_section *section = &sections->items[i];
        bool begins = largest == NULL || section->process != largest->process;
        if (begins)
            largest = section;
        heaps = begins ? 1 : heaps + 1;
        if (section->unseen)
            continue;
        if (section->process >= most) {
            section->hidden = true;
            sections->hidden_processes += begins;
        } else if (options->brief && heaps > (has_note(section) ? 2 : 1) * BRIEF_HEAPS) {
            section->hidden = true;
            sections->hidden_heaps++;
        } else if (options->brief && is_small_wrapper(section, largest)) {
            section->hidden = true;
            sections->hidden_wrappers++;
        }
    }
}

void report_sections_make(struct report_sections *sections, const struct profile *profile,
                          const struct report_options *options)
{
    *sections = (struct report_sections){
        .items = xcalloc(profile->heap_count + 1, sizeof(*sections->items)),
    };
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        const struct profile_dump *dump = dump_choice_of(&options->choice, profile, heap);
        if (dump == NULL)
            continue;
        struct profile_estimate total = estimate_of_dump(dump, options->view);
        sections->items[sections->count++] = (struct report_section){
            .heap = heap,
            .dump = dump,
            .rank = estimate_rank(&total, options->view),
            .size = rollup_size_of(dump),
            .unseen = heap->unseen,
        };
    }
    order_sections(sections, profile);
    hide_sections(sections, options);
}

void report_sections_clear(struct report_sections *sections)
{
    free(sections->items);
    *sections = (struct report_sections){0};
}

/* --- the table --- */

/* Return whether only a limit is known: there is no sample, or chance has put the estimate above
 * what is certain. */
static bool is_limit(const struct estimate_shown *total)
{
    return total->value < 0.5
               ? total->interval.high >= 0.5
               : total->value == total->interval.high && total->interval.low < total->value;
}

/* Print the estimate, or the limit. */
static void print_figure(FILE *out, const struct report_section *section, enum export_view view)
{
    bool counts = export_view_counts_calls(view);
    const struct estimate_shown total = estimate_total(section->heap, section->dump, view, counts);
    char least[sizeof(struct formatted) + 8];
    if (export_view_is_unknown(section->heap, view)) {
        fprintf(out, "%10s ", "unknown");
    } else if (is_limit(&total)) {
        snprintf(least, sizeof(least), "≤ %s", format_amount(total.interval.high, counts).bytes);
        fprintf(out, "%12s ", least); /* 10 columns: the sign has three bytes */
    } else {
        fprintf(out, "%10s ", format_amount(total.value, counts).bytes);
    }
}

/* Return the columns of a process's title. */
static size_t title_width(const struct report_options *options)
{
    size_t figures = options->view == EXPORT_SPACE || options->view == EXPORT_MAX ? 2 : 3;
    size_t room = stack_format_room(options->columns, figures * FIGURE_COLUMNS + PID_COLUMNS);
    return room > 0 && room < TITLE_WIDTH ? room : TITLE_WIDTH;
}

/* Print a process's row, by its largest heap. `heaps` is its number of heaps. */
static void print_row(struct printer *printer, const struct report_section *section, size_t heaps)
{
    FILE *out = printer->out;
    enum export_view view = printer->options->view;
    const struct profile_process *process = &printer->profile->processes[section->heap->process];
    print_figure(out, section, view);
    if (view != EXPORT_SPACE)
        print_figure(out, section, EXPORT_SPACE);
    if (view != EXPORT_MAX)
        print_figure(out, section, EXPORT_MAX);
    fprintf(out, "%8" PRId32 "  ", process->pid);
    format_print(out, report_process_title(process), title_width(printer->options));
    if (strcmp(section->heap->name, "libc.malloc") != 0) {
        fputs(" [", out);
        format_print(out, section->heap->name, FORMAT_WORD_WIDTH);
        fputc(']', out);
    }
    if (heaps > 1)
        fprintf(out, " and %zu more heap%s", heaps - 1, heaps == 2 ? "" : "s");
    fputc('\n', out);
}

static const char *column_of(enum export_view view)
{
    static const char *const columns[EXPORT_VIEWS] = {
        [EXPORT_SPACE] = "live",
        [EXPORT_OBJECTS] = "live count",
        [EXPORT_ALLOC_SPACE] = "allocated",
        [EXPORT_ALLOC_OBJECTS] = "made",
        [EXPORT_MAX] = "peak",
    };
    return columns[view];
}

static void print_head(enum export_view view, FILE *out)
{
    fprintf(out, "%10s ", column_of(view));
    if (view != EXPORT_SPACE)
        fprintf(out, "%10s ", column_of(EXPORT_SPACE));
    if (view != EXPORT_MAX)
        fprintf(out, "%10s ", column_of(EXPORT_MAX));
    fprintf(out, "%8s  process\n", "pid");
}

void report_sections_print_processes(const struct report_sections *sections,
                                     const struct profile *profile,
                                     const struct report_options *options, FILE *out)
{
    struct printer printer = {.profile = profile, .options = options, .out = out};
    size_t most = options->brief ? BRIEF_LINES : options->top, printed = 0;
    char title[96];
    bool exact = true;
    if (sections->process_count < 2)
        return;
    for (size_t i = 0; i < sections->count; i++)
        exact &= sections->items[i].unseen || sections->items[i].heap->interval_bytes == 1;
    snprintf(title, sizeof(title), "%zu processes, the largest first%s", sections->process_count,
             exact ? "" : "; figures are estimates, or limits (≤)");
    printer_title(&printer, title);
    print_head(options->view, out);
    for (size_t i = 0, next; i < sections->count && (most == 0 || printed < most); i = next) {
        const struct report_section *section = &sections->items[i];
        for (next = i + 1;
             next < sections->count && sections->items[next].process == section->process;)
            next++;
        if (section->unseen)
            continue;
        print_row(&printer, section, next - i);
        printed++;
    }
    if (printed < sections->process_count)
        fprintf(out, "%10s (%zu more%s)\n", "...", sections->process_count - printed,
                options->brief ? "" : "; --top 0 shows all");
}

void report_sections_print_hidden(const struct report_sections *sections,
                                  const struct report_options *options, FILE *out)
{
    if (sections->hidden_heaps > 0)
        fprintf(out, "\n%zu more heap%s, smaller: heap_profile report shows %s\n",
                sections->hidden_heaps, sections->hidden_heaps == 1 ? "" : "s",
                sections->hidden_heaps == 1 ? "it" : "them");
    if (sections->hidden_wrappers > 0)
        fprintf(out,
                "\n%zu smaller heap%s of programs that a process ran before its exec: "
                "heap_profile report shows %s\n",
                sections->hidden_wrappers, sections->hidden_wrappers == 1 ? "" : "s",
                sections->hidden_wrappers == 1 ? "it" : "them");
    if (sections->hidden_processes > 0)
        fprintf(out, "\n%zu more process%s, smaller: %s\n", sections->hidden_processes,
                sections->hidden_processes == 1 ? "" : "es",
                options->brief ? "heap_profile report --pid PID shows one"
                               : "--pid PID shows one, --top 0 all");
}
