/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What generated code is called: the addresses that a profile has in it, and for each the function
 * that the files of a JIT compiler say was there. Memory is that of the addresses and of the names
 * in use, however long those files are.
 *
 * Where several entries hold an address the last one counts: compilers use memory again.
 */
#ifndef HEAPPROFD_JIT_JIT_NAMES_H
#define HEAPPROFD_JIT_JIT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a name, or of a file's. What is longer is cut. */
#define JIT_NAME_BYTES_MAX 4096u

struct jit_text {
    uint32_t users;
    char bytes[]; /* terminated */
};

struct jit_address {
    uint64_t pc;
    struct jit_text *name, *file; /* NULL: not known */
    uint32_t line;                /* 0: not known */
    bool interpreted;             /* it is an interpreter's frame of the function */
};

struct jit_names {
    struct jit_address *items; /* by address, each once */
    size_t count;
    uint64_t work; /* done so far: bounded, for files that name each address again and again */
    void (*pause)(void *context); /* NULL: none. Called between pieces of a long file */
    void *pause_context;
    bool by_v8; /* the last name that was set has the form of V8's */
};

/* What a file held, for people who wonder about missing names. */
struct jit_file_report {
    uint64_t entries;      /* that were understood */
    uint64_t damaged;      /* lines or records that were not, and were passed over */
    bool cut;              /* longer than is read: its end is not known */
    int error;             /* negative errno of reading it, or -EBADMSG: not such a file */
    uint64_t error_offset; /* in the file */
};

/* Of addresses in ascending order, each once. 0 or -ENOMEM. */
int jit_names_open(struct jit_names *names, const uint64_t *addresses, size_t count);
void jit_names_close(struct jit_names *names);

/*
 * The code [start, start + size) is the function `name`, of `length` bytes. Names are kept as they
 * are, but for a place in the source that stands in them for certain (V8: "JS:*f /path:3:5",
 * CPython: "py::f:/path"), which becomes file and line. 0; -ENOMEM; -E2BIG: too much work.
 */
int jit_names_set(struct jit_names *names, uint64_t start, uint64_t size, const char *name,
                  size_t length);

/* The code [start, end) is of this line. */
int jit_names_set_line(struct jit_names *names, uint64_t start, uint64_t end, const char *file,
                       size_t length, uint32_t line);

/* To be called for what takes time beside; -E2BIG: it is too much in all. */
int jit_names_count_work(struct jit_names *names, uint64_t items);

/* Whether an address lies in [start, start + size). */
bool jit_names_wants(const struct jit_names *names, uint64_t start, uint64_t size);

/* The first address in [start, start + size); NULL: none. */
const struct jit_address *jit_names_first(const struct jit_names *names, uint64_t start,
                                          uint64_t size);

/* NULL: it has no name. */
const struct jit_address *jit_names_find(const struct jit_names *names, uint64_t pc);

#endif
