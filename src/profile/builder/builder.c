/* SPDX-License-Identifier: Apache-2.0 */
/* Create and finish the builder, and fill the tables of the profile. */
#include "profile/builder/builder_deobfuscation.h"
#include "profile/builder/builder_stack_samples.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "profile/symbols/demangle.h"
#include "trace/frame_kind.h"
#include "trace/read/trace_source.h"
#include "util/array.h"
#include "util/hex.h"

#define HEX_BYTES_MAX 64u
#define CHUNK_BYTES (256u * 1024u)
#define WARNING_BYTES_MAX 1800u
#define SAMPLE_BLOCK 500u
#define CHECKED_STEPS (1u << 20)
#define CHECKED_ITEMS 512u /* about 1 MB of items; a check of the process's memory takes 2 us */

int builder_fail(struct builder *builder)
{
    if (builder->error == 0)
        builder->error = -ENOMEM;
    return builder->error;
}

int builder_keep(struct builder *builder, size_t count)
{
    builder->unchecked += count < CHECKED_ITEMS ? (uint32_t)count : CHECKED_ITEMS;
    if (builder->unchecked >= CHECKED_ITEMS && builder->check != NULL && builder->error == 0) {
        builder->unchecked = 0;
        builder->error = builder->check(builder->check_context);
    }
    return builder->error;
}

struct builder *builder_new(const struct profile_read_options *options)
{
    struct builder *builder = calloc(1, sizeof(*builder));
    if (builder == NULL)
        return NULL;
    builder->owner = calloc(1, sizeof(*builder->owner));
    if (builder->owner == NULL) {
        free(builder);
        return NULL;
    }
    builder->demangling = options->demangling;
    builder->as_in_trace = options->as_in_trace;
    builder->source = options->source;
    builder->profile = &builder->owner->profile;
    builder->profile->warning = "";
    builder->profile->filter = "";
    builder_string(builder, "", 0);
    if (builder->error < 0) {
        builder_abandon(builder);
        return NULL;
    }
    return builder;
}

/* Free what only packets need. */
static void free_sequences(struct builder *builder)
{
    for (size_t i = 0; i < builder->sequence_count; i++)
        sequence_free(&builder->sequences[i]);
    free(builder->sequences);
    if (builder->spare != NULL)
        pending_free(builder->spare);
    free(builder->spare);
    builder->spare = NULL;
    free(builder->scratch.places);
    free(builder->scratch.parts);
    builder_counters_free(&builder->counters);
    builder->sequences = NULL;
    builder->sequence_count = builder->scratch.place_count = builder->scratch.part_capacity = 0;
    builder->scratch.places = NULL;
    builder->scratch.parts = NULL;
    builder->counters = (struct builder_counters){0};
}

static void free_all_but_profile(struct builder *builder)
{
    free_sequences(builder);
    intern_free(&builder->string_ids);
    intern_free(&builder->mapping_ids);
    intern_free(&builder->frame_ids);
    id_map_free(&builder->callsite_ids);
    free(builder->first_child);
    intern_free(&builder->symbols.ids);
    intern_free(&builder->heap_ids);
    id_map_free(&builder->newest_heaps);
    id_map_free(&builder->processes);
    id_map_free(&builder->threads);
    id_map_free(&builder->sequence_ids);
    id_map_free(&builder->default_clocks);
    free(builder->strings);
    free(builder->frame_names);
    free(builder->mapping_texts);
    free(builder->timeline_capacities);
    free(builder->dump_capacities);
    for (size_t i = 0; i < builder->heap_count; i++)
        free(builder->heaps[i].callsites);
    free(builder->heaps);
    free(builder->symbols.items);
    free(builder->symbols.lines);
    builder_deobfuscation_free(builder->deobfuscation);
    builder_clocks_free(&builder->clocks);
    builder_stack_free(builder->stack_samples);
    builder_mentions_free(&builder->mentions);
    builder_tracks_free(&builder->tracks);
    id_map_free(&builder->packages);
    free(builder);
}

void builder_abandon(struct builder *builder)
{
    profile_free(builder->profile);
    free_all_but_profile(builder);
}

/* --- strings --- */

