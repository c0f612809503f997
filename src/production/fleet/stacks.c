/* SPDX-License-Identifier: Apache-2.0 */
#include "production/fleet/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/answer.h"
#include "production/fleet/tables.h"
#include "util/array.h"

/* Ids and addresses of one query: a list of 3,000 is at most 200 kB of ClickHouse's limit of
 * 256 KiB. */
#define IDS_OF_QUERY 3000u
/* Damage beyond: a stack has FLEET_FRAMES_MAX frames, and a question takes so many stacks. */
#define FRAMES_MAX (UINT64_C(1) << 25)

static int stacks_refuse(struct error *error, const char *what)
{
    return error_set(error, -EBADMSG, "the server's answer about %s is damaged", what);
}

void fleet_stacks_free(struct fleet_stacks *stacks)
{
    free(stacks->items);
    free(stacks->frames);
    free(stacks->symbols);
    free(stacks->lines);
    id_map_free(&stacks->by_id);
    intern_free(&stacks->symbol_ids);
}

const struct fleet_stack *fleet_stacks_find(const struct fleet_stacks *stacks, uint64_t id)
{
    uint32_t index = id_map_find(&stacks->by_id, id);
    return index == ID_MAP_NONE ? NULL : &stacks->items[index];
}

/* --- answers --- */

static uint32_t take_string(struct fleet_stacks *stacks, struct answer *answer)
{
    struct answer_text text = answer_text(answer);
    return text.length == 0 ? 0 : builder_string(stacks->builder, text.bytes, text.length);
}

/* Read one of the arrays of a stack into its frames. Return false if its length is another one. */
static bool take_column(struct fleet_stacks *stacks, struct answer *answer, int column,
                        size_t first, size_t count)
{
    if (answer_items(answer) != count)
        return false;
    for (size_t i = 0; i < count && !answer->is_bad; i++) {
        struct fleet_frame *frame = &stacks->frames[first + i];
        switch (column) {
        case 1:
            frame->module = take_string(stacks, answer);
            break;
        case 2:
            frame->bias = answer_u64(answer);
            break;
        case 3:
            frame->offset = answer_u64(answer);
            break;
        case 4:
            frame->name = take_string(stacks, answer);
            break;
        case 5:
            frame->file = take_string(stacks, answer);
            break;
        default:
            frame->line = answer_u32(answer);
        }
    }
    return !answer->is_bad;
}

static int take_stack(struct fleet_stacks *stacks, struct answer *answer)
{
    struct fleet_stack stack = {.id = answer_u64(answer), .first_frame = stacks->frame_count};
    stack.service = take_string(stacks, answer);
    stack.heap = take_string(stacks, answer);
    stack.is_total = answer_u8(answer) != 0;
    size_t count = answer_items(answer);
    if (answer->is_bad || count > FLEET_FRAMES_MAX || stacks->frame_count + count > FRAMES_MAX)
        return -EBADMSG;
    if (ARRAY_RESERVE(&stacks->frames, &stacks->frame_capacity, stacks->frame_count, count + 1) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        stacks->frames[stack.first_frame + i] =
            (struct fleet_frame){.build_id = take_string(stacks, answer)};
    for (int column = 1; column <= 6; column++)
        if (!take_column(stacks, answer, column, stack.first_frame, count))
            return -EBADMSG;
    if (stacks->builder->error < 0)
        return stacks->builder->error;
    if (id_map_find(&stacks->by_id, stack.id) != ID_MAP_NONE)
        return 0; /* the same, not merged yet */
    stack.frame_count = (uint32_t)count;
    stacks->frame_count += count;
    if (id_map_set(&stacks->by_id, stack.id, (uint32_t)stacks->count) < 0 ||
        ARRAY_ADD(&stacks->items, &stacks->count, &stacks->capacity, stack) < 0)
        return -ENOMEM;
    return 0;
}

int fleet_stacks_take(struct fleet_stacks *stacks, const void *bytes, size_t length,
                      struct error *error)
{
    struct answer answer = answer_begin(bytes, length);
    int code = 0;
    while (answer_has_more(&answer) && code == 0)
        code = take_stack(stacks, &answer);
    if (code == -ENOMEM)
        return error_set(error, code, "no memory for the stacks");
    return answer.is_bad || code < 0 ? stacks_refuse(error, "stacks") : 0;
}

/* The key of an address in symbol_ids. */
struct address {
    uint32_t build_id, zero;
    uint64_t offset;
};

static int take_symbol(struct fleet_stacks *stacks, struct answer *answer)
{
    const struct address address = {.build_id = take_string(stacks, answer),
                                    .offset = answer_u64(answer)};
    struct fleet_symbol symbol = {.quality = answer_u8(answer), .first_line = stacks->line_count};
    size_t count = answer_items(answer);
    if (answer->is_bad || count > FLEET_INLINED_MAX)
        return -EBADMSG;
    if (ARRAY_RESERVE(&stacks->lines, &stacks->line_capacity, stacks->line_count, count + 1) < 0)
        return -ENOMEM;
    struct fleet_line *lines = &stacks->lines[symbol.first_line];
    for (size_t i = 0; i < count; i++)
        lines[i] = (struct fleet_line){.function = take_string(stacks, answer)};
    if (answer_items(answer) != count)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++)
        lines[i].file = take_string(stacks, answer);
    if (answer_items(answer) != count)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++)
        lines[i].line = answer_u32(answer);
    if (answer->is_bad)
        return -EBADMSG;
    if (stacks->builder->error < 0)
        return stacks->builder->error;
    /* Of an address that nobody asked about, or that has better names, nothing is kept. */
    uint64_t id = intern_find(&stacks->symbol_ids, &address, sizeof(address));
    if (id == 0 || id > stacks->symbol_count || count == 0 ||
        stacks->symbols[id - 1].quality >= symbol.quality)
        return 0;
    symbol.count = (uint32_t)count;
    stacks->line_count += count;
    stacks->symbols[id - 1] = symbol;
    return 0;
}

