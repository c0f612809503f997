/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory regions of a process, one set for each dump. They show the file of an address, and the
 * position in the file.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_REGIONS_H
#define HEAPPROFD_PROFILE_IMPORT_MEMORY_INFRA_REGIONS_H

#include "profile/builder/builder.h"
#include "profile/memory_infra/read.h"

struct region_set {
    struct region {
        uint64_t start, end;
        uint64_t offset;         /* address in the file of the region's start */
        uint64_t load_bias;      /* the part of it that is no offset in the file */
        uint32_t file, build_id; /* strings of the builder */
        uint32_t mapping;        /* of the builder; PROFILE_NONE: not made yet */
        bool has_offset, executable;
    } * items;
    size_t count, capacity;
    uint64_t resident_bytes;
    uint64_t code; /* a hash of the regions of files, on which names of addresses depend */
};

/* Return 0 or -ENOMEM. */
int region_set_add(struct region_set *set, struct builder *builder,
                   const struct memory_infra_region *region);
/* Call this when all regions are added. Sort them, find missing offsets, and make mappings of files
 * with code. If regions overlap, keep the first. Return 0 or -ENOMEM. */
int region_set_finish(struct region_set *set, struct builder *builder);
/* Return the mapping with the address, and its position in the file; PROFILE_NONE: none. Set
 * *has_memory if there is memory, of a file or not. */
uint32_t region_set_find(struct region_set *set, struct builder *builder, uint64_t address,
                         uint64_t *rel_pc, bool *has_memory);
void region_set_free(struct region_set *set);

#endif
