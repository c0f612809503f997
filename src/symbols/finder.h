/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files that describe a mapping's code, by path and build id. No file
 * with another build id is ever given out.
 */
#ifndef HEAPPROFD_SYMBOLS_FINDER_H
#define HEAPPROFD_SYMBOLS_FINDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct symbol_finder_options {
    const char *directories; /* colon-separated; NULL or "": none */
    bool by_build_id;        /* walk them once, whatever the files are called */
    bool automatic;          /* look in the places of this machine, too */
    bool offline;            /* but ask no server */
};

struct symbol_finder;

/* What a file has to say of its code, worst first. */
enum symbol_quality {
    SYMBOLS_NONE,
    SYMBOLS_DYNAMIC, /* what it exports, and .gnu_debugdata */
    SYMBOLS_TABLE,   /* .symtab */
    SYMBOLS_DWARF,
};

struct symbol_found {
    char *path; /* malloc'd; NULL: no file with this build id */
    enum symbol_quality quality;
    bool has_build_id; /* a debug file may have none, and be vouched for by its checksum */
    char *other_build; /* the first file in its place with another build id; NULL: none */
};

/* NULL with *error set. Directories that are not there are in *warning (may be empty). */
struct symbol_finder *symbol_finder_open(const struct symbol_finder_options *options,
                                         struct error *warning, struct error *error);
void symbol_finder_close(struct symbol_finder *finder);

/* Processes that the next searches may look at, as far as they still run (live_files.h). Copied. */
void symbol_finder_set_processes(struct symbol_finder *finder, const pid_t *processes,
                                 size_t count);

/* Of the places in their order the first whose file has DWARF; none has: the first of the best that
 * there is. 0 or -ENOMEM. */
int symbol_finder_find(struct symbol_finder *finder, const char *path, const uint8_t *build_id,
                       size_t build_id_length, struct symbol_found *found);
void symbol_found_clear(struct symbol_found *found);

#endif
