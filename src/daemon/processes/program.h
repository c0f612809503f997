/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be known of a program from its file: what execvp() would run, and whether and how well
 * it can be profiled.
 */
#ifndef HEAPPROFD_DAEMON_PROCESSES_PROGRAM_H
#define HEAPPROFD_DAEMON_PROCESSES_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "reader/program_file.h"

struct program {
    bool is_elf;
    bool other_machine;
    bool has_interpreter; /* else it is linked statically */
    bool is_musl;
    bool is_go;
    char allocator[PROGRAM_ALLOCATOR_BYTES]; /* its own malloc, as in "je_malloc"; "": symbols show
                                                no such function */
    bool allocator_is_exported;              /* as malloc, so its libraries allocate from it, too */
    const char *sanitizer;                   /* that is linked in with its allocator; NULL: none */
    bool has_client;                         /* the client library is linked to it, or in it */
    bool has_noop;                           /* so is the library whose functions do nothing */
    bool gains_rights;                       /* by exec: AT_SECURE, the loader drops LD_PRELOAD */
    bool has_unwind_tables;
    bool has_symbols, has_debug_info, has_debug_link;
    char build_id[2 * PROGRAM_BUILD_ID_MAX + 1]; /* in hexadecimal; "": none */
};

/* Finds what execvp() would run, following scripts to their interpreter. The path, or "" if there
 * is none. */
void program_find(const char *command, char *path, size_t size);

/* Say why there is no such program, in words that follow the command's name. */
const char *program_why_not_found(const char *command);

/* 0; -ENOEXEC: no ELF file; or why it cannot be read. */
int program_read(struct program *program, const char *path);

#define PROGRAM_REASON_BYTES 512

/* The ways of profiling that see a program's allocations. */
enum program_way {
    PROGRAM_BY_PRELOADING, /* heap_profile host and shell; attaching, too */
    /* Has an allocator of its own: the preloaded library says hello from it and the profiler
     * attaches to it then, where the kernel lets it. */
    PROGRAM_BY_BOTH,
    PROGRAM_BY_ATTACHING, /* heap_profile -n and -p alone */
    PROGRAM_BY_NEITHER,
};

/*
 * Decide from its file how to profile the program called `name`. Unless preloading works, write a
 * sentence for people to `reason`: why it does not, and what does. Host, check and doctor use this.
 * Facts of the machine (rights, ptrace_scope) are not considered.
 */
enum program_way program_way(const struct program *program, const char *name, char *reason,
                             size_t size);

#endif
