/* SPDX-License-Identifier: Apache-2.0 */
/*
 * android_heap_profile_summary_tree: a node for every function on every stack, including inlined
 * ones, with the sums of all dumps of all processes. Ids number the nodes of all callsites; those
 * of one callsite begin with its innermost line. Nodes without a sample in or below them are left
 * out.
 */
#include <stdlib.h>

#include "profile/symbols/demangle.h"
#include "tools/query/query_table.h"
#include "util/xmalloc.h"

static uint32_t line_count(const struct profile_frame *frame)
{
    return frame->symbol_count == 0 ? 1 : frame->symbol_count;
}

/* Return the readable form of a name of the trace. It is cached by frame, and after all frames by
 * line. */
static const char *plain_name(struct query_trace *trace, size_t slot, const char *name)
{
    char **known = &trace->summary_names[slot];
    if (*known == NULL)
        *known = xmalloc_made(demangle_name(name));
    return *known;
}

static void name_node(struct query_trace *trace, uint32_t frame_index, uint32_t line,
                      struct query_summary_node *node)
{
    const struct profile *profile = trace->profile;
    const struct profile_frame *frame = &profile->frames[frame_index];
    node->mapping_name =
        frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
    if (frame->symbol_count == 0) {
        node->name = *frame->obfuscated_name != '\0' ? frame->name
                     : frame->is_unnamed             ? "unknown"
                                         : plain_name(trace, frame_index, frame->linkage_name);
        return;
    }
    size_t at = frame->symbol_first + line;
    const struct profile_symbol_line *symbol = &profile->symbol_lines[at];
    node->name = plain_name(trace, profile->frame_count + at, symbol->name);
    node->source_file = symbol->source_file;
    node->line = symbol->line;
    node->has_line = symbol->has_line;
}

/* Return, by callsite, whether samples are at it or below it. */
static bool *find_reached(struct query_trace *trace, const struct query_counters *sums)
{
    const struct profile *profile = trace->profile;
    bool *reached = xcalloc(profile->callsite_count + 1, sizeof(*reached));
    for (size_t i = profile->callsite_count; i-- > 0;) {
        reached[i] |= sums[i].allocated_bytes != 0 || sums[i].allocated_count != 0;
        if (reached[i] && profile->callsites[i].parent != PROFILE_NONE)
            reached[profile->callsites[i].parent] = true;
    }
    return reached;
}

/* Add each node to its parent, and set parent ids. Callsites come after their parents, so go
 * backwards; but among the lines of one callsite, the outer ones follow the inner ones. */
static void add_up(struct query_trace *trace, const uint32_t *rows, const int64_t *first_ids,
                   const bool *reached)
{
    const struct profile *profile = trace->profile;
    for (size_t i = profile->callsite_count; i-- > 0;) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t lines = line_count(&profile->frames[callsite->frame]);
        if (!reached[i])
            continue;
        for (uint32_t j = 0; j < lines; j++) {
            struct query_summary_node *node = &trace->summary[rows[i] + j], *above = NULL;
            if (j + 1 < lines)
                above = node + 1;
            else if (callsite->parent != PROFILE_NONE)
                above = &trace->summary[rows[callsite->parent]];
            node->cumulative_size += node->self_size;
            node->cumulative_alloc_size += node->self_alloc_size;
            node->parent_id = j + 1 < lines                      ? first_ids[i] + j + 1
                              : callsite->parent == PROFILE_NONE ? -1
                                                                 : first_ids[callsite->parent];
            if (above != NULL) {
                above->cumulative_size += node->cumulative_size;
                above->cumulative_alloc_size += node->cumulative_alloc_size;
            }
        }
    }
}

