/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens directories in which no stranger can change where a name leads.
 *
 * A path is followed one component at a time, from descriptor to descriptor. Each directory and
 * each symlink on the way must belong to a trusted user: the caller, root, the owner of the root
 * directory (in a user namespace root may appear as nobody), or the user who called sudo. Each
 * directory must be writable only by its owner, or by the owner's private group, unless it has the
 * sticky bit as /tmp has: a stranger who may rename entries could replace the output by a symlink.
 * A group is private if it has its owner's name, is the owner's first group and has no other
 * members; root's group is private, too. A group of a directory with an access list is never
 * private.
 *
 * A relative path starts at the working directory; the directories above it do not matter.
 */
#ifndef HEAPPROFD_UTIL_SAFE_DIRECTORY_H
#define HEAPPROFD_UTIL_SAFE_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "util/error.h"

/* Open a directory. Return its descriptor, or a negative errno with the reason. */
int safe_directory_open(const char *path, struct error *error);

/* Like safe_directory_open(), but create a missing directory, for its owner only (0700). */
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
