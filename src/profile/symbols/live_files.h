/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as running processes have them: mapped but deleted or replaced since, or below another root
 * directory (containers).
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_LIVE_FILES_H
#define HEAPPROFD_PROFILE_SYMBOLS_LIVE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The kernel appends this to the path of a mapped file that was deleted or replaced. */
#define LIVE_FILES_DELETED " (deleted)"

/* Return the length of a path without LIVE_FILES_DELETED. */
size_t live_files_undeleted_length(const char *path);
bool live_files_is_deleted(const char *path);

/* Receive each path by which the file can be opened. A result other than 0 ends the search. */
typedef int live_file_sink(void *context, const char *path);

/* Call `sink` for the paths of a mapped file. `path`: of the mapping, without LIVE_FILES_DELETED.
 * Processes that cannot be inspected are skipped. Return 0 or the sink's result. */
int live_files_each(const pid_t *processes, size_t count, const char *path, live_file_sink *sink,
                    void *context);

#endif
