/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols of the objects that a process has loaded, read from its memory while it runs. Anything
 * may change or be invalid: then a look-up fails.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_REMOTE_OBJECTS_H
#define HEAPPROFD_RECORDER_ATTACH_REMOTE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/attach/process.h"
#include "recorder/attach/tracee.h"

/* Reads of a process's memory before all further ones fail. A program with 1,000 libraries takes
 * about 20,000. Without this limit, cyclic tables would take days. */
#define REMOTE_READS_MAX (4u << 20)

struct remote_memory {
    const struct tracee *tracee;
    unsigned reads_left;
};

/* What tells one object of the loader's list from another. */
struct remote_link {
    uint64_t base, dynamic; /* of its dynamic section */
    uint64_t name;          /* address of its path */
};

struct remote_object {
    char name[64]; /* file name; "" for the executable */
    uint64_t base, dynamic;
    uint64_t symbols, strings, gnu_hash, hash;
};

struct remote_symbol {
    uint64_t address, size;
};

/* Return where the loader publishes its list of objects (struct r_debug), or 0. */
uint64_t remote_loader(const struct process *process, struct remote_memory *memory);

/* List the links of the loaded objects in link order: one read for each. The caller frees *links.
 * `loader` 0: the list is empty. Return 0; -EAGAIN: the loader changes the list; or -ENOMEM. */
int remote_links(uint64_t loader, struct remote_memory *memory, struct remote_link **links,
                 size_t *count);

/* List the links even while the loader changes them. Return 0 or -ENOMEM. */
int remote_links_now(uint64_t loader, struct remote_memory *memory, struct remote_link **links,
                     size_t *count);

/* Read a linked object. Return false if it has no symbols. */
bool remote_object_of(struct remote_memory *memory, const struct remote_link *link,
                      struct remote_object *object);

/* List the loaded objects in link order. The caller frees *objects. Without a loader the list is
 * empty. Return 0 or -ENOMEM. */
int remote_objects(const struct process *process, struct remote_memory *memory,
                   struct remote_object **objects, size_t *count);

/* Return whether the loader has mapped and relocated everything that the program needs, or there is
 * no loader. */
bool remote_is_loaded(const struct process *process, struct remote_memory *memory);

/* Read the object whose ELF header is at an address (the vdso). */
bool remote_object_at(struct remote_memory *memory, uint64_t header, struct remote_object *object);

/* Find a function that the object defines and exports. */
bool remote_symbol_find(struct remote_memory *memory, const struct remote_object *object,
                        const char *name, struct remote_symbol *symbol);

/* Find the load bias of the executable. */
bool remote_executable_base(const struct process *process, struct remote_memory *memory,
                            uint64_t *base);

#endif
