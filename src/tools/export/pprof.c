/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes pprof files. The sample types are alloc_objects, alloc_space, objects and space, in this
 * order: Go's pprof uses default_sample_type, which is space, and tools that ignore it (some
 * Speedscope versions) use the last type, which is space, too.
 *
 * Estimates are fractions. Each written value is the increase of the rounded running sum of its
 * column: its error is less than one, and the column's total is the total of the profile, rounded
 * once.
 */
#include "tools/export/pprof.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pprof_field_numbers.h"
#include "profile.pb-c.h"
#include "profile/rollup.h"
#include "tools/export/pprof_comments.h"
#include "trace/intern.h"
#include "trace/proto_fields.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/id_map.h"
#include "util/packed_file.h"
#include "util/prefetch.h"

typedef Perftools__Profiles__ValueType ValueType;
typedef Perftools__Profiles__Mapping Mapping;

enum column { ALLOC_OBJECTS, ALLOC_SPACE, OBJECTS, SPACE, COLUMNS };

static const struct {
    const char *type, *unit;
} column_names[COLUMNS] = {
    [ALLOC_OBJECTS] = {"alloc_objects", "count"},
    [ALLOC_SPACE] = {"alloc_space", "bytes"},
    [OBJECTS] = {"objects", "count"},
    [SPACE] = {"space", "bytes"},
};

/* A location's id has 32 bits. */
#define STACK_ID_BYTES_MAX 5u

/* Buffer size: fits the processor's cache. */
#define OUT_BYTES (256u * 1024u)

/* The file under construction. Strings, functions and locations are written at their first use. */
struct pprof {
    const struct profile *profile;
    const struct profile_heap *heap;
    const struct pprof_options *options;
    struct packed_file *file;
    bool has_intervals; /* several */
    struct proto_buffer out;
    /* The locations of a stack, innermost first. It ends at the end of the buffer, so that a stack
     * with the same outer frames finds them in place. */
    uint8_t *stack;
    size_t stack_room;
    struct stack_step {
        uint32_t callsite, location;
        uint32_t tail; /* number of bytes in the stack of its location and the outer ones */
    } * path;          /* by depth */
    size_t path_count, path_capacity;
    struct proto_buffer strings; /* the string table; fields of a message can be in any order */
    struct intern_table string_ids;
    struct intern_table text_ids, function_ids; /* by pointers into the profile */
    int64_t *texts;                             /* ids of strings, by text_ids */
    size_t text_capacity;
    struct {
        int64_t thread, tid, type, context;
    } keys;                /* of labels */
    struct id_map threads; /* names, by tid */
    struct proto_buffer labels;
    const struct profile_part *labelled; /* the part with these labels; NULL: none yet */
    uint32_t *locations;                 /* by frame; 0: not yet written */
    uint32_t location_count;
    struct mapping_use {
        uint32_t id; /* 0: not used */
        bool has_lines;
    } * mappings;   /* by index; the last one is for frames without a mapping */
    uint32_t *used; /* the used mappings by id: some readers take ids for places in the list */
    size_t used_count, used_capacity;
    double sums[COLUMNS];
    int64_t written[COLUMNS];
    bool failed;
};

static int64_t put_string(struct pprof *pprof, const char *text)
{
    bool added;
    uint64_t id = intern_bytes(&pprof->string_ids, text, strlen(text), &added);
    if (id == 0) {
        pprof->failed = true;
        return 0;
    }
    if (added)
        proto_put_string(&pprof->strings, PPROF_PROFILE_STRING_TABLE, text);
    return (int64_t)id - 1;
}

/* Return the id of a text of the profile, by its address: the profile has each text only once. */
static int64_t put_text(struct pprof *pprof, const char *text)
{
    bool added;
    if (*text == '\0')
        return 0;
    uint64_t id = intern_bytes(&pprof->text_ids, &text, sizeof(text), &added);
    if (id == 0 || (added && ARRAY_RESERVE(&pprof->texts, &pprof->text_capacity, id - 1, 1) < 0)) {
        pprof->failed = true;
        return 0;
    }
    if (added)
        pprof->texts[id - 1] = put_string(pprof, text);
    return pprof->texts[id - 1];
}

static void write_out(struct pprof *pprof)
{
    packed_file_write(pprof->file, pprof->out.bytes, pprof->out.length);
    pprof->out.length = 0;
}

/* --- functions, locations, mappings --- */

