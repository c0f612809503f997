/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files that describe a mapping's code, by path and build id. A file with another build
 * id is never returned.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_FINDER_H
#define HEAPPROFD_PROFILE_SYMBOLS_FINDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct symbol_finder_options {
    const char *directories; /* colon-separated; NULL or "": none */
    bool by_build_id;        /* walk them once and match files by build id, whatever their names */
    bool automatic;          /* search the standard places of this machine, too */
    bool offline;            /* but do not ask servers */
};

struct symbol_finder;

/* Take the directories of PERFETTO_BINARY_PATH, and by_build_id of PERFETTO_SYMBOLIZER_MODE. Return
 * 0, or -EINVAL with *error set for an unknown mode. */
int symbol_finder_options_from_environment(struct symbol_finder_options *options,
                                           struct error *error);

/* Kind of symbols in a file, worst first. */
enum symbol_quality {
    SYMBOLS_NONE,
    SYMBOLS_DYNAMIC, /* exported symbols, and .gnu_debugdata */
    SYMBOLS_TABLE,   /* .symtab */
    SYMBOLS_DWARF,
};

struct symbol_found {
    char *path; /* malloc'd; NULL: no file with this build id */
    enum symbol_quality quality;
    bool has_build_id; /* a debug file may have none: then its checksum identifies it */
    bool is_by_path;   /* of a module without a build id: the path alone led to it */
    bool is_asked;     /* and it is in one of the directories */
    char *other_build; /* the first file that was found with another build id; NULL: none */
};

/* Open a finder. Return NULL with *error set. *warning names a missing directory, or is empty. */
struct symbol_finder *symbol_finder_open(const struct symbol_finder_options *options,
                                         struct error *warning, struct error *error);
void symbol_finder_close(struct symbol_finder *finder);

/* Set the processes whose files the next searches may use while the processes run (live_files.h).
 * The list is copied. */
void symbol_finder_set_processes(struct symbol_finder *finder, const pid_t *processes,
                                 size_t count);

/* Set when the first of the processes began, in nanoseconds since 1970; 0: unknown. */
void symbol_finder_set_begin(struct symbol_finder *finder, int64_t begun_ns);

/* Find the first file, in the order of places, that has DWARF. If none has it, find the first file
 * with the best symbols. Return 0 or -ENOMEM.
 *
 * Without a build id, the file is one without, too, which has the mapping's path below one of the
 * directories or its last component there; or the path itself, if the file has not changed since
 * the first process began. The caller checks that it has the names of the trace. */
int symbol_finder_find(struct symbol_finder *finder, const char *path, const uint8_t *build_id,
                       size_t build_id_length, struct symbol_found *found);
/* Find the file of a module whose build id nobody knows, by its name alone: below one of the
 * directories the path, then its last component; if directories are walked by build id, a file at
 * any depth that has this name, unless there are several builds of it; then the path itself. The
 * file may have a build id. Return 0 or -ENOMEM. */
int symbol_finder_find_named(struct symbol_finder *finder, const char *path,
                             struct symbol_found *found);
void symbol_found_clear(struct symbol_found *found);

#endif
