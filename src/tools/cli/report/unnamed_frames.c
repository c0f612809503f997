/* SPDX-License-Identifier: Apache-2.0 */
/* Sums up frames without names by module, and prints them with reasons and remedies. */
#include "tools/cli/report/unnamed_frames.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/callsite_nodes.h"
#include "profile/symbolize/symbolize.h"
#include "profile/tree_sums.h"
#include "tools/print/format.h"
#include "trace/intern.h"
#include "util/xmalloc.h"

#define PATH_WIDTH 60

/* What names a file of the distribution. This server passes requests on to those of Debian, Ubuntu,
 * Fedora, Arch, openSUSE and others. */
static const char package_remedy[] =
    "DEBUGINFOD_URLS=https://debuginfod.elfutils.org heap_profile bundle DIR OUT gets its symbols "
    "from the distribution; or install its package's debug symbols (-dbgsym, -debuginfo)";

struct collecting {
    const struct profile *profile;
    struct unnamed_modules *unnamed;
    uint32_t *module_of; /* by frame; after the last module: it has a name */
    struct callsite_nodes nodes;
};

/* --- reasons --- */

/* Return whether the profile was imported from another profiler's file, which contains less than a
 * trace. */
static bool is_imported(const struct profile *profile)
{
    for (size_t i = 0; i < profile->heap_count; i++)
        if (profile->heaps[i].unknown != 0 && !profile->heaps[i].unseen &&
            !profile->heaps[i].is_perfettos)
            return true;
    return false;
}

/* Return whether the file at a path is one that a distribution installs, and nobody rebuilds. */
static bool is_packaged(const char *path)
{
    static const char *const places[] = {"/usr/bin/", "/usr/sbin/", "/usr/lib", "/usr/libexec/",
                                         "/bin/",     "/sbin/",     "/lib"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (strncmp(path, places[i], strlen(places[i])) == 0)
            return true;
    return false;
}

static void unnamed_frames_explain(const struct profile *profile, struct unnamed_module *module,
                                   const struct profile_frame *frame, uint8_t known)
{
    uint32_t kind = frame->kind;
    /* Its file was read: only that tells where functions start. */
    if (known == 0 && frame->function_start != frame->rel_pc)
        known = 1 + SYMBOL_NO_INFORMATION;
    if (module->path[0] == '\0') {
        module->reason = "code in no file";
        module->remedy = "the program generated it, or its file is unknown";
    } else if (kind == TRACE_FRAME_JIT || strncmp(module->path, "[jit:", strlen("[jit:")) == 0) {
        module->reason = "generated code that no map names";
        module->remedy = "let the program write /tmp/perf-PID.map or a jitdump: docs/symbols.md";
    } else if (known != 0) {
        module->reason = symbol_reasons[known - 1].text;
        module->remedy = known == 1 + SYMBOL_NO_INFORMATION && module->build_id[0] != '\0' &&
                                 is_packaged(module->path)
                             ? package_remedy
                             : symbol_reasons[known - 1].remedy;
    } else if (module->build_id[0] == '\0') {
        module->reason = is_imported(profile) ? "neither the profile nor the present file has names"
                                              : symbol_reasons[SYMBOL_NO_BUILD_ID].text;
        module->remedy = is_imported(profile)
                             ? "install its debug symbols, or name the directory that has the "
                               "file in PERFETTO_BINARY_PATH (for Chrome's memory dumps: "
                               "heap_profile symbolize)"
                             : symbol_reasons[SYMBOL_NO_BUILD_ID].remedy;
    } else {
        module->reason =
            is_imported(profile) ? "no symbols in the file" : "no symbols in the trace";
        module->remedy =
            is_imported(profile)
                ? "name the directory that has the file with this build id, or its debug symbols, "
                  "in PERFETTO_BINARY_PATH (for Chrome's memory dumps: heap_profile symbolize)"
                : "heap_profile bundle --symbol-paths DIR adds them from the directory "
                  "that has its debug symbols";
    }
}

/* --- modules --- */

/* Return the reasons by mapping, or NULL. A mapping with names was read when the program ran, which
 * may have been in another root: that its path leads to another build now is not why others lack
 * one. */
static uint8_t *reasons_of_mappings(const struct profile *profile, const uint8_t *reasons)
{
    if (reasons == NULL)
        return NULL;
    uint8_t *own = xcalloc(profile->mapping_count + 1, sizeof(*own));
    memcpy(own, reasons, profile->mapping_count * sizeof(*own));
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        if (frame->name[0] != '\0' && frame->mapping != PROFILE_NONE &&
            own[frame->mapping] == 1 + SYMBOL_OTHER_BUILD)
            own[frame->mapping] = 1 + SYMBOL_NO_INFORMATION;
    }
    return own;
}

