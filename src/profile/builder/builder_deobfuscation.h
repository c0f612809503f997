/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of DeobfuscationMappings. builder_deobfuscate.c reads and applies them, builder_naming.c
 * decides on the names of methods (see builder.h).
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_DEOBFUSCATION_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_DEOBFUSCATION_H

#include "profile/builder/builder.h"

#define DEOBFUSCATION_NONE UINT32_MAX

/* Limit of inlined calls of one frame. Further calls are dropped. */
#define NAMING_CALLS_MAX 64u

/* Limit of steps, so that a hostile file costs a second at most. A step is the search of one
 * package for a frame in the JIT's memory, a range that may contain a line, or 16 bytes of new
 * names. After the limit, frames keep their names, and are counted. Real traces have some dozen
 * packages and some thousand frames. */
#define NAMING_STEPS_MAX ((uint64_t)1 << 26)

/* Limit of entries that are compared for one line. If more match, the line decides nothing. R8
 * writes one range for each position, and its entries are the calls inlined there. */
#define NAMING_ENTRIES_MAX 256u

struct original {
    uint32_t class_name, name;  /* strings */
    uint32_t next;              /* of the same method; NONE: last */
    uint32_t qualified;         /* string of both names; NONE: not made yet */
    bool has_lines, has_source; /* without has_source, lines are unchanged */
    uint32_t first_line, last_line;
    uint32_t source_first, source_last; /* 0: none */
};

struct builder_deobfuscation {
    struct intern_table method_ids, class_ids; /* by package, class and method, as strings */
    struct method {
        uint32_t first, last; /* indexes of originals */
        uint64_t packet;      /* number of the packet: the last packet wins */
        uint32_t first_range, range_count;
        uint32_t first_any, any_count; /* range_entries without lines */
        /* The method's name if no line decides, once it is collected. */
        uint32_t name;
        /* The source lines of entries that hold for any line: all are `line` (0: unknown); or some
         * are unknown and the others `mixed`; or lines_differ. */
        uint32_t line, mixed;
        bool is_collected, holds_for_any, lines_differ;
    } * methods;
    /* By method, sorted by first and then last line: the lines of entries. */
    struct line_range {
        uint32_t first, last;
        uint32_t furthest; /* last line of all ranges up to this one */
        uint32_t first_entry, entry_count;
    } * ranges;
    uint32_t *range_entries; /* indexes of originals: of a range, or without lines, in the order of
                                the map */
    uint32_t *class_names;
    struct original *originals;
    uint32_t *packages; /* in the order in which they appeared */
    size_t method_count, method_capacity, class_count, class_capacity;
    size_t original_count, original_capacity, package_count, package_capacity;
    uint64_t mappings, steps;
    size_t name_bytes;
};

/* Sort the line ranges of all methods. Return 0 or -ENOMEM. */
int builder_index_lines(struct builder_deobfuscation *all);

/* Find up to `most` ranges of a method that contain a line. Return how many were found. */
size_t builder_ranges_at(struct builder_deobfuscation *all, const struct method *method,
                         uint32_t line, const struct line_range **found, size_t most);

struct naming {
    struct builder_line calls[NAMING_CALLS_MAX]; /* innermost first; without files */
    uint32_t count;
    bool by_line; /* as_in_trace: the frame's line selected the names */
};

/* Find the original name of a method, or of its class if the map has only the class. `key`:
 * package, class and method, as strings. Return false if neither is known. */
bool builder_find_naming(struct builder *builder, const uint32_t key[3], uint32_t line,
                         struct naming *naming);

/* Find the name of a method by the rules of Perfetto's trace processor. */
bool builder_find_naming_in_trace(struct builder *builder, const uint32_t key[3], bool has_line,
                                  uint32_t line, struct naming *naming);

/* Read a DeobfuscationMapping or a PackagesList. Return -EBADMSG if it is malformed. */
int builder_deobfuscation_mapping(struct builder *builder, struct proto_span mapping);
int builder_packages_list(struct builder *builder, struct proto_span list);
/* Set the names of obfuscated frames, and restore inlined calls as frames. Call it once, after
 * everything else has names. */
void builder_apply_deobfuscation(struct builder *builder);
void builder_deobfuscation_free(struct builder_deobfuscation *deobfuscation);

#endif
