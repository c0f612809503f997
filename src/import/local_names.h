/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the addresses of files that have none, from the programs and libraries of this machine:
 * those at the paths that the file has, and in the directories of PERFETTO_BINARY_PATH. Servers are
 * not asked. If a file has no build id for a module, the present file of that path counts.
 *
 * First add all modules and addresses, then find the names of all at once.
 */
#ifndef HEAPPROFD_IMPORT_LOCAL_NAMES_H
#define HEAPPROFD_IMPORT_LOCAL_NAMES_H

#include "profile/builder/builder.h"

/* A function at an address; `name` and `file` are strings of the builder, 0: unknown. */
struct local_name {
    uint32_t name, file, line;
};

struct local_names;

/* Return NULL: no memory. */
struct local_names *local_names_new(struct builder *builder);
void local_names_free(struct local_names *names);

/* Add a module by its path and its build id (hex, "": unknown). Return its number, or PROFILE_NONE
 * without memory or after too many. */
uint32_t local_names_module(struct local_names *names, const char *path, const char *build_id);
/* Return the address in the module's file that has this offset in it, and set *load_bias to the
 * file's. Without a file they are the offset and 0. */
uint64_t local_names_place(const struct local_names *names, uint32_t module, uint64_t offset,
                           uint64_t *load_bias);
/* Add an address that local_names_place() returned. Return 0 or -ENOMEM. */
int local_names_add(struct local_names *names, uint32_t module, uint64_t address);

/* Find the names of what was added. Return 0 or -ENOMEM. */
int local_names_find(struct local_names *names);
/* Return the functions at an address, the innermost first, and their number; 0: unknown. */
const struct local_name *local_names_of(const struct local_names *names, uint32_t module,
                                        uint64_t address, uint32_t *count);

#endif