int fleet_stacks_take_symbols(struct fleet_stacks *stacks, const void *bytes, size_t length,
                              struct error *error)
{
    struct answer answer = answer_begin(bytes, length);
    int code = 0;
    while (answer_has_more(&answer) && code == 0)
        code = take_symbol(stacks, &answer);
    if (code == -ENOMEM)
        return error_set(error, code, "no memory for the symbols");
    return answer.is_bad || code < 0 ? stacks_refuse(error, "symbols") : 0;
}

/* --- queries --- */

static int stacks_ask(struct fleet_stacks *stacks, struct clickhouse *server, const char *query,
                      int (*take)(struct fleet_stacks *, const void *, size_t, struct error *),
                      struct error *error)
{
    struct clickhouse_answer answer = {0};
    struct error problem = {0};
    int code = clickhouse_run(server, query, NULL, 0, &answer, error);
    if (code < 0)
        return code;
    code = take(stacks, answer.bytes, answer.length, &problem);
    if (code < 0)
        error_set(error, code, "query %s: %s", answer.query_id, problem.message);
    clickhouse_answer_clear(&answer);
    return code;
}

static int ask_stacks(struct fleet_stacks *stacks, struct clickhouse *server, const uint64_t *ids,
                      size_t count, struct error *error)
{
    char *query = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&query, &size);
    if (out == NULL)
        return error_set(error, -ENOMEM, "no memory");
    fprintf(out, "SELECT stack, service, heap, is_total, build_ids, modules, biases, offsets, "
                 "names, files, lines FROM stacks WHERE stack IN (");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%llu", i > 0 ? "," : "", (unsigned long long)ids[i]);
    fputs(") FORMAT RowBinary", out);
    int code = fclose(out) != 0 ? error_set(error, -ENOMEM, "no memory")
                                : stacks_ask(stacks, server, query, fleet_stacks_take, error);
    free(query);
    return code;
}

/* Give each address of the frames a place for its symbol. Return 0 or -ENOMEM. */
static int number_addresses(struct fleet_stacks *stacks, struct error *error)
{
    for (size_t i = 0; i < stacks->frame_count; i++) {
        struct fleet_frame *frame = &stacks->frames[i];
        const struct address address = {.build_id = frame->build_id, .offset = frame->offset};
        bool added = false;
        if (frame->build_id == 0)
            continue;
        uint64_t id = intern_bytes(&stacks->symbol_ids, &address, sizeof(address), &added);
        if (id == 0 || (added && ARRAY_ADD(&stacks->symbols, &stacks->symbol_count,
                                           &stacks->symbol_capacity, (struct fleet_symbol){0}) < 0))
            return error_set(error, -ENOMEM, "no memory for the symbols");
        frame->symbol = (uint32_t)id;
    }
    return 0;
}

