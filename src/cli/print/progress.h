/* SPDX-License-Identifier: Apache-2.0 */
/* How far the reading of a file is, or a conversion: one line on the terminal, where errors go,
 * told a few times a second and wiped out at the end. Nothing where standard error is no terminal.
 */
#ifndef HEAPPROFD_CLI_PRINT_PROGRESS_H
#define HEAPPROFD_CLI_PRINT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

struct progress {
    uint64_t total;    /* bytes of the input; 0: unknown, or packed */
    const char *doing; /* before the bytes that were read, "" if nothing */
    int64_t told_ns;
    bool is_shown, has_told;
};

/* path: the input, "-" for standard input. writes: something is written to standard output
 * meanwhile; on a terminal the line would stand in it. */
struct progress progress_begin(const char *path, bool writes);
/* context: the struct progress. So many bytes of the input have been read. */
void progress_tell_bytes(void *context, uint64_t bytes);
/* context: the struct progress. So many lines of another file have been read. */
void progress_tell_lines(void *context, const char *path, size_t lines);
/* So many bytes have been written. */
void progress_tell_written(void *context, uint64_t bytes);
/* context: the struct progress. So many files have been written. */
void progress_tell_files(void *context, size_t files, size_t all);
/* context: the struct progress. The same of a command's or session's profiles at its end. */
void progress_tell_profiles(void *context, size_t files, size_t all);
void progress_end(const struct progress *progress);

/* import_profile(), with its progress. options->tell is not looked at. */
struct profile *progress_import(const char *path, const struct profile_read_options *options,
                                struct error *error);

#endif
