/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a pprof file's strings, mappings and locations to the builder's strings, mappings and
 * frames. Files of ours name a frame without a symbol by its address; such a name is dropped here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_field_numbers.h"
#include "profile/import/pprof_reading.h"
#include "util/array.h"
#include "util/base_name.h"

#define NAMELESS_BYTES 256

bool pprof_reading_is_text(const struct pprof_reading *reading, uint64_t string, const char *text)
{
    struct proto_span span = pprof_file_string(&reading->file, string);
    return proto_length(span) == strlen(text) && memcmp(span.at, text, proto_length(span)) == 0;
}

static uint32_t take_string(struct pprof_reading *reading, uint64_t string)
{
    if (string == 0 || string >= reading->file.string_count)
        return 0;
    if (reading->strings[string] == 0)
        reading->strings[string] =
            1 + builder_string_of_span(reading->builder, reading->file.strings[string]);
    return reading->strings[string] - 1;
}

const char *pprof_reading_text(struct pprof_reading *reading, uint64_t string)
{
    uint32_t index = take_string(reading, string);
    return reading->builder->strings[index];
}

/* --- mappings --- */

/* Return whether this is the name that our pprof files give to a frame without one, and set its
 * function's start. */
static bool is_nameless(struct pprof_reading *reading, const struct pprof_function *function,
                        const struct pprof_mapping *mapping, uint64_t *start)
{
    char name[NAMELESS_BYTES];
    const char *text, *path = mapping == NULL ? "" : pprof_reading_text(reading, mapping->file);
    if (proto_length(pprof_file_string(&reading->file, function->system_name)) > 0)
        return false;
    text = pprof_reading_text(reading, function->name);
    if (strncmp(text, "0x", 2) != 0)
        return false;
    *start = strtoull(text, NULL, 16);
    snprintf(name, sizeof(name), "0x%" PRIx64 " @ %s", *start,
             *path == '\0' ? "?" : base_name(path));
    return strcmp(name, text) == 0;
}

/* The name that our files give to frames without a mapping. */
static bool is_nowhere(const struct pprof_reading *reading, const struct pprof_mapping *mapping)
{
    return mapping->limit == 0 && pprof_reading_is_text(reading, mapping->file, "[no mapping]");
}

static const struct pprof_mapping *mapping_of(const struct pprof_reading *reading,
                                              const struct pprof_location *location)
{
    uint32_t index = id_map_find(&reading->file.mapping_ids, location->mapping);
    if (location->mapping == 0 || index == ID_MAP_NONE)
        return NULL;
    const struct pprof_mapping *mapping = &reading->file.mappings[index];
    return is_nowhere(reading, mapping) ? NULL : mapping;
}

/* Read the next line of a location. Return 1 with *function (NULL: unknown) and *line; 0: no more;
 * or a negative errno. */
static int next_line(const struct pprof_reading *reading, struct proto_span *message,
                     const struct pprof_function **function, uint32_t *line)
{
    struct proto_field field, inner;
    int status;
    while ((status = proto_next(message, &field)) > 0) {
        if (field.number != PPROF_LOCATION_LINE || field.type != PROTO_BYTES)
            continue;
        *function = NULL;
        *line = 0;
        while ((status = proto_next(&field.span, &inner)) > 0) {
            uint32_t index;
            if (inner.number == PPROF_LINE_LINE)
                *line = inner.value <= UINT32_MAX ? (uint32_t)inner.value : 0;
            else if (inner.number == PPROF_LINE_FUNCTION_ID &&
                     (index = id_map_find(&reading->file.function_ids, inner.value)) != ID_MAP_NONE)
                *function = &reading->file.functions[index];
        }
        return status < 0 ? -EBADMSG : 1;
    }
    return status < 0 ? -EBADMSG : 0;
}

/* Return whether the mapping's addresses are already those in its file: such a mapping is of all
 * addresses. */
static bool is_normalized(const struct pprof_mapping *mapping)
{
    return mapping->start == 0 && mapping->offset == 0 &&
           (mapping->limit == 0 || mapping->limit == UINT64_MAX);
}

static bool is_before(const struct pprof_mapping *mapping, uint64_t address)
{
    return mapping->limit != 0 && address < mapping->start;
}

/* Return the offset of an address in the mapped file. */
static uint64_t offset_in(const struct pprof_mapping *mapping, uint64_t address)
{
    return mapping->limit == 0 ? address : address - mapping->start + mapping->offset;
}

/* Return the address in the mapped file, or an address before the mapping as it is. */
static uint64_t place_in(const struct pprof_reading *reading, const struct pprof_mapping *mapping,
                         uint64_t address)
{
    return is_before(mapping, address)
               ? address
               : offset_in(mapping, address) + reading->load_bias[mapping - reading->file.mappings];
}

/* Our files have rel_pc in the names of nameless frames. Its difference from the address is the
 * shift of the file's segments. */
