/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of sites, each once: strings, types, and nodes, which are frames called from a parent
 * node.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/write_sites.h"
#include "util/array.h"
#include "util/keyed_hash.h"

#define UNKNOWN_TYPE "[unknown]"

/* --- strings and types --- */

/* Equal texts are one string. */
static int put_string(struct sites *sites, const char *text, uint32_t frame, uint32_t *string)
{
    char buffer[PROFILE_LABEL_BYTES];
    bool added;
    const struct site_string new = {.text = text, .frame = frame};
    if (ARRAY_RESERVE(&sites->strings, &sites->string_capacity, sites->string_count, 1) < 0)
        return -ENOMEM;
    sites->strings[sites->string_count] = new;
    const char *reads = sites_text(sites, (uint32_t)sites->string_count, buffer);
    uint64_t id = intern_bytes(&sites->string_ids, reads, strlen(reads), &added);
    if (id == 0 || id > UINT32_MAX)
        return -ENOMEM;
    sites->string_count += added;
    *string = (uint32_t)id - 1;
    return 0;
}

int sites_put_text(struct sites *sites, const char *text, uint32_t *string)
{
    return put_string(sites, text, PROFILE_NONE, string);
}

/* A part of a text, which is copied if it is new. */
int sites_put_part(struct sites *sites, const char *text, size_t length, uint32_t *string)
{
    char *copy = strndup(text, length);
    size_t before = sites->string_count;
    int code = copy == NULL ? -ENOMEM : sites_put_text(sites, copy, string);
    if (code == 0 && sites->string_count > before)
        sites->strings[*string].owned = copy;
    else
        free(copy);
    return code;
}

/* Types are identified by name: a program can have its own type "[unknown]". */
int sites_put_type(struct sites *sites, const char *name, uint32_t *type)
{
    uint32_t string;
    bool added;
    if (sites_put_text(sites, *name == '\0' ? UNKNOWN_TYPE : name, &string) < 0)
        return -ENOMEM;
    uint64_t id = intern_bytes(&sites->type_ids, &string, sizeof(string), &added);
    if (id == 0 || ARRAY_RESERVE(&sites->types, &sites->type_capacity, sites->type_count, 1) < 0 ||
        ARRAY_RESERVE(&sites->type_kept, &sites->type_kept_capacity, sites->type_count, 1) < 0)
        return -ENOMEM;
    *type = (uint32_t)id - 1;
    if (added) {
        sites->type_kept[sites->type_count] = false;
        sites->types[sites->type_count++] = string;
    }
    return 0;
}

/* Return the return address on the stack. Ours is within the call, one less. */
static bool absolute_pc(const struct sites *sites, const struct profile_frame *frame, uint64_t *pc)
{
    *pc = frame->rel_pc + 1;
    if (frame->mapping == PROFILE_NONE)
        return frame->rel_pc != 0;
    const struct written_mapping *written = &sites->mappings[frame->mapping];
    const struct profile_mapping *mapping = &written->at;
    uint64_t address = frame->rel_pc - mapping->exact_offset - mapping->load_bias + mapping->start;
    *pc = address + 1;
    return written->placed && address >= mapping->start && address < mapping->end;
}

const char *sites_text(const struct sites *sites, uint32_t string, char buffer[PROFILE_LABEL_BYTES])
{
    const struct site_string *item = &sites->strings[string];
    uint64_t pc;
    if (item->text != NULL)
        return item->text;
    const struct profile_frame *frame = &sites->profile->frames[item->frame];
    if (absolute_pc(sites, frame, &pc))
        snprintf(buffer, PROFILE_LABEL_BYTES, "pc:%" PRIx64, pc);
    else if (frame->mapping == PROFILE_NONE)
        return NO_NAME_FRAME;
    else
        return profile_frame_label(sites->profile, frame, buffer);
    return buffer;
}

int sites_put_frame(struct sites *sites, uint32_t index, struct site_frame *frame)
{
    const struct profile_frame *from = &sites->profile->frames[index];
    struct site_frame *known = &sites->frames[index];
    if (sites->frame_made[index] != sites->generation) {
        uint32_t name, file;
        if (put_string(sites, *from->name == '\0' ? NULL : from->name, index, &name) < 0 ||
            sites_put_text(sites, from->source_file, &file) < 0)
            return -ENOMEM;
        *known = (struct site_frame){name, file, from->line};
        sites->frame_made[index] = sites->generation;
    }
    *frame = *known;
    return 0;
}

/* --- nodes --- */

static uint64_t node_hash(const struct site_frame *frame, uint32_t parent)
{
    return keyed_hash_pair((uint64_t)frame->name << 32 | parent,
                           (uint64_t)frame->line << 32 | frame->file);
}

static uint64_t hash_of_node(const void *nodes, uint32_t number)
{
    const struct site_node *node = (const struct site_node *)nodes + number;
    return node_hash(&node->frame, node->parent);
}

int sites_put_node(struct sites *sites, const struct site_frame *frame, uint32_t parent,
                   uint32_t *node)
{
    if (hash_index_reserve(&sites->node_index, sites->node_count, hash_of_node, sites->nodes) < 0)
        return -ENOMEM;
    const struct site_node *known = sites->nodes;
    uint32_t *slot = HASH_INDEX_SLOT(
        &sites->node_index, node_hash(frame, parent), i,
        known[i].parent == parent && known[i].frame.name == frame->name &&
            known[i].frame.file == frame->file && known[i].frame.line == frame->line);
    if (*slot == 0) {
        if (ARRAY_RESERVE(&sites->nodes, &sites->node_capacity, sites->node_count, 1) < 0)
            return -ENOMEM;
        sites->nodes[sites->node_count++] = (struct site_node){.frame = *frame, .parent = parent};
        *slot = (uint32_t)sites->node_count;
    }
    *node = *slot - 1;
    return 0;
}

int sites_put_named_node(struct sites *sites, const char *name, uint32_t parent, uint32_t *node)
{
    struct site_frame frame = {0};
    return sites_put_text(sites, name, &frame.name) < 0
               ? -ENOMEM
               : sites_put_node(sites, &frame, parent, node);
}
