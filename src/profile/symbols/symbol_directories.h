/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that a user names for symbols: a list of them, and a walk through their files. */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_SYMBOL_DIRECTORIES_H
#define HEAPPROFD_PROFILE_SYMBOLS_SYMBOL_DIRECTORIES_H

#include <fts.h>
#include <stddef.h>

#include "util/error.h"

struct symbol_directories {
    char **items;
    size_t count, capacity;
};

/* Add the directories of a colon-separated list; NULL: none. *warning names one that cannot be
 * searched for `what`. Return 0 or -ENOMEM. */
int symbol_directories_add(struct symbol_directories *directories, const char *list,
                           const char *what, struct error *warning);
void symbol_directories_clear(struct symbol_directories *directories);

/* Receive a file or a link. A result other than 0 ends the walk. */
typedef int symbol_directories_sink(void *context, const FTSENT *entry);

/* Call `sink` for the files and links in the directories themselves, in order of names. Return as
 * symbol_directories_walk(). */
int symbol_directories_list(const struct symbol_directories *directories,
                            symbol_directories_sink *sink, void *context);

/* Call `sink` for everything below the directories, in order of names. Links to directories are not
 * followed: their targets below a directory are found anyway. Return 0, the sink's result, or
 * -ENOMEM. */
int symbol_directories_walk(const struct symbol_directories *directories,
                            symbol_directories_sink *sink, void *context);

#endif
