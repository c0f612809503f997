/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks in the form of flamegraph.pl and inferno: a line "outermost;...;innermost N" for
 * each stack. Characters in names that these tools would misinterpret are replaced: see
 * collapsed.c.
 */
#ifndef HEAPPROFD_TOOLS_EXPORT_COLLAPSED_H
#define HEAPPROFD_TOOLS_EXPORT_COLLAPSED_H

#include <stdio.h>

#include "profile/view.h"

/* Write the dumps. If they belong to several processes, each process is the outermost frame of its
 * stacks, and if a process has several of them, its heap is the next frame. Return the number of
 * lines; write errors are left in ferror(). */
size_t collapsed_write(const struct profile *profile, const struct export_dump *dumps,
                       size_t dump_count, enum export_view view, FILE *out);

#endif