/* Return the suffix that shows a function's kind; "": none. */
static const char *annotation_of(const struct pprof *pprof, const struct profile_frame *frame)
{
    if (!pprof->options->annotated)
        return "";
    return frame->kind == TRACE_FRAME_INTERPRETED ? "interp" : profile_frame_kind(frame);
}

static int64_t put_annotated(struct pprof *pprof, const char *name, const char *annotation)
{
    char *text;
    if (asprintf(&text, "%s [%s]", name, annotation) < 0) {
        pprof->failed = true;
        return 0;
    }
    int64_t id = put_string(pprof, text);
    free(text);
    return id;
}

static void put_function_message(struct pprof *pprof, uint64_t id, int64_t name,
                                 int64_t linkage_name, int64_t source_file)
{
    uint8_t function[4 * PROTO_FIELD_BYTES_MAX];
    uint8_t *at = proto_field_uint(function, PPROF_FUNCTION_ID, id);
    at = proto_field_count(at, PPROF_FUNCTION_NAME, (uint64_t)name);
    at = proto_field_count(at, PPROF_FUNCTION_SYSTEM_NAME, (uint64_t)linkage_name);
    at = proto_field_count(at, PPROF_FUNCTION_FILENAME, (uint64_t)source_file);
    proto_put_bytes(&pprof->out, PPROF_PROFILE_FUNCTION, function, (size_t)(at - function));
}

/* Return the id of a function, written at its first use. The profile has each text once, so the
 * addresses of its names identify it. */
static uint64_t put_function(struct pprof *pprof, const struct profile_frame *frame)
{
    const char *annotation = annotation_of(pprof, frame);
    const char *key[] = {frame->name, frame->linkage_name, frame->source_file, annotation};
    bool added;
    uint64_t id = intern_bytes(&pprof->function_ids, key, sizeof(key), &added);
    pprof->failed |= id == 0;
    if (!added)
        return id;
    int64_t name = *annotation == '\0' ? put_string(pprof, frame->name)
                                       : put_annotated(pprof, frame->name, annotation);
    bool is_mangled = frame->linkage_name != frame->name;
    int64_t linkage_name =
        is_mangled || *annotation != '\0' ? put_string(pprof, frame->linkage_name) : name;
    int64_t source_file = put_text(pprof, frame->source_file);
    put_function_message(pprof, id, name, linkage_name, source_file);
    return id;
}

/* Return the id of the function that stands for a frame without a name: one for each start, or
 * address. */
static uint64_t put_nameless(struct pprof *pprof, const struct profile_frame *frame,
                             const struct profile_mapping *mapping)
{
    char text[256];
    snprintf(text, sizeof(text), "0x%" PRIx64 " @ %s", frame->function_start,
             mapping == NULL || *mapping->path == '\0' ? "?" : base_name(mapping->path));
    int64_t name = put_string(pprof, text);
    bool added;
    uint64_t id = intern_bytes(&pprof->function_ids, &name, sizeof(name), &added);
    pprof->failed |= id == 0;
    if (added)
        put_function_message(pprof, id, name, 0, 0);
    return id;
}

/* Return the id of a mapping, or of the one for frames without a mapping (PROFILE_NONE). */
static uint32_t use_mapping(struct pprof *pprof, uint32_t index, bool has_lines)
{
    if (index == PROFILE_NONE)
        index = (uint32_t)pprof->profile->mapping_count;
    struct mapping_use *use = &pprof->mappings[index];
    if (use->id == 0) {
        if (ARRAY_ADD(&pprof->used, &pprof->used_count, &pprof->used_capacity, index) < 0) {
            pprof->failed = true;
            return 0;
        }
        use->id = (uint32_t)pprof->used_count;
    }
    use->has_lines |= has_lines;
    return use->id;
}

/* Give the program the first id: viewers consider the first mapping the subject of the profile. The
 * name of a process may be that of a link, such as python3 for python3.11. */
static void use_program(struct pprof *pprof)
{
    const struct profile *profile = pprof->profile;
    const char *program = profile->processes[pprof->heap->process].name;
    size_t length = strlen(program);
    uint32_t found = PROFILE_NONE;
    for (size_t i = 0; i < profile->mapping_count && length > 0; i++) {
        const char *name = base_name(profile->mappings[i].path);
        if (strncmp(name, program, length) != 0 ||
            profile_place_of(profile, pprof->heap, (uint32_t)i).end == 0)
            continue;
        if (found == PROFILE_NONE || name[length] == '\0')
            found = (uint32_t)i;
        if (name[length] == '\0')
            break;
    }
    if (found != PROFILE_NONE)
        use_mapping(pprof, found, false);
}

