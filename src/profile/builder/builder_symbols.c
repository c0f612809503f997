/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apply symbols that were found after the profile was recorded. If the compiler inlined functions,
 * one address means several frames: its callsite becomes several callsites, one inside the other.
 */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "util/array.h"

/* Limit of lines per address; compilers stay far below. Frames further out are dropped. */
#define LINES_MAX 64u

/* Limit of callsites after the expansion. If it would be exceeded, callsites keep only their
 * innermost line. */
#define CALLSITES_MAX ((size_t)1 << 26)

/* Limit of a pseudo-file's name. */
#define PSEUDO_BYTES_MAX 256u

/* --- reading --- */

static int builder_symbols_take_line(struct builder *builder, struct proto_span entry)
{
    struct builder_line line = {0};
    struct proto_field field;
    int status;
    while ((status = proto_next(&entry, &field)) > 0) {
        if (field.number == PB_LINE_FUNCTION_NAME) {
            line.name = builder_string_of_span(builder, field.span);
        } else if (field.number == PB_LINE_SOURCE_FILE_NAME) {
            line.source_file = builder_string_of_span(builder, field.span);
        } else if (field.number == PB_LINE_LINE_NUMBER) {
            line.line = (uint32_t)field.value;
            line.has_line = true;
        }
    }
    if (status < 0)
        return -EBADMSG;
    if (ARRAY_ADD(&builder->symbols.lines, &builder->symbols.line_count,
                  &builder->symbols.line_capacity, line) < 0)
        return builder_fail(builder);
    return builder->error;
}

static bool has_line(const struct builder *builder, const struct builder_symbol *symbol)
{
    for (uint32_t i = 0; i < symbol->line_count; i++)
        if (builder->symbols.lines[symbol->first_line + i].has_line)
            return true;
    return false;
}

/* Put a symbol at an address of a module; its lines are the last. */
static int put_symbol(struct builder *builder, struct builder_mapping_texts module,
                      uint64_t address, const struct builder_symbol *symbol)
{
    uint64_t key[] = {module.path, module.build_id, address};
    bool added;
    if (ARRAY_RESERVE(&builder->symbols.items, &builder->symbols.capacity, builder->symbols.count,
                      1) < 0)
        return builder_fail(builder);
    uint64_t id = intern_bytes(&builder->symbols.ids, key, sizeof(key), &added);
    if (id == 0)
        return builder_fail(builder);
    /* The last symbol of an address wins, but none without a name over one with it. */
    const struct builder_symbol *last = &builder->symbols.items[id - 1];
    bool is_less =
        !added &&
        ((last->line_count > 0 && symbol->line_count == 0) ||
         (builder->symbols.keeps_lines && has_line(builder, last) && !has_line(builder, symbol)));
    if (!is_less)
        builder->symbols.items[id - 1] = *symbol;
    builder->symbols.count += added;
    return builder_keep(builder, 1 + symbol->line_count);
}

int builder_name_frame(struct builder *builder, const struct profile_frame *frame,
                       const struct builder_line *lines, uint32_t count)
{
    struct builder_symbol symbol = {.first_line = builder->symbols.line_count,
                                    .line_count = count < LINES_MAX ? count : LINES_MAX};
    if (ARRAY_RESERVE(&builder->symbols.lines, &builder->symbols.line_capacity,
                      builder->symbols.line_count, symbol.line_count) < 0)
        return builder_fail(builder);
    memcpy(&builder->symbols.lines[symbol.first_line], lines, symbol.line_count * sizeof(*lines));
    builder->symbols.line_count += symbol.line_count;
    return put_symbol(builder, builder->mapping_texts[frame->mapping], frame->rel_pc, &symbol);
}

static int take_address(struct builder *builder, struct proto_span entry,
                        struct builder_mapping_texts module)
{
    struct builder_symbol symbol = {.first_line = builder->symbols.line_count};
    struct proto_field field;
    uint64_t address = 0;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&entry, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_ADDRESS_SYMBOLS_ADDRESS)
            address = field.value;
        if (field.number == PB_ADDRESS_SYMBOLS_KIND)
            symbol.kind = (uint32_t)field.value;
        if (field.number == PB_ADDRESS_SYMBOLS_FUNCTION_OFFSET)
            symbol.function_offset = field.value;
        if (field.number != PB_ADDRESS_SYMBOLS_LINES || symbol.line_count == LINES_MAX)
            continue;
        code = builder_symbols_take_line(builder, field.span);
        symbol.line_count++;
    }
    return code < 0 ? code : put_symbol(builder, module, address, &symbol);
}

/* Return the path in its mapping's form. A pseudo-file ("[vdso]", "[jit:7]") has a slash before it
 * in the trace processor, and none in reports. */
