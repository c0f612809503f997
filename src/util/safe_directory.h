/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories in which no stranger can change what a name leads to.
 *
 * A path is followed one component at a time, from descriptor to descriptor. Each directory on the
 * way, and each symlink, must belong to a trusted user: the caller, root, the owner of the root
 * directory (in a user namespace root may be shown as nobody), or the user who called sudo. Each
 * directory must be writable by its owner alone, or by the owner's private group, unless it has
 * the sticky bit as /tmp has: a stranger who may rename entries could put a symlink in place of
 * the output. A group is private if it is named like its owner, is the owner's first group and has
 * no other members; root's group is private, too. An access list takes that from a group.
 *
 * A relative path starts at the working directory; what is above that does not matter.
 */
#ifndef HEAPPROFD_UTIL_SAFE_DIRECTORY_H
#define HEAPPROFD_UTIL_SAFE_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "util/error.h"

/* Open a directory. Return its descriptor, or a negative errno with the reason. */
int safe_directory_open(const char *path, struct error *error);

/* The same; create it, writable by its owner alone, if it is not there. */
int safe_directory_make(const char *path, struct error *error);

/* Create a directory "prefixXXXXXX" in the directory `parent`, mode 0700, and write its name to
 * `name`. Return its descriptor or a negative errno. */
int safe_directory_make_unique(int parent, const char *prefix, char name[NAME_MAX + 1]);

/* Open the directory that holds the last component of `path`, and write that component to `name`.
 * If the component is a symlink of a trusted user, follow it. The component need not exist. */
int safe_directory_open_parent(const char *path, char name[NAME_MAX + 1], struct error *error);

bool safe_directory_trusts(uid_t owner);

/* Append six random characters to `name`, which has room for them. */
void safe_directory_put_random(char *name);

#endif
