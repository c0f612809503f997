/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for profiles, which others need not read: they may contain command lines. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_PRIVATE_DIRECTORY_H
#define HEAPPROFD_PRODUCTION_SINKS_PRIVATE_DIRECTORY_H

#include <sys/stat.h>

#include "util/safe_directory.h"

/* Open a directory. If it is missing, create it with mode 0700. Return a descriptor, or a negative
 * errno with a message. */
static inline int private_directory_make(const char *path, struct error *error)
{
    mkdir(path, 0700); /* all errors show below */
    return safe_directory_make(path, error);
}

#endif