static void put_location_message(struct pprof *pprof, uint64_t id, uint32_t frame_index)
{
    const struct profile_frame *frame = &pprof->profile->frames[frame_index];
    const struct profile_mapping *mapping = NULL;
    uint64_t mapping_id, address = 0;
    uint8_t line[2 * PROTO_FIELD_BYTES_MAX], location[4 * PROTO_FIELD_BYTES_MAX + sizeof(line)];
    if (frame->mapping != PROFILE_NONE) {
        mapping = &pprof->profile->mappings[frame->mapping];
        address = frame->rel_pc - mapping->exact_offset - mapping->load_bias +
                  profile_place_of(pprof->profile, pprof->heap, frame->mapping).start;
    }
    mapping_id = use_mapping(pprof, frame->mapping, mapping != NULL && *frame->source_file != '\0');
    uint8_t *line_end = proto_field_uint(line, PPROF_LINE_FUNCTION_ID,
                                         *frame->name == '\0' ? put_nameless(pprof, frame, mapping)
                                                              : put_function(pprof, frame));
    line_end = proto_field_count(line_end, PPROF_LINE_LINE, frame->line);
    uint8_t *at = proto_field_uint(location, PPROF_LOCATION_ID, id);
    at = proto_field_count(at, PPROF_LOCATION_MAPPING_ID, mapping_id);
    at = proto_field_count(at, PPROF_LOCATION_ADDRESS, address);
    at = proto_field_message(at, PPROF_LOCATION_LINE, line, (size_t)(line_end - line));
    proto_put_bytes(&pprof->out, PPROF_PROFILE_LOCATION, location, (size_t)(at - location));
}

static uint32_t put_location(struct pprof *pprof, uint32_t frame)
{
    if (pprof->locations[frame] == 0) {
        uint32_t id = ++pprof->location_count;
        put_location_message(pprof, id, frame);
        pprof->locations[frame] = id;
    }
    return pprof->locations[frame];
}

static void put_mapping(struct pprof *pprof, uint32_t index)
{
    Mapping mapping = PERFTOOLS__PROFILES__MAPPING__INIT;
    const struct mapping_use *use = &pprof->mappings[index];
    mapping.id = use->id;
    mapping.has_functions = true;
    mapping.has_filenames = mapping.has_line_numbers = use->has_lines;
    if (index < pprof->profile->mapping_count) {
        const struct profile_mapping *from = &pprof->profile->mappings[index];
        struct profile_place place = profile_place_of(pprof->profile, pprof->heap, index);
        mapping.memory_start = place.start;
        mapping.memory_limit = place.end;
        mapping.file_offset = from->exact_offset;
        mapping.filename = put_string(pprof, from->path);
        mapping.build_id = put_string(pprof, from->build_id);
    } else {
        mapping.filename = put_string(pprof, "[no mapping]");
    }
    proto_put_message(&pprof->out, PPROF_PROFILE_MAPPING, &mapping.base);
}

static void put_mappings(struct pprof *pprof)
{
    for (size_t i = 0; i < pprof->used_count; i++)
        put_mapping(pprof, pprof->used[i]);
}

/* --- samples --- */

/* Round down like floor(), but inline: a file has millions of figures. */
static double round_down(double value)
{
    if (!(fabs(value) < 0x1p52))
        return floor(value);
    double whole = (double)(int64_t)value;
    return whole > value ? whole - 1 : whole;
}

static int64_t round_column(struct pprof *pprof, enum column column, double value)
{
    pprof->sums[column] += value;
    double rounded = round_down(pprof->sums[column] + 0.5);
    int64_t most = INT64_C(1) << 62;
    int64_t sum = rounded >= 0x1p62 ? most : rounded <= -0x1p62 ? -most : (int64_t)rounded;
    int64_t grown = sum - pprof->written[column];
    pprof->written[column] = sum;
    return grown;
}

static void put_label(struct proto_buffer *labels, int64_t key, int64_t text, int64_t number)
{
    uint8_t label[3 * PROTO_FIELD_BYTES_MAX];
    uint8_t *at = proto_field_uint(label, PPROF_LABEL_KEY, (uint64_t)key);
    at = proto_field_count(at, PPROF_LABEL_STR, (uint64_t)text);
    at = proto_field_count(at, PPROF_LABEL_NUM, (uint64_t)number);
    proto_put_bytes(labels, PPROF_SAMPLE_LABEL, label, (size_t)(at - label));
}

