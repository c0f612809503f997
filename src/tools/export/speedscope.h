/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speedscope's own file format (JSON): one profile for each view of each dump, all of them over one
 * table of frames, with files and lines.
 */
#ifndef HEAPPROFD_TOOLS_EXPORT_SPEEDSCOPE_H
#define HEAPPROFD_TOOLS_EXPORT_SPEEDSCOPE_H

#include <stdio.h>

#include "profile/view.h"

/* Write the profiles. Return their number; write errors are left in ferror(). A view without
 * figures in a dump is left out; a dump without any figures has an empty profile. `name` is the
 * file's. */
size_t speedscope_write(const struct profile *profile, const struct export_dump *dumps,
                        size_t dump_count, const char *name, FILE *out);

#endif
