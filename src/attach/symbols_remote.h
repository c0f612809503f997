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

struct remote_object {
    char name[64]; /* file name; "" for the executable */
    uint64_t base;
    uint64_t symbols, strings, gnu_hash, hash;
};

struct remote_symbol {
    uint64_t address, size;
};

/* The loaded objects in link order, at most `max`; the number of them. 0: there is no loader. */
size_t remote_objects(const struct process *process, const struct tracee *tracee,
                      struct remote_object *objects, size_t max);

/* Whether the loader has mapped and relocated all that the program needs, or there is none. */
bool remote_is_loaded(const struct process *process, const struct tracee *tracee);

/* The object whose ELF header is at an address (the vdso). */
bool remote_object_at(const struct tracee *tracee, uint64_t header, struct remote_object *object);

/* A function that the object defines and exports. */
bool remote_symbol_find(const struct tracee *tracee, const struct remote_object *object,
                        const char *name, struct remote_symbol *symbol);

/* What the executable's addresses are displaced by. */
bool remote_executable_base(const struct process *process, const struct tracee *tracee,
                            uint64_t *base);

#endif
