/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree behind experimental_flamegraph(), apart from SQL.
 */
#ifndef HEAPPROFD_QUERY_FLAMEGRAPH_BUILD_H
#define HEAPPROFD_QUERY_FLAMEGRAPH_BUILD_H

#include "query/query_trace.h"

struct flame_figures {
    int64_t size, count, alloc_size, alloc_count;
};

struct flame_node {
    const char *name, *map_name;
    bool is_unnamed; /* name is "" then, and no empty name */
    /* From the first of its callsites. */
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

/* Of one process, by its row, with all up to a moment. focus: only nodes with this in their name
 * (any case), what they call, and what leads to them; NULL: all. A flamegraph without nodes where
 * the process has nothing by then. 0 or -ENOMEM. */
int flamegraph_build(struct query_trace *trace, uint32_t process, int64_t boottime_ns,
                     const char *focus, struct flamegraph *flamegraph);
/* The same of sums that are known, by callsite. */
int flamegraph_build_of(const struct profile *profile, const struct query_counters *sums,
                        const char *focus, struct flamegraph *flamegraph);
void flamegraph_free(struct flamegraph *flamegraph);

#endif
