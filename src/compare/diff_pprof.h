/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A difference as a pprof file: of each callsite what it has gained, and with values below zero
 * what it has lost, as `go tool pprof -diff_base` shows two files.
 */
#ifndef HEAPPROFD_COMPARE_DIFF_PPROF_H
#define HEAPPROFD_COMPARE_DIFF_PPROF_H

#include "compare/diff.h"

/* The difference is by callsite; all its heaps are in the one file. `title` is the file's comment.
 * To fd, which stays the caller's. 0, or a negative errno with a message. */
int diff_pprof_write(const struct diff *diff, const struct diff_side *before,
                     const struct diff_side *after, const char *title, bool gzip, int fd,
                     struct error *error);

#endif
