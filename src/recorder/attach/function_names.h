/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the functions that can be hooked, by enum attached_function, and what they say. */
#ifndef HEAPPROFD_RECORDER_ATTACH_FUNCTION_NAMES_H
#define HEAPPROFD_RECORDER_ATTACH_FUNCTION_NAMES_H

#include <stddef.h>

#include "recorder/reader/allocator_names.h"
#include "wire/attached_params.h"

extern const char *const function_names[ATTACHED_FUNCTIONS];

/* A function that each version of the library exports. */
extern const char *const function_library_keys[EXTENDED_LIBRARIES];

/* The key of each kind of family, without a prefix. */
extern const char *const family_keys[FAMILY_KINDS];

/* A part of jemalloc's operator new, of all versions that have one: handleOOM(size_t, bool). */
#define FUNCTION_OF_JEMALLOCS_NEW "_ZL9handleOOMmb"

/* A function of CPython, which its executable exports. */
#define FUNCTION_OF_PYTHON "PyMem_GetAllocator"

/* Return the library of an extended function; EXTENDED_LIBRARIES: it is another function. */
enum extended_library function_library(int function);

/* Return the function that returns NULL instead of throwing, which the client calls in place of
 * this one. 0: this one does not throw. */
unsigned function_nothrow_form(int function);

/* Limits of the list. */
#define FUNCTION_NAMES_MAX                                                                         \
    ((ALLOCATOR_JEMALLOC_PREFIXES + 1) * (ATTACHED_FUNCTIONS + 4) + FAMILY_KINDS)
#define FUNCTION_NAME_BYTES 64

/* Write all names that an executable's allocator may have, one after the other, and list them, with
 * the keys of families as endings (READER_FUNCTIONS). Return the number of bytes. */
size_t function_names_list(char *text, const char **list, size_t *count);

/* Return the function that this name denotes if names have the prefix: one of jemalloc's (an index
 * of allocator_prefixes), or FUNCTION_NO_PREFIX. ATTACHED_FUNCTIONS: no function. */
#define FUNCTION_NO_PREFIX ALLOCATOR_JEMALLOC_PREFIXES
enum attached_function function_of_name(const char *name, size_t prefix);

#endif
