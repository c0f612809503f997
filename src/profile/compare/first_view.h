/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which view of a dump answers first: what is live or, if the program had freed nearly all at its
 * end, what was live at the peak.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_FIRST_VIEW_H
#define HEAPPROFD_PROFILE_COMPARE_FIRST_VIEW_H

#include "profile/folding.h"
#include "profile/view.h"

/* Return the live bytes on whose stacks only run times and standard libraries are: what these keep
 * for themselves from their start to the end, as libstdc++ its memory for exceptions. 0: it is too
 * much for that. */
double first_view_pools(const struct profile *profile, const struct folding *folding,
                        const struct profile_dump *dump);

/* Return the view; one that the file has, if it has any. */
enum export_view first_view(const struct profile *profile, const struct folding *folding,
                            const struct profile_heap *heap, const struct profile_dump *dump);

#endif