/* Write the addresses from *at on that were not asked about before, and move *at behind them.
 * Return their number. */
static size_t put_addresses(const struct fleet_stacks *stacks, size_t *at, uint32_t *asked,
                            FILE *out)
{
    size_t count = 0;
    for (; *at < stacks->frame_count && count < IDS_OF_QUERY; ++*at) {
        const struct fleet_frame *frame = &stacks->frames[*at];
        if (frame->symbol <= *asked)
            continue;
        *asked = frame->symbol; /* addresses are numbered in the order of frames */
        /* Hexadecimal, which needs no escapes. */
        const char *id = stacks->builder->strings[frame->build_id];
        if (id[strspn(id, "0123456789abcdef")] != '\0')
            continue;
        fprintf(out, "%s('%s',%llu)", count++ > 0 ? "," : "", id,
                (unsigned long long)frame->offset);
    }
    return count;
}

static int ask_symbols(struct fleet_stacks *stacks, struct clickhouse *server, struct error *error)
{
    uint32_t asked = 0;
    int code = number_addresses(stacks, error);
    for (size_t at = 0; at < stacks->frame_count && code == 0;) {
        char *query = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&query, &size);
        if (out == NULL)
            return error_set(error, -ENOMEM, "no memory");
        fputs("SELECT build_id, offset, quality, functions, files, lines FROM symbols "
              "WHERE (build_id, offset) IN (",
              out);
        size_t count = put_addresses(stacks, &at, &asked, out);
        fputs(") FORMAT RowBinary", out);
        if (fclose(out) != 0)
            code = error_set(error, -ENOMEM, "no memory");
        else if (count > 0)
            code = stacks_ask(stacks, server, query, fleet_stacks_take_symbols, error);
        free(query);
    }
    return code;
}

int fleet_stacks_read(struct fleet_stacks *stacks, struct clickhouse *server, const uint64_t *ids,
                      size_t count, struct error *error)
{
    int code = 0;
    for (size_t at = 0; at < count && code == 0; at += IDS_OF_QUERY)
        code = ask_stacks(stacks, server, ids + at,
                          count - at < IDS_OF_QUERY ? count - at : IDS_OF_QUERY, error);
    return code < 0 ? code : ask_symbols(stacks, server, error);
}

/* --- callsites --- */

static uint32_t add_frame(struct fleet_stacks *stacks, const struct fleet_frame *frame,
                          uint32_t mapping, uint32_t parent)
{
    struct builder *builder = stacks->builder;
    const struct fleet_symbol *symbol =
        frame->symbol == 0 ? NULL : &stacks->symbols[frame->symbol - 1];
    if (symbol == NULL || symbol->count == 0) {
        uint32_t plain =
            builder_frame(builder, mapping, frame->offset, frame->name, frame->file, frame->line);
        return plain == PROFILE_NONE ? PROFILE_NONE : builder_callsite(builder, parent, plain);
    }
    for (uint32_t i = symbol->count; i-- > 0 && builder->error == 0;) {
        const struct fleet_line *line = &stacks->lines[symbol->first_line + i];
        uint32_t named =
            builder_frame(builder, mapping, frame->offset, line->function, line->file, line->line);
        if (named != PROFILE_NONE)
            parent = builder_callsite(builder, parent, named);
    }
    return parent;
}

uint32_t fleet_stacks_callsite(struct fleet_stacks *stacks, const struct fleet_stack *stack,
                               uint32_t parent)
{
    struct builder *builder = stacks->builder;
    for (uint32_t i = stack->frame_count; i-- > 0 && builder->error == 0;) {
        const struct fleet_frame *frame = &stacks->frames[stack->first_frame + i];
        uint32_t mapping = PROFILE_NONE;
        const struct profile_mapping place = {.load_bias = frame->bias};
        if (frame->module != 0 || frame->build_id != 0)
            mapping = builder_mapping(builder, &place, frame->module, frame->build_id);
        parent = add_frame(stacks, frame, mapping, parent);
    }
    return builder->error < 0 ? PROFILE_NONE : parent;
}
