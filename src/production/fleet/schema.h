/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statements that create the fleet's tables or bring them from an older version to this one.
 *
 * With a cluster every table has two parts: NAME_local with the rows of a server, and NAME, which
 * distributes over the cluster's servers by service and stack. Each server needs the statements.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_SCHEMA_H
#define HEAPPROFD_PRODUCTION_FLEET_SCHEMA_H

#include <stdbool.h>

#include "util/error.h"

struct fleet_schema_options {
    const char *database;
    const char *cluster; /* NULL: a single server */
    bool is_replicated;  /* ReplicatedMergeTree, with the server's macros {shard} and {replica} */
};

/* Call `run` with each statement that leads from `version` (0: no tables) to
 * FLEET_SCHEMA_VERSION. Every statement may be repeated. Stop at the first negative errno that it
 * returns, and return that; -ENOMEM without memory. */
typedef int fleet_schema_run(void *context, const char *statement, struct error *error);
int fleet_schema_statements(unsigned version, const struct fleet_schema_options *options,
                            fleet_schema_run *run, void *context, struct error *error);

#endif
