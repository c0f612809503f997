/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as running processes have them: mapped but deleted or replaced since, or below another root
 * directory (containers).
 */
#ifndef HEAPPROFD_SYMBOLS_LIVE_FILES_H
#define HEAPPROFD_SYMBOLS_LIVE_FILES_H

#include <stddef.h>
#include <sys/types.h>

#define LIVE_FILES_DELETED " (deleted)"

/* Receive each path by which the file can be opened. A result other than 0 ends the search. */
typedef int live_file_sink(void *context, const char *path);

/* Call `sink` for the paths of a mapped file. `path`: of the mapping, without LIVE_FILES_DELETED.
 * Processes that cannot be inspected are skipped. Return 0 or the sink's result. */
int live_files_each(const pid_t *processes, size_t count, const char *path, live_file_sink *sink,
                    void *context);

#endif
