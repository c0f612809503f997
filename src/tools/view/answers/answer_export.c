/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with the selection as a file of another format. Filters change a profile, so the profile
 * is read again for them.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "tools/export/collapsed.h"
#include "tools/export/diff_pprof.h"
#include "tools/export/pprof.h"
#include "tools/export/speedscope.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/graph.h"
#include "tools/view/model/limits.h"
#include "util/base_name.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

struct writing {
    struct json_writer json;
    struct view_profiles *profiles;
    const struct view_graph *graph;
    bool is_difference;
};

/* --- figures --- */

static bool answer_export_is_known(const struct writing *writing, bool counts)
{
    const struct view_selection *selection = &writing->graph->selection;
    uint32_t unknown = selection->at.dump.heap->unknown;
    if (writing->is_difference)
        unknown |= selection->base.dump.heap->unknown;
    return !writing->graph->leaves.unknown && (!counts || (unknown & PROFILE_UNKNOWN_COUNTS) == 0);
}

static void write_value(struct writing *writing, const char *key, double value, bool known)
{
    json_number(&writing->json, key, known ? value : (double)NAN);
}

static void write_limits(struct writing *writing, struct profile_interval limits, bool known)
{
    write_value(writing, "low95", limits.low, known);
    write_value(writing, "high95", limits.high, known);
}

static void write_change(struct writing *writing, const struct flame_sum *sum, bool counts,
                         bool of_heap)
{
    const struct view_leaves *leaves = &writing->graph->leaves;
    const struct change change = view_leaves_change(leaves, sum, counts, of_heap);
    bool known = answer_export_is_known(writing, counts);
    double gained = counts ? sum->gained.count : sum->gained.bytes,
           lost = counts ? sum->lost.count : sum->lost.bytes;
    write_value(writing, "change", change.value, known);
    write_limits(writing, view_leaves_limits(leaves, &change), known);
    /* Between two processes, which share no sample, these are the figures after and before. */
    const struct change_bounds *bounds = &leaves->bounds[counts];
    bool has_totals = of_heap && bounds->has_totals && !leaves->same_process;
    write_value(writing, "gained", has_totals ? bounds->after : gained, known);
    write_value(writing, "lost", has_totals ? bounds->before : lost, known);
}

static void write_estimate(struct writing *writing, const struct flame_sum *sum, bool counts,
                           bool of_heap)
{
    const struct export_dump *at = &writing->graph->selection.at.dump;
    bool known = answer_export_is_known(writing, counts);
    const struct estimate_shown shown =
        of_heap ? view_total(at, writing->graph->selection.view, counts)
                : (struct estimate_shown){counts ? sum->gained.count : sum->gained.bytes,
                                          view_limits(&sum->gained, counts, at)};
    write_value(writing, "estimate", shown.value, known);
    write_limits(writing, shown.interval, known);
}

/* Write bytes and count of a sum. of_heap: it is of a whole heap. */
static void write_figures(struct writing *writing, const struct flame_sum *sum, bool of_heap)
{
    for (int counts = 0; counts < 2; counts++) {
        json_object(&writing->json, counts ? "count" : "bytes");
        if (writing->is_difference)
            write_change(writing, sum, counts, of_heap);
        else
            write_estimate(writing, sum, counts, of_heap);
        json_end_object(&writing->json);
    }
}

/* --- the selection --- */

static void write_dump_key(struct writing *writing, const char *key, const struct view_dump *chosen)
{
    struct json_writer *json = &writing->json;
    const struct profile_heap *heap = chosen->dump.heap;
    const struct profile_process *process = &chosen->of->profile->processes[heap->process];
    json_object(json, key);
    json_string(json, "profile", base_name(chosen->of->path));
    json_signed(json, "pid", profile_shown_pid(process));
    json_string(json, "name", process->name);
    json_string(json, "heap", heap->name);
    json_unsigned(json, "dump", (size_t)(chosen->dump.dump - heap->dumps) + 1);
    json_unsigned(json, "dumps", heap->dump_count);
    json_unsigned(json, "interval_bytes", heap->interval_bytes);
    json_end_object(json);
}