static void put_text_label(struct proto_buffer *labels, int64_t key, int64_t text)
{
    if (text != 0)
        put_label(labels, key, text, 0);
}

static int64_t thread_name(struct pprof *pprof, int32_t tid)
{
    uint32_t known = id_map_find(&pprof->threads, (uint32_t)tid);
    if (known != ID_MAP_NONE)
        return known;
    int32_t pid = pprof->profile->processes[pprof->heap->process].pid;
    int64_t name = put_string(pprof, profile_thread_name(pprof->profile, pid, tid));
    pprof->failed |= id_map_set(&pprof->threads, (uint32_t)tid, (uint32_t)name) < 0;
    return name;
}

/* Make the labels of a part, unless they are those of the previous sample, as mostly. */
static void make_labels(struct pprof *pprof, const struct profile_part *part)
{
    const struct profile_part *last = pprof->labelled;
    struct proto_buffer *labels = &pprof->labels;
    if (last == NULL || last->tid != part->tid || last->type != part->type ||
        last->context != part->context) {
        labels->length = 0;
        put_text_label(labels, pprof->keys.thread, thread_name(pprof, part->tid));
        put_label(labels, pprof->keys.tid, 0, part->tid);
        put_text_label(labels, pprof->keys.type, put_text(pprof, part->type));
        put_text_label(labels, pprof->keys.context, put_text(pprof, part->context));
        pprof->labelled = part;
    }
}

/* Make room for this many bytes; the content stays at the end. */
static bool reserve_stack(struct pprof *pprof, size_t length, size_t wanted)
{
    if (wanted <= pprof->stack_room)
        return true;
    size_t room = 2 * wanted;
    uint8_t *grown = malloc(room);
    if (grown == NULL)
        return false;
    if (length > 0)
        memcpy(grown + room - length, pprof->stack + pprof->stack_room - length, length);
    free(pprof->stack);
    pprof->stack = grown;
    pprof->stack_room = room;
    return true;
}

/* Write a location's id so that it ends before `end`. Return where it begins. */
static inline uint8_t *put_id_before(uint8_t *end, uint32_t id)
{
    uint8_t *begin = end - 1 - (31 - __builtin_clz(id | 1)) / 7;
    proto_encode_varint(begin, id);
    return begin;
}

/* Set pprof->stack to the locations of a stack, and return their number of bytes. From the first
 * common caller on, it ends with the same bytes as the previous stack. */
static size_t make_stack(struct pprof *pprof, uint32_t callsite)
{
    const struct profile_callsite *callsites = pprof->profile->callsites;
    size_t depth = callsites[callsite].depth, begin = depth + 1;
    if (ARRAY_RESERVE(&pprof->path, &pprof->path_capacity, 0, depth + 1) < 0) {
        pprof->failed = true;
        return 0;
    }
    struct stack_step *path = pprof->path;
    while (begin > 0 && (begin > pprof->path_count || path[begin - 1].callsite != callsite)) {
        path[--begin].callsite = callsite;
        path[begin].location = put_location(pprof, callsites[callsite].frame);
        callsite = callsites[callsite].parent;
    }
    size_t length = begin > 0 ? path[begin - 1].tail : 0;
    if (!reserve_stack(pprof, length, length + STACK_ID_BYTES_MAX * (depth + 1 - begin))) {
        pprof->failed = true;
        pprof->path_count = 0;
        return 0;
    }
    uint8_t *at = pprof->stack + pprof->stack_room - length;
    const uint8_t *stack_end = pprof->stack + pprof->stack_room;
    for (size_t i = begin; i <= depth; i++) {
        at = put_id_before(at, path[i].location);
        path[i].tail = (uint32_t)(stack_end - at);
    }
    length = (size_t)(stack_end - at);
    pprof->path_count = depth + 1;
    return length;
}

/* Room for an estimate: four fields, and the message around them. */
#define SAMPLING_BYTES_MAX (5 * PROTO_FIELD_BYTES_MAX)

