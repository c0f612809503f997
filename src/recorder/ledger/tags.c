/* SPDX-License-Identifier: Apache-2.0 */
/* Intern names, contexts and tags. */
#include "recorder/ledger/tags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define UNKNOWN_NAME "[unknown]"

/* Return the number of a key; 0: absent. */
static uint32_t tags_number_of(const struct id_map *map, uint64_t key)
{
    uint32_t number = id_map_find(map, key);
    return number != ID_MAP_NONE ? number : 0;
}

/* --- names, types, contexts --- */

/* Append a copy of a name, and set its number. */
static int append_name(struct tags *tags, const void *bytes, size_t length, uint32_t *number)
{
    if (ARRAY_RESERVE(&tags->names, &tags->name_capacity, tags->name_count, 1) < 0)
        return -ENOMEM;
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, bytes, length);
    copy[length] = 0;
    *number = (uint32_t)tags->name_count;
    tags->names[tags->name_count++] = copy;
    tags->name_bytes += length + 1;
    return 0;
}

static int append_type(struct tags *tags, uint32_t name)
{
    return ARRAY_ADD(&tags->types, &tags->type_count, &tags->type_capacity, name);
}

/* Append a context. The caller then appends its `count` scopes. */
static int append_context(struct tags *tags, uint32_t count)
{
    if (ARRAY_RESERVE(&tags->contexts, &tags->context_capacity, tags->context_count, 1) < 0 ||
        ARRAY_RESERVE(&tags->scopes, &tags->scope_capacity, tags->scope_count, count + 1) < 0)
        return -ENOMEM;
    tags->contexts[tags->context_count++] =
        (struct tag_context){(uint32_t)tags->scope_count, count};
    return 0;
}

static int append_tag(struct tags *tags, struct tag tag)
{
    return ARRAY_ADD(&tags->items, &tags->tag_count, &tags->tag_capacity, tag);
}

int tags_init(struct tags *tags)
{
    uint32_t unknown, empty, other_types, other_contexts;
    memset(tags, 0, sizeof(*tags));
    if (append_name(tags, UNKNOWN_NAME, strlen(UNKNOWN_NAME), &unknown) < 0 ||
        append_name(tags, "", 0, &empty) < 0 ||
        append_name(tags, TAGS_OTHER_TYPES, strlen(TAGS_OTHER_TYPES), &other_types) < 0 ||
        append_name(tags, TAGS_OTHER_CONTEXTS, strlen(TAGS_OTHER_CONTEXTS), &other_contexts) < 0 ||
        (tags->recent = calloc(TAGS_RECENT, sizeof(*tags->recent))) == NULL ||
        append_type(tags, empty) < 0 || append_type(tags, other_types) < 0 ||
        append_context(tags, 0) < 0 || append_context(tags, 1) < 0 ||
        append_tag(tags, (struct tag){TAG_NONE, TAG_NONE}) < 0 ||
        append_tag(tags, (struct tag){TAG_OTHERS, TAG_OTHERS}) < 0) {
        tags_clear(tags);
        return -ENOMEM;
    }
    tags->scopes[tags->scope_count++] = other_contexts;
    return 0;
}

void tags_clear(struct tags *tags)
{
    for (size_t i = 0; i < tags->name_count; i++)
        free(tags->names[i]);
    free(tags->names);
    free(tags->types);
    free(tags->contexts);
    free(tags->scopes);
    free(tags->items);
    free(tags->recent);
    id_map_free(&tags->name_numbers);
    id_map_free(&tags->type_numbers);
    id_map_free(&tags->context_numbers);
    id_map_free(&tags->tag_numbers);
    memset(tags, 0, sizeof(*tags));
}

int tags_add_name(struct tags *tags, const struct record_name *name)
{
    uint32_t number;
    if (tags_number_of(&tags->name_numbers, name->hash) != 0)
        return 0;
    if (tags->name_count >= TAGS_NAMES_MAX ||
        tags->name_bytes + name->length >= TAGS_NAME_BYTES_MAX) {
        tags->names_refused++;
        return 0;
    }
    if (append_name(tags, name->bytes, name->length, &number) < 0)
        return -ENOMEM;
    return id_map_set(&tags->name_numbers, name->hash, number);
}

