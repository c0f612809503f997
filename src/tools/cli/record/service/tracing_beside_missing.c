/* SPDX-License-Identifier: Apache-2.0 */
/* The option --with-tracing in a build without tracing: say what is missing. */
#include <errno.h>
#include <stddef.h>

#include "tools/cli/record/service/tracing_beside.h"

struct tracing_beside *tracing_beside_read(const char *path, struct heap_config *config,
                                           struct error *error)
{
    (void)path;
    (void)config;
    error_set(error, -ENOSYS,
              "this build cannot speak to a tracing service: it was made with -Dtracing=disabled. "
              "Record without --with-tracing, or use a build with tracing");
    return NULL;
}

int tracing_beside_start(struct tracing_beside *beside, bool quiet, struct error *error)
{
    (void)beside;
    (void)quiet;
    return error_set(error, -ENOSYS, "this build has no tracing");
}

void tracing_beside_finish(struct tracing_beside *beside, const char *trace_path)
{
    (void)beside;
    (void)trace_path;
}

void tracing_beside_free(struct tracing_beside *beside)
{
    (void)beside;
}
