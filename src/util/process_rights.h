/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a process chose, with no right that the process lacks.
 *
 * A process, and its user, choose the paths that it names, the links on their way and, in a user
 * namespace, the mounts. So a profiler with more rights than the process opens such files in a
 * child that has taken the process's user and groups and has no capability. A file of /proc is
 * never opened: it shows the child, not the process.
 *
 * Opening and reading may also wait for as long as the user likes: for the server of a file system
 * (FUSE), or for memory that lies on one. So the child has a deadline, a user has a budget of such
 * waits, and no file of FUSE is returned: to read or close it could block, too.
 */
#ifndef HEAPPROFD_UTIL_PROCESS_RIGHTS_H
#define HEAPPROFD_UTIL_PROCESS_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* For a process with more supplementary groups nothing is opened: a group can also take rights. */
#define PROCESS_RIGHTS_GROUPS_MAX 128

struct process_rights {
    uid_t
        uid; /* also where the rights are unknown: whose budget pays; -1: that of a process gone */
    gid_t gid;
    gid_t groups[PROCESS_RIGHTS_GROUPS_MAX];
    unsigned group_count;
    uint64_t start_ticks; /* of the process: its pid may be another one's later */
    bool is_known;        /* false: nothing can be opened with more rights than ours */
    bool has_ours;        /* the process may read whatever we may */
    bool shares_root;     /* its paths lead to our files: regular_file_shares_root() */
};

/* Read the rights that a process has now. If it is gone, also if its pid is another one's, the last
 * known ones stay. */
void process_rights_read(struct process_rights *rights, pid_t pid);

/*
 * Open a file as the process would: `path` below `root` (regular_file_root_of(); -1: our own root),
 * `flags` as in regular_file_open_below(). Return a descriptor, or a negative errno: -EINVAL: it is
 * no regular file, or one of /proc or FUSE; -ETIMEDOUT: its user has used up the time for such
 * files.
 */
int process_rights_open(const struct process_rights *rights, int root, const char *path, int flags,
                        struct stat *status);

/* Open a file that a process has mapped, and so can read, through its link in /proc: exe, or one of
 * map_files. Open any other path as regular_file_open() does. */
int process_rights_open_mapped(const char *link, struct stat *status);

/* Read the process's own memory through a file of /proc, such as environ: like
 * process_file_read(). */
ssize_t process_rights_read_memory(const struct process_rights *rights, pid_t pid, const char *name,
                                   char *buffer, size_t size);

#endif
