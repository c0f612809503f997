/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree for experimental_flamegraph(), without SQL.
 */
#ifndef HEAPPROFD_TOOLS_QUERY_FLAMEGRAPH_BUILD_H
#define HEAPPROFD_TOOLS_QUERY_FLAMEGRAPH_BUILD_H

#include "tools/query/query_trace.h"

struct flame_figures {
    int64_t size, count, alloc_size, alloc_count;
};

struct flame_node {
    const char *name, *map_name;
    bool is_unnamed; /* it has no name, as opposed to an empty one; `name` is "" */
    /* Of its first callsite. */
    const char *source_file; /* "" if unknown */
    uint32_t line;
    bool has_line;
    uint32_t parent; /* PROFILE_NONE: outermost; comes before its children */
    uint32_t depth;
    struct flame_figures self, cumulative;
};

struct flamegraph {
    struct flame_node *nodes;
    size_t count;
};

/* Build the tree of the process in this row, with all its dumps up to a time. With `focus`, keep
 * only nodes whose name contains it, in upper or lower case, and their callees and callers. If the
 * process has no samples by then, the tree has no nodes. */
void flamegraph_build(struct query_trace *trace, uint32_t process, int64_t boottime_ns,
                      const char *focus, struct flamegraph *flamegraph);
/* Do the same from given sums, by callsite. */
void flamegraph_build_of(const struct profile *profile, const struct query_counters *sums,
                         const char *focus, struct flamegraph *flamegraph);
void flamegraph_free(struct flamegraph *flamegraph);

#endif
