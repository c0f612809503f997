/* SPDX-License-Identifier: Apache-2.0 */
/* The last component of a path. */
#ifndef HEAPPROFD_UTIL_BASE_NAME_H
#define HEAPPROFD_UTIL_BASE_NAME_H

#include <string.h>

/* Return the part of `path` after the last slash, or all of it if nothing follows a slash. libc's
 * basename() cuts trailing slashes off in place, which a constant path does not allow. */
static inline const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

#endif
