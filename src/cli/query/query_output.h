/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of SQL for people and for programs: an aligned table, CSV as Perfetto's trace processor
 * writes it, JSON, or a JSON object a line.
 */
#ifndef HEAPPROFD_CLI_QUERY_QUERY_OUTPUT_H
#define HEAPPROFD_CLI_QUERY_QUERY_OUTPUT_H

#include <sqlite3.h>
#include <stdio.h>

enum query_format { QUERY_TABLE, QUERY_CSV, QUERY_JSON, QUERY_JSONL };

/* Runs the statement and prints its rows; one without columns prints nothing. SQLITE_DONE, or the
 * error that ended it. */
int query_print(sqlite3_stmt *statement, enum query_format format, FILE *out);

#endif
