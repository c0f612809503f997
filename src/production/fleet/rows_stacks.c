/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks and symbols as rows. A frame is a code address: build id and offset, which mean the same
 * on all machines; or, if it has no build id (generated code, interpreted functions), its name,
 * file and line. Names of frames with a build id are symbols, which are sent apart, once an
 * address.
 *
 * A profile has a frame for each inlined function. All of them have one address, so successive
 * frames of the same address are one frame here, up to a repetition: that is a recursion.
 */
#include <errno.h>
#define XXH_STATIC_LINKING_ONLY /* for a state on the stack */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "production/fleet/rows_state.h"
#include "util/array.h"

/* Arrays of the table: build_ids, modules, biases, offsets, names, files, lines. */
#define STACK_COLUMNS 7

uint64_t rows_total(struct fleet_rows *rows)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, rows->service, strlen(rows->service) + 1);
    XXH3_64bits_update(&state, rows->heap, strlen(rows->heap) + 1);
    uint64_t total = XXH3_64bits_digest(&state);
    if (!sent_add(&rows->sent, total))
        return total;
    struct fleet_body *body = &rows->bodies[FLEET_STACKS];
    put_u64(&body->bytes, total);
    put_text(&body->bytes, rows->service);
    put_text(&body->bytes, rows->heap);
    put_u8(&body->bytes, 1);
    for (int column = 0; column < STACK_COLUMNS; column++)
        proto_put_varint(&body->bytes, 0);
    put_u16(&body->bytes, (uint16_t)rows->sent.day);
    body->rows++;
    return total;
}

/* --- frames --- */

static const char *build_id_of(const struct profile *profile, const struct profile_frame *frame)
{
    return frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].build_id;
}

static const char *module_of(const struct profile *profile, const struct profile_frame *frame)
{
    return frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
}

static bool has_address(const struct profile *profile, const struct profile_frame *frame)
{
    return *build_id_of(profile, frame) != '\0';
}

/* Return the number of frames from `first` on that are functions of one address. */
static uint32_t functions_at(const struct fleet_rows *rows, const struct profile *profile,
                             size_t first, size_t count)
{
    const struct profile_frame *frame = &profile->frames[rows->frames[first]];
    uint32_t functions = 1;
    if (!has_address(profile, frame) || frame->rel_pc == 0)
        return 1;
    for (; first + functions < count && functions < FLEET_INLINED_MAX; functions++) {
        const struct profile_frame *next = &profile->frames[rows->frames[first + functions]];
        if (next->mapping != frame->mapping || next->rel_pc != frame->rel_pc)
            break;
        for (uint32_t i = 0; i < functions; i++)
            if (rows->frames[first + i] == rows->frames[first + functions])
                return functions;
    }
    return functions;
}

static void hash_text(XXH3_state_t *state, const char *text)
{
    XXH3_64bits_update(state, text, strlen(text) + 1);
}

static void hash_frame(XXH3_state_t *state, const struct profile *profile,
                       const struct profile_frame *frame)
{
    hash_text(state, build_id_of(profile, frame));
    if (has_address(profile, frame)) {
        XXH3_64bits_update(state, &frame->rel_pc, sizeof(frame->rel_pc));
        return;
    }
    hash_text(state, module_of(profile, frame));
    hash_text(state, frame->linkage_name);
    hash_text(state, frame->source_file);
    XXH3_64bits_update(state, &frame->line, sizeof(frame->line));
    if (*frame->linkage_name == '\0') /* code without a name: only its address tells it apart */
        XXH3_64bits_update(state, &frame->rel_pc, sizeof(frame->rel_pc));
}

static const char *rows_stacks_name_of(const struct profile_frame *frame)
{
    return *frame->linkage_name != '\0' ? frame->linkage_name : frame->name;
}

/* --- symbols --- */