/* Return the module of a frame, added if it is new. */
static uint32_t module_of(struct collecting *at, struct intern_table *ids,
                          const struct profile_frame *frame, const uint8_t *reasons)
{
    const struct profile_mapping *mapping =
        frame->mapping == PROFILE_NONE ? NULL : &at->profile->mappings[frame->mapping];
    const char *path = mapping == NULL ? "" : mapping->path;
    const char *build_id = mapping == NULL ? "" : mapping->build_id;
    const void *key[] = {path[0] == '\0' ? NULL : path, build_id[0] == '\0' ? NULL : build_id};
    bool added;
    uint64_t id = xmalloc_id(intern_bytes(ids, key, sizeof(key), &added));
    if (added) {
        struct unnamed_module *module = &at->unnamed->items[at->unnamed->count++];
        *module = (struct unnamed_module){.path = path, .build_id = build_id};
        unnamed_frames_explain(at->profile, module, frame,
                               reasons == NULL || mapping == NULL ? 0 : reasons[frame->mapping]);
    }
    at->unnamed->items[id - 1].frames++;
    return (uint32_t)(id - 1);
}

/* Find the modules of unnamed frames. */
static void find_modules(struct collecting *at, const uint8_t *reasons)
{
    const struct profile *profile = at->profile;
    struct intern_table ids = {0};
    uint8_t *own = reasons_of_mappings(profile, reasons);
    for (size_t i = 0; i < profile->frame_count; i++)
        if (profile->frames[i].name[0] == '\0')
            at->module_of[i] = module_of(at, &ids, &profile->frames[i], own);
    for (size_t i = 0; i < profile->frame_count; i++)
        if (profile->frames[i].name[0] != '\0')
            at->module_of[i] = (uint32_t)at->unnamed->count;
    intern_free(&ids);
    free(own);
}

static void add_weights(void *sum, const void *more)
{
    *(double *)sum += *(const double *)more;
}

/* Add the weight of each stack to its modules, once to each. Frames with names have a row of their
 * own, after the modules. */
static void add_dump(struct collecting *at, const struct profile_dump *dump, enum export_view view)
{
    struct callsite_nodes *nodes = &at->nodes;
    callsite_nodes_mark_dump(nodes, dump);
    xmalloc_code(callsite_nodes_list(nodes));
    double *weights = xcalloc(nodes->count + 1, sizeof(*weights));
    uint32_t *rows = xcalloc(nodes->count + 1, sizeof(*rows));
    for (size_t i = 0; i < nodes->count; i++)
        rows[i] = at->module_of[at->profile->callsites[nodes->nodes[i].callsite].frame];
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct rollup_values values = rollup_values_of(dump->samples[i]);
        const struct profile_estimate figure = estimate_of_view(&values, view);
        double weight = estimate_rank(&figure, view);
        at->unnamed->total += weight;
        weights[nodes->places[dump->samples[i]->callsite] - 1] += weight;
    }
    const struct tree_sums sums = {
        .count = nodes->count,
        .row_count = at->unnamed->count + 1,
        .parents = TREE_COLUMN(nodes->nodes, parent),
        .rows = rows,
        .values = weights,
        .value_bytes = sizeof(*weights),
        .totals = TREE_COLUMN(at->unnamed->items, weight),
        .add = add_weights,
    };
    xmalloc_code(tree_sums_add(&sums));
    free(weights);
    free(rows);
    callsite_nodes_clear(nodes);
}

static void add_dumps(struct collecting *at, const struct report_options *options)
{
    xmalloc_code(callsite_nodes_begin(&at->nodes, at->profile));
    for (size_t i = 0; i < at->profile->heap_count; i++) {
        const struct profile_dump *dump =
            dump_choice_of(&options->choice, at->profile, &at->profile->heaps[i]);
        if (dump != NULL)
            add_dump(at, dump, options->view);
    }
    callsite_nodes_free(&at->nodes);
}

