/* SPDX-License-Identifier: Apache-2.0 */
/* Makes sure that standard input, output and error are open. */
#ifndef HEAPPROFD_CLI_MAIN_STANDARD_FILES_H
#define HEAPPROFD_CLI_MAIN_STANDARD_FILES_H

/*
 * Open closed standard descriptors on /dev/null, read-only, so that no trace, cache or temporary
 * file gets their numbers. Writing to them still fails, and a command that a verb runs gets them
 * closed.
 */
void standard_files_open(void);

#endif
