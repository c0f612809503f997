/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL over traces: an SQLite connection whose tables are the traces', read-only. What SQLite does
 * not know of Perfetto's SQL, INCLUDE PERFETTO MODULE, is taken here.
 */
#ifndef HEAPPROFD_QUERY_DATABASE_H
#define HEAPPROFD_QUERY_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"
#include "util/error.h"

struct query_database;

/* NULL with *error set. */
struct query_database *query_database_new(struct error *error);
/* Adds a trace; all are added before the first statement. 0 or a negative errno. */
int query_database_add(struct query_database *database, const char *path, struct error *error);
/* The same of a profile that was read as_in_trace, which it takes in any case. */
int query_database_add_profile(struct query_database *database, const char *name,
                               struct profile *profile, struct error *error);
/* Opens what --export wrote in place of traces. */
struct query_database *query_database_open_file(const char *path, struct error *error);
/* Whether a file is an SQLite database. */
bool query_is_database(const char *path);
void query_database_close(struct query_database *database);

sqlite3 *query_database_sql(struct query_database *database);
/* Makes a running statement end with an error; may be called in a signal handler. */
void query_database_interrupt(struct query_database *database);
/* What was wrong with a trace and could be passed over; NULL after the last. */
const char *query_database_warning(const struct query_database *database, size_t index);

/*
 * Prepares the statement that text, a part of `whole`, begins with, and sets *rest behind it.
 * *statement is NULL where there was none (blanks, comments, an INCLUDE). 0, or a negative errno
 * with a message that has the line, and a caret under where the mistake is.
 */
int query_database_prepare(struct query_database *database, const char *whole, const char *text,
                           sqlite3_stmt **statement, const char **rest, struct error *error);
/* The message of what went wrong in stepping. */
int query_database_step_error(struct query_database *database, struct error *error);

/* Writes all tables with indexes to a new file. 0 or a negative errno. */
int query_database_export(struct query_database *database, const char *path, struct error *error);

#endif
