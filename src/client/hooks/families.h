/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families: allocators in libraries, whose functions have a prefix of their own (libduckdb.so's
 * duckdb_je_malloc). wire/allocator_functions.h says what makes one. Each prefix is a heap of its
 * own, duckdb_je.malloc.
 *
 * families.c finds them and binds calls to their hooks: at start-up, and when the program looks a
 * name up after it has opened libraries. families_call.c counts the calls.
 */
#ifndef HEAPPROFD_CLIENT_HOOKS_FAMILIES_H
#define HEAPPROFD_CLIENT_HOOKS_FAMILIES_H

#include "wire/allocator_functions.h"

#ifndef __ASSEMBLER__

#include <stdint.h>

#include "client/client.h"
#include "client/extended_row.h"

/* A function that families of a kind have, under its name without their prefix. */
struct family_row {
    char name[28];
    struct extended_row row;
};

/* Return the rows of a kind. (mimalloc's have the names of the table.) */
HIDDEN const struct family_row *family_rows(enum family_kind kind, unsigned *count);

/* A hooked function of a family. */
struct family_function {
    uint64_t real; /* 0: it has none of this name, or its library has been closed */
    const struct extended_row *row;
    uint32_t heap; /* 0: it does not count */
};

/* The program will open a library now: look at it when a name is looked up. */
HIDDEN void families_expect_library(void);

/* By family, then by row of its kind. The hook of each is the thunk of the same number
 * (arch/<cpu>/entry_families.S), which calls family_call(). */
extern HIDDEN struct family_function family_functions[FAMILIES_MAX * FAMILY_FUNCTIONS];
extern HIDDEN const char family_thunks[];

static inline uint64_t family_thunk(unsigned number)
{
    return (uint64_t)(uintptr_t)family_thunks + number * (uint64_t)FAMILY_THUNK_BYTES;
}

#endif

#endif
