/* SPDX-License-Identifier: Apache-2.0 */
/* Finds allocators that a process's libraries, and its executable, have under other names
 * (wire/allocator_functions.h). */
#ifndef HEAPPROFD_RECORDER_ATTACH_FAMILIES_H
#define HEAPPROFD_RECORDER_ATTACH_FAMILIES_H

#include <stddef.h>

#include "recorder/attach/locate.h"
#include "recorder/attach/remote_objects.h"
#include "recorder/reader/file_reader.h"
#include "recorder/reader/protocol.h"

/* Find the families of the objects, and add them to `located`, whose functions are no family's. */
void families_locate(struct located *located, struct remote_memory *memory,
                     const struct remote_object *objects, size_t count);

/* Read the families of an executable's own symbols, at ELF addresses: `keys` are functions that the
 * file reader has found by `names`, keys of families among them. Return their number. */
unsigned families_read(struct located_family families[FAMILIES_MAX], const struct reader_file *file,
                       const struct reader_function *keys, size_t key_count,
                       const char *const *names);

/* Add these to `located`, unless they are there already or of the kind `uncounted`. `executable`:
 * as the loader lists it; NULL: it is static. */
void families_take(struct located *located, const struct located_family *families, unsigned count,
                   uint64_t base, struct remote_memory *memory,
                   const struct remote_object *executable, enum family_kind uncounted);

/* Leave out the families whose functions have turned out to be those of the allocator itself. */
void families_leave_located(struct located *located);

/* Return the row of the function that row `row` is called in place of, or `row`: FAMILY_FUNCTIONS
 * if it throws and that one is missing. */
unsigned families_callable(const struct located_family *family, unsigned row);

/* Return the name of a function without the family's prefix. */
const char *families_function_name(const struct located_family *family, unsigned row);

#endif
