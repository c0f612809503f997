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

#define SOURCE_NAME_BYTES 256u

/* Return the base name of a source file. Ruby names the files that it calls its own like
 * "<internal:/usr/lib/ruby/set.rb>": of these, the name without the bracket is in the buffer. */
static inline const char *source_base_name(const char *path, char buffer[SOURCE_NAME_BYTES])
{
    const char *name = base_name(path);
    size_t length = strlen(name);
    if (*path != '<' || name == path || name[length - 1] != '>' || length > SOURCE_NAME_BYTES)
        return name;
    memcpy(buffer, name, length - 1);
    buffer[length - 1] = '\0';
    return buffer;
}

#endif
