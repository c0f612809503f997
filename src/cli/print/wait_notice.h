/* SPDX-License-Identifier: Apache-2.0 */
/* A word to people before a program waits for somebody else: at a pipe, or a file that has nothing
 * to read yet. */
#ifndef HEAPPROFD_CLI_PRINT_WAIT_NOTICE_H
#define HEAPPROFD_CLI_PRINT_WAIT_NOTICE_H

/* Have output_file_open() say that it waits for a pipe's reader. */
void wait_notice_announce_outputs(void);

/* On a terminal, say that an input is a pipe, or that nothing comes from it within a second. To be
 * called before it is opened. */
void wait_notice_announce_input(const char *path);

#endif
