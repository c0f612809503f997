/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See readers.h: pprof files, ours and others'. What a value means its sample type's name says;
 * which names are known, docs/formats.md has. Files of ours come back as the profile that they were
 * made of, as far as they carry it: a frame without a name has one made of its address there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/heap_figures.h"
#include "import/pprof_file.h"
#include "import/readers.h"
#include "pprof_field_numbers.h"
#include "util/array.h"
#include "util/base_name.h"

/* A stack of more frames is taken for damage, and so are more callsites in all: few bytes of a
 * hostile file could ask for any number of them. */
#define FRAMES_MAX (1u << 16)
#define CALLSITES_MAX (1u << 25)
#define VALUES_MAX 64u
#define NAMELESS_BYTES 256

enum column { ALLOC_OBJECTS, ALLOC_SPACE, OBJECTS, SPACE, COLUMNS };

static const struct {
    const char *type;
    enum column column;
} type_names[] = {
    {"alloc_objects", ALLOC_OBJECTS},
    {"alloc_space", ALLOC_SPACE},
    {"objects", OBJECTS},
    {"space", SPACE},
    {"inuse_objects", OBJECTS},
    {"inuse_space", SPACE},
    {"inuse", SPACE},
    {"Total malloc count", ALLOC_OBJECTS},
    {"Total malloc size", ALLOC_SPACE},
    {"Unreleased malloc count", OBJECTS},
    {"Unreleased malloc size", SPACE},
    {"Total count", ALLOC_OBJECTS},
    {"Total size", ALLOC_SPACE},
    {"Unreleased count", OBJECTS},
    {"Unreleased size", SPACE},
};

struct reading {
    struct pprof_file file;
    struct builder *builder;
    struct heap_figures heap;
    struct heap_figures_head head;
    int column_of[VALUES_MAX]; /* by value of a sample; -1: none of ours */
    bool has[COLUMNS];
    uint32_t *strings;   /* of the builder, and 1, by the file's; 0: not yet taken over */
    uint32_t *mappings;  /* of the builder, by the file's index; PROFILE_NONE: no mapping */
    uint64_t *load_bias; /* by the file's index of mappings */
    struct location_frames {
        size_t first;
        uint32_t count; /* 0: not yet made */
    } * locations;
    uint32_t *frames; /* of the locations, innermost first */
    size_t frame_count, frame_capacity;
    const char **names; /* by frame of the builder: as the file has it, or NULL */
    size_t name_capacity;
    uint64_t *ids, *last_ids; /* locations of the sample and of the one before, innermost first */
    size_t id_count, id_capacity, last_count, last_capacity;
    uint32_t *path; /* callsites of the sample before, by its locations from the outermost on */
    size_t path_capacity;
};

static bool is_text(const struct reading *reading, uint64_t string, const char *text)
{
    struct proto_span span = pprof_file_string(&reading->file, string);
    return proto_length(span) == strlen(text) && memcmp(span.at, text, proto_length(span)) == 0;
}

static uint32_t take_string(struct reading *reading, uint64_t string)
{
    if (string == 0 || string >= reading->file.string_count)
        return 0;
    if (reading->strings[string] == 0)
        reading->strings[string] =
            1 + builder_string_of_span(reading->builder, reading->file.strings[string]);
    return reading->strings[string] - 1;
}

static const char *text_of(struct reading *reading, uint64_t string)
{
    uint32_t index = take_string(reading, string);
    return reading->builder->strings[index];
}

/* --- mappings and frames --- */

/* Whether this is the name that our pprof files give to a frame without one, and of which rel_pc.
 */
static bool is_nameless(struct reading *reading, const struct pprof_function *function,
                        const struct pprof_mapping *mapping, uint64_t *rel_pc)
{
    char name[NAMELESS_BYTES];
    const char *text, *path = mapping == NULL ? "" : text_of(reading, mapping->file);
    if (proto_length(pprof_file_string(&reading->file, function->system_name)) > 0)
        return false;
    text = text_of(reading, function->name);
    if (strncmp(text, "0x", 2) != 0)
        return false;
    *rel_pc = strtoull(text, NULL, 16);
    snprintf(name, sizeof(name), "0x%" PRIx64 " @ %s", *rel_pc,
             *path == '\0' ? "?" : base_name(path));
    return strcmp(name, text) == 0;
}

