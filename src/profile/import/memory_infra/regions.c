/* SPDX-License-Identifier: Apache-2.0 */
/* Sort a dump's regions, complete their offsets, and find addresses in them (regions.h). */
#include "profile/import/memory_infra/regions.h"

#include <stdlib.h>

#include "util/array.h"
#include "util/keyed_hash.h"
#include "util/sorted_search.h"

#define PROTECTION_EXECUTE 1u

int region_set_add(struct region_set *set, struct builder *builder,
                   const struct memory_infra_region *region)
{
    if (region->size == 0 || region->start + region->size < region->start)
        return 0;
    if (ARRAY_RESERVE(&set->items, &set->capacity, set->count, 1) < 0)
        return builder_fail(builder);
    set->items[set->count++] = (struct region){
        .start = region->start,
        .end = region->start + region->size,
        .offset = region->file_offset,
        .load_bias = region->load_bias,
        .file = builder_string(builder, region->file.at, region->file.length),
        .build_id = builder_string(builder, region->build_id.at, region->build_id.length),
        .mapping = PROFILE_NONE,
        .has_offset = region->has_file_offset,
        .executable = (region->protection & PROTECTION_EXECUTE) != 0,
    };
    set->resident_bytes +=
        region->private_clean + region->private_dirty + region->shared_clean + region->shared_dirty;
    return builder->error;
}

static int compare_regions(const void *left_pointer, const void *right_pointer)
{
    const struct region *left = left_pointer, *right = right_pointer;
    return left->start < right->start ? -1 : left->start > right->start;
}

static void drop_overlapping(struct region_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++)
        if (kept == 0 || set->items[i].start >= set->items[kept - 1].end)
            set->items[kept++] = set->items[i];
    set->count = kept;
}

/* Chrome leaves offsets out: assume that a file's first region is its beginning, which is right if
 * the file is mapped in one piece. Where offsets are addresses, that of its beginning is the load
 * bias; if it is code, it need not be the beginning. */
static int find_offsets(struct region_set *set, struct builder *builder)
{
    struct id_map first = {0};
    int code = 0;
    for (size_t i = 0; i < set->count && code == 0; i++) {
        struct region *region = &set->items[i];
        uint32_t begins = id_map_find(&first, region->file);
        if (begins == ID_MAP_NONE)
            code = id_map_set(&first, region->file, (uint32_t)i);
        else if (!region->has_offset && region->file != 0)
            region->offset = region->start - set->items[begins].start;
        else if (region->has_offset && region->load_bias == 0 && !set->items[begins].executable &&
                 set->items[begins].offset <= region->offset)
            region->load_bias = set->items[begins].offset;
    }
    id_map_free(&first);
    return code < 0 ? builder_fail(builder) : 0;
}

static uint32_t mapping_of(struct builder *builder, struct region *region)
{
    if (region->mapping != PROFILE_NONE)
        return region->mapping;
    struct profile_mapping mapping = {
        .start = region->start,
        .end = region->end,
        .exact_offset = region->offset - region->load_bias,
        .load_bias = region->load_bias,
    };
    region->mapping = builder_mapping(builder, &mapping, region->file, region->build_id);
    return region->mapping;
}

int region_set_finish(struct region_set *set, struct builder *builder)
{
    if (set->count > 1)
        qsort(set->items, set->count, sizeof(*set->items), compare_regions);
    drop_overlapping(set);
    if (find_offsets(set, builder) < 0)
        return builder->error;
    set->code = 1; /* 0 is the hash without regions */
    for (size_t i = 0; i < set->count; i++) {
        struct region *region = &set->items[i];
        if (region->file == 0)
            continue;
        const uint64_t parts[] = {region->start, region->end, region->offset, region->file,
                                  region->build_id};
        for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]); j++)
            set->code = keyed_hash(set->code ^ parts[j]);
        if (region->executable)
            mapping_of(builder, region);
    }
    return builder->error;
}

uint32_t region_set_find(struct region_set *set, struct builder *builder, uint64_t address,
                         uint64_t *rel_pc, bool *has_memory)
{
    size_t after = SORTED_SEARCH(set->count, i, set->items[i].start <= address);
    if (after == 0 || address >= set->items[after - 1].end)
        return PROFILE_NONE;
    struct region *region = &set->items[after - 1];
    *has_memory = true;
    if (region->file == 0)
        return PROFILE_NONE;
    *rel_pc = address - region->start + region->offset;
    return mapping_of(builder, region);
}

void region_set_free(struct region_set *set)
{
    free(set->items);
}
