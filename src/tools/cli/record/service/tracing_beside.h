/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option --with-tracing: while we record a heap profile ourselves, the running tracing service
 * records other data sources, and both become one trace. The service needs no heapprofd for that.
 *
 * Of its configuration the data source android.heapprofd (or heapprofd) is ours: it sets the
 * defaults of our session, without what to profile, and the service does not see it.
 */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_TRACING_BESIDE_H
#define HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_TRACING_BESIDE_H

#include <stdbool.h>

#include "trace/config/trace_config.h"
#include "util/error.h"

#define TRACING_BESIDE_HELP                                                                        \
    "      --with-tracing FILE  record the data sources of this configuration (a TraceConfig),\n"  \
    "                         too, through the running tracing service (traced of Perfetto),\n"    \
    "                         into the same trace (docs/tracing.md)\n"

struct tracing_beside;

/* Read a configuration. *config, which is initialized, gets what its heap profile says, if it has
 * one. Return NULL with *error set; -ENOSYS: this build has no tracing. */
struct tracing_beside *tracing_beside_read(const char *path, struct heap_config *config,
                                           struct error *error);

/* Start the service's session, and wait until its data sources record. Return 0 or a negative errno
 * with a message. `quiet`: print only errors and losses. */
int tracing_beside_start(struct tracing_beside *beside, bool quiet, struct error *error);

/* End the session, append what it recorded to a trace, and print what is missing. */
void tracing_beside_finish(struct tracing_beside *beside, const char *trace_path);

/* Forget the session, which ends with the connection. NULL is allowed. */
void tracing_beside_free(struct tracing_beside *beside);

#endif
