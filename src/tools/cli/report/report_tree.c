/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the report's tree: callers above callees, joined by lines. Only branches indent: a
 * function is in its caller's column if the caller has no other callee shown. All calls of one
 * function are one line, unless --addresses asks for each call site.
 */
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/report/report_tables.h"
#include "util/locale_name.h"
#include "util/ranked.h"
#include "util/xmalloc.h"

#define SHARE_MIN 0.01   /* subtrees below it are summed up */
#define BRANCHES_MAX 400 /* limit on one path: each is a level of recursion */
#define INDENTED_MAX 40  /* limit of those that indent */
#define MARK_BYTES 8

struct marks {
    const char *more, *last; /* before a callee with siblings below it; before the last one */
    const char *beside_more, *beside; /* before the callees of these */
};

static const struct marks box_drawing = {"├ ", "└ ", "│ ", "  "};
static const struct marks ascii = {"|- ", "`- ", "|  ", "   "};

struct tree_printer {
    const struct printer *printer;
    const struct sums_tree *tree;
    const struct marks *marks;
    double total;
    char prefix[INDENTED_MAX * MARK_BYTES + 1];
};

/* The callees that get a line, the largest first, and the sum of the others. */
struct level {
    struct ranked *lines; /* by node */
    size_t count, small;
    double small_rank;
};

static bool locale_is_utf8(void)
{
    if (locale_name_has_utf8())
        return true;
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0)
        return false;
    bool is_utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return is_utf8;
}

static struct profile_estimate report_tree_figure_of(const struct tree_printer *at, uint32_t node)
{
    return estimate_of_view(&at->tree->nodes[node].cumulative, at->printer->options->view);
}

/* Collect a list of siblings. level->lines is malloc'd. */
static struct level collect_level(const struct tree_printer *at, uint32_t first)
{
    struct level level = {0};
    size_t most = 0;
    for (uint32_t node = first; node != PROFILE_NONE; node = at->tree->nodes[node].next_sibling)
        most++;
    level.lines = xcalloc(most + 1, sizeof(*level.lines));
    for (uint32_t node = first; node != PROFILE_NONE; node = at->tree->nodes[node].next_sibling) {
        struct profile_estimate figure = report_tree_figure_of(at, node);
        double rank = estimate_rank(&figure, at->printer->options->view);
        if (rank >= at->total * SHARE_MIN && rank >= 0.5) {
            level.lines[level.count++] = (struct ranked){node, rank};
        } else if (rank >= 0.5) {
            level.small++;
            level.small_rank += rank;
        }
    }
    ranked_sort(level.lines, level.count);
    return level;
}

static uint32_t frame_of(const struct tree_printer *at, uint32_t node)
{
    return at->printer->profile->callsites[at->tree->nodes[node].callsite].frame;
}

/* Print the place in the function, if call sites have separate lines. */
static void print_place(const struct tree_printer *at, uint32_t node)
{
    const struct profile_frame *frame = &at->printer->profile->frames[frame_of(at, node)];
    if (!at->printer->options->addresses || frame->name[0] == '\0')
        return;
    if (frame->source_file[0] != '\0') {
        fputs(" at ", at->printer->out);
        format_print(at->printer->out, frame->source_file, FORMAT_WORD_WIDTH);
        fprintf(at->printer->out, ":%" PRIu32, frame->line);
    } else {
        fprintf(at->printer->out, " at 0x%" PRIx64, frame->rel_pc);
    }
}

static void print_node(const struct tree_printer *at, uint32_t node, const char *mark)
{
    const struct printer *printer = at->printer;
    struct profile_estimate figure = report_tree_figure_of(at, node);
    printer_figures(printer, &figure, at->total, printer->options->view);
    fprintf(printer->out, "%s%s", at->prefix, mark);
    printer_frame(printer, frame_of(at, node), strlen(at->prefix) + strlen(mark));
    print_place(at, node);
    fputc('\n', printer->out);
}

static void print_small(const struct tree_printer *at, const struct level *level, const char *mark)
{
    enum export_view view = at->printer->options->view;
    bool counts = export_view_counts_calls(view);
    struct formatted value = format_amount(level->small_rank, counts);
    fprintf(at->printer->out, "%10s %5.1f%% %*s  %s%s(%zu smaller one%s)\n", value.bytes,
            at->total > 0 ? 100 * level->small_rank / at->total : 0,
            at->printer->is_narrow ? 19 : 40, "", at->prefix, mark, level->small,
            level->small == 1 ? ", below 1 %" : "s, below 1 % each");
}

static void print_level(struct tree_printer *at, uint32_t first, unsigned branches);

/* Print a callee and, below it in the same column, its only callees, until there is a branch. */
static void print_chain(struct tree_printer *at, uint32_t node, const char *mark,
                        const char *beside, unsigned branches)
{
    size_t before = strlen(at->prefix);
    print_node(at, node, mark);
    if (branches <= INDENTED_MAX)
        strcat(at->prefix, beside);
    print_level(at, at->tree->nodes[node].first_child, branches);
    at->prefix[before] = '\0';
}

static void print_branches(struct tree_printer *at, const struct level *level, unsigned branches)
{
    const struct marks *marks = at->marks;
    if (branches == BRANCHES_MAX) {
        fprintf(at->printer->out, "%60s%s(more calls below; not shown)\n", "", at->prefix);
        return;
    }
    for (size_t i = 0; i < level->count; i++) {
        bool last = i + 1 == level->count && level->small == 0;
        print_chain(at, (uint32_t)level->lines[i].index, last ? marks->last : marks->more,
                    last ? marks->beside : marks->beside_more, branches + 1);
    }
    if (level->small > 0)
        print_small(at, level, marks->last);
}

static void print_level(struct tree_printer *at, uint32_t first, unsigned branches)
{
    struct level level = collect_level(at, first);
    while (level.count == 1 && level.small == 0) {
        first = (uint32_t)level.lines[0].index;
        print_node(at, first, "");
        free(level.lines);
        level = collect_level(at, at->tree->nodes[first].first_child);
    }
    print_branches(at, &level, branches);
    free(level.lines);
}

void printer_tree(const struct printer *printer)
{
    enum export_view view = printer->options->view;
    struct sums_tree *tree =
        xmalloc_made(sums_tree_new(printer->tables, printer->dump, !printer->options->addresses));
    struct profile_estimate total = estimate_of_dump(printer->dump, view);
    struct tree_printer at = {
        .printer = printer,
        .tree = tree,
        .marks = locale_is_utf8() ? &box_drawing : &ascii,
        .total = estimate_rank(&total, view),
    };
    printer_title(printer, printer_view_title(view));
    printer_columns(printer, view, "function, below its caller");
    print_level(&at, tree->first_root, 0);
    sums_tree_free(tree);
}
