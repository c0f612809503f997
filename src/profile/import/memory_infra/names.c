/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find names for the addresses of all frames, once the heaps are made (state.h). The file of a
 * module decides where its code is: Chrome writes no `fo`, some writers set it to the offset in the
 * file, and others to the address in it.
 */
#include <stdlib.h>

#include "profile/import/local_names.h"
#include "profile/import/memory_infra/state.h"
#include "profile/symbols/elf_image.h"

#define PAGE_BYTES UINT64_C(4096)

/* A mapping of the profile. */
struct named_mapping {
    bool is_placed; /* the others are set */
    uint32_t module;
    uint64_t shift; /* to add to addresses in the file */
};

/* --- positions in files --- */

static uint64_t page_of(uint64_t address)
{
    return address - address % PAGE_BYTES;
}

/* Rate a load bias: 2, the mapping begins at a segment of code; 1, it has some; 0, none. */
static int fit_of(const struct elf_image *image, const struct profile_mapping *mapping,
                  uint64_t bias)
{
    uint64_t start = mapping->start - bias, end = mapping->end - bias;
    int fit = 0;
    for (size_t i = 0; i < image->code_count; i++) {
        const struct elf_segment *segment = &image->code[i];
        if (page_of(segment->start) == start)
            return 2;
        if (start < segment->end && segment->start < end)
            fit = 1;
    }
    return fit;
}

struct bias_choice {
    const struct elf_image *image;
    const struct profile_mapping *mapping;
    uint64_t bias;
    int fit;
};

static void try_bias(struct bias_choice *choice, uint64_t bias)
{
    int fit = fit_of(choice->image, choice->mapping, bias);
    if (fit <= choice->fit)
        return;
    choice->fit = fit;
    choice->bias = bias;
}

/* Return what is to be taken from addresses in memory for those in the file. */
static uint64_t bias_of(const struct elf_image *image, const struct profile_mapping *mapping)
{
    uint64_t offset = mapping->exact_offset + mapping->load_bias;
    struct bias_choice choice = {image, mapping, .fit = -1};
    if (image->is_fixed)
        return 0;
    try_bias(&choice, mapping->start - offset);
    try_bias(&choice, mapping->start - offset - image->base);
    for (size_t i = 0; i < image->code_count; i++) {
        const struct elf_segment *segment = &image->code[i];
        uint64_t first = page_of(segment->start);
        uint64_t size = page_of(segment->end + PAGE_BYTES - 1) - first;
        if (mapping->end - mapping->start == size || offset == page_of(segment->offset))
            try_bias(&choice, mapping->start - first);
    }
    return choice.bias;
}

static void place_mapping(struct local_names *names, struct profile_mapping *mapping,
                          struct named_mapping *named)
{
    named->is_placed = true;
    named->module = PROFILE_NONE;
    if (!import_is_file(mapping->path))
        return;
    named->module = local_names_module(names, mapping->path, mapping->build_id, mapping->load_bias);
    const struct elf_image *image = local_names_image(names, named->module);
    if (image == NULL)
        return;
    uint64_t offset = mapping->start - bias_of(image, mapping);
    named->shift = offset - mapping->exact_offset - mapping->load_bias;
    if (image->has_code)
        mapping->load_bias = image->load_bias;
    mapping->exact_offset = offset - mapping->load_bias;
}

/* --- names --- */

static bool needs_name(const struct profile_frame *frame)
{
    return frame->mapping != PROFILE_NONE && *frame->linkage_name == '\0';
}

static void add_addresses(struct builder *builder, struct local_names *names,
                          struct named_mapping *mappings)
{
    struct profile *profile = builder->profile;
    for (size_t i = 0; i < profile->frame_count && builder->error == 0; i++) {
        struct profile_frame *frame = &profile->frames[i];
        if (!needs_name(frame))
            continue;
        struct named_mapping *mapping = &mappings[frame->mapping];
        if (!mapping->is_placed)
            place_mapping(names, &profile->mappings[frame->mapping], mapping);
        frame->rel_pc += mapping->shift;
        frame->function_start = frame->rel_pc;
        if (local_names_add(names, mapping->module, frame->rel_pc) < 0)
            builder_fail(builder);
    }
}

static void name_frames(struct builder *builder, const struct local_names *names,
                        const struct named_mapping *mappings)
{
    const struct profile *profile = builder->profile;
    for (size_t i = 0; i < profile->frame_count && builder->error == 0; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        uint32_t count;
        if (!needs_name(frame))
            continue;
        const struct builder_line *lines =
            local_names_of(names, mappings[frame->mapping].module, frame->rel_pc, &count);
        if (lines != NULL)
            builder_name_frame(builder, frame, lines, count);
    }
}

int import_find_names(struct builder *builder, struct import_naming *naming)
{
    struct local_names *names = local_names_new(builder, naming);
    struct named_mapping *mappings = calloc(builder->profile->mapping_count + 1, sizeof(*mappings));
    if (names == NULL || mappings == NULL) {
        builder_fail(builder);
    } else {
        add_addresses(builder, names, mappings);
        if (builder->error == 0 && local_names_find(names) == 0)
            name_frames(builder, names, mappings);
    }
    free(mappings);
    local_names_free(names);
    return builder->error;
}
