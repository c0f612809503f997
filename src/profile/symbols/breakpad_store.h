/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of Breakpad symbol files: laid out as on symbol servers, NAME/ID/NAME.sym, or any
 * files whose names end in .sym, at any depth. A search tries the server's layout first. If that
 * finds nothing, it reads the first lines of all files, once.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_BREAKPAD_STORE_H
#define HEAPPROFD_PROFILE_SYMBOLS_BREAKPAD_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct breakpad_store;

/* Open colon-separated directories. Return NULL with *error set. *warning names a directory that
 * cannot be searched, or is empty. */
struct breakpad_store *breakpad_store_open(const char *directories, struct error *warning,
                                           struct error *error);
void breakpad_store_close(struct breakpad_store *store);

struct breakpad_found {
    const char *path;  /* NULL: none */
    const char *other; /* a file for a program of this name, but of another build; NULL: none */
};

/* Find the symbol file for what was mapped from `path`. Without a build id (length 0), find the
 * file for a program of that name, ignoring case, if there is only one. Return 0 or -ENOMEM. The
 * store owns *found. */
int breakpad_store_find(struct breakpad_store *store, const char *path, const uint8_t *build_id,
                        size_t build_id_length, struct breakpad_found *found);

#endif
