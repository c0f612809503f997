/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ProGuard's and R8's map files, entry by entry. A class is a line at the margin, and its members
 * are the indented lines after it:
 *
 *   com.example.Main -> a:
 *       int counter -> b
 *       1:3:void com.example.Other.run(int,long):10:12 -> c
 *
 * Comments and lines without an arrow are passed over; R8's notes in comments are comments. What
 * has an arrow and is no entry is an error that names the line. Holds one line at a time.
 */
#ifndef HEAPPROFD_DEOBFUSCATE_PROGUARD_MAP_H
#define HEAPPROFD_DEOBFUSCATE_PROGUARD_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* What class files allow for a name; a line's parts are never longer. */
#define PROGUARD_NAME_BYTES_MAX 65535u

struct proguard_text {
    const char *at;
    size_t length;
};

enum proguard_kind { PROGUARD_CLASS, PROGUARD_METHOD, PROGUARD_FIELD };

enum proguard_source {
    PROGUARD_SOURCE_NONE,
    PROGUARD_SOURCE_LINE,  /* one number: all of the obfuscated lines stand for that line */
    PROGUARD_SOURCE_RANGE, /* two */
};

struct proguard_entry {
    enum proguard_kind kind;
    /* A member's name is qualified with its class where that is not the one it stands in. Arguments
     * and types are left out. */
    struct proguard_text original, obfuscated;
    bool has_lines; /* the next two are known */
    uint32_t first_line, last_line;
    enum proguard_source source;
    uint32_t source_first, source_last; /* 0: none such */
};

struct proguard_map;

/* NULL with *error set. */
struct proguard_map *proguard_map_open(const char *path, struct error *error);
/* name stands in errors; the bytes must stay. */
struct proguard_map *proguard_map_open_bytes(const char *name, const void *bytes, size_t length,
                                             struct error *error);
void proguard_map_close(struct proguard_map *map);

/* 1: *entry is the next, valid until the next call; 0: the end; negative errno with *error set. */
int proguard_map_next(struct proguard_map *map, struct proguard_entry *entry, struct error *error);

/* Lines so far, and how many of them were none that is known. */
size_t proguard_map_lines(const struct proguard_map *map);
size_t proguard_map_unknown_lines(const struct proguard_map *map);

#endif
