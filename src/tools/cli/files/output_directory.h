/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that a profile is written to, and the files in it. */
#ifndef HEAPPROFD_TOOLS_CLI_FILES_OUTPUT_DIRECTORY_H
#define HEAPPROFD_TOOLS_CLI_FILES_OUTPUT_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>

#include "profile/profile.h"
#include "tools/export/pprof.h"
#include "util/error.h"

struct output {
    int fd; /* the directory, open until the process ends; files in it are opened relative to it */
    char directory[PATH_MAX];
    bool is_own;          /* created by us, in a place of our choice */
    char trace[PATH_MAX]; /* directory/raw-trace */
};

/*
 * Create TMPDIR/heap_profile-XXXXXX, or use `wanted`, which must be new or empty, and safe
 * (util/safe_directory.h). Return 0 or a negative errno.
 */
int output_create(struct output *output, const char *wanted, struct error *error);

/* The name of directories that output_create() and output_make_temporary() choose, before the
 * random characters. */
#define OUTPUT_TEMPORARY_PREFIX "heap_profile-"

/* Return whether it is such a name (safe_directory_put_random()), and no word of a user's, as in
 * heap_profile-before. */
bool output_is_temporary_name(const char *name);

/* Return whether a recording writes files of this name into its directory. */
bool output_is_own_file(const char *name);

/* Return where they are: TMPDIR, or /tmp. */
const char *output_temporary_directory(void);

/* Create TMPDIR/heap_profile-XXXXXX and write its name to path. Return its descriptor or a negative
 * errno. */
int output_make_temporary(char path[PATH_MAX], struct error *error);

/* Point the user's symlink TMPDIR/heap_profile-latest-UID at a new profile: its directory, or a
 * trace that is a file of its own. */
void output_publish(const struct output *output);
void output_publish_trace(const char *path);

/* Remove the directory: there is no profile. */
void output_discard(const struct output *output);

/* Create the raw trace. Return its descriptor or a negative errno. */
int output_open_trace(const struct output *output, struct error *error);

/* Which dumps become pprof files, and in which form. */
struct output_pprof {
    struct pprof_options options;
    const uint64_t *pids;
    size_t pid_count;           /* 0: all */
    const uint64_t *timestamps; /* trace time, ns */
    size_t timestamp_count;     /* 0: all */
    /* Called after each file with the number of files begun and of all; NULL: not wanted. */
    void (*tell)(void *context, size_t files, size_t all);
    void *tell_context;
};

/* Write a pprof file for each process, heap and dump into a directory; `path` is its path. Return
 * the number of files, or a negative errno. */
int output_write_pprof(int directory, const char *path, const struct profile *profile,
                       const struct output_pprof *choice, struct error *error);
/* Return whether a file of this dump is wanted. A process that was never profiled has none. */
bool output_has_pprof(const struct profile *profile, const struct profile_heap *heap,
                      const struct profile_dump *dump, const struct output_pprof *choice);

/* Write the path of the trace that a DIR or TRACE argument names to `path`; NULL: the latest.
 * Return 0, or a negative errno if there is none. A TRACE that is not a file is left to the code
 * that opens it. */
int output_find_trace(const char *argument, char path[PATH_MAX], struct error *error);

#endif
