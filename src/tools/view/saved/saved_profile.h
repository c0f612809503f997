/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a block (saved_profiles.h), which are carried alike in both directions. */
#ifndef HEAPPROFD_VIEW_SAVED_PROFILE_H
#define HEAPPROFD_VIEW_SAVED_PROFILE_H

#include "profile/known_frames.h"
#include "tools/view/model/kept.h"
#include "tools/view/saved/carrier.h"

#define SAVED_VERSION 2u

/* When a sample's live memory was allocated, as struct profile_times has it. */
struct saved_times {
    uint64_t slice_ms, oldest_ms; /* slice_ms 0: unknown */
    uint32_t first;
    struct saved_slice {
        double bytes;
        uint32_t samples;
    } * slices;
    size_t slice_count;
};

/* A profile as the block has it: beside its own arrays, what these only point to. */
struct saved_profile {
    struct profile *profile;
    struct known_frames *known; /* each once */
    size_t known_count;
    uint32_t *known_of; /* by frame: in `known`; PROFILE_NONE: a frame of the program */
    /* Of all kept dumps. */
    struct profile_sample *samples;
    size_t sample_count;
    struct saved_list {
        void *items;
        size_t count;
    } * parts,  /* by sample; none if its only part has its figures */
        *dumps; /* by dump of all heaps: the numbers of its samples */
    size_t dump_count;
    struct saved_times *times; /* by sample */
    /* By heap and by dump of all heaps: as in view_kept. */
    bool *are_listed, *are_kept;
    const char **sentences;
};

/* Carry the text of a file of budgets, which may be NULL. */
void carry_budgets(struct carrier *carrier, char **budgets);
void saved_profile_carry(struct carrier *carrier, struct saved_profile *saved);
/* Free what is not the profile's: samples and known frames remain. */
void saved_profile_free(struct saved_profile *saved);

/* Carry what the page opens on. */
void saved_opening_carry(struct carrier *carrier, const struct view_profiles *profiles,
                         struct view_opening *opening);

#endif
