/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the progress of reading a file or of a conversion as one line on standard error, updated a
 * few times a second and erased at the end. Shows nothing if standard error is not a terminal. */
#ifndef HEAPPROFD_TOOLS_PRINT_PROGRESS_H
#define HEAPPROFD_TOOLS_PRINT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/builder/profile_read.h"
#include "profile/profile.h"

struct progress {
    uint64_t total;    /* bytes of the input; 0: unknown, or packed */
    const char *doing; /* printed before the number of bytes; "" if nothing */
    int64_t shown_ns;
    bool is_shown, has_shown;
};

/* Begin to show progress. `path` is the input, "-" for standard input. `writes`: output goes to
 * standard output at the same time; if that is a terminal, show nothing, because the line would mix
 * with the output. */
struct progress progress_begin(const char *path, bool writes);
/* Report the bytes of the input read so far. In this and the next functions, `context` is the
 * struct progress. */
void progress_show_bytes(void *context, uint64_t bytes);
/* Report the lines of another file read so far. */
void progress_show_lines(void *context, const char *path, size_t lines);
/* Report the bytes written so far. */
void progress_show_written(void *context, uint64_t bytes);
/* Report the files written so far. */
void progress_show_files(void *context, size_t files, size_t all);
/* Report the profiles written so far at the end of a command or session. */
void progress_show_profiles(void *context, size_t files, size_t all);
void progress_end(const struct progress *progress);

/* Call import_profile() and show its progress. options->tell is ignored. */
struct profile *progress_import(const char *path, const struct profile_read_options *options,
                                struct error *error);

#endif
