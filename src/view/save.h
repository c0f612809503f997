/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page as one file with its data inside, for any browser: the page's own answers,
 * packed, instead of a server. It shows what these answer: the heaps that hold most, their last
 * dumps and as many earlier ones as there is room for.
 */
#ifndef HEAPPROFD_VIEW_SAVE_H
#define HEAPPROFD_VIEW_SAVE_H

#include <stdio.h>

#include "util/error.h"
#include "view/profiles.h"

/* Write the page. Errors of the stream are left in ferror(). Return 0 or a negative errno. */
int view_save(struct view_profiles *profiles, FILE *out, struct error *error);

#endif
