/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversions to stacks with figures: collapsed stacks, Speedscope's files and flame graphs.
 * They share the options that choose processes, heaps and dumps, and the errors if nothing matches.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/rollup.h"
#include "tools/cli/convert/conversions.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/profile_options.h"
#include "tools/cli/view/saved_page.h"
#include "tools/export/collapsed.h"
#include "tools/export/speedscope.h"
#include "tools/print/progress.h"
#include "util/xmalloc.h"

/* The chosen dumps. */
struct stack_dumps {
    struct profile *profile;
    const struct export_dump *items;
    size_t count;
    enum export_view view;
    bool is_numbered; /* a dump of each heap was asked for, not the last one */
    const char *path;
    const char *name; /* of the trace, with its filter */
};

struct stack_conversion {
    const char *help;
    bool has_view;       /* takes the option --view */
    bool largest_first;  /* order heaps by size, because a viewer opens on the first; else in the
                            profile's order */
    bool shares_callers; /* writes each caller once; else writes each stack in full */
    int (*check)(struct error *error); /* return 0 if this build can convert; may be NULL */
    /* Write the dumps. Return the amount written, 0 if the view is empty, or a negative errno. */
    int64_t (*write)(const struct stack_dumps *dumps, FILE *out, struct error *error);
};

/* The values of the options. */
struct choice {
    struct dump_choice which;
    enum export_view view;
    struct profile_read_options reading;
    struct profile_filter filter;
};

/* --- which dumps --- */

/* Number of heaps that an error lists if none matches. */
#define NAMED_MAX 6

/* Set the error that no dump matches, with what the profile has. */
static int explain_none(const struct profile *profile, const struct choice *choice,
                        const char *path, struct error *error)
{
    char there[300] = "";
    size_t length = 0, named = 0, heaps = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (heap->unseen || heap->dump_count == 0)
            continue;
        heaps++;
        if (named == NAMED_MAX || length > sizeof(there) - 80)
            continue;
        length += (size_t)snprintf(there + length, sizeof(there) - length,
                                   "%s%.30s of process %d (%zu dump%s)", named++ == 0 ? "" : ", ",
                                   heap->name, profile->processes[heap->process].pid,
                                   heap->dump_count, heap->dump_count == 1 ? "" : "s");
    }
    if (heaps == 0)
        return profile_options_explain_empty(profile, path, error);
    const char *more = heaps > named ? " and others" : "";
    if (choice->which.dump > 0)
        return error_set(error, -ENOENT,
                         "%.100s: no requested heap has a dump %" PRIu64 "; there are %s%s", path,
                         choice->which.dump, there, more);
    return error_set(error, -ENOENT, "%.100s: it has none of the requested heaps; there are %s%s",
                     path, there, more);
}

struct ranked_dump {
    struct export_dump dump;
    struct rollup_size size;
    size_t index;
};

static int compare_sizes(const void *left_pointer, const void *right_pointer)
{
    const struct ranked_dump *left = left_pointer, *right = right_pointer;
    int order = rollup_size_compare(&left->size, &right->size);
    return order != 0 ? order : left->index < right->index ? -1 : left->index > right->index;
}

/* Order the dumps by size. */
static void order_by_size(struct export_dump *dumps, size_t count)
{
    struct ranked_dump *ranked = xcalloc(count + 1, sizeof(*ranked));
    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked_dump){dumps[i], rollup_size_of(dumps[i].dump), i};
    if (count > 1)
        qsort(ranked, count, sizeof(*ranked), compare_sizes);
    for (size_t i = 0; i < count; i++)
        dumps[i] = ranked[i].dump;
    free(ranked);
}

/* --- the conversion --- */

/* Warn that filters left stacks out, so the sums in the output are smaller than the heaps. */
static void warn_of_filter(const struct profile *profile, const struct export_dump *dumps,
                           size_t count, enum export_view view)
{
    double part = 0, whole = 0;
    if (*profile->filter == '\0')
        return;
    for (size_t i = 0; i < count; i++) {
        part += export_view_value(&dumps[i].dump->left_out.sum, view);
        for (size_t j = 0; j < dumps[i].dump->sample_count; j++)
            whole += export_view_value(dumps[i].dump->samples[j], view);
    }
    conversion_warn("%.300s leaves out %s: %s", profile->filter,
                    profile_options_share(part, part + whole, export_view_counts_calls(view)).bytes,
                    export_view_info[view].title);
}

