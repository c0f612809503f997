/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolve interned data. Ids are looked up when a callstack is used first, because entries come in
 * any order. If the profile must match Perfetto's trace processor (as_in_trace), its rules decide
 * which frames are the same and how a mapping is named.
 */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_sequence.h"
#include "profile/stack_samples.h"
#include "util/array.h"
#include "util/sorted_search.h"

#define PATH_BYTES_MAX 8192u

/* Limits of the joined names of one context, and of all: a few bytes of a file may refer to much
 * text. */
#define CONTEXT_BYTES_MAX 16384u
#define CONTEXT_BYTES_TOTAL_MAX (64u << 20)
#define NO_STACK "[stack not in the trace]"
#define NO_FRAME "[frame not in the trace]"

static uint32_t string_or_empty(const struct id_map *map, uint64_t iid)
{
    uint32_t text = id_map_find(map, iid);
    return text == ID_MAP_NONE ? 0 : text;
}

/* Join "/usr" "/lib" ... A pseudo-file such as [vdso] gets no slash before it, except for the trace
 * processor. */
static uint32_t join_path(struct builder *builder, const struct builder_sequence *sequence,
                          const struct sequence_mapping *item)
{
    char path[PATH_BYTES_MAX];
    size_t length = 0;
    bool as_in_trace = builder->as_in_trace;
    for (uint32_t i = 0; i < item->path_count; i++) {
        uint64_t iid = sequence->ids[item->first_path + i];
        const char *part = builder->strings[string_or_empty(&sequence->paths, iid)];
        size_t part_length = strlen(part);
        if (part_length == 0 && !as_in_trace)
            continue;
        if (part_length + 1 > sizeof(path) - length)
            break;
        bool is_pseudo = item->path_count == 1 && *part == '[' && !as_in_trace;
        bool has_slash = *part == '/' && (i == 0 || !as_in_trace);
        if (!has_slash && !is_pseudo)
            path[length++] = '/';
        memcpy(path + length, part, part_length);
        length += part_length;
    }
    return builder_string(builder, path, length);
}

/* Return the trace processor's mapping of frames without a mapping. */
static uint32_t dummy_mapping(struct builder *builder)
{
    static const struct profile_mapping everywhere = {.end = UINT64_MAX};
    return builder->as_in_trace ? builder_mapping(builder, &everywhere, 0, 0) : PROFILE_NONE;
}

uint32_t builder_resolve_mapping(struct builder *builder, struct builder_sequence *sequence,
                                 uint64_t iid)
{
    uint32_t index = id_map_find(&sequence->mappings, iid);
    if (index == ID_MAP_NONE)
        return iid == 0 ? dummy_mapping(builder) : PROFILE_NONE;
    struct sequence_mapping *item = &sequence->mapping_items[index];
    struct builder_mapping_scope scope = {0};
    /* Marker frames have a mapping without a place. */
    if (!builder->as_in_trace && item->path_count == 0 && item->mapping.end == 0 &&
        item->build_id == 0)
        return PROFILE_NONE;
    if (item->resolved != PROFILE_NONE && item->round == sequence->round)
        return item->resolved;
    /* The trace processor has a separate row per process for a mapping with addresses. */
    if (sequence->round != 0 && sequence->pid != PROFILE_NO_PID && !item->is_shared &&
        item->mapping.start < item->mapping.end)
        scope = (struct builder_mapping_scope){
            .process = (uint64_t)(uint32_t)sequence->pid << 32 |
                       (uint32_t)(sequence - builder->sequences + 1),
            .item = index + 1,
        };
    item->round = sequence->round;
    item->resolved =
        builder_mapping_of(builder, &item->mapping, join_path(builder, sequence, item),
                           string_or_empty(&sequence->build_ids, item->build_id), &scope);
    return item->resolved;
}

static uint32_t marker(struct builder *builder, const char *name)
{
    return builder_frame(builder, PROFILE_NONE, 0, builder_string(builder, name, strlen(name)), 0,
                         0);
}

static void set_kind(struct builder *builder, struct profile_frame *frame,
                     const struct sequence_frame *item)
{
    if (item->kind != 0)
        frame->kind = item->kind;
    else if (item->kind_name != 0 && !item->has_kind)
        frame->kind_name = builder->strings[item->kind_name];
}

static uint32_t make_frame(struct builder *builder, struct builder_sequence *sequence,
                           const struct sequence_frame *item)
{
    struct builder_frame_key key = {
        .mapping = builder_resolve_mapping(builder, sequence, item->mapping),
        .rel_pc = item->rel_pc,
        .name = string_or_empty(&sequence->names, item->name),
        .source_file = string_or_empty(&sequence->source_paths, item->source_path),
        .line = item->line,
    };
    if (builder->as_in_trace) {
        /* Names and lines identify frames without a mapping. For other frames lines do not matter.
         */
        bool is_dummy = item->mapping == 0;
        key.is_unnamed = !item->is_named;
        key.has_line = item->has_line;
        key.has_symbol = is_dummy || key.source_file != 0 || item->has_line;
        key.is_without_lines = !is_dummy;
        key.rel_pc = is_dummy ? 0 : key.rel_pc;
    }
    uint32_t frame = builder_frame_of(builder, &key);
    if (frame != PROFILE_NONE)
        set_kind(builder, &builder->profile->frames[frame], item);
    return frame;
}

