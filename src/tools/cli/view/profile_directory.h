/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that may have a profile. Others may have put anything there: only directories and
 * files of this user and of root count, and links are not followed. */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_PROFILE_DIRECTORY_H
#define HEAPPROFD_TOOLS_CLI_VIEW_PROFILE_DIRECTORY_H

#include <sys/stat.h>

/* Open a directory and fill *status. Return -1: it is not one, or another user's. */
int profile_directory_open(const char *path, struct stat *status);
/* Find the trace in it, preferably the one with symbols. Return its name; NULL: it has none. */
const char *profile_directory_trace(int fd, struct stat *status);

#endif
