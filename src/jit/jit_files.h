/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files in which a process's JIT compilers say what they made: its perf map and its jitdump.
 * They are found and opened while it lives, and may be gone soon after; what was opened stays.
 *
 * Their names are known to everybody who can write to /tmp. So none is followed or waited for,
 * none is taken that is no ordinary file, or not the process's user's; one of root's only where all
 * may read it.
 */
#ifndef HEAPPROFD_JIT_JIT_FILES_H
#define HEAPPROFD_JIT_JIT_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#define JIT_FILES_REMARK_BYTES 256

struct jit_files {
    pid_t pid;           /* as we see it */
    pid_t inner_pid;     /* as it sees itself; 0: not known */
    uid_t uids[4];       /* of its user: real, effective, saved, of files */
    bool shares_root;    /* its files are ours: what it names we can open after its death */
    int map_fd, dump_fd; /* -1: none */
    char remark[JIT_FILES_REMARK_BYTES]; /* what was not taken, and why; "": nothing */
};

/* Notes whose files they are, while it lives. */
void jit_files_open(struct jit_files *files, pid_t pid);
void jit_files_close(struct jit_files *files);

/* Opens what is there by now. `jitdump`: its path, as the process has it; NULL: none is known. */
void jit_files_look(struct jit_files *files, const char *jitdump);

#endif
