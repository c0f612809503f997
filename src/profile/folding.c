/* SPDX-License-Identifier: Apache-2.0 */
/* Matches every frame once against the table of known frames. */
#include "profile/folding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/demangle.h"
#include "util/base_name.h"
#include "util/id_map.h"

/* Return whether a mangled name is Rust's: names of the older scheme are C++ names that end in a
 * hash, as in "17h0123456789abcdefE"; a compiler may have appended something. */
static bool is_rust_name(const char *name)
{
    if (strncmp(name, "_R", 2) == 0)
        return true;
    if (strncmp(name, "_ZN", 3) != 0)
        return false;
    for (const char *hash = strstr(name, "17h"); hash != NULL; hash = strstr(hash + 1, "17h"))
        if (strspn(hash + 3, "0123456789abcdef") == 16 && hash[19] == 'E')
            return true;
    return false;
}

static const struct known_frames *find(const char *module, const struct profile_frame *frame)
{
    const char *linkage_name = frame->linkage_name;
    bool is_plain = strpbrk(frame->name, "<(") == NULL;
    char *simple =
        is_plain && *frame->name != '_' ? NULL : demangle_name_as(linkage_name, DEMANGLE_SIMPLE);
    const struct known_frames *known =
        known_frames_find(module, simple != NULL ? simple : frame->name, is_rust_name(linkage_name),
                          frame->source_file);
    free(simple);
    return known;
}

/* Return a number for the deciding properties: the module, and the texts, each of which the profile
 * has once. */
static uint64_t key_of(const struct profile_frame *frame)
{
    uint64_t name = (uint64_t)(uintptr_t)frame->linkage_name;
    uint64_t source = (uint64_t)(uintptr_t)frame->source_file;
    return (name * UINT64_C(0x9e3779b97f4a7c15) ^ source) * UINT64_C(0xd6e8feb86659fd93) ^
           frame->mapping;
}

static bool is_alike(const struct profile_frame *one, const struct profile_frame *other)
{
    return one->linkage_name == other->linkage_name && one->source_file == other->source_file &&
           one->mapping == other->mapping;
}

int folding_make(struct folding *folding, const struct profile *profile)
{
    struct id_map known = {0}; /* a frame with the same key */
    int code = 0;
    folding->frames = calloc(profile->frame_count + 1, sizeof(*folding->frames));
    if (folding->frames == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < profile->frame_count && code == 0; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        if (*profile_frame_kind(frame) != '\0')
            continue;
        const char *module =
            frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
        uint64_t key = key_of(frame);
        uint32_t like = id_map_find(&known, key);
        if (like != ID_MAP_NONE && is_alike(&profile->frames[like], frame)) {
            folding->frames[i] = folding->frames[like];
            continue;
        }
        folding->frames[i] = find(base_name(module), frame);
        code = id_map_set(&known, key, i);
    }
    id_map_free(&known);
    if (code < 0)
        folding_clear(folding);
    return code;
}

void folding_clear(struct folding *folding)
{
    free(folding->frames);
    folding->frames = NULL;
}

uint32_t folding_charge(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite)
{
    uint32_t other = PROFILE_NONE, outermost = callsite;
    for (uint32_t at = callsite; at != PROFILE_NONE; at = profile->callsites[at].parent) {
        const struct known_frames *known = folding_of(folding, profile->callsites[at].frame);
        if (known == NULL)
            return at;
        if (other == PROFILE_NONE && !known->allocates)
            other = at;
        outermost = at;
    }
    return other != PROFILE_NONE ? other : outermost;
}

uint32_t folding_head(const struct folding *folding, const struct profile *profile,
                      uint32_t callsite)
{
    uint32_t charged = folding_charge(folding, profile, callsite), head = charged;
    if (*profile->frames[profile->callsites[charged].frame].name != '\0')
        return charged;
    for (uint32_t at = callsite; at != charged; at = profile->callsites[at].parent) {
        const struct known_frames *known = folding_of(folding, profile->callsites[at].frame);
        bool named = *profile->frames[profile->callsites[at].frame].name != '\0';
        head = known != NULL && !known->allocates && named ? at : head;
    }
    return head;
}

uint32_t folding_caller(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite)
{
    uint32_t at = profile->callsites[callsite].parent;
    while (at != PROFILE_NONE && folding_of(folding, profile->callsites[at].frame) != NULL)
        at = profile->callsites[at].parent;
    return at;
}