static uint32_t path_string(struct builder *builder, struct proto_span path)
{
    char slashed[PSEUDO_BYTES_MAX];
    size_t length = proto_length(path);
    bool as_in_trace = builder->as_in_trace;
    if (!as_in_trace && length > 1 && path.at[0] == '/' && path.at[1] == '[' &&
        memchr(path.at + 1, '/', length - 1) == NULL)
        return builder_string(builder, path.at + 1, length - 1);
    if (!as_in_trace || length == 0 || path.at[0] != '[' || length >= sizeof(slashed))
        return builder_string_of_span(builder, path);
    slashed[0] = '/';
    memcpy(slashed + 1, path.at, length);
    return builder_string(builder, slashed, length + 1);
}

int builder_module_symbols(struct builder *builder, struct proto_span module)
{
    struct proto_span again = module;
    struct proto_field field;
    uint32_t path = 0, build_id = 0;
    int status, code = 0;
    while ((status = proto_next(&module, &field)) > 0) {
        if (field.number == PB_MODULE_SYMBOLS_PATH)
            path = path_string(builder, field.span);
        else if (field.number == PB_MODULE_SYMBOLS_BUILD_ID)
            build_id = builder_hex(builder, field.span);
    }
    if (status < 0)
        return -EBADMSG;
    while (code == 0 && proto_next(&again, &field) > 0) {
        if (field.number == PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS)
            code =
                take_address(builder, field.span, (struct builder_mapping_texts){path, build_id});
    }
    return code;
}

/* --- applying --- */

static const struct builder_symbol *find_symbol(const struct builder *builder,
                                                const struct profile_frame *frame)
{
    if (frame->mapping == PROFILE_NONE || builder->symbols.count == 0)
        return NULL;
    const struct builder_mapping_texts *mapping = &builder->mapping_texts[frame->mapping];
    uint64_t key[] = {mapping->path, mapping->build_id, frame->rel_pc};
    uint64_t id = intern_find(&builder->symbols.ids, key, sizeof(key));
    const struct builder_symbol *symbol = id == 0 ? NULL : &builder->symbols.items[id - 1];
    return symbol;
}

static void set_line(struct builder *builder, size_t index, const struct builder_line *line)
{
    struct profile_frame *frame = &builder->profile->frames[index];
    if (line->name != 0) {
        builder->frame_names[index] = line->name;
        frame->linkage_name = builder->strings[line->name];
    }
    frame->source_file = builder->strings[line->source_file];
    frame->line = line->line;
}

size_t builder_copy_frame(struct builder *builder, size_t index, size_t more)
{
    struct profile *profile = builder->profile;
    size_t first = profile->frame_count;
    if (more == 0 || first + more >= PROFILE_NONE || builder_keep(builder, more) < 0)
        return 0;
    if (ARRAY_RESERVE(&profile->frames, &builder->frame_capacity, first, more) < 0 ||
        ARRAY_RESERVE(&builder->frame_names, &builder->frame_name_capacity, first, more) < 0) {
        builder_fail(builder);
        return 0;
    }
    for (size_t i = 0; i < more; i++) {
        profile->frames[first + i] = profile->frames[index];
        builder->frame_names[first + i] = 0;
        profile->frames[first + i].linkage_name = "";
    }
    profile->frame_count += more;
    return first;
}

/* Add frames for the lines outside the innermost one. Return the first of them, or 0. */
static size_t add_outer_frames(struct builder *builder, size_t index,
                               const struct builder_symbol *symbol)
{
    size_t more = symbol->line_count - 1, first = builder_copy_frame(builder, index, more);
    for (size_t i = 0; i < more && first != 0; i++)
        set_line(builder, first + i, &builder->symbols.lines[symbol->first_line + 1 + i]);
    return first;
}

static void remap_samples(struct profile *profile, const uint32_t *now)
{
    struct profile_owner *owner = (struct profile_owner *)profile;
    for (struct profile_sample_block *block = owner->samples; block != NULL; block = block->next) {
        for (size_t i = 0; i < block->count; i++)
            if (block->samples[i].callsite != PROFILE_NONE)
                block->samples[i].callsite = now[block->samples[i].callsite];
    }
    profile_remap_sites(profile, now);
}

void builder_expand_callsites(struct builder *builder, const struct builder_around *outer)
{
    struct profile *profile = builder->profile;
    size_t count = profile->callsite_count, wanted = count;
    for (size_t i = 0; i < count; i++)
        wanted += outer[profile->callsites[i].frame].count;
    if (wanted > CALLSITES_MAX)
        return;
    struct profile_callsite *callsites = reallocarray(NULL, wanted, sizeof(*callsites));
    uint32_t *now = reallocarray(NULL, count, sizeof(*now));
    if (callsites == NULL || now == NULL) {
        free(callsites);
        free(now);
        builder_fail(builder);
        return;
    }
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        const struct builder_around *around = &outer[callsite->frame];
        uint32_t parent = callsite->parent == PROFILE_NONE ? PROFILE_NONE : now[callsite->parent];
        for (uint32_t j = around->count + 1; j-- > 0;) {
            callsites[used] = (struct profile_callsite){
                .parent = parent,
                .frame = j == 0 ? callsite->frame : around->first + j - 1,
                .depth = parent == PROFILE_NONE ? 0 : callsites[parent].depth + 1,
            };
            parent = used++;
        }
        now[i] = parent;
    }
    remap_samples(profile, now);
    free(now);
    free(profile->callsites);
    profile->callsites = callsites;
    profile->callsite_count = used;
}

