/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of Breakpad's symbol files: as symbol servers keep them, NAME/ID/NAME.sym, or any
 * files that end in .sym, however deep. What is asked for is looked for by the first form; all
 * files are looked at, by their first lines, once that finds nothing.
 */
#ifndef HEAPPROFD_SYMBOLS_BREAKPAD_STORE_H
#define HEAPPROFD_SYMBOLS_BREAKPAD_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct breakpad_store;

/* directories: with colons between them. NULL with *error set. Those that cannot be searched are in
 * *warning (may be empty). */
struct breakpad_store *breakpad_store_open(const char *directories, struct error *warning,
                                           struct error *error);
void breakpad_store_close(struct breakpad_store *store);

struct breakpad_found {
    const char *path;  /* NULL: none */
    const char *other; /* a file for a program of this name, but another build of it; NULL: none */
};

/* The file for what was mapped from path. Without a build id (length 0) it is the one for a program
 * of that name, in small letters, if there is only one. 0 or -ENOMEM; *found is the store's. */
int breakpad_store_find(struct breakpad_store *store, const char *path, const uint8_t *build_id,
                        size_t build_id_length, struct breakpad_found *found);

#endif
