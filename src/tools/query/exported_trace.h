/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one trace of an exported database, for a flame graph: its stacks with their names, and the
 * sums of one process. The file is untrusted: ids that an export would not write are an error.
 */
#ifndef HEAPPROFD_TOOLS_QUERY_EXPORTED_TRACE_H
#define HEAPPROFD_TOOLS_QUERY_EXPORTED_TRACE_H

#include <sqlite3.h>

#include "tools/query/query_trace.h"
#include "trace/intern.h"

struct exported_trace {
    struct profile profile; /* only mappings, frames, callsites and symbol lines; equal texts are
                               the same pointer */
    struct query_counters *sums; /* by callsite: of the process, up to the given time */
    int64_t dumps;               /* number of the process's dumps up to that time */
    char **texts;
    struct intern_table text_ids;
    size_t text_capacity;
};

/* Read the trace that contains the process. Return 0, -EBADMSG if the ids are not those of an
 * export, -ENOMEM if SQLite may not take more memory, or -EIO if a table cannot be read
 * (sqlite3_errmsg() has the reason). */
int exported_trace_read(sqlite3 *sql, int64_t upid, int64_t ts, struct exported_trace *trace);
void exported_trace_free(struct exported_trace *trace);

#endif
