/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experimental_flamegraph(): callsites as a tree, those of the same function and mapping under the
 * same caller as one node, with the sums of a dump, as Perfetto's trace processor makes it.
 */
#ifndef HEAPPROFD_QUERY_FLAMEGRAPH_H
#define HEAPPROFD_QUERY_FLAMEGRAPH_H

#include "query/query_table.h"

/* traces: NULL for an exported database, whose tables are those of the connection. */
int query_flamegraph_register(sqlite3 *sql, struct query_traces *traces);

#endif
