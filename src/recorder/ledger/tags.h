/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags of samples. A tag is a pair: the type of an allocation, and the context (nested scopes) in
 * which it was made. Each tag of a callsite has figures of its own. The client sends types and
 * contexts as hashes; here they get small numbers.
 *
 * Everything is bounded. Types and contexts beyond the bounds, or never sent, become
 * TAGS_OTHER_TYPES and TAGS_OTHER_CONTEXTS, and are counted.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_TAGS_H
#define HEAPPROFD_RECORDER_LEDGER_TAGS_H

#include <stddef.h>
#include <stdint.h>

#include "util/id_map.h"
#include "wire/record.h"

#define TAGS_TYPES_MAX 65536u
#define TAGS_CONTEXTS_MAX 65536u
#define TAGS_NAMES_MAX (2 * TAGS_TYPES_MAX)
#define TAGS_NAME_BYTES_MAX (32u << 20) /* sum of all names */
#define TAGS_SCOPES_MAX (1u << 20)      /* sum of all contexts */
#define TAGS_MAX (1u << 20)

/* These numbers stand for types, for contexts, and for tags. TAG_NONE: none was given. TAG_OTHERS:
 * it has no number of its own, because it is beyond the bounds or was never sent. */
#define TAG_NONE 0u
#define TAG_OTHERS 1u

#define TAGS_OTHER_TYPES "[other types]"
#define TAGS_OTHER_CONTEXTS "[other contexts]"

struct tag {
    uint32_t type, context;
};

/* Recent pairs of hashes, direct-mapped: one load instead of three look-ups. */
#define TAGS_RECENT 1024u

struct tags {
    struct id_map name_numbers, type_numbers, context_numbers; /* by hash */
    struct id_map tag_numbers;                                 /* by type and context */
    char **names; /* terminated; [0] stands for names that were not sent */
    size_t name_count, name_capacity, name_bytes;
    uint32_t *types; /* by type: its name */
    size_t type_count, type_capacity;
    struct tag_context {
        uint32_t first, count; /* in scopes */
    } * contexts;
    size_t context_count, context_capacity;
    uint32_t *scopes; /* names, innermost first */
    size_t scope_count, scope_capacity;
    struct tag_recent {
        uint64_t type, context;
        uint64_t tag; /* 0: empty place */
    } * recent;
    struct tag *items; /* by tag */
    size_t tag_count, tag_capacity;
    uint64_t names_refused;    /* NAMEs beyond the bounds */
    uint64_t contexts_refused; /* CONTEXTs beyond the bounds */
};

/* Functions that return int return 0 or -ENOMEM. */
int tags_init(struct tags *tags);
void tags_clear(struct tags *tags);

/* Add the entry of a record, unless it is known or beyond the bounds. The caller has checked the
 * record. */
int tags_add_name(struct tags *tags, const struct record_name *name);
int tags_add_context(struct tags *tags, const struct record_context *context);

/* Find or make the tag of a sample with these hashes (0: none). -ENOMEM if it cannot be made. */
int tags_intern(struct tags *tags, uint64_t type, uint64_t context, uint32_t *tag);

/* Return the name with this hash; "[unknown]" if it is beyond the bounds or was never sent. */
const char *tags_name_of(const struct tags *tags, uint64_t hash);
/* Return the name of a type, "" for TAG_NONE. */
const char *tags_type_name(const struct tags *tags, uint32_t type);
/* Return the number of scopes of a context, innermost first; 0 for TAG_NONE. */
size_t tags_context_depth(const struct tags *tags, uint32_t context);
const char *tags_scope_name(const struct tags *tags, uint32_t context, size_t index);

#endif
