/* SPDX-License-Identifier: Apache-2.0 */
/* Store the interned data of each sequence, as in the trace. */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_stack_samples.h"
#include "util/array.h"

void sequence_clear_interned(struct builder_sequence *sequence)
{
    id_map_free(&sequence->names);
    id_map_free(&sequence->paths);
    id_map_free(&sequence->source_paths);
    id_map_free(&sequence->build_ids);
    id_map_free(&sequence->mappings);
    id_map_free(&sequence->frames);
    id_map_free(&sequence->callstacks);
    id_map_free(&sequence->heap_names);
    id_map_free(&sequence->contexts);
    builder_forget_stacks(sequence);
    sequence->mapping_count = sequence->frame_count = sequence->callstack_count = 0;
    sequence->context_count = 0;
    sequence->id_count = sequence->stack_byte_count = 0;
    sequence->last_count = 0;
}

void sequence_free(struct builder_sequence *sequence)
{
    sequence_clear_interned(sequence);
    for (size_t i = 0; i < sequence->pending_count; i++)
        pending_free(&sequence->pending[i]);
    intern_free(&sequence->pending_ids);
    free(sequence->pending);
    free(sequence->mapping_items);
    free(sequence->frame_items);
    free(sequence->callstack_items);
    free(sequence->context_items);
    free(sequence->ids);
    free(sequence->frames_resolved);
    free(sequence->stack_bytes);
    free(sequence->last);
    free(sequence->seen);
    free(sequence->seen_bytes);
}

int builder_sequence(struct builder *builder, uint32_t id, struct builder_sequence **sequence)
{
    uint32_t index = id_map_find(&builder->sequence_ids, id);
    if (index != ID_MAP_NONE) {
        *sequence = &builder->sequences[index];
        return 0;
    }
    size_t used = builder->sequence_count;
    if (used == SEQUENCES_MAX) {
        builder->losses.crowded_packets++;
        return -EBADMSG;
    }
    if (ARRAY_RESERVE(&builder->sequences, &builder->sequence_capacity, used, 1) < 0 ||
        id_map_set(&builder->sequence_ids, id, (uint32_t)used) < 0)
        return builder_fail(builder);
    memset(&builder->sequences[used], 0, sizeof(*builder->sequences));
    builder->sequence_count++;
    *sequence = &builder->sequences[used];
    return 0;
}

/* --- reading entries --- */

/* Set the meaning of an id that samples can name. */
static int set_named(struct builder *builder, struct builder_sequence *sequence, struct id_map *map,
                     uint64_t iid, uint32_t index)
{
    if (id_map_find(map, iid) != ID_MAP_NONE)
        builder_forget_unchanged(builder, sequence);
    return id_map_set(map, iid, index);
}

static int put_id(struct builder *builder, struct builder_sequence *sequence, uint64_t id)
{
    if (ARRAY_ADD(&sequence->ids, &sequence->id_count, &sequence->id_capacity, id) < 0)
        return builder_fail(builder);
    return 0;
}