static void fill_nodes(struct query_trace *trace, const struct query_counters *sums,
                       const bool *reached, uint32_t *rows, int64_t *first_ids)
{
    const struct profile *profile = trace->profile;
    int64_t id = 0;
    for (size_t i = 0; i < profile->callsite_count; i++) {
        uint32_t frame = profile->callsites[i].frame, lines = line_count(&profile->frames[frame]);
        first_ids[i] = id;
        id += lines;
        if (!reached[i])
            continue;
        rows[i] = (uint32_t)trace->summary_count;
        for (uint32_t j = 0; j < lines; j++) {
            struct query_summary_node *node = &trace->summary[trace->summary_count++];
            node->id = first_ids[i] + j;
            name_node(trace, frame, j, node);
            node->self_size = j == 0 ? sums[i].allocated_bytes - sums[i].freed_bytes : 0;
            node->self_alloc_size = j == 0 ? sums[i].allocated_bytes : 0;
        }
    }
    add_up(trace, rows, first_ids, reached);
}

static void make_summary(struct query_trace *trace)
{
    const struct profile *profile = trace->profile;
    struct query_counters *sums = NULL;
    size_t nodes = 0;
    query_trace_sum(trace, PROFILE_NONE, INT64_MAX, &sums);
    for (size_t i = 0; i < profile->callsite_count; i++)
        nodes += line_count(&profile->frames[profile->callsites[i].frame]);
    bool *reached = find_reached(trace, sums);
    uint32_t *rows = xcalloc(profile->callsite_count + 1, sizeof(*rows));
    int64_t *first_ids = xcalloc(profile->callsite_count + 1, sizeof(*first_ids));
    trace->summary = xcalloc(nodes + 1, sizeof(*trace->summary));
    trace->summary_name_count = profile->frame_count + profile->symbol_line_count;
    trace->summary_names = xcalloc(trace->summary_name_count + 1, sizeof(char *));
    fill_nodes(trace, sums, reached, rows, first_ids);
    free(sums);
    free(reached);
    free(rows);
    free(first_ids);
}

static size_t summary_count(struct query_trace *trace)
{
    if (!trace->has_summary)
        make_summary(trace);
    trace->has_summary = true;
    return trace->summary_count;
}

static size_t estimate_summary(const struct query_trace *trace)
{
    return trace->profile->callsite_count;
}

/* Each trace numbers its ids from 0; trace_id distinguishes them. */
static void find_node(struct query_row *row)
{
    row->item = &row->trace->summary[row->number];
}

#define NODE(column, expression)                                                                   \
    QUERY_GETTER(node_##column, const struct query_summary_node *node, expression)

NODE(parent_id, node->parent_id < 0 ? query_null() : query_integer(node->parent_id))
NODE(source_file, query_text_or_null(node->source_file))
NODE(line_number, node->has_line ? query_integer(node->line) : query_null())
#undef NODE

#define NODE_MEMBER(member, description)                                                           \
    QUERY_MEMBER(#member, description, struct query_summary_node, member)

static const struct query_column columns[] = {
    {NODE_MEMBER(id, "number of the function on its stack"), .lookup = QUERY_INDEXED},
    {"parent_id", INT, "its caller; NULL: outermost", .get = node_parent_id,
     .lookup = QUERY_INDEXED},
    {NODE_MEMBER(name, "function, for people")},
    {NODE_MEMBER(mapping_name, "path of its file")},
    {"source_file", TEXT, "NULL: unknown", .get = node_source_file},
    {"line_number", INT, "NULL: unknown", .get = node_line_number},
    {NODE_MEMBER(self_size, "live bytes that it allocated itself")},
    {NODE_MEMBER(cumulative_size, "the same with its callees")},
    {NODE_MEMBER(self_alloc_size, "bytes that it allocated")},
    {NODE_MEMBER(cumulative_alloc_size, "the same with its callees")},
};

const struct query_table query_summary_tables[] = {
    {"android_heap_profile_summary_tree",
     "every function on every stack with its sums, of all processes together",
     QUERY_COLUMNS(columns), false, summary_count, estimate_summary, find_node, NULL},
    {0},
};
