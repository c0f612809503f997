/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a dump that only= selects: its samples of one thread, type, module and so on. It is
 * a dump like others, so that all answers are made of it as of a whole one. The rest counts as left
 * out; exact totals remain those of the whole heap.
 */
#ifndef HEAPPROFD_VIEW_PART_H
#define HEAPPROFD_VIEW_PART_H

#include "tools/view/model/dimension.h"
#include "tools/view/model/profiles.h"
#include "util/error.h"

#define VIEW_ONLY_MAX 8u

/* What is to be kept: DIMENSION:VALUE, all of which must hold. */
struct view_only {
    struct view_only_item {
        enum view_dimension dimension;
        const char *text;       /* the value, in the question */
        int64_t number;         /* a tid, a class, or a function of VIEW_FUNCTION and VIEW_HOLDER */
    } items[VIEW_ONLY_MAX + 1]; /* with one of a table's own */
    size_t count;
};

/* Add "DIMENSION:VALUE". Return 0, -EINVAL, -ENOENT or -E2BIG. */
int view_only_add(struct view_only *only, struct view_profiles *profiles, const char *text,
                  struct error *error);

struct view_part {
    struct profile_dump dump;
    const struct profile_sample **whole; /* by sample of `dump`: what it is a part of */
    struct profile_sample *samples;      /* those that are not whole, with their parts */
    struct profile_part *parts;
};

struct view_part_request {
    struct view_profiles *profiles; /* with these filters */
    const struct profile_filter *filter;
    const struct view_only *only;
    enum export_view view;
    bool without_filtered; /* the part has no stacks that the filters leave out */
};

/* Make a part of a dump. Stacks are seen as the filters leave them. Return 0, or -EINVAL if the
 * file cannot tell the part. view_part_free() is needed in any case. */
int view_part_make(struct view_part *part, const struct view_part_request *request,
                   const struct view_profile *of, const struct export_dump *chosen,
                   struct error *error);
void view_part_free(struct view_part *part);

#endif