static void find_load_biases(struct pprof_reading *reading)
{
    for (size_t i = 0; i < reading->file.location_count; i++) {
        const struct pprof_location *location = &reading->file.locations[i];
        const struct pprof_mapping *mapping = mapping_of(reading, location);
        struct proto_span message = location->message;
        const struct pprof_function *function;
        uint64_t rel_pc;
        uint32_t line;
        if (mapping == NULL)
            continue;
        uint64_t *bias = &reading->load_bias[mapping - reading->file.mappings];
        if (*bias == 0 && next_line(reading, &message, &function, &line) > 0 && function != NULL &&
            is_nameless(reading, function, mapping, &rel_pc))
            *bias = rel_pc - offset_in(mapping, location->address);
    }
}

static uint32_t build_id_of(struct pprof_reading *reading, uint64_t string)
{
    struct proto_span span = pprof_file_string(&reading->file, string);
    return builder_build_id(reading->builder, (const char *)span.at, proto_length(span));
}

/* Find the files of mappings on this machine, and the biases of their code. */
static void find_modules(struct pprof_reading *reading)
{
    for (size_t i = 0; i < reading->file.mapping_count && reading->builder->error == 0; i++) {
        const struct pprof_mapping *mapping = &reading->file.mappings[i];
        const char *path = pprof_reading_text(reading, mapping->file);
        uint32_t build_id = build_id_of(reading, mapping->build_id);
        uint64_t bias = 0;
        reading->modules[i] = PROFILE_NONE;
        if (reading->local == NULL || is_nowhere(reading, mapping) ||
            (*path == '\0' && build_id == 0))
            continue;
        uint32_t module =
            local_names_module(reading->local, path, reading->builder->strings[build_id], 0);
        if (is_normalized(mapping) || local_names_bias(reading->local, module, mapping->start,
                                                       mapping->limit, mapping->offset, &bias))
            reading->modules[i] = module;
        if (reading->load_bias[i] == 0)
            reading->load_bias[i] = bias;
    }
}

