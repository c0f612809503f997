/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the files that a profiled process has mapped. The process may lie about them: only regular
 * files are opened, and only with our own rights.
 */
#ifndef HEAPPROFD_READER_TARGET_FILE_H
#define HEAPPROFD_READER_TARGET_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A mapping as the process describes it. */
struct target_mapping {
    pid_t pid;        /* 0: it is gone */
    const char *path; /* as it has it */
    uint64_t start, end;
    bool has_build_id; /* the file that is opened will be checked against it */
    bool shares_root;  /* while it lived its paths led to our files: regular_file_shares_root() */
};

/* The ways to the file, best first. */
enum target_file_way {
    /* /proc/PID/map_files: the mapped file itself, even if it was deleted or replaced. Needs
     * CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. */
    TARGET_FILE_MAPPED,
    /* Its path below the process's own root directory. */
    TARGET_FILE_IN_ROOT,
    /* Its path as we see it, for a process that is gone or closed to us. Without a build id only if
     * it shared our root: a container's path would lead to another file, perhaps one of root's. */
    TARGET_FILE_BY_PATH,
    TARGET_FILE_WAYS,
};

/* Return a descriptor; -1: it cannot be had this way. */
int target_file_open(const struct target_mapping *mapping, enum target_file_way way,
                     struct stat *status);

#endif