int tags_add_context(struct tags *tags, const struct record_context *context)
{
    if (tags_number_of(&tags->context_numbers, context->hash) != 0)
        return 0;
    if (tags->context_count >= TAGS_CONTEXTS_MAX ||
        tags->scope_count + context->count > TAGS_SCOPES_MAX) {
        tags->contexts_refused++;
        return 0;
    }
    uint32_t number = (uint32_t)tags->context_count;
    if (append_context(tags, context->count) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < context->count; i++)
        tags->scopes[tags->scope_count++] = tags_number_of(&tags->name_numbers, context->names[i]);
    return id_map_set(&tags->context_numbers, context->hash, number);
}

/* --- tags --- */

/* Find or make the number of the type with this hash (0: none). */
static int type_of(struct tags *tags, uint64_t hash, uint32_t *type)
{
    *type = hash != 0 ? tags_number_of(&tags->type_numbers, hash) : TAG_NONE;
    if (hash == 0 || *type != 0)
        return 0;
    uint32_t name = tags_number_of(&tags->name_numbers, hash);
    *type = TAG_OTHERS;
    if (name == 0 || tags->type_count >= TAGS_TYPES_MAX)
        return 0;
    *type = (uint32_t)tags->type_count;
    if (append_type(tags, name) < 0)
        return -ENOMEM;
    return id_map_set(&tags->type_numbers, hash, *type);
}

static int intern(struct tags *tags, uint64_t type_hash, uint64_t context_hash, uint32_t *number)
{
    struct tag tag = {TAG_NONE, TAG_NONE};
    if (type_of(tags, type_hash, &tag.type) < 0)
        return -ENOMEM;
    if (context_hash != 0)
        tag.context = tags_number_of(&tags->context_numbers, context_hash);
    if (context_hash != 0 && tag.context == 0)
        tag.context = TAG_OTHERS;
    uint64_t key = (uint64_t)tag.type << 32 | tag.context;
    *number = key != 0 ? tags_number_of(&tags->tag_numbers, key) : TAG_NONE;
    if (key == 0 || *number != 0)
        return 0;
    *number = TAG_OTHERS;
    if (tags->tag_count >= TAGS_MAX)
        return 0;
    *number = (uint32_t)tags->tag_count;
    if (append_tag(tags, tag) < 0)
        return -ENOMEM;
    return id_map_set(&tags->tag_numbers, key, *number);
}

static struct tag_recent *recent_place(const struct tags *tags, uint64_t type, uint64_t context)
{
    uint64_t hash = (type ^ context << 7) * UINT64_C(0x9E3779B97F4A7C15);
    return &tags->recent[hash >> 32 & (TAGS_RECENT - 1)];
}

int tags_intern(struct tags *tags, uint64_t type_hash, uint64_t context_hash, uint32_t *number)
{
    struct tag_recent *recent = recent_place(tags, type_hash, context_hash);
    if (recent->type == type_hash && recent->context == context_hash && recent->tag != 0) {
        *number = (uint32_t)recent->tag;
        return 0;
    }
    int code = intern(tags, type_hash, context_hash, number);
    /* Do not cache a type or context that is unknown: the client may still send it. */
    if (code == 0 && tags->items[*number].type != TAG_OTHERS &&
        tags->items[*number].context != TAG_OTHERS)
        *recent = (struct tag_recent){type_hash, context_hash, *number};
    return code;
}

const char *tags_name_of(const struct tags *tags, uint64_t hash)
{
    return tags->names[tags_number_of(&tags->name_numbers, hash)];
}

const char *tags_type_name(const struct tags *tags, uint32_t type)
{
    return tags->names[tags->types[type]];
}

size_t tags_context_depth(const struct tags *tags, uint32_t context)
{
    return tags->contexts[context].count;
}

const char *tags_scope_name(const struct tags *tags, uint32_t context, size_t index)
{
    return tags->names[tags->scopes[tags->contexts[context].first + index]];
}
