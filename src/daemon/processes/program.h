/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program's file shows: which file execvp() would run, and whether and how well it can be
 * profiled.
 */
#ifndef HEAPPROFD_DAEMON_PROCESSES_PROGRAM_H
#define HEAPPROFD_DAEMON_PROCESSES_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "reader/program_file.h"

struct program {
    bool is_elf; /* else `file` is all 0 */
    struct program_file file;
    const char *sanitizer; /* name of the sanitizer linked in with its allocator; NULL: none */
    bool gains_rights;     /* at its exec: AT_SECURE, the loader drops LD_PRELOAD */
};

/* Find the file that execvp() would run, and follow scripts to their interpreter. path is "" if
 * there is none. */
void program_find(const char *command, char *path, size_t size);

/* Return why there is no such program, as words that follow the command's name. */
const char *program_why_not_found(const char *command);

/* Read a program's file. Return 0, -ENOEXEC if it is no ELF file, or another negative errno. */
int program_read(struct program *program, const char *path);
/* The same with a time limit. -EIO: it has passed, or the file reader failed. */
int program_read_within(struct program *program, const char *path, unsigned deadline_ms);

#define PROGRAM_REASON_BYTES 512

/* The ways of profiling that see a program's allocations. */
enum program_way {
    PROGRAM_BY_PRELOADING, /* heap_profile host and shell; attaching works, too */
    /* It has an allocator of its own. The preloaded library says hello from it, and then the
     * profiler attaches to it if the kernel permits that. */
    PROGRAM_BY_BOTH,
    PROGRAM_BY_ATTACHING, /* only heap_profile -n and -p */
    PROGRAM_BY_NEITHER,
};

/*
 * Decide from its file how to profile the program called `name`. Unless preloading works, print a
 * sentence for users to `reason`: why it does not, and what does. Host, check and doctor use this.
 * Properties of the machine (rights, ptrace_scope) are not considered.
 */
enum program_way program_way(const struct program *program, const char *name, char *reason,
                             size_t size);

#endif
