/* SPDX-License-Identifier: Apache-2.0 */
/* What tells the processes of one name apart: the arguments that not all of them have, as the file
 * that each compiler of a build compiles. */
#ifndef HEAPPROFD_VIEW_APART_H
#define HEAPPROFD_VIEW_APART_H

#include "profile/profile.h"

/* Return a text for each process of a profile, in one array that view_apart_free() frees. "": the
 * process has its name alone, or the same arguments as the others. Of a long argument it has the
 * end, and of many the first. */
char **view_apart_make(const struct profile *profile);
void view_apart_free(char **texts, const struct profile *profile);

#endif
