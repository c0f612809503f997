/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What samples are tagged with: the type of an allocation, and the context (nested scopes) that it
 * was made in. Both come from the client by hash, and get small numbers here; a pair of them is a
 * tag, by which figures are told apart.
 *
 * All is bounded: what is too much, or was never sent, falls to a type and to a context that say
 * so, and is counted.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_TAGS_H
#define HEAPPROFD_DAEMON_LEDGER_TAGS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/record.h"

#define TAGS_TYPES_MAX 65536u
#define TAGS_CONTEXTS_MAX 65536u
#define TAGS_NAMES_MAX (2 * TAGS_TYPES_MAX)
#define TAGS_NAME_BYTES_MAX (32u << 20) /* of all names */
#define TAGS_SCOPES_MAX (1u << 20)      /* of all contexts */
#define TAGS_MAX (1u << 20)

/* The tag of neither type nor context; the type, or context, of none; and of the rest. */
#define TAG_NONE 0u
#define TAG_OTHERS 1u

#define TAGS_OTHER_TYPES "[other types]"
#define TAGS_OTHER_CONTEXTS "[other contexts]"

/* From hashes, or pairs of numbers, to numbers from 1 on. */
struct tag_index {
    struct tag_place {
        uint64_t key;
        uint32_t value; /* 0: empty */
    } * places;
    size_t size, count; /* size: a power of two, or 0 */
};

struct tag {
    uint32_t type, context;
};

/* Pairs of hashes that came lately, direct-mapped: one load in place of three look-ups. */
#define TAGS_RECENT 1024u

struct tags {
    struct tag_index name_index, type_index, context_index, tag_index;
    char **names; /* terminated; [0] is for those that were not sent */
    size_t name_count, name_capacity, name_bytes;
    uint32_t *types; /* name of each */
    size_t type_count, type_capacity;
    struct tag_context {
        uint32_t first, count; /* in scopes */
    } * contexts;
    size_t context_count, context_capacity;
    uint32_t *scopes; /* names, innermost first */
    size_t scope_count, scope_capacity;
    struct tag_recent {
        uint64_t type, context;
        uint64_t tag; /* 0: none here */
    } * recent;
    struct tag *items; /* by tag */
    size_t tag_count, tag_capacity;
    uint64_t names_refused;    /* NAMEs beyond the bounds */
    uint64_t contexts_refused; /* CONTEXTs beyond them */
};

/* 0 or -ENOMEM, as all below that return int. */
int tags_init(struct tags *tags);
void tags_clear(struct tags *tags);

/* What is known already, or too much, is passed over. The records are checked. */
int tags_add_name(struct tags *tags, const struct record_name *name);
int tags_add_context(struct tags *tags, const struct record_context *context);

/* The tag of a sample with these hashes (0: none). -ENOMEM too if it must be made and cannot. */
int tags_intern(struct tags *tags, uint64_t type, uint64_t context, uint32_t *tag);

/* "" for TAG_NONE. */
const char *tags_type_name(const struct tags *tags, uint32_t type);
/* The scopes of a context, innermost first; none for TAG_NONE. */
size_t tags_context_depth(const struct tags *tags, uint32_t context);
const char *tags_scope_name(const struct tags *tags, uint32_t context, size_t index);

#endif
