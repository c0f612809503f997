/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program's file shows: which file execvp() would run, and whether and how well it can be
 * profiled.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_PROGRAM_H
#define HEAPPROFD_RECORDER_PROCESSES_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "recorder/reader/program_debug_file.h"

struct program {
    bool is_elf; /* else `file` is all 0 */
    struct program_file file;
    const char *sanitizer; /* name of the sanitizer linked in with its allocator; NULL: none */
    char debug_file[PROGRAM_DEBUG_PATH_BYTES]; /* as in struct program_debug_file */
    bool gains_rights; /* at its exec: AT_SECURE, the loader drops LD_PRELOAD */
};

/* Find the file that execvp() would run. If it would find no file, path is "". */
void program_locate(const char *command, char *path, size_t size);

/* Like program_locate(), and follow scripts to their interpreter. */
void program_find(const char *command, char *path, size_t size);

/* The same for a command and its arguments, an array that ends with NULL. If the command is a
 * loader (ld.so ./program), find the program that it is told to run. */
void program_find_of_command(char *const *command, char *path, size_t size);

/* Return why there is no such program, as words that follow the command's name. */
const char *program_why_not_found(const char *command);

/* Read a program's file. Return 0, -ENOEXEC if it is no ELF file, or another negative errno. */
int program_read(struct program *program, const char *path);
/* The same with a time limit. -EIO: it has passed, or the file reader failed. *file: the status of
 * the file that was opened; unchanged if none was. */
int program_read_within(struct program *program, const char *path, unsigned deadline_ms,
                        struct stat *file);

/* Return whether the profiler can attach to the program at its first instruction: it is linked
 * statically, and an exec under a tracer gives it the same rights as any other. Cheap: this comes
 * before the start of every command. */
bool program_is_enterable(const char *path);

/* Return whether the file is a program for another machine. Cheap, too. */
bool program_is_foreign(const char *path);

/* Return whether its debug file, which was not found, could show where its malloc is. */
bool program_needs_debug_file(const struct program *program);

/* Return whether the exec of an ordinary file gives the process the same rights under a tracer as
 * without one: it need not if its user ids differ, or if it is root without some capabilities. */
bool program_exec_may_be_traced(pid_t pid);

#define PROGRAM_REASON_BYTES 768

/* The ways of profiling that see a program's allocations. */
enum program_way {
    PROGRAM_BY_PRELOADING, /* heap_profile host and shell; attaching works, too */
    /* It has an allocator of its own: the profiler attaches to it, if the kernel permits that,
     * when the preloaded library says hello from it, or at its first instruction if it is linked
     * statically. */
    PROGRAM_BY_BOTH,
    PROGRAM_BY_ATTACHING, /* only heap_profile -n and -p */
    PROGRAM_BY_NEITHER,
};

/* Return one word for scripts. */
const char *program_way_name(enum program_way way);

/*
 * Decide from its file how to profile the program called `name`. Unless preloading works, print a
 * sentence for users to `reason`: why it does not, and what does. Host, check and doctor use this.
 * Properties of the machine (rights, ptrace_scope) are not considered.
 */
enum program_way program_way(const struct program *program, const char *name, char *reason,
                             size_t size);

#endif