static int compare_mappings(const void *left_pointer, const void *right_pointer)
{
    const struct pprof_mapping *left = *(const struct pprof_mapping *const *)left_pointer;
    const struct pprof_mapping *right = *(const struct pprof_mapping *const *)right_pointer;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Add mappings in order of their ids: the program, which is the first in the file, had its own
 * place. */
int pprof_reading_take_mappings(struct pprof_reading *reading)
{
    const struct pprof_file *file = &reading->file;
    const struct pprof_mapping **order = malloc((file->mapping_count + 1) * sizeof(*order));
    if (order == NULL)
        return -ENOMEM;
    find_load_biases(reading);
    find_modules(reading);
    for (size_t i = 0; i < file->mapping_count; i++)
        order[i] = &file->mappings[i];
    qsort(order, file->mapping_count, sizeof(*order), compare_mappings);
    for (size_t i = 0; i < file->mapping_count; i++) {
        const struct pprof_mapping *from = order[i];
        size_t index = (size_t)(from - file->mappings);
        reading->mappings[index] = PROFILE_NONE;
        if (is_nowhere(reading, from))
            continue;
        struct profile_mapping mapping = {.start = from->start,
                                          .end = from->limit,
                                          .exact_offset = from->offset,
                                          .load_bias = reading->load_bias[index]};
        uint32_t path = take_string(reading, from->file);
        reading->mappings[index] =
            builder_mapping(reading->builder, &mapping, path, build_id_of(reading, from->build_id));
    }
    free(order);
    return reading->builder->error;
}

/* --- names of this machine --- */

static bool has_line(const struct pprof_reading *reading, const struct pprof_location *location)
{
    struct proto_span message = location->message;
    const struct pprof_function *function;
    uint32_t line;
    return next_line(reading, &message, &function, &line) != 0;
}

/* Return the place of a location in its module. PROFILE_NONE as *module: it has none with a file.
 */
static uint64_t pprof_frames_place_of(const struct pprof_reading *reading,
                                      const struct pprof_location *location, uint32_t *module)
{
    const struct pprof_mapping *mapping = mapping_of(reading, location);
    *module = PROFILE_NONE;
    if (mapping != NULL && (mapping->limit == 0 ||
                            location->address - mapping->start < mapping->limit - mapping->start))
        *module = reading->modules[mapping - reading->file.mappings];
    return *module == PROFILE_NONE ? 0 : place_in(reading, mapping, location->address);
}

int pprof_reading_find_names(struct pprof_reading *reading, struct trace_source *source,
                             struct error *error)
{
    uint32_t module;
    if (trace_source_check(source, error) < 0)
        return -EFBIG;
    for (size_t i = 0; i < reading->file.location_count && reading->builder->error == 0; i++) {
        const struct pprof_location *location = &reading->file.locations[i];
        if (has_line(reading, location))
            continue;
        uint64_t place = pprof_frames_place_of(reading, location, &module);
        if (module != PROFILE_NONE && local_names_add(reading->local, module, place) < 0)
            builder_fail(reading->builder);
    }
    int code =
        reading->builder->error < 0 ? reading->builder->error : local_names_find(reading->local);
    trace_source_measure_again(source);
    return code;
}

/* --- locations --- */

/* Append a frame, which the file calls `shown`; NULL: as its linkage name says. */
static int add_frame(struct pprof_reading *reading, uint32_t frame, const char *shown)
{
    size_t frames = reading->builder->profile->frame_count, had = reading->name_capacity;
    if (frame == PROFILE_NONE ||
        ARRAY_RESERVE(&reading->frames, &reading->frame_capacity, reading->frame_count, 1) < 0 ||
        (frames > had &&
         ARRAY_RESERVE(&reading->names, &reading->name_capacity, had, frames - had) < 0))
        return builder_fail(reading->builder);
    if (reading->name_capacity > had)
        memset(reading->names + had, 0, (reading->name_capacity - had) * sizeof(*reading->names));
    reading->frames[reading->frame_count++] = frame;
    if (reading->names[frame] == NULL)
        reading->names[frame] = shown;
    return 0;
}

/* Append the frames of a location without lines, by the names that this machine has for it. Set
 * *dropped to the number of the last one that is to be dropped. Return their number, or a negative
 * errno. */
static int put_local_frames(struct pprof_reading *reading, const struct pprof_location *location,
                            size_t *dropped)
{
    uint32_t module, count;
    if (reading->local == NULL)
        return 0;
    uint64_t place = pprof_frames_place_of(reading, location, &module);
    if (module == PROFILE_NONE)
        return 0;
    const struct pprof_mapping *mapping = mapping_of(reading, location);
    size_t index = (size_t)(mapping - reading->file.mappings);
    const struct builder_line *names = local_names_of(reading->local, module, place, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t frame = builder_frame(reading->builder, reading->mappings[index], place,
                                       names[i].name, names[i].source_file, names[i].line);
        if (add_frame(reading, frame, NULL) < 0)
            return reading->builder->error;
        if (reading->drop.drop != NULL &&
            pprof_drop_matches(&reading->drop, reading->builder->strings[names[i].name]))
            *dropped = i + 1;
    }
    return (int)count;
}

static int put_frame(struct pprof_reading *reading, const struct pprof_location *location,
                     const struct pprof_function *function, uint32_t line)
{
    const struct pprof_mapping *mapping = mapping_of(reading, location);
    uint64_t rel_pc = location->address, start;
    bool nameless = false;
    uint32_t name = 0, source_file = 0;
    const char *shown = NULL;
    /* The mapping says nothing about an address before it. Of a function it may still be the file.
     */
    if (mapping != NULL && function == NULL && is_before(mapping, location->address))
        mapping = NULL;
    if (mapping != NULL)
        rel_pc = place_in(reading, mapping, location->address);
    if (function != NULL && is_nameless(reading, function, mapping, &start)) {
        nameless = true;
        rel_pc = mapping == NULL ? start : rel_pc;
    } else if (function != NULL) {
        name = take_string(reading, function->system_name);
        source_file = take_string(reading, function->file);
        uint32_t plain = take_string(reading, function->name);
        if (name == 0)
            name = plain;
        else if (plain != 0 && plain != name)
            shown = reading->builder->strings[plain];
    }
    uint32_t frame = builder_frame(
        reading->builder,
        mapping == NULL ? PROFILE_NONE : reading->mappings[mapping - reading->file.mappings],
        rel_pc, name, source_file, line);
    if (nameless && frame != PROFILE_NONE && start <= rel_pc)
        reading->builder->profile->frames[frame].function_start = start;
    return add_frame(reading, frame, shown);
}

static bool is_dropped(struct pprof_reading *reading, const struct pprof_function *function)
{
    return reading->drop.drop != NULL && function != NULL &&
           pprof_drop_matches(&reading->drop, pprof_reading_text(reading, function->name));
}

const struct pprof_location_frames *pprof_reading_frames(struct pprof_reading *reading, uint64_t id)
{
    uint32_t index = id_map_find(&reading->file.location_ids, id);
    if (index == ID_MAP_NONE)
        return NULL;
    struct pprof_location_frames *made = &reading->locations[index];
    const struct pprof_location *location = &reading->file.locations[index];
    struct proto_span message = location->message;
    const struct pprof_function *function;
    uint32_t line;
    int status;
    if (made->count > 0)
        return made;
    size_t first = reading->frame_count, lines = 0, dropped = 0;
    while ((status = next_line(reading, &message, &function, &line)) > 0) {
        if (put_frame(reading, location, function, line) < 0)
            return NULL;
        lines++;
        if (is_dropped(reading, function))
            dropped = lines;
    }
    if (status < 0)
        return NULL;
    if (reading->frame_count == first) {
        status = put_local_frames(reading, location, &dropped);
        lines = status > 0 ? (size_t)status : 0;
    }
    if (status < 0 || (reading->frame_count == first && put_frame(reading, location, NULL, 0) < 0))
        return NULL;
    if (dropped > 0)
        made->dropped = dropped == lines ? PPROF_DROPPED : PPROF_DROPPED_INSIDE;
    if (made->dropped == PPROF_DROPPED_INSIDE)
        first += dropped;
    made->first = first;
    made->count = (uint32_t)(reading->frame_count - first);
    return made;
}