/* Write the samples of an estimate, unless there are none. */
static uint8_t *put_sampling(uint8_t *at, uint32_t field, const struct profile_estimate *estimate)
{
    uint8_t message[SAMPLING_BYTES_MAX], *end = message;
    if (!(estimate->samples > 0) && !(estimate->count > 0))
        return at;
    end = proto_field_count(end, PPROF_SAMPLING_SAMPLES, (uint64_t)estimate->samples);
    end = proto_field_figure(end, PPROF_SAMPLING_MISSED, estimate->count - estimate->samples);
    end = proto_field_figure(end, PPROF_SAMPLING_BYTES_VARIANCE, estimate->bytes_variance);
    end = proto_field_figure(end, PPROF_SAMPLING_COUNT_VARIANCE, estimate->count_variance);
    return proto_field_message(at, field, message, (size_t)(end - message));
}

/* Write what the values were estimated from, in a file of a period or of several intervals. Return
 * the number of bytes. */
static size_t make_sampling(const struct pprof *pprof, const struct trace_figures *figures,
                            uint8_t bytes[2 * SAMPLING_BYTES_MAX])
{
    const struct pprof_period *period = pprof->options->period;
    if (period == NULL ? !pprof->has_intervals : period->for_others)
        return 0;
    const struct profile_estimate allocated = rollup_allocated_of(figures),
                                  live = rollup_live_of(figures);
    uint8_t *at = put_sampling(bytes, PPROF_SAMPLE_ALLOCATED, &allocated);
    at = put_sampling(at, PPROF_SAMPLE_LIVE, &live);
    return (size_t)(at - bytes);
}

/* Write a sample: the locations in pprof->stack, the values, the labels if `labelled`, and the
 * samples behind the values. */
static void put_sample_message(struct pprof *pprof, size_t stack_length,
                               const int64_t values[COLUMNS], bool labelled,
                               const struct trace_figures *figures)
{
    uint8_t sampling[2 * SAMPLING_BYTES_MAX];
    size_t sampling_length = make_sampling(pprof, figures, sampling);
    uint8_t numbers[COLUMNS * (1 + PROTO_VARINT_BYTES_MAX)], head[1 + PROTO_VARINT_BYTES_MAX];
    const struct proto_buffer *labels = &pprof->labels;
    size_t number_length = 0, labels_length = labelled ? labels->length : 0;
    for (int i = 0; i < COLUMNS; i++) {
        numbers[number_length++] = PPROF_SAMPLE_VALUE << 3;
        number_length += proto_encode_varint(numbers + number_length, (uint64_t)values[i]);
    }
    head[0] = PPROF_SAMPLE_LOCATION_ID << 3 | 2;
    size_t head_length = 1 + proto_encode_varint(head + 1, stack_length);
    size_t length = head_length + stack_length + number_length + labels_length + sampling_length;
    uint8_t *at = proto_buffer_reserve(&pprof->out, 1 + PROTO_VARINT_BYTES_MAX + length);
    if (at == NULL)
        return;
    const uint8_t *begin = at;
    *at++ = PPROF_PROFILE_SAMPLE << 3 | 2;
    at += proto_encode_varint(at, length);
    at = mempcpy(at, head, head_length);
    if (stack_length > 0)
        at = mempcpy(at, pprof->stack + pprof->stack_room - stack_length, stack_length);
    at = mempcpy(at, numbers, number_length);
    if (labels_length > 0)
        at = mempcpy(at, labels->bytes, labels_length);
    at = mempcpy(at, sampling, sampling_length);
    pprof->out.length += (size_t)(at - begin);
}

static void put_sample(struct pprof *pprof, uint32_t callsite, const struct trace_figures *figures,
                       const struct profile_part *part)
{
    double live_bytes = rollup_live_bytes(figures), live_count = rollup_live_count(figures);
    if (pprof->options->difference) {
        live_bytes = figures->allocated_bytes - figures->freed_bytes;
        live_count = figures->allocated_count - figures->freed_count;
    }
    int64_t values[COLUMNS] = {
        round_column(pprof, ALLOC_OBJECTS, figures->allocated_count),
        round_column(pprof, ALLOC_SPACE, figures->allocated_bytes),
        round_column(pprof, OBJECTS, live_count),
        round_column(pprof, SPACE, live_bytes),
    };
    int64_t any = 0;
    for (int i = 0; i < COLUMNS; i++)
        any |= values[i];
    if (any == 0)
        return;
    size_t stack_length = make_stack(pprof, callsite);
    if (part != NULL)
        make_labels(pprof, part);
    put_sample_message(pprof, stack_length, values, part != NULL, figures);
    if (pprof->out.length > OUT_BYTES)
        write_out(pprof);
}

