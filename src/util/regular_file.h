/* SPDX-License-Identifier: Apache-2.0 */
/* Opens regular files under untrusted names, read-only. Opening a pipe would wait, and opening a
 * device may have any effect, so the file's type is checked before it is opened. Only what a user
 * names in so many words may be something else. */
#ifndef HEAPPROFD_UTIL_REGULAR_FILE_H
#define HEAPPROFD_UTIL_REGULAR_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Open `path` and fill *status. Return a descriptor, -EINVAL if it is not a regular file, or
 * another negative errno. */
int regular_file_open(const char *path, struct stat *status);

/* Open what a user names as an input: any file but a directory. A pipe waits for its writer. Return
 * a descriptor or a negative errno. */
int regular_file_open_named(const char *path);

/*
 * Open `path` as if chrooted into the directory `root` (a descriptor): absolute links and ".." stay
 * below it, and links of /proc lead nowhere. With O_NOFOLLOW in `flags` a link as the last
 * component is an error (-ELOOP); other flags have no effect. For a file that a process chose, see
 * process_rights.h.
 */
int regular_file_open_below(int root, const char *path, int flags, struct stat *status);

/* The two halves: find anything with O_PATH, which opens nothing; then open it, if it is a regular
 * file. The second closes the first's descriptor. */
int regular_file_find_below(int root, const char *path, int flags);
int regular_file_open_found(int found, struct stat *status);

/* Like stat(), but with what the kernel knows: no server of a file system (FUSE) is asked, for
 * which a stranger could let us wait. Return 0 or a negative errno. */
int regular_file_look(const char *path, struct stat *status);
/* The same for what regular_file_find_below() has found. */
int regular_file_look_found(int found, struct stat *status);

/* Return whether both paths lead to the same regular file. */
bool regular_file_is_same(const char *one, const char *other);

/* Open the root directory of a process, for regular_file_open_below(). */
int regular_file_root_of(pid_t pid);

/* Return whether a process's paths lead to the same files as ours: same root, same mounts. Return
 * false if the process is gone or inaccessible. */
bool regular_file_shares_root(pid_t pid);

#endif
