/*
 * What can be known of a program from its file: what execvp() would run, and whether and how well
 * it can be profiled.
 */
#ifndef HEAPPROFD_DAEMON_PROGRAM_H
#define HEAPPROFD_DAEMON_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#define PROGRAM_BUILD_ID_MAX 64

struct program {
    bool is_elf;
    bool other_machine;
    bool has_interpreter; /* else it is linked statically */
    bool is_musl;
    bool is_go;
    char allocator[24]; /* its own malloc, as in "je_malloc"; "": it has none that symbols tell */
    bool allocator_is_exported; /* as malloc: what its libraries allocate comes from it, too */
    const char *sanitizer;      /* whose run time, and so whose allocator, is in it; NULL: none */
    bool has_client;            /* the client library is linked to it, or in it */
    bool has_noop;              /* likewise the one whose functions do nothing */
    bool gains_rights;          /* by exec: AT_SECURE, the loader drops LD_PRELOAD */
    bool has_unwind_tables;
    bool has_symbols, has_debug_info, has_debug_link;
    char build_id[2 * PROGRAM_BUILD_ID_MAX + 1]; /* in hexadecimal; "": none */
};

/* Finds what execvp() would run, following scripts to their interpreter. The path, or "" if there
 * is none. */
void program_find(const char *command, char *path, size_t size);

/* Why there is none, in words that follow the command's name. */
const char *program_why_not_found(const char *command);

/* 0; -ENOEXEC: no ELF file; or why it cannot be read. */
int program_read(struct program *program, const char *path);

#define PROGRAM_REASON_BYTES 512

/* Which way of profiling sees what a program allocates. */
enum program_way {
    PROGRAM_BY_PRELOADING, /* heap_profile host and shell; attaching, too */
    /* Has an allocator of its own: the preloaded library says hello from it and the profiler
     * attaches to it then, where the kernel lets it. */
    PROGRAM_BY_BOTH,
    PROGRAM_BY_ATTACHING, /* heap_profile -n and -p alone */
    PROGRAM_BY_NEITHER,
};

/*
 * Find out by its file which way sees the program that is called `name`. Unless preloading does,
 * `reason` gets a sentence for people: why it does not, and what does. Host, check and doctor all
 * ask here. Facts of the machine (rights, ptrace_scope) are not looked at.
 */
enum program_way program_way(const struct program *program, const char *name, char *reason,
                             size_t size);

#endif
