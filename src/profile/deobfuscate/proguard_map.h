/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ProGuard's and R8's map files, entry by entry. A class is a line without indentation, and
 * its members are the indented lines after it:
 *
 *   com.example.Main -> a:
 *       int counter -> b
 *       1:3:void com.example.Other.run(int,long):10:12 -> c
 *
 * Comments, including R8's notes in comments, and lines without an arrow are skipped. A line with
 * an arrow that is not an entry is an error, which names the line. One line is kept in memory.
 */
#ifndef HEAPPROFD_PROFILE_DEOBFUSCATE_PROGUARD_MAP_H
#define HEAPPROFD_PROFILE_DEOBFUSCATE_PROGUARD_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* Limit of a name in class files. The parts of a line are never longer. */
#define PROGUARD_NAME_BYTES_MAX 65535u

struct proguard_text {
    const char *at;
    size_t length;
};

enum proguard_kind { PROGUARD_CLASS, PROGUARD_METHOD, PROGUARD_FIELD };

enum proguard_source {
    PROGUARD_SOURCE_NONE,
    PROGUARD_SOURCE_LINE,  /* one number: all obfuscated lines map to that line */
    PROGUARD_SOURCE_RANGE, /* two numbers */
};

struct proguard_entry {
    enum proguard_kind kind;
    /* A member's name is qualified with its class if that is not the class that contains it.
     * Arguments and types are omitted. */
    struct proguard_text original, obfuscated;
    bool has_lines; /* the next two are set */
    uint32_t first_line, last_line;
    enum proguard_source source;
    uint32_t source_first, source_last; /* 0: none */
};

struct proguard_map;

/* Open a file. Return NULL with *error set. */
struct proguard_map *proguard_map_open(const char *path, struct error *error);
/* Open bytes in memory, which must stay valid. `name` appears in errors. */
struct proguard_map *proguard_map_open_bytes(const char *name, const void *bytes, size_t length,
                                             struct error *error);
void proguard_map_close(struct proguard_map *map);

/* Read the next entry. Return 1: *entry is valid until the next call; 0: the end; or a negative
 * errno with *error set. */
int proguard_map_next(struct proguard_map *map, struct proguard_entry *entry, struct error *error);

/* Return the number of lines so far, and of those that were not understood. */
size_t proguard_map_lines(const struct proguard_map *map);
size_t proguard_map_unknown_lines(const struct proguard_map *map);

#endif
