/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the separate debug file of a stripped program: by its build id and by the name in its
 * .gnu_debuglink, in the file system of the process and in ours, and by its build id in our user's
 * cache of debuginfod. No server is asked (profile/symbols/debuginfod.h does that).
 */
#ifndef HEAPPROFD_RECORDER_READER_PROGRAM_DEBUG_FILE_H
#define HEAPPROFD_RECORDER_READER_PROGRAM_DEBUG_FILE_H

#include <stdbool.h>

#include "recorder/reader/file_reader.h"

#define PROGRAM_DEBUG_PATH_BYTES 256

struct program_debug_file {
    int fd;                              /* -1: none was found. The caller closes it. */
    char path[PROGRAM_DEBUG_PATH_BYTES]; /* of the file; if none was found: of one that exists and
                                            belongs to another build, or has no symbols; or "" */
};

/*
 * Read the facts of a program, with the symbols of its debug file if it is stripped. Return as
 * file_reader_program(). `file->path` is the program's, or /proc/PID/exe.
 */
int program_debug_file_read(const struct reader_file *file, unsigned deadline_ms,
                            struct program_file *program, struct program_debug_file *debug);

#define PROGRAM_MISSING_BYTES 512

/* Write, for users, why the program's malloc was not found: what is missing, and what helps. The
 * words can follow a colon. */
void program_debug_file_explain(const struct program_file *program, const char *debug_path,
                                char *text, size_t size);

#endif
