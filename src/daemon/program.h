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
    bool defines_malloc;
    bool has_client;   /* the client library is linked to it, or in it */
    bool has_noop;     /* likewise the one whose functions do nothing */
    bool gains_rights; /* by exec: AT_SECURE, the loader drops LD_PRELOAD */
    bool has_unwind_tables;
    bool has_symbols, has_debug_info, has_debug_link;
    char build_id[2 * PROGRAM_BUILD_ID_MAX + 1]; /* in hexadecimal; "": none */
};

/* Finds what execvp() would run, following scripts to their interpreter. The path, or "" if there
 * is none. */
void program_find(const char *command, char *path, size_t size);

/* 0; -ENOEXEC: no ELF file; or why it cannot be read. */
int program_read(struct program *program, const char *path);

#endif
