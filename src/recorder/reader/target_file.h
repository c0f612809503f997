/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files that a profiled process has mapped. The process may lie about them: only regular
 * files are opened, and what it names, with its rights (util/process_rights.h).
 */
#ifndef HEAPPROFD_RECORDER_READER_TARGET_FILE_H
#define HEAPPROFD_RECORDER_READER_TARGET_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "util/process_rights.h"

/* A mapping as the process describes it. */
struct target_mapping {
    pid_t pid;        /* 0: it has ended */
    const char *path; /* as the process reports it */
    uint64_t start, end;
    bool has_build_id;             /* the opened file will be checked against it */
    struct process_rights *rights; /* while the process lives, each opening reads them again */
};

/* The ways to the file, best first. */
enum target_file_way {
    /* /proc/PID/map_files: the mapped file itself, even if it was deleted or replaced. Needs
     * CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. */
    TARGET_FILE_MAPPED,
    /* Its path below the process's root directory. */
    TARGET_FILE_IN_ROOT,
    /* Its path in our file system, for a process that has ended or that we may not inspect. Without
     * a build id only if it shared our root: a container's path would lead to another file, perhaps
     * one of root's. */
    TARGET_FILE_BY_PATH,
    TARGET_FILE_WAYS,
};

/* Open the file one way. Return a descriptor, or -1 if this way fails. */
int target_file_open(const struct target_mapping *mapping, enum target_file_way way,
                     struct stat *status);

#endif
