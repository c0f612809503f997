/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of another format as a Perfetto trace, for viewers that read traces only: processes,
 * heaps, dumps, stacks with names and modules. Threads, types, contexts, lines and everything
 * beside the heaps are left out. A stack whose number of live allocations is unknown has one.
 */
#ifndef HEAPPROFD_TOOLS_EXPORT_TRACE_H
#define HEAPPROFD_TOOLS_EXPORT_TRACE_H

#include "profile/profile.h"
#include "util/error.h"

/* Write to the descriptor's offset. Processes without a name get `name`. Return 0, or a negative
 * errno with *error set. */
int export_trace(const struct profile *profile, const char *name, int fd, struct error *error);

#endif