/* Samples of older dumps are scattered in memory, and so are their parts. */
#define AHEAD 8u

PREFETCHING prefetch_sample(const struct profile_dump *dump, size_t index)
{
    if (index + 2 * AHEAD >= dump->sample_count)
        return;
    __builtin_prefetch(&dump->samples[index + 2 * AHEAD]->figures);
    __builtin_prefetch(&dump->samples[index + 2 * AHEAD]->parts);
    __builtin_prefetch(dump->samples[index + AHEAD]->parts);
}

static void put_samples(struct pprof *pprof, const struct profile_dump *dump)
{
    pprof->keys.thread = put_string(pprof, "thread");
    pprof->keys.tid = put_string(pprof, "tid");
    pprof->keys.type = put_string(pprof, "type");
    pprof->keys.context = put_string(pprof, "context");
    bool merged = pprof->options->period != NULL && pprof->options->period->for_others;
    use_program(pprof);
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i];
        prefetch_sample(dump, i);
        if (sample->part_count == 0 || merged)
            put_sample(pprof, sample->callsite, &sample->figures, NULL);
        for (uint32_t j = 0; j < sample->part_count && !merged; j++) {
            const struct profile_part *part = &sample->parts[j];
            put_sample(pprof, sample->callsite, &part->figures, part);
        }
    }
}

/* --- the header --- */

static void put_type(struct pprof *pprof, uint32_t field, const char *type, const char *unit)
{
    ValueType value = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
    value.type = put_string(pprof, type);
    value.unit = put_string(pprof, unit);
    proto_put_message(&pprof->out, field, &value.base);
}

static void put_comment(void *context, const char *text)
{
    struct pprof *pprof = context;
    proto_put_uint(&pprof->out, PPROF_PROFILE_COMMENT, (uint64_t)put_string(pprof, text));
}

static void put_times(struct pprof *pprof, const struct profile_dump *dump)
{
    const struct profile_heap *heap = pprof->heap;
    const struct pprof_period *period = pprof->options->period;
    int64_t realtime_offset = pprof->profile->boottime_to_realtime_ns;
    uint64_t duration_ns = 0, time_ns = 0;
    if (period != NULL) {
        time_ns = (uint64_t)(period->time_is_end ? period->end_ns : period->start_ns);
        duration_ns =
            period->end_ns > period->start_ns ? (uint64_t)(period->end_ns - period->start_ns) : 0;
    } else {
        if (realtime_offset != 0)
            time_ns = dump->boottime_ns + (uint64_t)realtime_offset;
        if (dump->boottime_ns > heap->start_boottime_ns)
            duration_ns = dump->boottime_ns - heap->start_boottime_ns;
    }
    if (time_ns != 0)
        proto_put_uint(&pprof->out, PPROF_PROFILE_TIME_NANOS, time_ns);
    if (duration_ns != 0)
        proto_put_uint(&pprof->out, PPROF_PROFILE_DURATION_NANOS, duration_ns);
}

/* Write what was counted and sampled before the period. */
static void put_earlier(struct pprof *pprof, const struct profile_dump *dump)
{
    const struct pprof_period *period = pprof->options->period;
    const struct profile_earlier *earlier = &dump->earlier;
    const struct trace_figures *sampled = &earlier->sampled;
    uint8_t message[12 * PROTO_FIELD_BYTES_MAX], *at = message;
    if (period == NULL || period->for_others)
        return;
    at = proto_field_count(at, PPROF_EARLIER_EXACT_BYTES, earlier->exact_bytes);
    at = proto_field_count(at, PPROF_EARLIER_EXACT_CALLS, earlier->exact_calls);
    at = proto_field_count(at, PPROF_EARLIER_SAMPLES, sampled->samples);
    at = proto_field_figure(at, PPROF_EARLIER_BYTES, sampled->allocated_bytes);
    at = proto_field_figure(at, PPROF_EARLIER_COUNT, sampled->allocated_count);
    at = proto_field_figure(at, PPROF_EARLIER_BYTES_VARIANCE, sampled->allocated_bytes_variance);
    at = proto_field_figure(at, PPROF_EARLIER_COUNT_VARIANCE, sampled->allocated_count_variance);
    at = proto_field_count(at, PPROF_EARLIER_UNKNOWN, !(rollup_most(pprof->heap, dump, false) > 0));
    at = proto_field_figure(at, PPROF_EARLIER_SAMPLED_BYTES, earlier->sampled_bytes);
    at = proto_field_figure(at, PPROF_EARLIER_SAMPLED_CALLS, earlier->sampled_calls);
    at = proto_field_figure(at, PPROF_EARLIER_PERIOD_SAMPLED_BYTES, dump->sampled_bytes);
    at = proto_field_figure(at, PPROF_EARLIER_PERIOD_SAMPLED_CALLS, dump->sampled_calls);
    proto_put_bytes(&pprof->out, PPROF_PROFILE_EARLIER, message, (size_t)(at - message));
}

