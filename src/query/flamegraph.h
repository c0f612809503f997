/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experimental_flamegraph(): callsites as a tree, with the sums of a dump. Callsites of the same
 * function and mapping below the same caller are one node, as in Perfetto's trace processor.
 */
#ifndef HEAPPROFD_QUERY_FLAMEGRAPH_H
#define HEAPPROFD_QUERY_FLAMEGRAPH_H

#include "query/query_table.h"

/* traces: NULL for an exported database, whose tables belong to the connection. */
int query_flamegraph_register(sqlite3 *sql, struct query_traces *traces);

#endif
