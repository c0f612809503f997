/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the tree of a flame graph from the samples of one process up to a moment. */
#include "tools/query/flamegraph_build.h"

#include <stdlib.h>
#include <string.h>

#include "trace/intern.h"
#include "util/xmalloc.h"

/* --- the tree --- */

struct tree_build {
    struct flamegraph *flamegraph;
    size_t capacity;
    struct intern_table ids; /* of parent, name and mapping */
};

/* Return the node with this parent and name. */
static uint32_t find_node(struct tree_build *build, const struct flame_node *wanted)
{
    /* Equal strings of a profile are the same pointer. */
    const uint64_t key[] = {wanted->parent, (uint64_t)(uintptr_t)wanted->name,
                            (uint64_t)(uintptr_t)wanted->map_name, wanted->is_unnamed};
    struct flamegraph *flamegraph = build->flamegraph;
    bool added;
    uint64_t id = xmalloc_id(intern_bytes(&build->ids, key, sizeof(key), &added));
    if (!added)
        return (uint32_t)(id - 1);
    XARRAY_ADD(&flamegraph->nodes, &flamegraph->count, &build->capacity, *wanted);
    if (wanted->parent != PROFILE_NONE)
        flamegraph->nodes[id - 1].depth = flamegraph->nodes[wanted->parent].depth + 1;
    return (uint32_t)(id - 1);
}

/* Return a callsite's innermost node: one for each line of its frame's symbols, outermost first. */
static uint32_t place_callsite(struct tree_build *build, const struct profile *profile,
                               const struct profile_frame *frame, uint32_t parent)
{
    bool is_obfuscated = *frame->obfuscated_name != '\0';
    struct flame_node node = {
        .name = is_obfuscated ? frame->name : frame->linkage_name,
        .map_name = frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path,
        .is_unnamed = frame->is_unnamed && !is_obfuscated,
        .source_file = "",
        .parent = parent,
    };
    if (frame->symbol_count == 0)
        return find_node(build, &node);
    node.is_unnamed = false;
    for (uint32_t i = frame->symbol_count; i-- > 0;) {
        const struct profile_symbol_line *line = &profile->symbol_lines[frame->symbol_first + i];
        node.name = line->name;
        node.source_file = line->source_file;
        node.line = line->line;
        node.has_line = line->has_line;
        node.parent = find_node(build, &node);
    }
    return node.parent;
}

static void figures_add(struct flame_figures *sum, const struct flame_figures *more)
{
    sum->size += more->size;
    sum->count += more->count;
    sum->alloc_size += more->alloc_size;
    sum->alloc_count += more->alloc_count;
}

static void add_counters(struct flame_figures *sum, const struct query_counters *counters)
{
    sum->size += counters->allocated_bytes - counters->freed_bytes;
    sum->count += counters->allocated_count - counters->freed_count;
    sum->alloc_size += counters->allocated_bytes;
    sum->alloc_count += counters->allocated_count;
}

static void build_tree(const struct profile *profile, const struct query_counters *sums,
                       struct flamegraph *flamegraph)
{
    struct tree_build build = {.flamegraph = flamegraph};
    uint32_t *nodes = xreallocarray(NULL, profile->callsite_count + 1, sizeof(*nodes));
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t parent = callsite->parent == PROFILE_NONE ? PROFILE_NONE : nodes[callsite->parent];
        nodes[i] = place_callsite(&build, profile, &profile->frames[callsite->frame], parent);
        add_counters(&flamegraph->nodes[nodes[i]].self, &sums[i]);
    }
    free(nodes);
    intern_free(&build.ids);
}

static void sum_up(struct flamegraph *flamegraph)
{
    for (size_t i = flamegraph->count; i-- > 0;) {
        struct flame_node *node = &flamegraph->nodes[i];
        figures_add(&node->cumulative, &node->self);
        if (node->parent != PROFILE_NONE)
            figures_add(&flamegraph->nodes[node->parent].cumulative, &node->cumulative);
    }
}

/* --- focus --- */

enum focus { AWAY, INSIDE, TOWARDS };

/* Keep the nodes whose name contains `focus`, all below them, and the callers that lead to them. */
static void apply_focus(struct flamegraph *flamegraph, const char *focus)
{
    uint8_t *states = xcalloc(flamegraph->count + 1, 1);
    uint32_t *now = xcalloc(flamegraph->count + 1, sizeof(*now));
    size_t kept = 0;
    for (size_t i = 0; i < flamegraph->count; i++) {
        uint32_t parent = flamegraph->nodes[i].parent;
        if (strcasestr(flamegraph->nodes[i].name, focus) != NULL) {
            states[i] = INSIDE;
            for (; parent != PROFILE_NONE && states[parent] == AWAY;
                 parent = flamegraph->nodes[parent].parent)
                states[parent] = TOWARDS;
        } else if (parent != PROFILE_NONE && states[parent] == INSIDE) {
            states[i] = INSIDE;
        }
    }
    for (size_t i = 0; i < flamegraph->count; i++) {
        if (states[i] == AWAY)
            continue;
        struct flame_node node = flamegraph->nodes[i];
        if (node.parent != PROFILE_NONE)
            node.parent = now[node.parent];
        node.cumulative = (struct flame_figures){0};
        now[i] = (uint32_t)kept;
        flamegraph->nodes[kept++] = node;
    }
    flamegraph->count = kept;
    free(states);
    free(now);
}

/* Return whether any sum would be a row of heap_profile_allocation. */
static bool has_rows(const struct profile *profile, const struct query_counters *sums)
{
    for (size_t i = 0; i < profile->callsite_count; i++)
        if ((sums[i].allocated_bytes | sums[i].allocated_count | sums[i].freed_bytes |
             sums[i].freed_count) != 0)
            return true;
    return false;
}

void flamegraph_build_of(const struct profile *profile, const struct query_counters *sums,
                         const char *focus, struct flamegraph *flamegraph)
{
    *flamegraph = (struct flamegraph){0};
    if (!has_rows(profile, sums))
        return;
    build_tree(profile, sums, flamegraph);
    if (focus != NULL && *focus != '\0')
        apply_focus(flamegraph, focus);
    sum_up(flamegraph);
}

void flamegraph_build(struct query_trace *trace, uint32_t process, int64_t boottime_ns,
                      const char *focus, struct flamegraph *flamegraph)
{
    struct query_counters *sums = NULL;
    *flamegraph = (struct flamegraph){0};
    if (query_trace_sum(trace, process, boottime_ns, &sums) > 0)
        flamegraph_build_of(trace->profile, sums, focus, flamegraph);
    free(sums);
}

void flamegraph_free(struct flamegraph *flamegraph)
{
    free(flamegraph->nodes);
    *flamegraph = (struct flamegraph){0};
}
