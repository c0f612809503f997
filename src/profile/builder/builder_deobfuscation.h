/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See builder.h: what DeobfuscationMappings said, between builder_deobfuscate.c, which reads and
 * applies it, and builder_naming.c, which decides what a method was called.
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_DEOBFUSCATION_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_DEOBFUSCATION_H

#include "profile/builder/builder.h"

#define DEOBFUSCATION_NONE UINT32_MAX

/* Of one frame: calls inlined into each other. The rest is left out. */
#define NAMING_CALLS_MAX 64u

/* Hostile files: entries that are looked at, within a second. Frames beyond keep their names, and
 * are counted. R8's maps have some hundred entries of a method, and traces some thousand frames. */
#define NAMING_STEPS_MAX ((uint64_t)1 << 26)

struct original {
    uint32_t class_name, name;  /* strings */
    uint32_t next;              /* of the same method; NONE: the last */
    bool has_lines, has_source; /* without the latter, lines are what they were */
    uint32_t first_line, last_line;
    uint32_t source_first, source_last; /* 0: none */
};

struct builder_deobfuscation {
    struct intern_table method_ids, class_ids; /* of package, class and method, as strings */
    struct method {
        uint32_t first, last; /* originals */
        uint64_t said_in;     /* packet: what is said last counts */
        /* Where no line is known; once it was asked for. */
        uint32_t name, line;
        bool asked;
    } * methods;
    uint32_t *class_names;
    struct original *originals;
    uint32_t *packages; /* in the order in which they were met */
    size_t method_count, method_capacity, class_count, class_capacity;
    size_t original_count, original_capacity, package_count, package_capacity;
    uint64_t mappings, steps;
    size_t name_bytes;
};

struct naming {
    struct builder_line calls[NAMING_CALLS_MAX]; /* innermost first; the files are not known */
    uint32_t count;
    bool by_line; /* as_in_trace: the names were chosen by the frame's line */
};

/* What a method was called, or where the map has its class alone, that. key: package, class and
 * method, as strings. False: nothing is known. */
bool builder_find_naming(struct builder *builder, const uint32_t key[3], uint32_t line,
                         struct naming *naming);

/* The same by the rules of Perfetto's trace processor. */
bool builder_find_naming_in_trace(struct builder *builder, const uint32_t key[3], bool has_line,
                                  uint32_t line, struct naming *naming);

#endif
