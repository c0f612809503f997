/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written at a path of the user's. Every writer of our programs uses this.
 *
 * A regular file is written without a name, or under a temporary one, and takes its final name when
 * it is complete. So a reader sees the old file, the new one or none, and a killed writer leaves no
 * partial file that looks complete. The new file may replace a file of the caller or of root, but
 * never the target of a hard link or of a stranger's symlink. The directory must be safe
 * (safe_directory.h). If no file can be created, or the file is a mount point, an existing file
 * with a single name is overwritten in place.
 *
 * A file keeps the permissions of the one that it replaces. Any other is for its owner only (0600):
 * a profile has command lines, which may hold passwords. OUTPUT_FILE_SHARED is for reports.
 *
 * Devices, pipes and open descriptors (/dev/null, /dev/stdout, /dev/fd/3) are written directly.
 */
#ifndef HEAPPROFD_UTIL_OUTPUT_FILE_H
#define HEAPPROFD_UTIL_OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "util/error.h"

struct output_file {
    int fd;        /* write here; -1: closed */
    FILE *stream;  /* see output_file_stream */
    int directory; /* -1: nothing to do at the end */
    char path[PATH_MAX];
    char name[NAME_MAX + 1];
    char beside[NAME_MAX + 1]; /* temporary name; "": none */
    bool is_new;
    bool replaces;
    bool has_mode; /* it replaces a file with the values below */
    mode_t mode;
    uid_t owner;
    gid_t group;
};

enum {
    /* Give the file its final name at once: a partial file is useful. */
    OUTPUT_FILE_AT_ONCE = 1,
    /* Fail if the name exists. */
    OUTPUT_FILE_NEW = 2,
    /* Give it a temporary name, output_file_beside(), under which another program may open it. */
    OUTPUT_FILE_NAMED = 4,
    /* Never overwrite in place: the writer still reads the old file. */
    OUTPUT_FILE_RENAMED = 8,
    /* Let the umask decide who may read it. */
    OUTPUT_FILE_SHARED = 16,
};

/* If not NULL, called before output_file_open() waits for a pipe's reader. */
extern void (*output_file_waits)(const char *path);

/* Open the file. Return 0 or a negative errno. After an error there is nothing to close. */
int output_file_open(struct output_file *file, const char *path, unsigned flags,
                     struct error *error);
/* Open the file `name`, one component, in an open directory, whose path is `path` in messages. */
int output_file_open_in(struct output_file *file, int directory, const char *path, const char *name,
                        unsigned flags, struct error *error);

/* Return a stream that writes to the file; output_file_close() closes it. NULL: no memory. */
FILE *output_file_stream(struct output_file *file);

/* Write the temporary path of an OUTPUT_FILE_NAMED file to `path`. */
void output_file_beside(const struct output_file *file, char path[PATH_MAX]);

/* Finish the file if `result` is not negative, else discard it. Return the first error, or
 * `result`. */
int output_file_close(struct output_file *file, int result, struct error *error);

#endif
