/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input, output and error of the tools. */
#ifndef HEAPPROFD_CLI_MAIN_STANDARD_FILES_H
#define HEAPPROFD_CLI_MAIN_STANDARD_FILES_H

/*
 * Those that came closed are opened on nothing, so that no trace, cache or temporary file is taken
 * for one of them. They cannot be written, and a command that is run has them closed, as before.
 */
void standard_files_open(void);

#endif
