/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exported database says of one of its traces, as far as a flamegraph needs it: stacks with
 * their names, and sums. The file may be anybody's; ids that are not as an export has them are an
 * error.
 */
#ifndef HEAPPROFD_QUERY_EXPORTED_TRACE_H
#define HEAPPROFD_QUERY_EXPORTED_TRACE_H

#include <sqlite3.h>

#include "query/query_trace.h"
#include "trace/intern.h"

struct exported_trace {
    struct profile profile; /* mappings, frames, callsites and symbol lines alone; equal texts are
                               the same pointer */
    struct query_counters *sums; /* by callsite: of the process, up to the moment */
    int64_t dumps;               /* of the process, by then */
    char **texts;
    struct intern_table text_ids;
    size_t text_capacity;
};

/* Of the trace that the process is in. 0; -ENOMEM; -EBADMSG: this is no exported database; -EIO: a
 * table cannot be read, as sqlite3_errmsg() says. */
int exported_trace_read(sqlite3 *sql, int64_t upid, int64_t ts, struct exported_trace *trace);
void exported_trace_free(struct exported_trace *trace);

#endif