/* What our files give to frames without a mapping. */
static bool is_nowhere(const struct reading *reading, const struct pprof_mapping *mapping)
{
    return mapping->limit == 0 && is_text(reading, mapping->file, "[no mapping]");
}

static const struct pprof_mapping *mapping_of(const struct reading *reading,
                                              const struct pprof_location *location)
{
    uint32_t index = id_map_find(&reading->file.mapping_ids, location->mapping);
    if (location->mapping == 0 || index == ID_MAP_NONE)
        return NULL;
    const struct pprof_mapping *mapping = &reading->file.mappings[index];
    return is_nowhere(reading, mapping) ? NULL : mapping;
}

/* The next line of a location. 1: *function (NULL: unknown) and *line; 0: no more; negative errno.
 */
static int next_line(const struct reading *reading, struct proto_span *message,
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

static uint64_t offset_in(const struct pprof_mapping *mapping, uint64_t address)
{
    return mapping->limit == 0 ? address : address - mapping->start + mapping->offset;
}

/* Our files have rel_pc in the names of nameless frames: so much more than what their addresses say
 * is what the file's segments are shifted by. */
static void find_load_biases(struct reading *reading)
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

static uint32_t build_id_of(struct reading *reading, uint64_t string)
{
    struct proto_span span = pprof_file_string(&reading->file, string);
    for (const uint8_t *at = span.at; at < span.end; at++)
        if (strchr("0123456789abcdef", *at) == NULL || *at == '\0')
            return 0;
    return proto_length(span) % 2 == 0 ? take_string(reading, string) : 0;
}

static int compare_mappings(const void *left_pointer, const void *right_pointer)
{
    const struct pprof_mapping *left = *(const struct pprof_mapping *const *)left_pointer;
    const struct pprof_mapping *right = *(const struct pprof_mapping *const *)right_pointer;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* In order of their ids: the program, which comes first in the file, had its own place. */
static int take_mappings(struct reading *reading)
{
    const struct pprof_file *file = &reading->file;
    const struct pprof_mapping **order = malloc((file->mapping_count + 1) * sizeof(*order));
    if (order == NULL)
        return -ENOMEM;
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

static int put_frame(struct reading *reading, const struct pprof_location *location,
                     const struct pprof_function *function, uint32_t line)
{
    const struct pprof_mapping *mapping = mapping_of(reading, location);
    size_t index = mapping == NULL ? 0 : (size_t)(mapping - reading->file.mappings);
    uint64_t rel_pc = location->address, told;
    uint32_t name = 0, source_file = 0;
    const char *shown = NULL;
    if (mapping != NULL)
        rel_pc = offset_in(mapping, location->address) + reading->load_bias[index];
    if (function != NULL && is_nameless(reading, function, mapping, &told)) {
        rel_pc = mapping == NULL ? told : rel_pc;
    } else if (function != NULL) {
        name = take_string(reading, function->system_name);
        source_file = take_string(reading, function->file);
        uint32_t plain = take_string(reading, function->name);
        if (name == 0)
            name = plain;
        else if (plain != 0 && plain != name)
            shown = reading->builder->strings[plain];
    }
    uint32_t frame =
        builder_frame(reading->builder, mapping == NULL ? PROFILE_NONE : reading->mappings[index],
                      rel_pc, name, source_file, line);
    size_t frames = reading->builder->profile->frame_count, had = reading->name_capacity;
    if (frame == PROFILE_NONE ||
        array_reserve(&reading->frames, &reading->frame_capacity, reading->frame_count, 1,
                      sizeof(*reading->frames)) < 0 ||
        (frames > had && array_reserve(&reading->names, &reading->name_capacity, had, frames - had,
                                       sizeof(*reading->names)) < 0))
        return builder_fail(reading->builder);
    if (reading->name_capacity > had)
        memset(reading->names + had, 0, (reading->name_capacity - had) * sizeof(*reading->names));
    reading->frames[reading->frame_count++] = frame;
    if (reading->names[frame] == NULL)
        reading->names[frame] = shown;
    return 0;
}

/* Makes a location's frames; NULL without memory, or with a malformed line. */
static const struct location_frames *frames_of(struct reading *reading, uint64_t id)
{
    uint32_t index = id_map_find(&reading->file.location_ids, id);
    if (index == ID_MAP_NONE)
        return NULL;
    struct location_frames *made = &reading->locations[index];
    const struct pprof_location *location = &reading->file.locations[index];
    struct proto_span message = location->message;
    const struct pprof_function *function;
    uint32_t line;
    int status;
    if (made->count > 0)
        return made;
    size_t first = reading->frame_count;
    while ((status = next_line(reading, &message, &function, &line)) > 0) {
        if (put_frame(reading, location, function, line) < 0)
            return NULL;
    }
    if (status < 0 || (reading->frame_count == first && put_frame(reading, location, NULL, 0) < 0))
        return NULL;
    made->first = first;
    made->count = (uint32_t)(reading->frame_count - first);
    return made;
}

/* --- samples --- */

/* Why a sample cannot be taken. */
static const char *const no_location = "a sample of a location that is not there, or malformed";

/* The callsite of the ids; from the outermost on, as far as the sample before had the same ones,
 * its callsites are known. */
static const char *find_callsite(struct reading *reading, uint32_t *callsite)
{
    struct builder *builder = reading->builder;
    size_t count = reading->id_count, at = 0;
    *callsite = PROFILE_NONE;
    while (at < count && at < reading->last_count &&
           reading->ids[count - 1 - at] == reading->last_ids[reading->last_count - 1 - at])
        at++;
    if (at > 0)
        *callsite = reading->path[at - 1];
    if (array_reserve(&reading->path, &reading->path_capacity, at, count - at + 1,
                      sizeof(*reading->path)) < 0)
        builder_fail(builder);
    reading->last_count = 0;
    for (; at < count && builder->error == 0; at++) {
        const struct location_frames *frames = frames_of(reading, reading->ids[count - 1 - at]);
        if (frames == NULL)
            return builder->error < 0 ? NULL : no_location;
        for (uint32_t i = frames->count; i-- > 0 && builder->error == 0;) {
            *callsite = builder_callsite(builder, *callsite, reading->frames[frames->first + i]);
            if (builder->error < 0)
                return NULL;
            if (builder->profile->callsites[*callsite].depth >= FRAMES_MAX)
                return "a stack of more than 65,536 frames";
            if (builder->profile->callsite_count > CALLSITES_MAX)
                return "more than 33,554,432 callsites";
        }
        reading->path[at] = *callsite;
    }
    if (builder->error < 0)
        return NULL;
    if (count == 0)
        *callsite =
            builder_callsite(builder, PROFILE_NONE,
                             builder_frame(builder, PROFILE_NONE, 0,
                                           builder_string(builder, "[no stack]", 10), 0, 0));
    uint64_t *ids = reading->last_ids;
    size_t capacity = reading->last_capacity;
    reading->last_ids = reading->ids;
    reading->last_capacity = reading->id_capacity;
    reading->last_count = count;
    reading->ids = ids;
    reading->id_capacity = capacity;
    return NULL;
}

static int put_id(struct reading *reading, uint64_t id)
{
    if (array_reserve(&reading->ids, &reading->id_capacity, reading->id_count, 1,
                      sizeof(*reading->ids)) < 0)
        return builder_fail(reading->builder);
    reading->ids[reading->id_count++] = id;
    return 0;
}

/* A label of ours. */
static int take_label(struct reading *reading, struct proto_span span, struct profile_part *part,
                      const char **thread, bool *labelled)
{
    uint64_t key = 0, text = 0, number = 0;
    struct proto_field field;
    int status;
    while ((status = proto_next(&span, &field)) > 0) {
        if (field.number == PPROF_LABEL_KEY)
            key = field.value;
        else if (field.number == PPROF_LABEL_STR)
            text = field.value;
        else if (field.number == PPROF_LABEL_NUM)
            number = field.value;
    }
    bool known = true;
    if (is_text(reading, key, "tid"))
        part->tid = (int32_t)number;
    else if (is_text(reading, key, "thread"))
        *thread = text_of(reading, text);
    else if (is_text(reading, key, "type"))
        part->type = text_of(reading, text);
    else if (is_text(reading, key, "context"))
        part->context = text_of(reading, text);
    else
        known = false;
    *labelled |= known;
    return status;
}

static int name_thread(struct reading *reading, int32_t tid, const char *name)
{
    struct builder *builder = reading->builder;
    struct profile *profile = builder->profile;
    if (id_map_find(&builder->threads, (uint32_t)tid) != ID_MAP_NONE)
        return 0;
    if (array_reserve(&profile->threads, &builder->thread_capacity, profile->thread_count, 1,
                      sizeof(*profile->threads)) < 0 ||
        id_map_set(&builder->threads, (uint32_t)tid, (uint32_t)profile->thread_count) < 0)
        return builder_fail(builder);
    profile->threads[profile->thread_count++] =
        (struct profile_thread){tid, reading->head.pid, name};
    return 0;
}

static struct trace_figures make_figures(const struct reading *reading, const double *values)
{
    const bool *has = reading->has;
    uint64_t interval = reading->head.interval_bytes;
    bool allocated_known = has[ALLOC_SPACE] || has[ALLOC_OBJECTS];
    bool live_known = has[SPACE] || has[OBJECTS];
    struct heap_estimate allocated =
        heap_estimate_of_scaled(values[ALLOC_SPACE], values[ALLOC_OBJECTS], interval);
    struct heap_estimate live = heap_estimate_of_scaled(values[SPACE], values[OBJECTS], interval);
    if (!live_known)
        live = (struct heap_estimate){0};
    return heap_figures_of(allocated_known ? &allocated : &live, &live);
}

/* Reads the fields of a sample. NULL or what is wrong. */
static const char *read_sample(struct reading *reading, struct proto_span span, double *values,
                               struct profile_part *part, const char **thread, bool *labelled)
{
    struct proto_field field;
    size_t value = 0;
    int status;
    while ((status = proto_next(&span, &field)) > 0) {
        struct proto_span packed = field.span;
        bool is_id = field.number == PPROF_SAMPLE_LOCATION_ID;
        if (field.number == PPROF_SAMPLE_LABEL &&
            take_label(reading, packed, part, thread, labelled) < 0)
            return "a malformed label";
        if (!is_id && field.number != PPROF_SAMPLE_VALUE)
            continue;
        bool one = field.type == PROTO_VARINT;
        uint64_t number = field.value;
        while (one || packed.at < packed.end) {
            if (!one && !proto_read_varint(&packed, &number))
                return "a malformed number";
            one = false;
            if (is_id) {
                if (put_id(reading, number) < 0)
                    return NULL;
                continue;
            }
            if (value < reading->file.type_count && value < VALUES_MAX &&
                reading->column_of[value] >= 0)
                values[reading->column_of[value]] = (double)(int64_t)number;
            value++;
        }
    }
    return status < 0 ? "a malformed sample" : NULL;
}

static const char *take_sample(struct reading *reading, struct proto_span span)
{
    struct profile_part part = {.type = "", .context = ""};
    const char *thread = NULL;
    double values[COLUMNS] = {0};
    bool labelled = false;
    uint32_t callsite = PROFILE_NONE;
    part.type = part.context = reading->builder->strings[0];
    reading->id_count = 0;
    const char *problem = read_sample(reading, span, values, &part, &thread, &labelled);
    if (problem == NULL && reading->builder->error == 0)
        problem = find_callsite(reading, &callsite);
    if (problem != NULL || reading->builder->error < 0)
        return problem;
    struct profile_sample *sample = heap_figures_sample(&reading->heap, callsite);
    if (sample == NULL)
        return NULL;
    part.figures = make_figures(reading, values);
    trace_figures_add(&sample->figures, &part.figures);
    if (labelled && heap_figures_part(&reading->heap, sample, &part) == 0 && thread != NULL)
        name_thread(reading, part.tid, thread);
    return NULL;
}

/* From one look at the memory to the next. */
#define BOUND_SAMPLES 16384u
#define BOUND_CALLSITES 65536u

static int take_samples(struct reading *reading, const struct trace_source *source,
                        struct error *error)
{
    const struct pprof_file *file = &reading->file;
    struct proto_span span = {file->bytes, file->bytes + file->length};
    struct proto_field field;
    const uint8_t *at = span.at;
    size_t samples = 0, bound_at = BOUND_CALLSITES;
    for (; proto_next(&span, &field) > 0; at = span.at) {
        if (field.number != PPROF_PROFILE_SAMPLE)
            continue;
        const char *problem = field.type == PROTO_BYTES ? take_sample(reading, field.span)
                                                        : "a sample that is no message";
        if (reading->builder->error < 0)
            return reading->builder->error;
        size_t callsites = reading->builder->profile->callsite_count;
        bool is_due = ++samples % BOUND_SAMPLES == 0 || callsites >= bound_at;
        if (is_due)
            bound_at = callsites + BOUND_CALLSITES;
        if (is_due && trace_source_check(source, error) < 0)
            return -EFBIG;
        if (problem != NULL)
            return error_set(error, -EBADMSG, "the pprof file is damaged at offset %zu: %s",
                             (size_t)(at - file->bytes), problem);
    }
    return 0;
}

/* --- the head --- */

/* Which value is what. Fails where none is of a heap. */
static int find_columns(struct reading *reading, struct error *error)
{
    const struct pprof_file *file = &reading->file;
    char names[300] = "";
    size_t length = 0;
    bool any = false;
    for (size_t i = 0; i < file->type_count && i < VALUES_MAX; i++) {
        struct proto_span type = pprof_file_string(file, file->types[i].type);
        reading->column_of[i] = -1;
        for (size_t j = 0; j < sizeof(type_names) / sizeof(type_names[0]); j++) {
            if (!is_text(reading, file->types[i].type, type_names[j].type) ||
                reading->has[type_names[j].column])
                continue;
            reading->column_of[i] = (int)type_names[j].column;
            any = reading->has[type_names[j].column] = true;
            break;
        }
        if (length < sizeof(names) - 60)
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%.*s",
                                       i == 0 ? "" : ", ",
                                       proto_length(type) < 40 ? (int)proto_length(type) : 40,
                                       type.at == NULL ? "" : (const char *)type.at);
    }
    if (any)
        return 0;
    return error_set(
        error, -EINVAL,
        "this pprof file is no heap profile: its sample types are %s; a heap profile's "
        "are alloc_objects, alloc_space, objects and space, or inuse_ for the last",
        file->type_count == 0 ? "none" : names);
}

/* What our files say of losses in comments (export/pprof_comments.c): a profile that was partial
 * stays so. */
static void take_loss(struct reading *reading, const char *text)
{
    static const char other_allocator[] = "missing: what another allocator gave (";
    struct heap_figures_head *head = &reading->head;
    size_t length = strlen(text);
    if (strncmp(text, other_allocator, strlen(other_allocator)) == 0 && text[length - 1] == ')')
        head->losses.unseen_allocator =
            builder_text(reading->builder, text + strlen(other_allocator),
                         length - strlen(other_allocator) - 1);
    else if (strncmp(text, "unfinished: ", 12) == 0)
        head->unfinished = true;
    else if (strncmp(text, "partial: ", 9) == 0)
        head->incomplete = true;
    else
        trace_loss_take_text(&head->losses, text);
}

/* What our files say in comments. */
static void take_comment(struct reading *reading, const char *text)
{
    struct heap_figures_head *head = &reading->head;
    uint64_t bytes, calls;
    int pid, at = 0;
    if (strncmp(text, "command: ", 9) == 0)
        head->command = text + 9;
    else if (sscanf(text, "exact: %" SCNu64 " bytes in %" SCNu64 " calls", &bytes, &calls) == 2) {
        head->exact_bytes = bytes;
        head->exact_calls = calls;
    } else if (sscanf(text, "process %d, heap %n", &pid, &at) == 1 && at > 0) {
        const char *end = NULL;
        for (const char *next = text + at; (next = strstr(next, ", sampling interval ")) != NULL;
             next++)
            end = next;
        head->pid = pid;
        if (end != NULL)
            head->heap =
                builder_text(reading->builder, text + at, (size_t)(end - text) - (size_t)at);
    } else {
        take_loss(reading, text);
    }
}

static void take_head(struct reading *reading)
{
    const struct pprof_file *file = &reading->file;
    struct heap_figures_head *head = &reading->head;
    struct builder *builder = reading->builder;
    bool bytes = is_text(reading, file->period_type.unit, "bytes");
    head->interval_bytes = bytes && (int64_t)file->period > 0 ? file->period : 0;
    head->heap = builder_text(builder, "heap", 4);
    for (size_t i = 0; i < file->type_count; i++)
        if (strstr(text_of(reading, file->types[i].type), "malloc") != NULL)
            head->heap = builder_text(builder, "libc.malloc", 11);
    for (size_t i = 0; i < file->comment_count; i++)
        take_comment(reading, text_of(reading, file->comments[i]));
    if (file->mapping_count > 0 && !is_text(reading, file->mappings[0].file, "[no mapping]"))
        head->name = base_name(text_of(reading, file->mappings[0].file));
    if ((int64_t)file->duration_nanos > 0)
        head->boottime_ns = file->duration_nanos;
    if ((int64_t)file->time_nanos > 0)
        builder->profile->boottime_to_realtime_ns = (int64_t)(file->time_nanos - head->boottime_ns);
    head->unknown = PROFILE_UNKNOWN_TEMPORARY;
    if (!reading->has[SPACE] && !reading->has[OBJECTS]) {
        head->unknown |= PROFILE_UNKNOWN_LIVE;
        head->remark = "The file says what was allocated, not what of it was live.";
    } else if (!reading->has[ALLOC_SPACE] && !reading->has[ALLOC_OBJECTS]) {
        head->unknown |= PROFILE_UNKNOWN_ALLOCATED;
        head->remark = "The file says what was live, not what had been allocated and freed before.";
    }
    if (!reading->has[OBJECTS] && !reading->has[ALLOC_OBJECTS])
        head->unknown |= PROFILE_UNKNOWN_COUNTS;
}

/* --- the whole --- */

static int make_tables(struct reading *reading)
{
    const struct pprof_file *file = &reading->file;
    reading->strings = calloc(file->string_count + 1, sizeof(*reading->strings));
    reading->mappings = calloc(file->mapping_count + 1, sizeof(*reading->mappings));
    reading->load_bias = calloc(file->mapping_count + 1, sizeof(*reading->load_bias));
    reading->locations = calloc(file->location_count + 1, sizeof(*reading->locations));
    return reading->strings == NULL || reading->mappings == NULL || reading->load_bias == NULL ||
                   reading->locations == NULL
               ? -ENOMEM
               : 0;
}

static int read_all(struct reading *reading, struct trace_source *source, struct error *error)
{
    int code = pprof_file_read(&reading->file, source, error);
    if (code == 0)
        code = make_tables(reading);
    if (code == 0)
        code = find_columns(reading, error);
    if (code < 0)
        return code;
    take_head(reading);
    find_load_biases(reading);
    code = take_mappings(reading);
    if (code == 0)
        code = take_samples(reading, source, error);
    if (code == 0)
        code = heap_figures_finish(&reading->heap, &reading->head);
    return code;
}

/* A difference has values below zero, which a profile has no place for. */
static size_t count_below_zero(const struct heap_figures *heap)
{
    size_t count = 0;
    for (size_t i = 0; i < heap->sample_count; i++) {
        const struct trace_figures *figures = &heap->samples[i].figures;
        count += figures->allocated_bytes < 0 || figures->allocated_count < 0 ||
                 figures->freed_bytes > figures->allocated_bytes ||
                 figures->freed_count > figures->allocated_count;
    }
    return count;
}

/* Where the file has names that are not what we make of the linkage names, they stand. */
static void put_names(struct profile *profile, const char **names, size_t count)
{
    for (size_t i = 0; i < profile->frame_count && i < count; i++)
        if (names[i] != NULL)
            profile->frames[i].name = names[i];
}

struct profile *import_pprof(struct trace_source *source,
                             const struct profile_read_options *options, struct error *error)
{
    struct reading reading = {.builder = builder_new()};
    struct profile *profile = NULL;
    int code = -ENOMEM;
    reading.heap.builder = reading.builder;
    if (reading.builder != NULL) {
        reading.builder->owner->demangling = options->demangling;
        reading.builder->owner->as_in_trace = options->as_in_trace;
        code = read_all(&reading, source, error);
    }
    size_t below_zero = code == 0 ? count_below_zero(&reading.heap) : 0;
    char problem[200];
    snprintf(
        problem, sizeof(problem),
        "%zu of %zu callsites have values below zero, as a difference has: what lives is shown "
        "as 0 there, and taken off sums; go tool pprof shows the values themselves",
        below_zero, reading.heap.sample_count);
    if (code == 0) {
        profile = builder_finish(reading.builder, below_zero > 0 ? problem : NULL);
        code = profile == NULL ? -ENOMEM : 0;
    } else if (reading.builder != NULL) {
        builder_abandon(reading.builder);
    }
    if (profile != NULL && options->demangling == DEMANGLE_FULL && !options->as_in_trace)
        put_names(profile, reading.names, reading.name_capacity);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the pprof file");
    heap_figures_free(&reading.heap);
    pprof_file_free(&reading.file);
    free(reading.strings);
    free(reading.mappings);
    free(reading.load_bias);
    free(reading.locations);
    free(reading.frames);
    free(reading.names);
    free(reading.ids);
    free(reading.last_ids);
    free(reading.path);
    return profile;
}