static uint32_t resolve_frame(struct builder *builder, struct builder_sequence *sequence,
                              uint64_t iid)
{
    uint32_t index = id_map_find(&sequence->frames, iid);
    if (index == ID_MAP_NONE) {
        builder->losses.missing_frames++;
        return marker(builder, NO_FRAME);
    }
    struct sequence_resolved *resolved = &sequence->frames_resolved[index];
    if (resolved->frame == PROFILE_NONE || resolved->round != sequence->round)
        *resolved = (struct sequence_resolved){
            make_frame(builder, sequence, &sequence->frame_items[index]), sequence->round};
    return resolved->frame;
}

/* Return how many of the first `limit` bytes are equal. */
static size_t common_prefix(const uint8_t *one, const uint8_t *other, size_t limit)
{
    uint64_t left, right;
    size_t at = 0;
    for (; limit - at >= sizeof(left); at += sizeof(left)) {
        memcpy(&left, one + at, sizeof(left));
        memcpy(&right, other + at, sizeof(right));
        if (left != right)
            break;
    }
    while (at < limit && one[at] == other[at])
        at++;
    return at;
}

/* A stack while it is resolved to its callsite. */
struct stack_walk {
    struct proto_span rest;   /* of the message */
    struct proto_span packed; /* of a list in the message */
    size_t depth;
    uint32_t callsite;
    bool has_lists;
};

/* Read the next frame further in. Return 1 with *id, 0 after the last one, or -EBADMSG. */
static int next_frame(struct stack_walk *walk, uint64_t *id)
{
    struct proto_field field;
    int status = 1;
    while (walk->packed.at == walk->packed.end && (status = proto_next(&walk->rest, &field)) > 0) {
        if (field.number != PB_CALLSTACK_FRAME_IDS)
            continue;
        *id = field.value;
        if (field.type == PROTO_VARINT)
            return 1;
        walk->packed = field.span;
        walk->has_lists = true;
    }
    if (status <= 0)
        return status < 0 ? -EBADMSG : 0;
    return proto_read_varint(&walk->packed, id) ? 1 : -EBADMSG;
}

/* Skip the steps that a stack shares with the previous one: those that are complete in the common
 * prefix of their bytes. */
static void skip_shared(const struct builder_sequence *sequence, struct stack_walk *walk)
{
    if (sequence->last_count == 0)
        return;
    const struct sequence_step *last = &sequence->last[sequence->last_count - 1];
    size_t limit = proto_length(walk->rest) < last->end ? proto_length(walk->rest) : last->end;
    size_t common =
        common_prefix(walk->rest.at, sequence->stack_bytes + sequence->last_first_byte, limit);
    size_t shared = SORTED_SEARCH(sequence->last_count, i, sequence->last[i].end <= common);
    if (shared == 0)
        return;
    walk->depth = shared;
    walk->callsite = sequence->last[shared - 1].callsite;
    walk->rest.at += sequence->last[shared - 1].end;
}

/* Return the callsite. PROFILE_NONE: an error, or a stack that is damaged or has no frames; and if
 * it has to be whole, also one with a frame that the trace does not have. */
static uint32_t walk_stack(struct builder *builder, struct builder_sequence *sequence,
                           const struct sequence_callstack *item, bool is_whole)
{
    if (item->byte_count == 0)
        return PROFILE_NONE;
    const uint8_t *bytes = sequence->stack_bytes + item->first_byte;
    struct stack_walk walk = {.rest = {bytes, bytes + item->byte_count}, .callsite = PROFILE_NONE};
    uint64_t id;
    int status;
    skip_shared(sequence, &walk);
    sequence->last_count = 0; /* until the new steps are complete */
    while ((status = next_frame(&walk, &id)) > 0) {
        if (is_whole && id_map_find(&sequence->frames, id) == ID_MAP_NONE) {
            builder->losses.missing_frames++;
            return PROFILE_NONE;
        }
        uint32_t frame = resolve_frame(builder, sequence, id);
        if (frame != PROFILE_NONE)
            walk.callsite = builder_callsite(builder, walk.callsite, frame);
        if (ARRAY_RESERVE(&sequence->last, &sequence->last_capacity, walk.depth, 1) < 0)
            builder_fail(builder);
        if (builder->error < 0)
            return PROFILE_NONE;
        sequence->last[walk.depth++] =
            (struct sequence_step){walk.callsite, (uint32_t)(walk.rest.at - bytes)};
    }
    builder->losses.damaged_packets += status < 0;
    if (status < 0)
        return PROFILE_NONE;
    sequence->last_first_byte = item->first_byte;
    sequence->last_count = walk.has_lists ? 0 : walk.depth;
    return walk.callsite;
}

