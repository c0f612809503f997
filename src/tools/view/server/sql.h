/* SPDX-License-Identifier: Apache-2.0 */
/* SQL over the loaded profiles, for the page: one statement or several, of which the last one's
 * rows are the answer. The tables are made when the first question comes. */
#ifndef HEAPPROFD_VIEW_SQL_H
#define HEAPPROFD_VIEW_SQL_H

#include <stdatomic.h>
#include <stdio.h>

#include "tools/query/database.h"
#include "util/error.h"

#define VIEW_SQL_BYTES_MAX (64u << 10)

struct view_sql {
    const char *const *paths; /* of the profiles */
    size_t path_count;
    struct query_database *database; /* NULL: not opened yet */
    /* How many threads wait until a query has ended: while there is one, queries end with an
     * error. */
    const _Atomic unsigned *waiting;
};

/* Run statements and write the answer as JSON. Return 0 or a negative errno; -EINVAL: a mistake in
 * the text, with its line. */
int view_sql_run(struct view_sql *sql, const char *text, FILE *out, struct error *error);
/* Write the tables and their columns as JSON. */
int view_sql_tables(struct view_sql *sql, FILE *out, struct error *error);
void view_sql_close(struct view_sql *sql);

#endif
