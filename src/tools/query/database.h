/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL over traces: an SQLite connection whose tables are the traces', read-only. The part of
 * Perfetto's SQL that SQLite does not have, INCLUDE PERFETTO MODULE, is handled here.
 */
#ifndef HEAPPROFD_TOOLS_QUERY_DATABASE_H
#define HEAPPROFD_TOOLS_QUERY_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "util/error.h"

struct query_database;

/* Return NULL with *error set on failure. */
struct query_database *query_database_new(struct error *error);
/* Add a trace, before the first statement. Return 0 or a negative errno. */
int query_database_add(struct query_database *database, const char *path, struct error *error);
/* Add a profile that was read with as_in_trace. The database owns it. */
void query_database_add_profile(struct query_database *database, const char *name,
                                struct profile *profile);
/* Open an exported database in place of traces. */
struct query_database *query_database_open_file(const char *path, struct error *error);
/* Return whether a file is an SQLite database. */
bool query_is_database(const char *path);
void query_database_close(struct query_database *database);

/* The statement that lists the tables by name. */
extern const char query_tables_sql[];

sqlite3 *query_database_sql(struct query_database *database);
/* Bound what statements can take: SQLite's memory, and the length of a value. Nothing is written to
 * temporary files. Return 0 or a negative errno. */
int query_database_confine(struct query_database *database, int64_t memory_bytes,
                           struct error *error);
/* Make a running statement end with an error. May be called in a signal handler. */
void query_database_interrupt(struct query_database *database);
/* Return the skipped damage of a trace; NULL after the last trace. */
const char *query_database_warning(const struct query_database *database, size_t index);

/*
 * Prepare the statement at the beginning of text, a part of `whole`, and set *rest after it.
 * *statement is NULL if there was none (blanks, comments, an INCLUDE). Return 0, or a negative
 * errno with a message that has the line, and a caret below the mistake.
 */
int query_database_prepare(struct query_database *database, const char *whole, const char *text,
                           sqlite3_stmt **statement, const char **rest, struct error *error);
/* Set the error with which sqlite3_step() failed. Return its code. */
int query_database_step_error(struct query_database *database, struct error *error);

/* Write all tables with indexes to a new file. Return 0 or a negative errno. */
int query_database_export(struct query_database *database, const char *path, struct error *error);

#endif