static char *take_chars(struct builder *builder, size_t length)
{
    if (length > builder->chunk_left) {
        size_t size = length > CHUNK_BYTES ? length : CHUNK_BYTES;
        struct profile_chunk *chunk = malloc(sizeof(*chunk) + size);
        if (chunk == NULL)
            return NULL;
        chunk->next = builder->owner->chunks;
        builder->owner->chunks = chunk;
        builder->chunk_at = chunk->bytes;
        builder->chunk_left = size;
    }
    char *taken = builder->chunk_at;
    builder->chunk_at += length;
    builder->chunk_left -= length;
    return taken;
}

void *builder_memory(struct builder *builder, size_t bytes)
{
    size_t aside = -(uintptr_t)builder->chunk_at % sizeof(max_align_t);
    if (aside < builder->chunk_left) {
        builder->chunk_at += aside;
        builder->chunk_left -= aside;
    } else {
        builder->chunk_left = 0; /* a new chunk is aligned */
    }
    void *taken = take_chars(builder, bytes);
    if (taken == NULL)
        builder_fail(builder);
    return taken;
}

/* Add a block of samples, of which `count` are in use. Return 0 or -ENOMEM; after an error the
 * caller still owns the samples. */
static int add_samples(struct builder *builder, struct profile_sample *samples, size_t count,
                       size_t capacity)
{
    struct profile_sample_block *block = malloc(sizeof(*block));
    if (samples == NULL || block == NULL) {
        free(block);
        return builder_fail(builder);
    }
    *block = (struct profile_sample_block){builder->owner->samples, samples, count, capacity};
    builder->owner->samples = block;
    return 0;
}

struct profile_sample *builder_sample(struct builder *builder)
{
    struct profile_sample_block *block = builder->owner->samples;
    if (block == NULL || block->count == block->capacity) {
        struct profile_sample *samples = reallocarray(NULL, SAMPLE_BLOCK, sizeof(*samples));
        if (add_samples(builder, samples, 0, SAMPLE_BLOCK) < 0) {
            free(samples);
            return NULL;
        }
        block = builder->owner->samples;
    }
    return &block->samples[block->count++];
}

int builder_take_over(struct builder *builder, struct profile_sample *samples, size_t count)
{
    return add_samples(builder, samples, count, count) < 0 ? builder_fail(builder) : 0;
}

uint32_t builder_string(struct builder *builder, const void *bytes, size_t length)
{
    bool added;
    /* Readers of the profile would not see what follows a zero byte. */
    const void *zero = length == 0 ? NULL : memchr(bytes, 0, length);
    if (zero != NULL)
        length = (size_t)((const char *)zero - (const char *)bytes);
    if (ARRAY_RESERVE(&builder->strings, &builder->string_capacity, builder->string_count, 1) < 0) {
        builder_fail(builder);
        return 0;
    }
    uint64_t id = intern_bytes(&builder->string_ids, bytes, length, &added);
    if (id == 0) {
        builder_fail(builder);
        return 0;
    }
    if (added) {
        char *copy = take_chars(builder, length + 1);
        if (copy == NULL) {
            builder_fail(builder);
            builder->strings[builder->string_count++] = "";
            return 0;
        }
        if (length > 0)
            memcpy(copy, bytes, length);
        copy[length] = '\0';
        builder->strings[builder->string_count++] = copy;
    }
    return (uint32_t)(id - 1);
}

uint32_t builder_string_of_span(struct builder *builder, struct proto_span span)
{
    return builder_string(builder, span.at, proto_length(span));
}

const char *builder_text(struct builder *builder, const void *bytes, size_t length)
{
    uint32_t index = builder_string(builder, bytes, length);
    return builder->strings[index];
}

const char *builder_text_of_span(struct builder *builder, struct proto_span span)
{
    return builder_text(builder, span.at, proto_length(span));
}

void builder_store(struct builder *builder, const struct proto_member *members, size_t count,
                   const struct proto_field *field, void *into)
{
    const struct proto_member *member = proto_member_of(members, count, field->number);
    if (member != NULL && member->conversion == PROTO_TO_TEXT)
        *(const char **)((char *)into + member->offset) =
            builder_text_of_span(builder, field->span);
    else
        proto_store_as(member, field, into);
}