void builder_resolve_for(struct builder *builder, struct builder_sequence *sequence, int32_t pid)
{
    if (!builder->as_in_trace || (sequence->round != 0 && sequence->pid == pid))
        return;
    sequence->pid = pid;
    sequence->round++;
    sequence->last_count = 0;
}

uint32_t builder_resolve(struct builder *builder, struct builder_sequence *sequence,
                         uint64_t callstack)
{
    uint32_t index = id_map_find(&sequence->callstacks, callstack);
    if (index == ID_MAP_NONE) {
        builder->losses.missing_frames++;
        return builder_callsite(builder, PROFILE_NONE, marker(builder, NO_STACK));
    }
    struct sequence_callstack *item = &sequence->callstack_items[index];
    if (item->resolved == PROFILE_NONE || item->round != sequence->round)
        item->resolved = walk_stack(builder, sequence, item, false);
    item->round = sequence->round;
    if (item->resolved == PROFILE_NONE && builder->error == 0)
        item->resolved = builder_callsite(builder, PROFILE_NONE, marker(builder, NO_STACK));
    return item->resolved;
}

uint32_t builder_resolve_whole(struct builder *builder, struct builder_sequence *sequence,
                               uint32_t index)
{
    return walk_stack(builder, sequence, &sequence->callstack_items[index], true);
}

/* --- tables of a ProfilePacket --- */

static uint64_t iid_of(struct proto_span entry, uint32_t number)
{
    struct proto_field field;
    uint64_t iid = 0;
    while (proto_next(&entry, &field) > 0)
        if (field.number == number)
            iid = field.value;
    return iid;
}

/* Resolve all entries of these tables: the trace processor assigns ids to them even if nothing uses
 * them. */
void builder_resolve_tables(struct builder *builder, struct builder_sequence *sequence,
                            struct proto_span packet)
{
    static const struct {
        uint32_t table, iid;
    } tables[] = {{PB_PROFILE_PACKET_MAPPINGS, PB_MAPPING_IID},
                  {PB_PROFILE_PACKET_FRAMES, PB_FRAME_IID},
                  {PB_PROFILE_PACKET_CALLSTACKS, PB_CALLSTACK_IID}};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct proto_span again = packet;
        struct proto_field field;
        while (builder->error == 0 && proto_next(&again, &field) > 0) {
            if (field.number != tables[i].table || field.type != PROTO_BYTES)
                continue;
            uint64_t iid = iid_of(field.span, tables[i].iid);
            if (i == 0)
                builder_resolve_mapping(builder, sequence, iid);
            else if (i == 1)
                resolve_frame(builder, sequence, iid);
            else
                builder_resolve(builder, sequence, iid);
        }
    }
}

/* --- types and contexts --- */

static const char *const unknown = "[unknown]";

static const char *unknown_name(struct builder *builder)
{
    builder->losses.unknown_names++;
    return builder_text(builder, unknown, strlen(unknown));
}

const char *builder_resolve_type(struct builder *builder, const struct builder_sequence *sequence,
                                 uint64_t type)
{
    uint32_t text = type == 0 ? 0 : id_map_find(&sequence->heap_names, type);
    return text != ID_MAP_NONE ? builder->strings[text] : unknown_name(builder);
}

/* Join names: "main loop;parse;style". The text is cut if it is too long, or if all texts together
 * are. */
static uint32_t join_names(struct builder *builder, const struct builder_sequence *sequence,
                           const struct sequence_context *item)
{
    static const char cut[] = "[...]";
    char text[CONTEXT_BYTES_MAX];
    size_t length = 0, room = sizeof(text) - sizeof(cut);
    if (builder->context_bytes > CONTEXT_BYTES_TOTAL_MAX)
        room = 0;
    for (uint32_t i = 0; i < item->name_count; i++) {
        uint32_t name = id_map_find(&sequence->heap_names, sequence->ids[item->first_name + i]);
        const char *part = name != ID_MAP_NONE ? builder->strings[name] : unknown;
        size_t part_length = strlen(part);
        if (part_length + 1 > room - length) {
            memcpy(text + length, cut, sizeof(cut) - 1);
            length += sizeof(cut) - 1;
            break;
        }
        memcpy(text + length, part, part_length);
        length += part_length;
        if (i + 1 < item->name_count)
            text[length++] = ';';
    }
    builder->context_bytes += length;
    return builder_string(builder, text, length);
}

const char *builder_resolve_context(struct builder *builder, struct builder_sequence *sequence,
                                    uint64_t context)
{
    uint32_t index = context == 0 ? ID_MAP_NONE : id_map_find(&sequence->contexts, context);
    if (index == ID_MAP_NONE)
        return context == 0 ? builder->strings[0] : unknown_name(builder);
    struct sequence_context *item = &sequence->context_items[index];
    if (item->resolved == 0) {
        uint32_t text = join_names(builder, sequence, item);
        if (text == PROFILE_NONE)
            return builder->strings[0];
        item->resolved = text + 1;
    }
    return builder->strings[item->resolved - 1];
}
