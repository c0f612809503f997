/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols of the objects that a process has loaded, read from its memory while it runs. Everything
 * may change or be nonsense: a look-up then fails.
 */
#ifndef HEAPPROFD_ATTACH_SYMBOLS_REMOTE_H
#define HEAPPROFD_ATTACH_SYMBOLS_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/process.h"
#include "attach/tracee.h"

/* Reads of a process's memory before all further ones fail. A program of 1,000 libraries takes some
 * 20,000. Without this, tables that lead in circles would take days. */
#define REMOTE_READS_MAX (4u << 20)

struct remote_memory {
    const struct tracee *tracee;
    unsigned reads_left;
};

struct remote_object {
    char name[64]; /* file name; "" for the executable */
    uint64_t base;
    uint64_t symbols, strings, gnu_hash, hash;
};

struct remote_symbol {
    uint64_t address, size;
};

/* List the loaded objects in link order; *objects is the caller's to free. None: there is no loader.
 * 0 or -ENOMEM. */
int remote_objects(const struct process *process, struct remote_memory *memory,
                   struct remote_object **objects, size_t *count);

/* Whether the loader has mapped and relocated all that the program needs, or there is none. */
bool remote_is_loaded(const struct process *process, struct remote_memory *memory);

/* The object whose ELF header is at an address (the vdso). */
bool remote_object_at(struct remote_memory *memory, uint64_t header, struct remote_object *object);

/* A function that the object defines and exports. */
bool remote_symbol_find(struct remote_memory *memory, const struct remote_object *object,
                        const char *name, struct remote_symbol *symbol);

/* What the executable's addresses are displaced by. */
bool remote_executable_base(const struct process *process, struct remote_memory *memory,
                            uint64_t *base);

#endif
