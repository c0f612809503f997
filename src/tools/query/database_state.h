/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a query_database that database.c and export.c share. */
#ifndef HEAPPROFD_TOOLS_QUERY_DATABASE_STATE_H
#define HEAPPROFD_TOOLS_QUERY_DATABASE_STATE_H

#include "tools/query/database.h"
#include "tools/query/query_table.h"

struct query_database {
    sqlite3 *sql;
    struct query_traces traces;
    bool registered;   /* the tables of the traces */
    bool is_file;      /* tables are in a file */
    bool is_exporting; /* statements are ours, and can write */
};

/* Make tables of the traces, before the first statement. Return 0 or a negative errno. */
int query_database_register(struct query_database *database, struct error *error);

#endif
