/* SPDX-License-Identifier: Apache-2.0 */
/* Notices for the user before the tool waits for another program: for the reader of a pipe, or for
 * input. */
#ifndef HEAPPROFD_TOOLS_PRINT_WAIT_NOTICE_H
#define HEAPPROFD_TOOLS_PRINT_WAIT_NOTICE_H

/* Make output_file_open() print a notice when it waits for a pipe's reader. */
void wait_notice_announce_outputs(void);

/* On a terminal, print a notice if an input is a pipe, or has no data within a second. Call it
 * before opening the input. */
void wait_notice_announce_input(const char *path);

#endif
