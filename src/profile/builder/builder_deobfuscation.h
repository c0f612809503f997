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

/* Hostile files: packages that frames of the JIT's memory are looked for in, and bytes of names
 * that are made, 16 as one; within a second. Frames beyond keep their names, and are counted.
 * Traces have some dozen packages, and some thousand frames. */
#define NAMING_STEPS_MAX ((uint64_t)1 << 26)

/* Entries of one line that are compared. Where more hold, the line decides nothing. R8 writes one
 * range for each position, and its entries are the calls inlined there. */
#define NAMING_ENTRIES_MAX 256u

struct original {
    uint32_t class_name, name;  /* strings */
    uint32_t next;              /* of the same method; NONE: the last */
    uint32_t qualified;         /* string of both names; NONE: not yet made */
    bool has_lines, has_source; /* without the latter, lines are what they were */
    uint32_t first_line, last_line;
    uint32_t source_first, source_last; /* 0: none */
};

struct builder_deobfuscation {
    struct intern_table method_ids, class_ids; /* of package, class and method, as strings */
    struct method {
        uint32_t first, last; /* originals */
        uint64_t said_in;     /* packet: what is said last counts */
        uint32_t first_range, range_count;
        uint32_t first_any, any_count; /* range_entries without lines */
        /* What it is called where no line decides; once it was asked for. Lines of the entries that
         * hold for any line: they differ; they are not known and `mixed`; or they are `line`, 0:
         * not known. */
        uint32_t name, line, mixed;
        bool asked, holds_for_any, lines_differ;
    } * methods;
    /* By method, sorted by first and then last line: the lines that entries are bound to. */
    struct line_range {
        uint32_t first, last;
        uint32_t furthest; /* last line of all ranges of its part (builder_lines.c) */
        uint32_t first_entry, entry_count;
    } * ranges;
    uint32_t *range_entries; /* originals; of a range, or without lines, as the map has them */
    uint32_t *class_names;
    struct original *originals;
    uint32_t *packages; /* in the order in which they were met */
    size_t method_count, method_capacity, class_count, class_capacity;
    size_t original_count, original_capacity, package_count, package_capacity;
    uint64_t mappings, steps;
    size_t name_bytes;
};

/* Sort the line ranges of all methods. 0 or -ENOMEM. */
int builder_index_lines(struct builder_deobfuscation *all);

/* Find the ranges of a method that a line lies in. Return how many, up to `most`; the rest is not
 * looked for. */
size_t builder_ranges_at(const struct builder_deobfuscation *all, const struct method *method,
                         uint32_t line, const struct line_range **found, size_t most);

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