static void write_filters(struct writing *writing)
{
    const struct profile_filter *filter = &writing->graph->selection.filter;
    struct json_writer *json = &writing->json;
    json_array(json, "filters");
    for (size_t i = 0; i < filter->count; i++) {
        json_object(json, NULL);
        json_string(json, "kind", profile_filter_names[filter->patterns[i].kind]);
        json_string(json, "expression", filter->patterns[i].text);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_only(struct writing *writing)
{
    const struct view_only *only = &writing->graph->selection.only;
    struct json_writer *json = &writing->json;
    json_array(json, "only");
    for (size_t i = 0; i < only->count; i++) {
        json_object(json, NULL);
        json_string(json, "dimension", view_dimension_names[only->items[i].dimension]);
        json_string(json, "value", only->items[i].text);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_head(struct writing *writing)
{
    const struct view_graph *graph = writing->graph;
    struct json_writer *json = &writing->json;
    write_dump_key(writing, "at", &graph->selection.at);
    if (writing->is_difference)
        write_dump_key(writing, "base", &graph->selection.base);
    json_string(json, "view", export_view_info[graph->selection.view].name);
    json_string(json, "direction", view_direction_names[graph->direction]);
    write_filters(writing);
    write_only(writing);
    json_object(json, "total");
    write_figures(writing, &graph->leaves.total, graph->leaves.is_of_heap);
    json_end_object(json);
    json_object(json, "left_out");
    write_figures(writing, &graph->leaves.left_out, false);
    json_end_object(json);
    json_bool(json, "pruned", graph->flame.pruned);
}

/* --- nodes --- */

static void write_function(struct writing *writing, uint32_t function)
{
    struct json_writer *json = &writing->json;
    struct function_names names;
    functions_name(&writing->profiles->functions, function, &names);
    json_string(json, "name", names.full_name);
    json_string(json, "mapping", names.path);
    if (*names.file != '\0') {
        json_string(json, "file", names.file);
        json_unsigned(json, "line", names.line);
    }
    if (*names.kind != '\0')
        json_string(json, "kind", names.kind);
}

/* Nodes are a flat list with the number of their parent: stacks can be deeper than parsers allow
 * nested objects to be. */
static void write_node(struct writing *writing, size_t index)
{
    const struct view_graph *graph = writing->graph;
    const struct flame_node *node = &graph->flame.nodes[index];
    struct json_writer *json = &writing->json;
    json_line(json);
    json_object(json, NULL);
    if (node->parent == STACK_NONE)
        json_null(json, "parent");
    else
        json_unsigned(json, "parent", node->parent);
    if (node->function == STACK_NONE)
        json_null(json, "name");
    else
        write_function(writing, node->function);
    write_figures(writing, &node->sum, index == 0 && view_graph_is_of_heap(graph));
    json_object(json, "self");
    write_figures(writing, &node->self, false);
    json_end_object(json);
    write_value(writing, "samples", node->sum.gained.samples + node->sum.lost.samples, true);
    if (graph->marks != NULL)
        json_bool(json, "beyond_chance", graph->marks[index]);
    json_end_object(json);
}

/* The graph of a question as JSON for other programs: its nodes with their figures, which are named
 * as in report --json. docs/view.md describes it. */
static int export_json(struct view_profiles *profiles, const struct view_parameters *parameters,
                       FILE *out, struct error *error)
{
    struct view_graph graph;
    int code = view_graph_make(&graph, profiles, parameters, error);
    if (code == 0) {
        struct writing writing = {json_begin(out), profiles, &graph,
                                  view_selection_is_difference(&graph.selection)};
        json_object(&writing.json, NULL);
        write_head(&writing);
        json_array(&writing.json, "nodes");
        for (size_t i = 0; i < graph.flame.count; i++)
            write_node(&writing, i);
        json_end_array(&writing.json);
        json_end_object(&writing.json);
    }
    view_graph_free(&graph);
    return code;
}

#define COPY_BYTES 65536

/* Copy a file from its beginning. Return 0 or a negative errno. */
static int answer_export_copy(int fd, FILE *out)
{
    char buffer[COPY_BYTES];
    ssize_t length;
    off_t at = 0;
    while ((length = pread(fd, buffer, sizeof(buffer), at)) > 0) {
        fwrite(buffer, 1, (size_t)length, out);
        at += length;
    }
    return length < 0 ? -errno : 0;
}

/* Both writers of pprof need a file that they can seek in. */
static int open_pprof(struct error *error)
{
    int fd = memfd_create("pprof", MFD_CLOEXEC);
    return fd < 0 ? error_set(error, -errno, "no room for the pprof file: %s", strerror(errno))
                  : fd;
}

/* Copy the pprof file to `out`, unless writing it has failed with `code`, and close it. */
static int close_pprof(int fd, int code, FILE *out, struct error *error)
{
    if (code == 0 && (code = answer_export_copy(fd, out)) < 0)
        error_set(error, code, "cannot read the pprof file back: %s", strerror(-code));
    close(fd);
    return code;
}

static int write_pprof(const struct profile *profile, const struct export_dump *chosen, FILE *out,
                       struct error *error)
{
    static const struct pprof_options options = {.gzip = true};
    int fd = open_pprof(error);
    if (fd < 0)
        return fd;
    int code = pprof_write(profile, chosen->heap, chosen->dump, &options, fd, error);
    return close_pprof(fd, code, out, error);
}

static int write_format(const char *format, const struct profile *profile,
                        const struct export_dump *chosen, enum export_view view, const char *name,
                        FILE *out, struct error *error)
{
    if (strcmp(format, "pprof") == 0)
        return write_pprof(profile, chosen, out, error);
    if (strcmp(format, "collapsed") == 0)
        collapsed_write(profile, chosen, 1, view, out);
    else
        speedscope_write(profile, chosen, 1, name, out);
    return 0;
}

/* A profile's own filters join patterns of one kind by "or", the page's by "and". */
static bool joins_alike(const struct profile_filter *filter)
{
    size_t counts[PROFILE_FILTER_KINDS] = {0};
    for (size_t i = 0; i < filter->count; i++)
        counts[filter->patterns[i].kind]++;
    return counts[PROFILE_FOCUS] <= 1 && counts[PROFILE_SHOW_FROM] <= 1;
}

/* --- a selection with filters --- */

/* One side of the selection as files have it: of a profile that was read with the filters. */
struct side {
    const struct profile *profile;
    struct profile *read; /* owned; NULL: another has it */
    struct export_dump dump;
};

/* Take a side. `other`: may have the same profile with the filters; NULL: none. */
static int take_side(struct side *side, const struct view_dump *from, const struct side *other,
                     const struct view_selection *selection, struct error *error)
{
    const struct profile_read_options reading = {
        .demangling = DEMANGLE_FULL, .filter = &selection->filter, .only_regular = true};
    const struct view_profile *of = from->of;
    *side = (struct side){.profile = of->profile, .dump = from->dump};
    if (selection->filter.count == 0) {
        side->dump.dump = view_shown(selection, from);
        return 0;
    }
    size_t heap = (size_t)(from->dump.heap - of->profile->heaps),
           dump = (size_t)(from->dump.dump - from->dump.heap->dumps);
    if (other != NULL && selection->base.of == selection->at.of)
        side->profile = other->profile;
    else
        side->profile = side->read = import_profile(of->path, &reading, error);
    if (side->profile == NULL)
        return error->code;
    if (heap >= side->profile->heap_count || dump >= side->profile->heaps[heap].dump_count)
        return error_set(error, -ENOENT, "'%s' has changed; reload the page", of->path);
    side->dump.heap = &side->profile->heaps[heap];
    side->dump.dump = &side->dump.heap->dumps[dump];
    return 0;
}

static int write_pprof_of_difference(const struct side *base, const struct side *at, FILE *out,
                                     struct error *error)
{
    const struct diff_side before = {base->profile, &base->dump, 1},
                           after = {at->profile, &at->dump, 1};
    const struct diff_options options = {.by = DIFF_CALLSITE, .lines = true};
    int fd = open_pprof(error);
    if (fd < 0)
        return fd;
    struct diff *diff = xmalloc_made(diff_new(&before, &after, &options));
    int code =
        diff_pprof_write(diff, &before, &after, "heap_profile view: a difference", true, fd, error);
    diff_free(diff);
    return close_pprof(fd, code, out, error);
}

/* --- */

static int write_dump(const struct view_selection *selection, const char *format, FILE *out,
                      struct error *error)
{
    struct side at;
    int code = take_side(&at, &selection->at, NULL, selection, error);
    if (code == 0)
        code = write_format(format, at.profile, &at.dump, selection->view,
                            base_name(selection->at.of->path), out, error);
    profile_free(at.read);
    return code;
}

static int write_difference(const struct view_selection *selection, FILE *out, struct error *error)
{
    struct side at, base = {.read = NULL};
    int code = take_side(&at, &selection->at, NULL, selection, error);
    if (code == 0)
        code = take_side(&base, &selection->base, &at, selection, error);
    if (code == 0)
        code = write_pprof_of_difference(&base, &at, out, error);
    profile_free(at.read);
    profile_free(base.read);
    return code;
}

int answer_export(struct view_profiles *profiles, const struct view_parameters *parameters,
                  FILE *out, struct error *error)
{
    static const char *const formats[] = {"pprof", "collapsed", "speedscope", "json"};
    const char *format = view_parameter(parameters, "format");
    struct view_selection selection;
    bool known = false;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && format != NULL; i++)
        known |= strcmp(format, formats[i]) == 0;
    if (!known)
        return error_set(error, -EINVAL, "format is pprof, collapsed, speedscope or json");
    if (view_parameter(parameters, "group") != NULL)
        return error_set(error, -EINVAL, "a file has no groups: export one part of the graph");
    if (strcmp(format, "json") == 0)
        return export_json(profiles, parameters, out, error);
    int code = view_selection_parse(&selection, profiles, parameters, error);
    bool is_difference = view_selection_is_difference(&selection);
    if (code == 0 && is_difference && strcmp(format, "pprof") != 0)
        code = error_set(error, -EINVAL,
                         "collapsed stacks and Speedscope's files cannot have a difference: choose "
                         "pprof, JSON or SVG");
    if (code == 0 && !joins_alike(&selection.filter))
        code = error_set(error, -EINVAL,
                         "a file can have one filter 'stack has' and one 'from frame': choose JSON "
                         "or SVG");
    if (code == 0 && selection.filter.count > 0 && selection.only.count > 0)
        code = error_set(error, -EINVAL,
                         "a file can have filters, or a part by thread, type and so on, but not "
                         "both: take one of them back, or choose JSON or SVG");
    if (code == 0)
        code = is_difference ? write_difference(&selection, out, error)
                             : write_dump(&selection, format, out, error);
    view_selection_clear(&selection);
    return code;
}
