/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of generated code: the addresses of a profile, and for each the function according to the
 * files of a JIT compiler. Memory grows with the addresses and their names, not with the size of
 * these files.
 *
 * If several entries contain an address, the last one counts: compilers reuse memory.
 */
#ifndef HEAPPROFD_RECORDER_JIT_JIT_NAMES_H
#define HEAPPROFD_RECORDER_JIT_JIT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of a function's or a file's name. Longer names are truncated. */
#define JIT_NAME_BYTES_MAX 4096u

struct jit_text {
    uint32_t users;
    char bytes[]; /* terminated */
};

struct jit_address {
    uint64_t pc;
    struct jit_text *name, *file; /* NULL: unknown */
    uint32_t line;                /* 0: unknown */
    bool by_v8;                   /* its name is in V8's form */
    bool interpreted;             /* a frame of the function in an interpreter */
};

struct jit_names {
    struct jit_address *items; /* sorted by address, each once */
    size_t count;
    uint64_t work; /* addresses named so far. Limited: a file may name each one again and again */
    void (*pause)(void *context); /* called between pieces of a long file; NULL: none */
    void *pause_context;
};

/* The result of reading a file, to explain missing names. */
struct jit_file_report {
    uint64_t entries;      /* that were understood */
    uint64_t damaged;      /* lines or records that were not understood, and were skipped */
    bool cut;              /* longer than the limit: its end was not read */
    int error;             /* negative errno of reading it; -EBADMSG: another kind of file */
    uint64_t error_offset; /* in the file */
};

/* Begin with addresses in ascending order, each once. Return 0 or -ENOMEM. */
int jit_names_open(struct jit_names *names, const uint64_t *addresses, size_t count);
void jit_names_close(struct jit_names *names);

/*
 * Name the code [start, start + size): the function `name`, of `length` bytes. Names are kept
 * unchanged, except that an unambiguous place in the source (V8: "JS:*f /path:3:5", CPython:
 * "py::f:/path") becomes file and line. Return 0; -ENOMEM; -E2BIG: the work limit is reached.
 */
int jit_names_set(struct jit_names *names, uint64_t start, uint64_t size, const char *name,
                  size_t length);

/* Set the line of the code [start, end). */
int jit_names_set_line(struct jit_names *names, uint64_t start, uint64_t end, const char *file,
                       size_t length, uint32_t line);

/* Count other work towards the limit. Return 0, or -E2BIG if the limit is reached. */
int jit_names_count_work(struct jit_names *names, uint64_t items);

/* Return whether an address is in [start, start + size). */
bool jit_names_wants(const struct jit_names *names, uint64_t start, uint64_t size);

/* Return the first address in [start, start + size), or NULL. */
const struct jit_address *jit_names_first(const struct jit_names *names, uint64_t start,
                                          uint64_t size);

/* Return the address with its name; NULL if it has none. */
const struct jit_address *jit_names_find(const struct jit_names *names, uint64_t pc);

#endif
