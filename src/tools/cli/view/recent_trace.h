/* SPDX-License-Identifier: Apache-2.0 */
/* What the beginning of a trace says, without reading the rest. */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_RECENT_TRACE_H
#define HEAPPROFD_TOOLS_CLI_VIEW_RECENT_TRACE_H

#define RECENT_COMMAND_BYTES 240u

/* Write the command of the first process that the trace names; "": it is not at the beginning. */
void recent_trace_command(int directory, const char *name, char command[RECENT_COMMAND_BYTES]);

#endif
