/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a profile's memory: its strings, samples and parts. */
#ifndef HEAPPROFD_PROFILE_PROFILE_OWNER_H
#define HEAPPROFD_PROFILE_PROFILE_OWNER_H

#include <stddef.h>

#include "profile/profile.h"

struct profile_chunk {
    struct profile_chunk *next;
    _Alignas(max_align_t) char bytes[];
};

/* Samples are many, and are all visited if callsites change. */
struct profile_sample_block {
    struct profile_sample_block *next;
    struct profile_sample *samples; /* malloc'd */
    size_t count, capacity;
};

/* Other memory that a profile owns, malloc'd. */
struct profile_memory {
    struct profile_memory *next;
    void *memory;
};

struct profile_owner {
    struct profile profile; /* first, so that profile_free() finds the rest */
    struct profile_chunk *chunks;
    struct profile_sample_block *samples; /* of all dumps */
    struct profile_memory *memory;
};

#endif