int builder_read_members(struct builder *builder, const struct proto_member *members, size_t count,
                         struct proto_span message, void *into)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0)
        builder_store(builder, members, count, &field, into);
    return status < 0 ? -EBADMSG : builder->error;
}

uint32_t builder_hex(struct builder *builder, struct proto_span span)
{
    char hex[2 * HEX_BYTES_MAX + 1];
    size_t count = proto_length(span) < HEX_BYTES_MAX ? proto_length(span) : HEX_BYTES_MAX;
    hex_write(span.at, count, hex);
    return builder_string(builder, hex, 2 * count);
}

uint32_t builder_build_id(struct builder *builder, const char *text, size_t length)
{
    char lower[2 * HEX_BYTES_MAX];
    if (length % 2 != 0 || length > sizeof(lower))
        return 0;
    for (size_t i = 0; i < length; i++) {
        if (hex_digit(text[i]) > 15)
            return 0;
        lower[i] = (char)tolower((unsigned char)text[i]);
    }
    return builder_string(builder, lower, length);
}

/* --- mappings, frames, callsites --- */

uint32_t builder_mapping(struct builder *builder, const struct profile_mapping *mapping,
                         uint32_t path, uint32_t build_id)
{
    static const struct builder_mapping_scope shared;
    return builder_mapping_of(builder, mapping, path, build_id, &shared);
}

uint32_t builder_mapping_of(struct builder *builder, const struct profile_mapping *mapping,
                            uint32_t path, uint32_t build_id,
                            const struct builder_mapping_scope *scope)
{
    struct profile *profile = builder->profile;
    uint64_t key[] = {path,
                      build_id,
                      mapping->start,
                      mapping->end,
                      mapping->exact_offset,
                      mapping->load_bias,
                      mapping->start_offset,
                      scope->process,
                      scope->item};
    bool added;
    uint64_t id = intern_bytes(&builder->mapping_ids, key, sizeof(key), &added);
    if (id != 0 && !added)
        return (uint32_t)(id - 1);
    size_t used = profile->mapping_count;
    if (id == 0 || ARRAY_RESERVE(&profile->mappings, &builder->mapping_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&builder->mapping_texts, &builder->mapping_text_capacity, used, 1) < 0) {
        builder_fail(builder);
        return PROFILE_NONE;
    }
    profile->mappings[used] = *mapping;
    profile->mappings[used].path = builder->strings[path];
    profile->mappings[used].build_id = builder->strings[build_id];
    builder->mapping_texts[used] = (struct builder_mapping_texts){path, build_id};
    profile->mapping_count++;
    return (uint32_t)used;
}

uint32_t builder_frame_of(struct builder *builder, const struct builder_frame_key *frame)
{
    struct profile *profile = builder->profile;
    bool has_lines = !frame->is_without_lines;
    uint64_t key[] = {frame->mapping,
                      frame->rel_pc,
                      frame->name,
                      frame->is_unnamed,
                      has_lines ? frame->source_file : 0,
                      has_lines ? frame->line : 0};
    bool added;
    uint64_t id = intern_bytes(&builder->frame_ids, key, sizeof(key), &added);
    if (id != 0 && !added)
        return (uint32_t)(id - 1);
    size_t used = profile->frame_count;
    if (id == 0 || ARRAY_RESERVE(&profile->frames, &builder->frame_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&builder->frame_names, &builder->frame_name_capacity, used, 1) < 0) {
        builder_fail(builder);
        return PROFILE_NONE;
    }
    profile->frames[used] = (struct profile_frame){
        .name = builder->strings[frame->name],
        .linkage_name = builder->strings[frame->name],
        .obfuscated_name = "",
        .source_file = builder->strings[frame->source_file],
        .line = frame->line,
        .mapping = frame->mapping,
        .rel_pc = frame->rel_pc,
        .function_start = frame->rel_pc,
        .kind_name = "",
        .is_unnamed = frame->is_unnamed,
        .has_line = frame->has_line,
        .has_symbol = frame->has_symbol,
    };
    builder->frame_names[used] = frame->name;
    profile->frame_count++;
    return (uint32_t)used;
}

