/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comments of a pprof file: the command, the exact totals, what is missing, and what a filter
 * left out.
 */
#ifndef HEAPPROFD_TOOLS_EXPORT_PPROF_COMMENTS_H
#define HEAPPROFD_TOOLS_EXPORT_PPROF_COMMENTS_H

#include "profile/profile.h"
#include "tools/export/pprof.h"

typedef void pprof_comment_function(void *context, const char *text);

/* Return whether samples of the heap were drawn at several intervals, so that none of them explains
 * the margins of all: then each sample has what its values were estimated from. */
bool pprof_has_intervals(const struct profile_heap *heap);

/* Call `write` with each comment on the dump. Texts are cut at 1,023 bytes. */
void pprof_comments(const struct profile *profile, const struct profile_heap *heap,
                    const struct profile_dump *dump, pprof_comment_function *write, void *context);

/* The same for a file of one period: with the losses of this period only. */
void pprof_period_comments(const struct profile *profile, const struct profile_heap *heap,
                           const struct profile_dump *dump, const struct pprof_period *period,
                           pprof_comment_function *write, void *context);

#endif
