/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a selection's table over time: each dump of the heap has its own table, and a row its
 * figures in all of them. Of very many or large dumps every n-th is taken, up to the last.
 */
#ifndef HEAPPROFD_VIEW_COURSE_H
#define HEAPPROFD_VIEW_COURSE_H

#include "tools/view/answers/table.h"

#define COURSE_DUMPS_MAX 200u

struct course {
    size_t *dumps;           /* in order of time: their numbers in the heap */
    size_t dump_count, kept; /* of `kept` dumps that there are */
    struct course_row {
        struct table_row row;           /* as in the first dump that has it */
        struct flame_sum *self, *total; /* by dump of the course */
    } * rows;                           /* in no order */
    size_t row_count, row_capacity;
    struct intern_table ids;
    bool unknown; /* the file does not contain these figures */
};

/* Make the course of a selection, at `most` dumps of its heap. Its own dumps do not matter. Return
 * 0, or -EINVAL as table_make(). course_free() is needed in any case. */
int course_make(struct course *course, struct view_profiles *profiles,
                const struct view_selection *selection, enum view_dimension by, size_t most,
                struct error *error);
/* Return the row of the course that is the same as a table's; NULL: no dump has it. */
const struct course_row *course_find(const struct course *course, const struct table_row *row,
                                     enum view_dimension by);
void course_free(struct course *course);

#endif
