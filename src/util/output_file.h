/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written for a user, at a path of the user's. Every writer of our programs uses
 * this.
 *
 * A regular file is written without a name, or under another one, and takes its place when it is
 * whole. So a reader sees the old file, the new one or none, and a writer that is killed leaves no
 * part that looks whole. It replaces a file of the caller or root, never the target of a hard link
 * or of a stranger's symlink. Its directory must be safe (safe_directory.h). The
 * replaced file's permissions stay. If no file can be created, or the file is a mount point, an
 * existing file with one name is overwritten in place.
 *
 * Devices, pipes and open descriptors (/dev/null, /dev/stdout, /dev/fd/3) are written as they are.
 */
#ifndef HEAPPROFD_UTIL_OUTPUT_FILE_H
#define HEAPPROFD_UTIL_OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "util/error.h"

struct output_file {
    int fd;        /* write here; -1: it is closed */
    FILE *stream;  /* see output_file_stream */
    int directory; /* -1: nothing to do at the end */
    char path[PATH_MAX];
    char name[NAME_MAX + 1];
    char beside[NAME_MAX + 1]; /* its name until it takes its place; "": none */
    bool is_new;
    bool replaces;
    bool has_mode; /* it replaces a file with these */
    mode_t mode;
    uid_t owner;
    gid_t group;
};

enum {
    /* The file has its name from the beginning: parts of it are of use. */
    OUTPUT_FILE_AT_ONCE = 1,
    /* Nothing of this name may be there. */
    OUTPUT_FILE_NEW = 2,
    /* It has a name meanwhile, output_file_beside(), under which somebody else may open it. */
    OUTPUT_FILE_NAMED = 4,
    /* Never overwrite a file in place: the writer still reads it. */
    OUTPUT_FILE_RENAMED = 8,
};

/* Called before a pipe without a reader is waited for, if it is not NULL. */
extern void (*output_file_waits)(const char *path);

/* Return 0 or a negative errno. After an error there is nothing to close. */
int output_file_open(struct output_file *file, const char *path, unsigned flags,
                     struct error *error);
/* The same in an open directory, which is called `path`. `name` is one component. */
int output_file_open_in(struct output_file *file, int directory, const char *path, const char *name,
                        unsigned flags, struct error *error);

/* A stream that writes to it, which output_file_close() closes. NULL: no memory. */
FILE *output_file_stream(struct output_file *file);

/* Print the path of an OUTPUT_FILE_NAMED file. */
void output_file_beside(const struct output_file *file, char path[PATH_MAX]);

/* Finish the file if `result` is no error; else throw it away. Return the first error, or
 * `result`. */
int output_file_close(struct output_file *file, int result, struct error *error);

#endif
