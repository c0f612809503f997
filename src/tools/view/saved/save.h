/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page as one file with its data inside, for any browser. It shows what the server
 * would, except for source files and SQL.
 */
#ifndef HEAPPROFD_VIEW_SAVE_H
#define HEAPPROFD_VIEW_SAVE_H

#include <stdio.h>

#include "tools/view/model/kept.h"
#include "util/error.h"

struct view_save_options {
    struct view_choice choice;
    struct view_opening opening; /* at.dump NULL: the heap that holds most */
    const char *title;           /* NULL: "heap_profile view" */
    const char *fragment;        /* of the page's address: its selection. NULL: `opening` */
};

/* Write the page. Errors of the stream are left in ferror(). Return 0 or a negative errno: -ENOTSUP
 * if this program was built without the engine of such pages. */
int view_save(struct view_profiles *profiles, const struct view_save_options *options, FILE *out,
              struct error *error);

#endif
