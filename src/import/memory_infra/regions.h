/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory regions of a process, one set for each dump: which file an address is in, and where in
 * the file.
 */
#ifndef HEAPPROFD_IMPORT_MEMORY_INFRA_REGIONS_H
#define HEAPPROFD_IMPORT_MEMORY_INFRA_REGIONS_H

#include "memory_infra/read.h"
#include "profile/builder/builder.h"

struct region_set {
    struct region {
        uint64_t start, end;
        uint64_t offset, load_bias; /* of start: the first is the virtual address in the file */
        uint32_t file, build_id;    /* strings of the builder */
        uint32_t mapping;           /* of the builder; PROFILE_NONE: not yet made */
        bool has_offset, executable;
    } * items;
    size_t count, capacity;
    uint64_t resident_bytes;
    uint64_t code; /* a hash of what addresses depend on; of regions of files */
};

/* 0 or -ENOMEM. */
int region_set_add(struct region_set *set, struct builder *builder,
                   const struct memory_infra_region *region);
/* To be called once all are added: sort them, find missing offsets, and make mappings of files with
 * code. Of regions that overlap, the first stays. 0 or -ENOMEM. */
int region_set_finish(struct region_set *set, struct builder *builder);
/* The mapping with the address, and where in its file; PROFILE_NONE: none. */
uint32_t region_set_find(struct region_set *set, struct builder *builder, uint64_t address,
                         uint64_t *rel_pc);
void region_set_free(struct region_set *set);

#endif
