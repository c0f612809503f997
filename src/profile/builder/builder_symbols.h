/* SPDX-License-Identifier: Apache-2.0 */
/* Names, lines and inlined frames that were found after recording. */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_SYMBOLS_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/intern.h"
#include "trace/proto_cursor.h"

struct builder;
struct profile_frame;

/* The lines of an address: functions inlined there, innermost first. */
struct builder_line {
    uint32_t name, source_file, line; /* the first two are string indexes */
    bool has_line;                    /* the trace contains the line, even if it is 0 */
};

/* The symbols of all ModuleSymbols. */
struct builder_symbols {
    struct intern_table ids; /* by mapping and address */
    struct builder_symbol {
        size_t first_line;
        uint32_t line_count;
        uint32_t kind;            /* of the frame, unless it is 0 */
        uint64_t function_offset; /* of an address without lines, from its function's start */
    } * items;
    struct builder_line *lines;
    size_t count, capacity, line_count, line_capacity;
    size_t kept_line_capacity; /* of profile.symbol_lines */
    bool keeps_lines;          /* further symbols without a line replace none with one */
};

/* Read ModuleSymbols. Return -EBADMSG if they are malformed. */
int builder_module_symbols(struct builder *builder, struct proto_span module);
/* Give names to the address of a frame with a mapping, the innermost function first. Return 0 or a
 * negative errno. */
int builder_name_frame(struct builder *builder, const struct profile_frame *frame,
                       const struct builder_line *lines, uint32_t count);
/* Set names and lines of frames. A frame with inlined functions becomes several frames. Call it
 * once, after everything was read. */
void builder_apply_symbols(struct builder *builder);

/* Append copies of a frame without names. Return the index of the first copy, or 0 if there is no
 * room. */
size_t builder_copy_frame(struct builder *builder, size_t index, size_t more);
/* The frames around a frame: of the functions that it was inlined into, the outermost last. */
struct builder_around {
    uint32_t first, count;
};
/* Insert the frames around each frame (`around`, by frame) between its callsites and their callers.
 */
void builder_expand_callsites(struct builder *builder, const struct builder_around *around);

#endif
