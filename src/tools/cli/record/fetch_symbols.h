/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches the debug file of a program whose malloc is not found without it, before a session
 * begins: from the user's debuginfod servers, with the user's rights, into the user's cache. The
 * session then finds it there (recorder/reader/program_debug_file.h). Does nothing without
 * DEBUGINFOD_URLS.
 */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_FETCH_SYMBOLS_H
#define HEAPPROFD_TOOLS_CLI_RECORD_FETCH_SYMBOLS_H

#include <stdbool.h>
#include <sys/types.h>

/* Fetch it for the program that execvp() would run, within 15 seconds. `quiet`: print nothing. */
void fetch_symbols_of_command(char *const *command, bool quiet);
/* Fetch it for a running process. */
void fetch_symbols_of_process(pid_t pid, bool quiet);

#endif
