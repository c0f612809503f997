/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the other programs of this installation. */
#ifndef HEAPPROFD_UTIL_SIBLING_PROGRAM_H
#define HEAPPROFD_UTIL_SIBLING_PROGRAM_H

#include <limits.h>

#include "util/error.h"

/* Find a program of ours by its name: beside this one as in a build, or among the installed ones,
 * in bin/ or libexec/heapprofd/. Return 0, or -ENOENT with a message. */
int sibling_program_find(const char *name, char path[PATH_MAX], struct error *error);

#endif
