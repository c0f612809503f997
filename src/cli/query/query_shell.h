/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_profile query -i: a shell for SQL, with line editing, history and completion of names on a
 * terminal. Standard input that is none is read as statements.
 */
#ifndef HEAPPROFD_CLI_QUERY_QUERY_SHELL_H
#define HEAPPROFD_CLI_QUERY_QUERY_SHELL_H

#include "cli/query/query_output.h"
#include "query/database.h"

/* Runs all statements of a text and prints their rows; the first error ends it. The exit code. */
int query_run(struct query_database *database, const char *text, enum query_format format);

/* The exit code: 0, or 1 where standard input is no terminal and a statement failed. */
int query_shell(struct query_database *database, enum query_format format);

/* Ctrl-C ends the statement that runs, not the program, while one runs. */
void query_catch_interrupts(struct query_database *database);

#endif
