/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files in which a process's JIT compilers describe their code: its perf map and its jitdump.
 * They are searched and opened while the process lives, and may be deleted soon after; opened files
 * stay open.
 *
 * Their names are known to everybody who can write to /tmp. So links are not followed, and opening
 * never blocks. Only regular files of the process's user are used, and files of root if everybody
 * may read them; and only if the process itself could open them.
 */
#ifndef HEAPPROFD_RECORDER_JIT_JIT_FILES_H
#define HEAPPROFD_RECORDER_JIT_JIT_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#include "util/process_rights.h"

#define JIT_FILES_REMARK_BYTES 256

struct jit_files {
    pid_t pid;                           /* in our namespace */
    pid_t inner_pid;                     /* in its own namespace; 0: unknown */
    uid_t uids[4];                       /* of its user: real, effective, saved, file system */
    struct process_rights rights;        /* with which its files are opened, also after its end */
    int map_fd, dump_fd;                 /* -1: none */
    char remark[JIT_FILES_REMARK_BYTES]; /* which file was refused, and why; "": none */
};

/* Record the user and root directory of a process while it lives. */
void jit_files_open(struct jit_files *files, pid_t pid);
void jit_files_close(struct jit_files *files);

/* Open the files that exist now. `jitdump`: its path in the process's view, or NULL: unknown. */
void jit_files_search(struct jit_files *files, const char *jitdump);

#endif
