/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as processes that still run have them: mapped but deleted or replaced
 * since, or seen through another root directory (containers).
 */
#ifndef HEAPPROFD_SYMBOLS_LIVE_FILES_H
#define HEAPPROFD_SYMBOLS_LIVE_FILES_H

#include <stddef.h>
#include <sys/types.h>

#define LIVE_FILES_DELETED " (deleted)"

/* Told of each path by which the file can be opened; a result other than 0 ends it. */
typedef int live_file_sink(void *context, const char *path);

/* path is the mapping's, without LIVE_FILES_DELETED. What cannot be looked into is passed over. */
int live_files_each(const pid_t *processes, size_t count, const char *path, live_file_sink *sink,
                    void *context);

#endif