static int compare_modules(const void *a, const void *b)
{
    const struct unnamed_module *left = a, *right = b;
    if (left->weight != right->weight)
        return left->weight < right->weight ? 1 : -1;
    return strcmp(left->path, right->path);
}

/* Drop modules whose frames are only in other dumps. */
static void drop_weightless(struct unnamed_modules *unnamed)
{
    size_t kept = 0;
    for (size_t i = 0; i < unnamed->count; i++)
        if (unnamed->items[i].weight > 0)
            unnamed->items[kept++] = unnamed->items[i];
    unnamed->count = kept;
}

void unnamed_collect(struct unnamed_modules *unnamed, const struct profile *profile,
                     const struct report_options *options, const uint8_t *reasons)
{
    size_t frames = 0;
    *unnamed = (struct unnamed_modules){0};
    for (size_t i = 0; i < profile->frame_count; i++)
        frames += profile->frames[i].name[0] == '\0';
    if (frames == 0)
        return;
    struct collecting at = {
        .profile = profile,
        .unnamed = unnamed,
        .module_of = xcalloc(profile->frame_count, sizeof(*at.module_of)),
    };
    /* There are at most as many modules as mappings, one for no mapping, and the row of names. */
    unnamed->items = xcalloc(profile->mapping_count + 2, sizeof(*unnamed->items));
    find_modules(&at, reasons);
    add_dumps(&at, options);
    drop_weightless(unnamed);
    qsort(unnamed->items, unnamed->count, sizeof(*unnamed->items), compare_modules);
    free(at.module_of);
}

void unnamed_clear(struct unnamed_modules *unnamed)
{
    free(unnamed->items);
    *unnamed = (struct unnamed_modules){0};
}

/* --- output --- */

static double share_of(const struct unnamed_modules *unnamed, const struct unnamed_module *module)
{
    return unnamed->total > 0 ? 100 * module->weight / unnamed->total : 0;
}

void unnamed_print_text(FILE *out, const struct unnamed_modules *unnamed,
                        const struct report_options *options, size_t most)
{
    static const char *const of[EXPORT_VIEWS] = {
        "live bytes", "live allocations", "allocated bytes", "allocations", "bytes at the peak"};
    size_t shown = most == 0 || unnamed->count < most ? unnamed->count : most;
    bool has_packages = false;
    if (shown == 0)
        return;
    fprintf(out, "\nFrames without a name (%% of %s that have one on the stack)\n",
            of[options->view]);
    for (size_t i = 0; i < shown; i++) {
        const struct unnamed_module *module = &unnamed->items[i];
        bool is_package = module->remedy == package_remedy;
        fprintf(out, "  %5.1f %%  ", share_of(unnamed, module));
        format_print(out, module->path[0] == '\0' ? "[no file]" : module->path, PATH_WIDTH);
        fprintf(out, ": %zu address%s: %s%s%s\n", module->frames, module->frames == 1 ? "" : "es",
                module->reason, is_package ? "" : "; ", is_package ? "" : module->remedy);
        has_packages |= is_package;
    }
    if (has_packages)
        fprintf(out, "  %s\n", package_remedy);
    if (shown < unnamed->count)
        fprintf(out, "  and %zu more module%s: heap_profile report names %s\n",
                unnamed->count - shown, unnamed->count - shown == 1 ? "" : "s",
                unnamed->count - shown == 1 ? "it" : "them");
}

void unnamed_print_json(struct json_writer *json, const struct unnamed_modules *unnamed)
{
    json_array(json, "unnamed");
    for (size_t i = 0; i < unnamed->count; i++) {
        const struct unnamed_module *module = &unnamed->items[i];
        json_object(json, NULL);
        json_string(json, "mapping", module->path);
        json_string(json, "build_id", module->build_id);
        json_unsigned(json, "addresses", module->frames);
        json_number(json, "share", share_of(unnamed, module) / 100);
        json_string(json, "reason", module->reason);
        json_string(json, "remedy", module->remedy);
        json_end_object(json);
    }
    json_end_array(json);
}
