/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the addresses of files that have none, from the programs and libraries of this machine:
 * those at the paths that the file has, and in the directories of PERFETTO_BINARY_PATH, searched as
 * PERFETTO_SYMBOLIZER_MODE says. Servers are not asked. An import_naming (import.h) has other
 * places, and gets the report. If a file has no build id for a module, a
 * file of its name counts (symbol_finder_find_named()), and local_names_problems() names it.
 *
 * First add all modules and addresses, then find the names of all at once.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_LOCAL_NAMES_H
#define HEAPPROFD_PROFILE_IMPORT_LOCAL_NAMES_H

#include "profile/builder/builder.h"
#include "profile/import/import.h"
#include "profile/symbols/elf_image.h"

struct local_names;

#define LOCAL_NAMES_PROBLEMS_BYTES 1024

/* naming: its finder and options are used, and its results set; NULL: search as above. Return NULL:
 * no memory. */
struct local_names *local_names_new(struct builder *builder, struct import_naming *naming);
void local_names_free(struct local_names *names);

/* Add a module by its path and its build id (hex, "": unknown). load_bias: what its addresses have
 * over offsets in the file, if it has no file that says it. Return its number, or PROFILE_NONE
 * without memory or after too many. */
uint32_t local_names_module(struct local_names *names, const char *path, const char *build_id,
                            uint64_t load_bias);
/* NULL: the module has no file. */
const struct elf_image *local_names_image(const struct local_names *names, uint32_t module);
/* Find the bias of a mapping of the module, as elf_image_find_bias() does. Return false without a
 * file, too. */
bool local_names_bias(const struct local_names *names, uint32_t module, uint64_t start,
                      uint64_t end, uint64_t offset, uint64_t *bias);
/* Add an address, as the module's file has it. What is not in its code stays without a name, and is
 * in no report but an import_naming's. Return 0 or -ENOMEM. */
int local_names_add(struct local_names *names, uint32_t module, uint64_t address);

/* Find the names of what was added. Return 0 or -ENOMEM. */
int local_names_find(struct local_names *names);
/* Return the functions at an address, the innermost first, and their number; 0: unknown. */
const struct builder_line *local_names_of(const struct local_names *names, uint32_t module,
                                          uint64_t address, uint32_t *count);
/* Write what the reader of the names should know: places that cannot be searched, and files that
 * only their names have led to. Return the length; 0: nothing. */
size_t local_names_problems(const struct local_names *names, char *text, size_t size);

#endif
