/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile query -i: an SQL shell with line editing, history and completion of names on a
 * terminal. If standard input is not a terminal, its statements are run. */
#ifndef HEAPPROFD_TOOLS_CLI_QUERY_QUERY_SHELL_H
#define HEAPPROFD_TOOLS_CLI_QUERY_QUERY_SHELL_H

#include "tools/cli/query/query_output.h"
#include "tools/query/database.h"

/* Run all statements of a text and print their rows. The first error ends it. Return the exit
 * code. */
int query_run(struct query_database *database, const char *text, enum query_format format);

/* Return whether the text is a command of the shell, such as ".schema process". */
bool query_is_command(const char *text);

/* Run a command of the shell. Return the exit code. *quits: set if it ends the shell. */
int query_run_command(struct query_database *database, const char *line, bool *quits);

/* Run the shell. Return the exit code: 0, or 1 if standard input is not a terminal and a statement
 * failed. */
int query_shell(struct query_database *database, enum query_format format);

#endif
