/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks, as flamegraph.pl and inferno take them: a line "outermost;...;innermost N" for
 * each stack. What these tools would take for a part of the line is replaced in names: see
 * collapsed.c.
 */
#ifndef HEAPPROFD_EXPORT_COLLAPSED_H
#define HEAPPROFD_EXPORT_COLLAPSED_H

#include <stdio.h>

#include "export/view.h"

/* Where dumps are of several processes, each process is the outermost frame of its stacks, and
 * where a process has several of them, its heap the next. How many lines, or -ENOMEM; what out
 * does not take is seen by ferror(). */
int64_t collapsed_write(const struct profile *profile, const struct export_dump *dumps,
                        size_t dump_count, enum export_view view, FILE *out);

#endif
