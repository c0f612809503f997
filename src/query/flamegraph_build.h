/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree for experimental_flamegraph(), without SQL.
 */
#ifndef HEAPPROFD_QUERY_FLAMEGRAPH_BUILD_H
#define HEAPPROFD_QUERY_FLAMEGRAPH_BUILD_H

#include "query/query_trace.h"

struct flame_figures {
    int64_t size, count, alloc_size, alloc_count;
};

struct flame_node {
    const char *name, *map_name;
    bool is_unnamed; /* name is then "", which is not an empty name */
    /* From its first callsite. */
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

/* Build the tree of one process, by its row, with everything up to a time. focus: only nodes with
 * this in their name (in any case), their callees and callers; NULL: all. If the process has
 * nothing by then, the flamegraph has no nodes. Return 0 or -ENOMEM. */
int flamegraph_build(struct query_trace *trace, uint32_t process, int64_t boottime_ns,
                     const char *focus, struct flamegraph *flamegraph);
/* The same from known sums, by callsite. */
int flamegraph_build_of(const struct profile *profile, const struct query_counters *sums,
                        const char *focus, struct flamegraph *flamegraph);
void flamegraph_free(struct flamegraph *flamegraph);

#endif