uint32_t builder_frame(struct builder *builder, uint32_t mapping, uint64_t rel_pc, uint32_t name,
                       uint32_t source_file, uint32_t line)
{
    struct builder_frame_key key = {.mapping = mapping,
                                    .rel_pc = rel_pc,
                                    .name = name,
                                    .source_file = source_file,
                                    .line = line,
                                    .is_unnamed = name == 0};
    uint32_t frame = builder_frame_of(builder, &key);
    /* Other formats than traces have no kinds of frames. */
    if (frame != PROFILE_NONE && mapping != PROFILE_NONE &&
        interpreter_frames_are_in(builder->profile->mappings[mapping].path))
        builder->profile->frames[frame].kind = TRACE_FRAME_INTERPRETED;
    return frame;
}

/* Count a frame of a stack. */
static void count_step(struct builder *builder)
{
    if (++builder->steps % CHECKED_STEPS == 0 && builder->source != NULL && builder->error == 0 &&
        !trace_source_allows_frames(builder->source, builder->steps))
        builder->error = -EFBIG;
}

uint32_t builder_callsite(struct builder *builder, uint32_t parent, uint32_t frame)
{
    struct profile *profile = builder->profile;
    uint64_t key = (uint64_t)parent << 32 | frame;
    count_step(builder);
    uint32_t first = parent == PROFILE_NONE ? PROFILE_NONE : builder->first_child[parent];
    if (first != PROFILE_NONE && profile->callsites[first].frame == frame)
        return first;
    bool is_first = first == PROFILE_NONE && parent != PROFILE_NONE;
    uint32_t known = is_first ? ID_MAP_NONE : id_map_find(&builder->callsite_ids, key);
    if (known != ID_MAP_NONE)
        return known;
    size_t used = profile->callsite_count;
    if (used >= PROFILE_NONE - 1 ||
        ARRAY_RESERVE(&profile->callsites, &builder->callsite_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&builder->first_child, &builder->first_child_capacity, used, 1) < 0 ||
        (!is_first && id_map_set(&builder->callsite_ids, key, (uint32_t)used) < 0)) {
        builder_fail(builder);
        return PROFILE_NONE;
    }
    builder->first_child[used] = PROFILE_NONE;
    if (is_first)
        builder->first_child[parent] = (uint32_t)used;
    profile->callsites[used] = (struct profile_callsite){
        .parent = parent,
        .frame = frame,
        .depth = parent == PROFILE_NONE ? 0 : profile->callsites[parent].depth + 1,
    };
    profile->callsite_count++;
    builder_keep(builder, 1);
    return (uint32_t)used;
}

/* --- the end --- */

/* Demangle each name once, however many frames have it. */
static void demangle_names(struct builder *builder)
{
    struct profile *profile = builder->profile;
    size_t count = builder->string_count;
    const char **demangled = calloc(count, sizeof(*demangled));
    if (demangled == NULL) {
        builder_fail(builder);
        return;
    }
    for (size_t i = 0; i < profile->frame_count; i++) {
        uint32_t name = builder->frame_names[i];
        if (demangled[name] == NULL) {
            char *plain =
                name == 0 ? NULL : demangle_name_as(builder->strings[name], builder->demangling);
            demangled[name] = builder->strings[name];
            if (plain != NULL && strcmp(plain, demangled[name]) != 0)
                demangled[name] = builder_text(builder, plain, strlen(plain));
            free(plain);
        }
        profile->frames[i].name = demangled[name];
    }
    free(demangled);
}

/* Write what the tracing service has lost of the heap profiles. Return the length. */
static size_t say_service_losses(const struct builder *builder, char *text, size_t room)
{
    struct builder_buffer losses = builder_service_losses(builder);
    if (losses.overwritten + losses.discarded + losses.lost == 0)
        return 0;
    return (size_t)snprintf(text, room,
                            "the tracing service lost data of the buffer with the heap profile "
                            "(%llu chunks overwritten, %llu discarded, %llu packets): processes "
                            "and dumps may be missing; ",
                            (unsigned long long)losses.overwritten,
                            (unsigned long long)losses.discarded, (unsigned long long)losses.lost);
}

