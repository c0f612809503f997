/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was allocated between two dumps of a heap and is live at the second.
 *
 * A trace has no ages of allocations, only sums of each callsite, thread and type. So what was
 * retained is known between two bounds. Of each such part it is at least its growth, if it has more
 * live allocations (as in _android_heap_profile_intervals), and at most what it allocated meanwhile
 * or what it holds. The bounds are two dumps like others, so that graphs and tables are made of
 * them: all is live that they have.
 */
#ifndef HEAPPROFD_VIEW_RETAINED_H
#define HEAPPROFD_VIEW_RETAINED_H

#include "profile/profile.h"

struct view_retained {
    struct view_bound {
        struct profile_dump dump;
        struct profile_sample *samples;
        struct profile_part *parts;
    } least, most;
};

/* Return why the file cannot tell what was retained; "": it can. */
const char *view_retained_why_unknown(const struct profile_heap *heap,
                                      const struct profile_dump *from,
                                      const struct profile_dump *to);
/* Make the bounds, between two dumps in order of time. */
void view_retained_make(struct view_retained *retained, const struct profile *profile,
                        const struct profile_dump *from, const struct profile_dump *to);
void view_retained_free(struct view_retained *retained);

#endif
