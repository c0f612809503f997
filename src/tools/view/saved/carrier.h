/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries arrays of structures to and from a block of bytes, each member as a column. A list of
 * members describes a structure, and the same function writes and reads, so that the two cannot
 * differ. saved_profiles.h has the format.
 */
#ifndef HEAPPROFD_VIEW_SAVED_CARRIER_H
#define HEAPPROFD_VIEW_SAVED_CARRIER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/profile.h"
#include "trace/intern.h"
#include "util/error.h"

/* --- structures --- */

enum member_type {
    BOOL,
    NUMBER32,
    NUMBER64,
    SIZE,
    DOUBLE,
    TEXT,
    TEXT_OR_NULL,
};

/* Arrays whose items are named by their number. */
enum array { NO_ARRAY, MAPPINGS, FRAMES, CALLSITES, PROCESSES, KNOWN, LOSSES, ARRAYS };

struct member {
    uint32_t offset;
    uint8_t type;
    uint8_t array;    /* the value is below the number of its items */
    bool may_be_none; /* or PROFILE_NONE */
};

struct structure {
    size_t bytes;
    const struct member *members;
    size_t count;
};
#define STRUCTURE(type, members)                                                                   \
    {                                                                                              \
        sizeof(type), members, sizeof(members) / sizeof(members[0])                                \
    }

#define M(of, member, type)                                                                        \
    {                                                                                              \
        offsetof(struct of, member), type, NO_ARRAY, false                                         \
    }
#define INDEX(of, member, array)                                                                   \
    {                                                                                              \
        offsetof(struct of, member), NUMBER32, array, false                                        \
    }
#define INDEX_OR_NONE(of, member, array)                                                           \
    {                                                                                              \
        offsetof(struct of, member), NUMBER32, array, true                                         \
    }

/* --- the block --- */

struct carrier {
    bool reads;
    size_t counts[ARRAYS];
    /* writing */
    FILE *out, *texts_out;
    struct intern_table text_ids;
    const char *last_text; /* as many values in a row have the same */
    uint64_t last_number;
    /* reading */
    const unsigned char *bytes, *at, *end;
    const char **texts;
    size_t text_count;
    struct profile *profile; /* whose memory is filled */
    struct error *error;
    bool failed; /* then nothing more is read */
};

/* Say that the block is damaged, unless it was said before. */
void carrier_fail(struct carrier *carrier, const char *reason);
/* Return zeroed memory for one more item than that, which lives as long as the profile. */
void *carrier_keep(struct carrier *carrier, size_t count, size_t bytes);
/* Return the next bytes; NULL: there are not so many. */
const unsigned char *carrier_take(struct carrier *carrier, size_t count);

void carry_number(struct carrier *carrier, uint32_t *number);
/* Carry the number of an array's items. A damaged block cannot ask for much more memory than it
 * has bytes. */
void carry_count(struct carrier *carrier, size_t *count);
void carry_items(struct carrier *carrier, const struct structure *structure, void *items,
                 size_t count);
/* Carry an array whose number of items is known. `items` points to the pointer to it. */
void carry_fixed(struct carrier *carrier, const struct structure *structure, void *items,
                 size_t count);
/* Carry an array with the number of its items. */
void carry_array(struct carrier *carrier, const struct structure *structure, void *items,
                 size_t *count);

/* Arrays of which each item of another array has one. */
struct nesting {
    const struct structure *structure;
    size_t items;        /* offset of the pointer in the outer item */
    struct member count; /* of the items */
    bool owned; /* each is freed with its outer item; else they live as long as the profile */
};
#define NESTING(of, items, count, count_type, structure, owned)                                    \
    {                                                                                              \
        structure, offsetof(struct of, items), M(of, count, count_type), owned                     \
    }
void carry_nested(struct carrier *carrier, const struct nesting *nesting, void *outer,
                  size_t outer_bytes, size_t outer_count);

#endif