static int check_size(const struct stack_conversion *conversion, const struct profile *profile,
                      const struct export_dump *dumps, int64_t count, const char *path,
                      struct error *error)
{
    struct error problem;
    uint64_t frames = 0;
    int code = 0;
    for (int64_t i = 0; i < count && code == 0 && !conversion->shares_callers; i++)
        code = export_count_frames(profile, dumps[i].dump, &frames, &problem);
    return code < 0 ? error_set(error, problem.code, "%.150s: %.300s", path, problem.message) : 0;
}

static int64_t write_dumps(const struct stack_conversion *conversion, struct profile *profile,
                           const struct choice *choice, const char *path, const char *out_path,
                           struct error *error)
{
    struct export_dump *dumps = NULL;
    struct output_file file = {.fd = -1};
    int64_t written = 0;
    int64_t count = (int64_t)dump_choice_list(&choice->which, profile, &dumps);
    if (count == 0)
        count = explain_none(profile, choice, path, error);
    if (count > 0 && check_size(conversion, profile, dumps, count, path, error) < 0)
        count = error->code;
    if (count > 0 && conversion->largest_first)
        order_by_size(dumps, (size_t)count);
    if (count > 0 && conversion_open_output(&file, out_path, path, true, error) < 0)
        count = error->code;
    if (count > 0) {
        char name[PATH_MAX + 256];
        snprintf(name, sizeof(name), "%s%s%.250s", strcmp(path, "-") == 0 ? "heap profile" : path,
                 *profile->filter != '\0' ? " " : "", profile->filter);
        const struct stack_dumps chosen = {
            profile,
            dumps,
            (size_t)count,
            choice->view,
            choice->which.dump > 0,
            strcmp(path, "-") == 0 ? "standard input" : path,
            name,
        };
        FILE *out = xmalloc_made(output_file_stream(&file));
        errno = 0;
        written = conversion->write(&chosen, out, error);
        warn_of_filter(profile, dumps, (size_t)count, choice->view);
        if (written < 0)
            count = written;
    }
    int code = output_file_close(&file, count < 0 ? (int)count : 0, error);
    count = code < 0 ? code : count;
    free(dumps);
    return count < 0 ? count : written;
}

static int convert(const struct stack_conversion *conversion, const struct choice *choice,
                   const char *argument, const char *out_path)
{
    char path[PATH_MAX];
    struct error error = {0};
    struct profile *profile = NULL;
    int64_t written = conversion->check == NULL ? 0 : conversion->check(&error);
    if (written == 0)
        written = conversion_find_input(argument, path, &error);
    if (written == 0) {
        profile = progress_import(path, &choice->reading, &error);
        written = profile == NULL ? error.code : 0;
    }
    if (written == 0)
        written = write_dumps(conversion, profile, choice, path, out_path, &error);
    if (written >= 0 && profile->warning[0] != '\0')
        conversion_warn("%s", profile->warning);
    if (written == 0)
        conversion_warn("%s: there is nothing in the view %s (%s)", path,
                        export_view_info[choice->view].name, export_view_info[choice->view].title);
    profile_free(profile);
    return written < 0 ? verb_fail(&error) : 0;
}

/* --- options --- */

static const struct option_entry options[] = {
    VIEW_OPTION(struct choice, view), /* first, so that conversions without a view can skip it */
    DUMP_CHOICE_OPTIONS(struct choice, which),
    OPTION_ENTRY_CHOICE("demangle", struct choice, reading.demangling, demangle_option_names),
    FILTER_OPTIONS(struct choice, filter),
    OPTIONS_END,
};

