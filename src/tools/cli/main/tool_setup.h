/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the process of a tool, heap_profile or traceconv, before its verb runs. */
#ifndef HEAPPROFD_TOOLS_CLI_MAIN_TOOL_SETUP_H
#define HEAPPROFD_TOOLS_CLI_MAIN_TOOL_SETUP_H

/*
 * Make standard input, output and error safe to use, print a notice before waiting for a pipe's
 * reader, and keep freed memory in the process.
 */
void tool_setup(void);

#endif