/* Keep the files and lines of the frames themselves. */
static void keep_own_lines(struct profile *profile)
{
    for (size_t i = 0; i < profile->frame_count; i++) {
        struct profile_frame *frame = &profile->frames[i];
        if (!frame->has_symbol)
            continue;
        size_t at = profile->symbol_line_count++;
        profile->symbol_lines[at] = (struct profile_symbol_line){
            .name = frame->linkage_name,
            .source_file = frame->source_file,
            .line = frame->line,
            .set = (uint32_t)at,
            .has_line = frame->has_line,
        };
        frame->symbol_first = (uint32_t)at;
        frame->symbol_count = 1;
    }
}

static void keep_lines(struct builder *builder, const struct builder_symbol *symbol)
{
    struct profile *profile = builder->profile;
    size_t set = profile->symbol_line_count;
    for (uint32_t i = 0; i < symbol->line_count; i++) {
        const struct builder_line *line = &builder->symbols.lines[symbol->first_line + i];
        profile->symbol_lines[profile->symbol_line_count++] = (struct profile_symbol_line){
            .name = builder->strings[line->name],
            .source_file = builder->strings[line->source_file],
            .line = line->line,
            .set = (uint32_t)set,
            .has_line = line->has_line && line->source_file != 0,
        };
    }
}

/* Store the lines of all addresses of frames, in the trace's order, in profile.symbol_lines. */
static void keep_symbols(struct builder *builder)
{
    struct profile *profile = builder->profile;
    uint32_t *first =
        calloc(builder->symbols.count + 1, sizeof(*first)); /* index + 1; 0: not needed */
    size_t count = profile->frame_count; /* at most one line per frame of its own */
    if (first == NULL) {
        builder_fail(builder);
        return;
    }
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct builder_symbol *symbol = find_symbol(builder, &profile->frames[i]);
        if (symbol != NULL && symbol->line_count > 0 &&
            first[symbol - builder->symbols.items]++ == 0)
            count += symbol->line_count;
    }
    profile->symbol_lines = calloc(count + 1, sizeof(*profile->symbol_lines));
    if (profile->symbol_lines == NULL || count >= PROFILE_NONE) {
        builder_fail(builder);
        goto out;
    }
    builder->symbols.kept_line_capacity = count + 1;
    keep_own_lines(profile);
    for (size_t i = 0; i < builder->symbols.count; i++) {
        size_t set = profile->symbol_line_count;
        if (first[i] != 0)
            keep_lines(builder, &builder->symbols.items[i]);
        first[i] = (uint32_t)set;
    }
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct builder_symbol *symbol = find_symbol(builder, &profile->frames[i]);
        if (symbol == NULL || symbol->line_count == 0)
            continue;
        profile->frames[i].symbol_first = first[symbol - builder->symbols.items];
        profile->frames[i].symbol_count = symbol->line_count;
    }
out:
    free(first);
}

void builder_apply_symbols(struct builder *builder)
{
    struct profile *profile = builder->profile;
    size_t frames = profile->frame_count, expanded = 0;
    struct builder_around *outer =
        builder->symbols.count > 0 ? calloc(frames + 1, sizeof(*outer)) : NULL;
    if (builder->as_in_trace && builder->error == 0)
        keep_symbols(builder);
    if (builder->symbols.count == 0 || builder->as_in_trace || builder->error < 0)
        goto out;
    if (outer == NULL) {
        builder_fail(builder);
        goto out;
    }
    for (size_t i = 0; i < frames; i++) {
        const struct builder_symbol *symbol = find_symbol(builder, &profile->frames[i]);
        if (symbol != NULL && symbol->function_offset <= profile->frames[i].rel_pc)
            profile->frames[i].function_start -= symbol->function_offset;
        if (symbol == NULL || symbol->line_count == 0)
            continue;
        set_line(builder, i, &builder->symbols.lines[symbol->first_line]);
        if (symbol->kind != 0)
            profile->frames[i].kind = symbol->kind;
        size_t first = add_outer_frames(builder, i, symbol);
        if (first != 0)
            outer[i] = (struct builder_around){(uint32_t)first, symbol->line_count - 1};
        expanded += first != 0;
    }
    if (expanded > 0 && builder->error == 0)
        builder_expand_callsites(builder, outer);
out:
    free(outer);
}
