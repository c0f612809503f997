/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens regular files whose names come from somebody else. Opening a pipe would wait, and opening a
 * device may do anything, so the file is looked at before it is opened. Read-only.
 */
#ifndef HEAPPROFD_UTIL_REGULAR_FILE_H
#define HEAPPROFD_UTIL_REGULAR_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Return a descriptor and fill *status; -EINVAL: not a regular file; or another negative errno. */
int regular_file_open(const char *path, struct stat *status);

/*
 * Open `path` as the owner of the directory `root` (a descriptor) sees it after chroot: absolute
 * links and ".." stay below it. With O_NOFOLLOW in `flags` a link as the last component is an error
 * (-ELOOP); other flags have no effect. Kernels before 5.6 resolve absolute links outside.
 */
int regular_file_open_below(int root, const char *path, int flags, struct stat *status);

/* Open the root directory of a process, for regular_file_open_below(). */
int regular_file_root_of(pid_t pid);

/* Whether a process's paths lead to the same files as ours: same root, same mounts. False if it is
 * gone or closed to us. */
bool regular_file_shares_root(pid_t pid);

#endif