/* Append the values of a repeated number, packed or not. */
static int put_ids(struct builder *builder, struct builder_sequence *sequence,
                   const struct proto_field *field)
{
    struct proto_span span = field->span;
    uint64_t id;
    if (field->type == PROTO_VARINT)
        return put_id(builder, sequence, field->value);
    while (span.at < span.end) {
        if (!proto_read_varint(&span, &id))
            return -EBADMSG;
        if (put_id(builder, sequence, id) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int intern_string(struct builder *builder, struct builder_sequence *sequence,
                         enum interned_kind kind, struct proto_span entry)
{
    struct proto_field field;
    struct proto_span bytes = {0};
    uint64_t iid = 0;
    int status;
    while ((status = proto_next(&entry, &field)) > 0) {
        if (field.number == PB_INTERNED_STRING_IID)
            iid = field.value;
        else if (field.number == PB_INTERNED_STRING_STR)
            bytes = field.span;
    }
    if (status < 0)
        return -EBADMSG;
    int code = 0;
    bool any = kind == INTERNED_ANY_STRING;
    uint32_t text = builder_string_of_span(builder, bytes);
    if (kind == INTERNED_NAME || any)
        code |= id_map_set(&sequence->names, iid, text);
    if (kind == INTERNED_PATH || any)
        code |= id_map_set(&sequence->paths, iid, text);
    if (kind == INTERNED_HEAP_NAME)
        code |= set_named(builder, sequence, &sequence->heap_names, iid, text);
    if (kind == INTERNED_SOURCE_PATH)
        code |= id_map_set(&sequence->source_paths, iid, text);
    if (kind == INTERNED_BUILD_ID || any)
        code |= id_map_set(&sequence->build_ids, iid, builder_hex(builder, bytes));
    return code == 0 ? builder->error : builder_fail(builder);
}

/* A mapping or a frame, and its id. */
struct mapping_entry {
    uint64_t iid;
    struct sequence_mapping item;
};
struct frame_entry {
    uint64_t iid;
    struct sequence_frame item;
};

#define MAPPING(name, member) PROTO_MEMBER(PB_MAPPING_##name, struct mapping_entry, member)
#define FRAME(name, member) PROTO_MEMBER(PB_FRAME_##name, struct frame_entry, member)

static const struct proto_member mapping_members[] = {
    MAPPING(IID, iid),
    MAPPING(BUILD_ID, item.build_id),
    MAPPING(START_OFFSET, item.mapping.start_offset),
    MAPPING(START, item.mapping.start),
    MAPPING(END, item.mapping.end),
    MAPPING(LOAD_BIAS, item.mapping.load_bias),
    MAPPING(EXACT_OFFSET, item.mapping.exact_offset),
};
static const struct proto_member frame_members[] = {
    FRAME(IID, iid),
    FRAME(FUNCTION_NAME_ID, item.name),
    FRAME(MAPPING_ID, item.mapping),
    FRAME(REL_PC, item.rel_pc),
    FRAME(SOURCE_PATH_IID, item.source_path),
    FRAME(LINE_NUMBER, item.line),
    FRAME(KIND, item.kind),
};

static int intern_mapping(struct builder *builder, struct builder_sequence *sequence,
                          enum interned_kind kind, struct proto_span message)
{
    struct mapping_entry entry = {.item = {
                                      .first_path = sequence->id_count,
                                      .resolved = PROFILE_NONE,
                                      .is_shared = kind == INTERNED_PROFILE_MAPPING,
                                  }};
    struct sequence_mapping *item = &entry.item;
    struct proto_field field;
    int status, code = 0;
    while ((status = proto_next(&message, &field)) > 0 && code == 0) {
        if (field.number == PB_MAPPING_PATH_STRING_IDS)
            code = put_ids(builder, sequence, &field);
        else
            proto_store(PROTO_MEMBERS(mapping_members), &field, &entry);
    }
    if (status < 0 || code < 0)
        return code < 0 ? code : -EBADMSG;
    item->path_count = (uint32_t)(sequence->id_count - item->first_path);
    if (ARRAY_RESERVE(&sequence->mapping_items, &sequence->mapping_capacity,
                      sequence->mapping_count, 1) < 0 ||
        id_map_set(&sequence->mappings, entry.iid, (uint32_t)sequence->mapping_count) < 0)
        return builder_fail(builder);
    sequence->mapping_items[sequence->mapping_count++] = *item;
    return 0;
}

static int intern_frame(struct builder *builder, struct builder_sequence *sequence,
                        enum interned_kind kind, struct proto_span message)
{
    /* In the tables of a ProfilePacket, id 0 is the empty string. */
    struct frame_entry entry = {.item.is_named = kind == INTERNED_PROFILE_FRAME};
    struct sequence_frame *item = &entry.item;
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0) {
        item->has_line |= field.number == PB_FRAME_LINE_NUMBER;
        item->has_kind |= field.number == PB_FRAME_KIND;
        if (field.number == PB_FRAME_KIND_STR)
            item->kind_name = builder_string_of_span(builder, field.span);
        else
            proto_store(PROTO_MEMBERS(frame_members), &field, &entry);
    }
    item->is_named |= item->name != 0;
    if (status < 0)
        return -EBADMSG;
    if (ARRAY_RESERVE(&sequence->frame_items, &sequence->frame_capacity, sequence->frame_count, 1) <
            0 ||
        ARRAY_RESERVE(&sequence->frames_resolved, &sequence->frames_resolved_capacity,
                      sequence->frame_count, 1) < 0 ||
        id_map_set(&sequence->frames, entry.iid, (uint32_t)sequence->frame_count) < 0)
        return builder_fail(builder);
    sequence->frames_resolved[sequence->frame_count] =
        (struct sequence_resolved){.frame = PROFILE_NONE};
    sequence->frame_items[sequence->frame_count++] = *item;
    sequence->last_count = 0; /* the id may have meant another frame before */
    return 0;
}

/* Store a callstack as in the trace, without its id. The frames of all stacks are most of a trace,
 * and would take several times more memory if they were decoded. They are decoded when the stack is
 * used. */
static int intern_callstack(struct builder *builder, struct builder_sequence *sequence,
                            struct proto_span entry)
{
    struct proto_span rest = entry;
    struct proto_field field;
    int status = proto_next(&rest, &field);
    if (status > 0 && field.number == PB_CALLSTACK_IID)
        entry = rest; /* usually it comes first */
    while (status > 0 && field.number != PB_CALLSTACK_IID)
        status = proto_next(&rest, &field);
    if (status < 0)
        return -EBADMSG;
    struct sequence_callstack item = {.first_byte = sequence->stack_byte_count,
                                      .byte_count = (uint32_t)proto_length(entry),
                                      .resolved = PROFILE_NONE};
    if (ARRAY_RESERVE(&sequence->stack_bytes, &sequence->stack_byte_capacity, item.first_byte,
                      item.byte_count) < 0 ||
        ARRAY_RESERVE(&sequence->callstack_items, &sequence->callstack_capacity,
                      sequence->callstack_count, 1) < 0 ||
        set_named(builder, sequence, &sequence->callstacks, status > 0 ? field.value : 0,
                  (uint32_t)sequence->callstack_count) < 0)
        return builder_fail(builder);
    if (item.byte_count > 0)
        memcpy(sequence->stack_bytes + item.first_byte, entry.at, item.byte_count);
    sequence->stack_byte_count += item.byte_count;
    sequence->callstack_items[sequence->callstack_count++] = item;
    return 0;
}

static int intern_context(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span entry)
{
    struct sequence_context item = {.first_name = sequence->id_count};
    struct proto_field field;
    uint64_t iid = 0;
    int status, code = 0;
    while ((status = proto_next(&entry, &field)) > 0 && code == 0) {
        if (field.number == PB_HEAP_CONTEXT_IID)
            iid = field.value;
        else if (field.number == PB_HEAP_CONTEXT_NAME_IDS)
            code = put_ids(builder, sequence, &field);
    }
    if (status < 0 || code < 0)
        return code < 0 ? code : -EBADMSG;
    item.name_count = (uint32_t)(sequence->id_count - item.first_name);
    if (ARRAY_RESERVE(&sequence->context_items, &sequence->context_capacity,
                      sequence->context_count, 1) < 0 ||
        set_named(builder, sequence, &sequence->contexts, iid, (uint32_t)sequence->context_count) <
            0)
        return builder_fail(builder);
    sequence->context_items[sequence->context_count++] = item;
    return 0;
}

int builder_intern(struct builder *builder, struct builder_sequence *sequence,
                   enum interned_kind kind, struct proto_span entry)
{
    if (builder_keep(builder, 1) < 0)
        return builder->error;
    switch (kind) {
    case INTERNED_MAPPING:
    case INTERNED_PROFILE_MAPPING:
        return intern_mapping(builder, sequence, kind, entry);
    case INTERNED_FRAME:
    case INTERNED_PROFILE_FRAME:
        return intern_frame(builder, sequence, kind, entry);
    case INTERNED_CALLSTACK:
        return intern_callstack(builder, sequence, entry);
    case INTERNED_HEAP_CONTEXT:
        return intern_context(builder, sequence, entry);
    case INTERNED_STACK_COUNTER:
        return builder_stack_counter(builder, sequence, entry);
    case INTERNED_STACK_TASK:
        return builder_stack_task(builder, sequence, entry);
    case INTERNED_STACK_EXECUTION:
        return builder_stack_execution(builder, sequence, entry);
    case INTERNED_STACK_ASYNC:
        return builder_stack_async(builder, sequence, entry);
    default:
        return intern_string(builder, sequence, kind, entry);
    }
}

/* The most frequent ones first. */
static const struct {
    uint32_t field;
    enum interned_kind kind;
} interned_kinds[] = {
    {PB_INTERNED_DATA_CALLSTACKS, INTERNED_CALLSTACK},
    {PB_INTERNED_DATA_FRAMES, INTERNED_FRAME},
    {PB_INTERNED_DATA_FUNCTION_NAMES, INTERNED_NAME},
    {PB_INTERNED_DATA_SOURCE_PATHS, INTERNED_SOURCE_PATH},
    {PB_INTERNED_DATA_MAPPINGS, INTERNED_MAPPING},
    {PB_INTERNED_DATA_MAPPING_PATHS, INTERNED_PATH},
    {PB_INTERNED_DATA_BUILD_IDS, INTERNED_BUILD_ID},
    {PB_INTERNED_DATA_HEAP_NAMES, INTERNED_HEAP_NAME},
    {PB_INTERNED_DATA_HEAP_CONTEXTS, INTERNED_HEAP_CONTEXT},
    {PB_INTERNED_DATA_STACK_SAMPLE_COUNTER_DESCRIPTORS, INTERNED_STACK_COUNTER},
    {PB_INTERNED_DATA_STACK_SAMPLE_TASK_CONTEXTS, INTERNED_STACK_TASK},
    {PB_INTERNED_DATA_STACK_SAMPLE_EXECUTION_CONTEXTS, INTERNED_STACK_EXECUTION},
    {PB_INTERNED_DATA_STACK_SAMPLE_ASYNC_CONTEXT_DESCRIPTORS, INTERNED_STACK_ASYNC},
};
#define INTERNED_KINDS (sizeof(interned_kinds) / sizeof(interned_kinds[0]))

int builder_interned_data(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span data)
{
    struct proto_field field;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&data, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.type != PROTO_BYTES)
            continue;
        size_t i = 0;
        while (i < INTERNED_KINDS && interned_kinds[i].field != field.number)
            i++;
        if (i < INTERNED_KINDS)
            code = builder_intern(builder, sequence, interned_kinds[i].kind, field.span);
    }
    return code;
}
