/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a difference as a pprof file: gains of each callsite as positive values and losses as
 * negative ones, as `go tool pprof -diff_base` shows two files. */
#ifndef HEAPPROFD_TOOLS_EXPORT_DIFF_PPROF_H
#define HEAPPROFD_TOOLS_EXPORT_DIFF_PPROF_H

#include "profile/compare/diff.h"

/* Write a difference by callsite to `fd`, which stays the caller's. One file contains all heaps;
 * `title` is its comment. Return 0, or a negative errno with *error set. */
int diff_pprof_write(const struct diff *diff, const struct diff_side *before,
                     const struct diff_side *after, const char *title, bool gzip, int fd,
                     struct error *error);

#endif