static void put_head(struct pprof *pprof, const struct profile_dump *dump)
{
    const struct pprof_period *period = pprof->options->period;
    const char *default_type = period != NULL ? period->types[SPACE] : column_names[SPACE].type;
    put_string(pprof, "");
    for (int i = 0; i < COLUMNS; i++)
        put_type(pprof, PPROF_PROFILE_SAMPLE_TYPE,
                 period != NULL ? period->types[i] : column_names[i].type, column_names[i].unit);
    put_type(pprof, PPROF_PROFILE_PERIOD_TYPE, "space", "bytes");
    proto_put_uint(&pprof->out, PPROF_PROFILE_PERIOD,
                   period != NULL ? period->interval_bytes : pprof->heap->interval_bytes);
    proto_put_uint(&pprof->out, PPROF_PROFILE_DEFAULT_SAMPLE_TYPE,
                   (uint64_t)put_string(pprof, default_type));
    put_times(pprof, dump);
    put_earlier(pprof, dump);
    if (period == NULL)
        pprof_comments(pprof->profile, pprof->heap, dump, put_comment, pprof);
    else
        pprof_period_comments(pprof->profile, pprof->heap, dump, period, put_comment, pprof);
}

/* --- the file --- */

static void put_file(struct pprof *pprof, const struct profile_dump *dump)
{
    put_head(pprof, dump);
    put_samples(pprof, dump);
    put_mappings(pprof);
    write_out(pprof);
    packed_file_write(pprof->file, pprof->strings.bytes, pprof->strings.length);
    pprof->failed |= pprof->out.failed || pprof->strings.failed || pprof->labels.failed;
}

/* Return zeros. A file of one process among thousands uses few of them: untouched pages cost
 * nothing, while calloc() may clear them all. */
static void *zeros_open(size_t count, size_t size)
{
    void *zeros = mmap(NULL, (count + 1) * size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return zeros == MAP_FAILED ? NULL : zeros;
}

static void zeros_close(void *zeros, size_t count, size_t size)
{
    if (zeros != NULL)
        munmap(zeros, (count + 1) * size);
}

int pprof_write(const struct profile *profile, const struct profile_heap *heap,
                const struct profile_dump *dump, const struct pprof_options *options, int fd,
                struct error *error)
{
    struct packed_file file;
    struct pprof pprof = {.profile = profile, .heap = heap, .options = options, .file = &file};
    pprof.has_intervals = !options->difference && pprof_has_intervals(heap);
    pprof.locations = zeros_open(profile->frame_count, sizeof(*pprof.locations));
    pprof.mappings = zeros_open(profile->mapping_count, sizeof(*pprof.mappings));
    packed_file_open(&file, fd, options->gzip, options->packing_threads);
    if (pprof.locations != NULL && pprof.mappings != NULL)
        put_file(&pprof, dump);
    else
        pprof.failed = true;
    int code = packed_file_close(&file);
    if (code == 0 && pprof.failed)
        code = -ENOMEM;
    if (code < 0)
        error_set(error, code, "cannot write the pprof file: %s", strerror(-code));
    proto_buffer_free(&pprof.out);
    proto_buffer_free(&pprof.labels);
    free(pprof.stack);
    free(pprof.path);
    proto_buffer_free(&pprof.strings);
    intern_free(&pprof.string_ids);
    intern_free(&pprof.text_ids);
    intern_free(&pprof.function_ids);
    id_map_free(&pprof.threads);
    free(pprof.texts);
    free(pprof.used);
    zeros_close(pprof.locations, profile->frame_count, sizeof(*pprof.locations));
    zeros_close(pprof.mappings, profile->mapping_count, sizeof(*pprof.mappings));
    return code;
}
