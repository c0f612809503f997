/* SPDX-License-Identifier: Apache-2.0 */
/* Prints rows of SQL: as an aligned table, as CSV in the format of Perfetto's trace processor, as a
 * JSON array, or as one JSON object a line. */
#ifndef HEAPPROFD_TOOLS_CLI_QUERY_QUERY_OUTPUT_H
#define HEAPPROFD_TOOLS_CLI_QUERY_QUERY_OUTPUT_H

#include <sqlite3.h>
#include <stdio.h>

enum query_format { QUERY_TABLE, QUERY_CSV, QUERY_JSON, QUERY_JSONL };

/* Run the statement and print its rows. A statement without columns prints nothing. Return
 * SQLITE_DONE, or the error that ended it. */
int query_print(sqlite3_stmt *statement, enum query_format format, FILE *out);

#endif