/* Run a conversion. argv[0] is the verb. Return the exit code. */
static int convert_stacks_run(int argc, char **argv, const struct stack_conversion *conversion)
{
    struct choice choice = {.view = EXPORT_SPACE};
    choice.reading.filter = &choice.filter;
    int code = conversion_parse(argc, argv, conversion->help,
                                conversion->has_view ? options : options + 1, 2, &choice);
    if (code < 0)
        code = convert(conversion, &choice, argv[optind],
                       argv[optind] == NULL ? NULL : argv[optind + 1]);
    profile_filter_clear(&choice.filter);
    return code;
}

/* --- collapsed stacks --- */

static const char collapsed_help[] =
    "usage: traceconv collapsed [options] [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes a line \"outermost;...;innermost N\" for each stack, for flamegraph.pl, inferno and\n"
    "  Speedscope: traceconv collapsed raw-trace | flamegraph.pl > graph.svg. If there are "
    "several\n"
    "  processes, the outermost frame is the process; if a process has several heaps, the next "
    "frame\n"
    "  is the heap.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP "\n"
    "  --view VIEW   the meaning of N:\n"
    "                  space          bytes live at the dump (default)\n"
    "                  objects        the same, counted in allocations\n"
    "                  alloc_space    bytes ever allocated\n"
    "                  alloc_objects  the same, counted in allocations\n"
    "                  max            bytes live at the heap's peak\n" DUMP_CHOICE_HELP FILTER_HELP
        DEMANGLE_FULL_HELP "      --help, --version\n";

static int64_t write_collapsed(const struct stack_dumps *dumps, FILE *out, struct error *error)
{
    (void)error;
    return (int64_t)collapsed_write(dumps->profile, dumps->items, dumps->count, dumps->view, out);
}

int convert_collapsed(int argc, char **argv)
{
    static const struct stack_conversion conversion = {
        .help = collapsed_help, .has_view = true, .write = write_collapsed};
    return convert_stacks_run(argc, argv, &conversion);
}

/* --- Speedscope --- */

static const char speedscope_help[] =
    "usage: traceconv speedscope [options] [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes a file for https://www.speedscope.app and the npm package speedscope: one profile\n"
    "  for each view (space, objects, alloc_space, alloc_objects, max) of each process and heap,\n"
    "  at its last dump, with source files and lines.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP
    "\n" DUMP_CHOICE_HELP FILTER_HELP DEMANGLE_FULL_HELP "      --help, --version\n";

/* The file has all views. */
static int64_t write_speedscope(const struct stack_dumps *dumps, FILE *out, struct error *error)
{
    (void)error;
    return (int64_t)speedscope_write(dumps->profile, dumps->items, dumps->count, dumps->name, out);
}

int convert_speedscope(int argc, char **argv)
{
    static const struct stack_conversion conversion = {
        .help = speedscope_help, .largest_first = true, .write = write_speedscope};
    return convert_stacks_run(argc, argv, &conversion);
}

/* --- flame graphs --- */

static const char flamegraph_help[] =
    "usage: traceconv flamegraph [options] [DIR|TRACE] [OUT.html]\n"
    "\n"
    "  Writes the page of heap_profile view as one file for any browser (docs/view.md): flame\n"
    "  graphs and tables of each view of each process and heap, over time, with filters and\n"
    "  differences. It has the dumps for which there is room; with --dump only that one of each.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP
    "\n" DUMP_CHOICE_HELP FILTER_HELP DEMANGLE_FULL_HELP "      --help, --version\n"
    "\n"
    "heap_profile leaks --flame-graph writes a flame graph of growth.\n";

static int64_t write_page(const struct stack_dumps *dumps, FILE *out, struct error *error)
{
    const struct saved_page_profile profile = {dumps->path, dumps->profile};
    const struct view_save_options saving = {
        .choice = {dumps->items, dumps->count, .with_earlier = !dumps->is_numbered},
        .opening.tab = "flame",
        .title = dumps->name,
    };
    int code = saved_page_write(&profile, 1, &saving, out, error);
    return code < 0 ? code : (int64_t)dumps->count;
}

int convert_flamegraph(int argc, char **argv)
{
    static const struct stack_conversion conversion = {.help = flamegraph_help,
                                                       .shares_callers = true,
                                                       .check = saved_page_check,
                                                       .write = write_page};
    return convert_stacks_run(argc, argv, &conversion);
}