/* Write why a session of the tracing service has no dump, although heapprofd gives no reason.
 * Return the length. */
static size_t say_missing_dumps(const struct builder *builder, char *text, size_t room)
{
    const struct builder_service *service = &builder->service;
    size_t at = 0;
    if (builder->profile->heap_count > 0 || service->heap_buffers == 0)
        return 0;
    if (builder->losses.dropped > 0)
        at = (size_t)snprintf(text, room,
                              "packets were dropped in %llu places (previous_packet_dropped), "
                              "perhaps those of the heap profile; ",
                              (unsigned long long)builder->losses.dropped);
    if (service->has_ended && builder->profile->unprofiled_count == 0)
        at += (size_t)snprintf(text + at, room - at,
                               "no dump arrived in the %u ms that the tracing service waited for "
                               "the last ones: give a longer data_source_stop_timeout_ms, or see "
                               "whether heapprofd is connected to it (heapprofd --producer); ",
                               service->stop_timeout_ms);
    return at;
}

static void say_warning(struct builder *builder, const char *problem, bool unfinished)
{
    char text[WARNING_BYTES_MAX] = "";
    size_t at = 0;
    if (problem != NULL)
        at += (size_t)snprintf(text, sizeof(text), "%.500s; ", problem);
    if (unfinished)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "the last dump is incomplete, its figures are too low; ");
    if (builder->losses.missing_packets > 0)
        at +=
            (size_t)snprintf(text + at, sizeof(text) - at, "%llu packets of samples are missing; ",
                             (unsigned long long)builder->losses.missing_packets);
    at += say_service_losses(builder, text + at, sizeof(text) - at);
    at += say_missing_dumps(builder, text + at, sizeof(text) - at);
    if (builder->losses.frames_over_limit > 0)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "%llu frames kept the names that they had: the deobfuscation maps "
                               "have too many packages, or too long names; ",
                               (unsigned long long)builder->losses.frames_over_limit);
    if (builder->losses.crowded_packets > 0)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "%llu packets were skipped: more than %u sequences; ",
                               (unsigned long long)builder->losses.crowded_packets, SEQUENCES_MAX);
    if (builder->losses.damaged_packets > 0)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%llu damaged packets were skipped; ",
                               (unsigned long long)builder->losses.damaged_packets);
    if (builder->losses.missing_frames > 0)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "%llu references to frames that the trace does not have; ",
                               (unsigned long long)builder->losses.missing_frames);
    if (builder->losses.missing_contexts > 0)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "%llu references of stack samples to tasks or counters that the "
                               "trace does not have; ",
                               (unsigned long long)builder->losses.missing_contexts);
    if (at > 0)
        builder->profile->warning = builder_text(builder, text, at - 2);
}

struct profile *builder_finish(struct builder *builder, const char *problem)
{
    bool unfinished = builder_commit_rest(builder);
    builder_stack_finish(builder);
    free_sequences(builder); /* before the names take memory */
    builder_apply_clocks(builder);
    builder_tracks_order(builder);
    builder_stack_rows_finish(builder);
    builder_finish_streams(builder);
    builder_apply_symbols(builder);
    if (!builder->as_in_trace)
        demangle_names(builder);
    builder_apply_deobfuscation(builder);
    say_warning(builder, problem, unfinished);
    struct profile *profile = builder->profile;
    profile->missing_packets = builder->losses.missing_packets;
    profile->ends_early = problem != NULL;
    profile->damaged_packets = builder->losses.damaged_packets;
    profile->unfinished_dumps = unfinished;
    if (builder->error < 0) {
        builder_abandon(builder);
        return NULL;
    }
    free_all_but_profile(builder);
    return profile;
}

struct profile *builder_end(struct builder *builder, int *code, const char *problem)
{
    struct profile *profile = *code == 0 ? builder_finish(builder, problem) : NULL;
    if (*code == 0 && profile == NULL)
        *code = -ENOMEM;
    else if (*code < 0 && builder != NULL)
        builder_abandon(builder);
    return profile;
}