static void put_symbol(struct fleet_rows *rows, const struct profile *profile, size_t first,
                       uint32_t count)
{
    const struct profile_frame *frame = &profile->frames[rows->frames[first]];
    if (*rows_stacks_name_of(frame) == '\0')
        return;
    const char *build_id = build_id_of(profile, frame);
    uint64_t key = XXH3_64bits_withSeed(build_id, strlen(build_id), frame->rel_pc);
    if (!sent_add(&rows->sent, key))
        return;
    struct fleet_body *body = &rows->bodies[FLEET_SYMBOLS];
    put_text(&body->bytes, build_id);
    put_u64(&body->bytes, frame->rel_pc);
    put_u8(&body->bytes, frame->line != 0 ? FLEET_SYMBOL_LINE : FLEET_SYMBOL_NAME);
    proto_put_varint(&body->bytes, count);
    for (uint32_t i = 0; i < count; i++)
        put_text(&body->bytes, rows_stacks_name_of(&profile->frames[rows->frames[first + i]]));
    proto_put_varint(&body->bytes, count);
    for (uint32_t i = 0; i < count; i++)
        put_text(&body->bytes, profile->frames[rows->frames[first + i]].source_file);
    proto_put_varint(&body->bytes, count);
    for (uint32_t i = 0; i < count; i++)
        put_u32(&body->bytes, profile->frames[rows->frames[first + i]].line);
    body->rows++;
}

/* --- stacks --- */

/* Take the frames of a callsite, and keep at rows->frames the first of each address' functions,
 * with the symbols of all. Return the number of frames, or -ENOMEM. */
static int64_t take_frames(struct fleet_rows *rows, const struct profile *profile,
                           uint32_t callsite)
{
    size_t count = 0, addresses = 0;
    for (uint32_t at = callsite; at != PROFILE_NONE && count < FLEET_FRAMES_MAX;
         at = profile->callsites[at].parent) {
        uint32_t frame = profile->callsites[at].frame;
        if (ARRAY_ADD(&rows->frames, &count, &rows->frame_capacity, frame) < 0)
            return error_set(rows->error, -ENOMEM, "no memory for a stack");
    }
    for (size_t at = 0; at < count;) {
        uint32_t functions = functions_at(rows, profile, at, count);
        if (has_address(profile, &profile->frames[rows->frames[at]]))
            put_symbol(rows, profile, at, functions);
        rows->frames[addresses++] = rows->frames[at];
        at += functions;
    }
    return (int64_t)addresses;
}

/* Write a frame's item of one of the arrays, in the order of the table's columns. */
static void put_stack_column(struct proto_buffer *to, const struct profile *profile,
                             const struct profile_frame *frame, int column)
{
    bool is_named = !has_address(profile, frame);
    switch (column) {
    case 0:
        put_text(to, build_id_of(profile, frame));
        break;
    case 1:
        put_text(to, module_of(profile, frame));
        break;
    case 2:
        put_u64(to,
                frame->mapping == PROFILE_NONE ? 0 : profile->mappings[frame->mapping].load_bias);
        break;
    case 3:
        put_u64(to, frame->rel_pc);
        break;
    case 4:
        put_text(to, is_named ? rows_stacks_name_of(frame) : "");
        break;
    case 5:
        put_text(to, is_named ? frame->source_file : "");
        break;
    default:
        put_u32(to, is_named ? frame->line : 0);
    }
}

static void put_stack(struct fleet_rows *rows, const struct profile *profile, uint64_t stack,
                      size_t count)
{
    struct fleet_body *body = &rows->bodies[FLEET_STACKS];
    struct proto_buffer *to = &body->bytes;
    put_u64(to, stack);
    put_text(to, rows->service);
    put_text(to, rows->heap);
    put_u8(to, 0);
    for (int column = 0; column < STACK_COLUMNS; column++) {
        proto_put_varint(to, count);
        for (size_t i = 0; i < count; i++)
            put_stack_column(to, profile, &profile->frames[rows->frames[i]], column);
    }
    put_u16(to, (uint16_t)rows->sent.day);
    body->rows++;
}

int rows_stack(struct fleet_rows *rows, const struct profile *profile, uint32_t callsite,
               uint64_t *stack)
{
    int64_t count = take_frames(rows, profile, callsite);
    if (count < 0)
        return (int)count;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    hash_text(&state, rows->service);
    hash_text(&state, rows->heap);
    for (int64_t i = 0; i < count; i++)
        hash_frame(&state, profile, &profile->frames[rows->frames[i]]);
    *stack = XXH3_64bits_digest(&state);
    if (sent_add(&rows->sent, *stack))
        put_stack(rows, profile, *stack, (size_t)count);
    return 0;
}
