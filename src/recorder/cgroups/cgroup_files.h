/* SPDX-License-Identifier: Apache-2.0 */
/* Where the machine's cgroups are mounted, and how the text of their files is read, for both
 * versions of cgroups. */
#ifndef HEAPPROFD_RECORDER_CGROUPS_CGROUP_FILES_H
#define HEAPPROFD_RECORDER_CGROUPS_CGROUP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_PATH_BYTES 2048u
#define CGROUP_UNLIMITED UINT64_MAX

/* A hierarchy, and which of its cgroups is seen at its mount ("/": the root; in a container that
 * has no cgroup namespace another one). */
struct cgroup_mount {
    char path[512]; /* "": not mounted */
    char root[512];
};

struct cgroup_mounts {
    struct cgroup_mount unified; /* version 2 */
    struct cgroup_mount memory;  /* the memory controller of version 1; then version 2 lacks it */
};

/* Find the mounts of this process's namespace. */
void cgroup_mounts_find(struct cgroup_mounts *mounts);
/* Take a line of /proc/PID/mountinfo. The first mount of each kind counts. */
void cgroup_mounts_take(struct cgroup_mounts *mounts, const char *line);

/* Copy the path of a process's cgroup from the text of its /proc/PID/cgroup: that of the memory
 * controller of version 1, or that of version 2. Return false if there is no such line, or if the
 * path does not fit or lies outside our cgroup namespace. */
bool cgroup_path_of(const char *text, bool of_memory, char path[CGROUP_PATH_BYTES]);

/* Write the directory of a cgroup, which exists unless the cgroup is gone. Return false if it is
 * not below the mount. */
bool cgroup_directory(const struct cgroup_mount *mount, const char *path,
                      char directory[CGROUP_PATH_BYTES]);

/* Read the number of the line "NAME NUMBER". Return false if there is no such line. */
bool cgroup_counter(const char *text, const char *name, uint64_t *value);

/* Read a file's only number: bytes, CGROUP_UNLIMITED for "max", and for the number that stands for
 * it in version 1. Return false if it has no number. */
bool cgroup_amount(const char *text, uint64_t *bytes);

#endif
