/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches each distinct frame once (filter.h). The state of a callsite follows from its frame and
 * from its parent, which comes before it.
 */
#include "profile/filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/merge_samples.h"
#include "profile/profile_owner.h"
#include "profile/rollup.h"
#include "profile/symbols/demangle.h"
#include "util/id_map.h"

#define WARNING_BYTES_MAX 2048

const char *const profile_filter_names[PROFILE_FILTER_KINDS] = {
    [PROFILE_FOCUS] = "focus",
    [PROFILE_IGNORE] = "ignore",
    [PROFILE_HIDE] = "hide",
    [PROFILE_SHOW_FROM] = "show-from",
};

/* --- patterns --- */

int profile_filter_add(struct profile_filter *filter, enum profile_filter_kind kind,
                       const char *text, struct error *error)
{
    const char *name = profile_filter_names[kind];
    if (*text == '\0')
        return error_set(error, -EINVAL, "--%s: the pattern is empty, which matches every frame",
                         name);
    struct profile_filter_pattern *grown =
        reallocarray(filter->patterns, filter->count + 1, sizeof(*grown));
    if (grown == NULL)
        return error_set(error, -ENOMEM, "--%s: no memory", name);
    filter->patterns = grown;
    struct profile_filter_pattern *pattern = &grown[filter->count];
    struct error problem;
    int code = pattern_new(&pattern->pattern, text, PATTERN_ANYWHERE, &problem);
    if (code < 0)
        return error_set(error, code,
                         "--%s '%.200s': %s; patterns are regular expressions as in Perl: put a "
                         "backslash before a character to match it as it is",
                         name, text, problem.message);
    pattern->kind = kind;
    pattern->text = strdup(text);
    if (pattern->text == NULL) {
        pattern_free(pattern->pattern);
        return error_set(error, -ENOMEM, "--%s: no memory", name);
    }
    filter->count++;
    return 0;
}

void profile_filter_clear(struct profile_filter *filter)
{
    for (size_t i = 0; i < filter->count; i++) {
        pattern_free(filter->patterns[i].pattern);
        free(filter->patterns[i].text);
    }
    free(filter->patterns);
    *filter = (struct profile_filter){0};
}

/* --- frames --- */

/* Bits of a callsite beyond those of the kinds. */
enum {
    BEGUN = 1 << PROFILE_FILTER_KINDS,        /* at or inside what show-from asks for */
    SHOWN = 1 << (PROFILE_FILTER_KINDS + 1),  /* a frame of its stack stays */
    NEEDED = 1 << (PROFILE_FILTER_KINDS + 2), /* a remaining sample has it on its stack */
};

struct filtering {
    const struct profile_filter *filter;
    struct profile *profile;
    uint32_t kinds;             /* bits of the kinds with patterns */
    bool *matched;              /* by pattern */
    struct id_map names, paths; /* by text's address: the bits of the patterns that it matches */
    uint8_t *frames, *callsites;
    uint32_t *now; /* by callsite: its new callsite */
    struct error *error;
    int code; /* of the first failure of a match */
};

int profile_filter_matches(const struct profile_filter_pattern *pattern, const char *text,
                           struct error *error)
{
    struct error problem;
    int code = pattern_matches(pattern->pattern, text, &problem);
    return code >= 0
               ? code
               : error_set(error, code, "--%s '%.200s': %s", profile_filter_names[pattern->kind],
                           pattern->text, problem.message);
}

/* Return the bits of the patterns that a text matches. */
static uint32_t match_text(struct filtering *at, const char *text)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < at->filter->count && *text != '\0' && at->code == 0; i++) {
        const struct profile_filter_pattern *pattern = &at->filter->patterns[i];
        int matches = profile_filter_matches(pattern, text, at->error);
        at->code = matches < 0 ? matches : 0;
        if (matches <= 0)
            continue;
        bits |= 1u << pattern->kind;
        at->matched[i] = true;
    }
    return bits;
}

/* Bits of a name in all its forms; an address stands for a function without one. ID_MAP_NONE: no
 * memory. */
static uint32_t match_name(struct filtering *at, const struct profile_frame *frame)
{
    char label[PROFILE_LABEL_BYTES];
    if (*frame->name == '\0')
        return match_text(at, profile_frame_label(at->profile, frame, label));
    bool renamed = *frame->obfuscated_name != '\0';
    const char *linkage_name = renamed ? frame->name : frame->linkage_name;
    uint64_t key = (uint64_t)(uintptr_t)linkage_name;
    uint32_t bits = id_map_find(&at->names, key);
    if (bits != ID_MAP_NONE)
        return bits;
    bits = match_text(at, frame->name);
    for (enum demangle_mode mode = DEMANGLE_FULL; mode <= DEMANGLE_SIMPLE; mode++) {
        char *name = *linkage_name == '\0' ? NULL : demangle_name_as(linkage_name, mode);
        if (name != NULL)
            bits |= match_text(at, name);
        free(name);
    }
    return id_map_set(&at->names, key, bits) < 0 ? ID_MAP_NONE : bits;
}

static uint32_t match_path(struct filtering *at, const char *path)
{
    uint64_t key = (uint64_t)(uintptr_t)path;
    uint32_t bits = id_map_find(&at->paths, key);
    if (bits != ID_MAP_NONE)
        return bits;
    bits = match_text(at, path);
    return id_map_set(&at->paths, key, bits) < 0 ? ID_MAP_NONE : bits;
}

static int match_frames(struct filtering *at)
{
    const struct profile *profile = at->profile;
    for (size_t i = 0; i < profile->frame_count && at->code == 0; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        uint32_t name = match_name(at, frame), source = match_path(at, frame->source_file);
        uint32_t module = frame->mapping == PROFILE_NONE
                              ? 0
                              : match_path(at, profile->mappings[frame->mapping].path);
        if (name == ID_MAP_NONE || source == ID_MAP_NONE || module == ID_MAP_NONE)
            return -ENOMEM;
        at->frames[i] = (uint8_t)(name | source | module);
    }
    return at->code;
}

/* --- callsites --- */

static bool has(uint32_t bits, enum profile_filter_kind kind)
{
    return (bits >> kind & 1) != 0;
}

static bool is_kept(const struct filtering *at, uint32_t callsite)
{
    uint32_t bits = at->callsites[callsite];
    return (has(bits, PROFILE_FOCUS) || !has(at->kinds, PROFILE_FOCUS)) &&
           !has(bits, PROFILE_IGNORE) && (bits & SHOWN) != 0;
}

/* Return whether the callsite's own frame remains on remaining stacks. */
static bool shows_frame(const struct filtering *at, uint32_t callsite)
{
    uint32_t frame = at->frames[at->profile->callsites[callsite].frame];
    return !has(frame, PROFILE_HIDE) && (at->callsites[callsite] & BEGUN) != 0;
}

static void judge_callsites(struct filtering *at)
{
    const struct profile *profile = at->profile;
    const uint32_t inherited = 1u << PROFILE_FOCUS | 1u << PROFILE_IGNORE | BEGUN | SHOWN;
    for (size_t i = 0; i < profile->callsite_count; i++) {
        uint32_t parent = profile->callsites[i].parent;
        uint32_t bits = at->frames[profile->callsites[i].frame];
        uint32_t outer = parent == PROFILE_NONE ? 0 : at->callsites[parent] & inherited;
        bool begins = !has(at->kinds, PROFILE_SHOW_FROM) ||
                      (has(bits, PROFILE_SHOW_FROM) && !has(bits, PROFILE_HIDE));
        at->callsites[i] = (uint8_t)(bits | outer | (begins ? BEGUN : 0));
        at->callsites[i] |= shows_frame(at, (uint32_t)i) ? SHOWN : 0;
    }
}

static void mark_needed(struct filtering *at)
{
    const struct profile_owner *owner = (const struct profile_owner *)at->profile;
    for (const struct profile_sample_block *block = owner->samples; block != NULL;
         block = block->next) {
        for (size_t i = 0; i < block->count; i++) {
            uint32_t callsite = block->samples[i].callsite;
            if (callsite == PROFILE_NONE || !is_kept(at, callsite))
                continue;
            while (callsite != PROFILE_NONE && (at->callsites[callsite] & NEEDED) == 0) {
                at->callsites[callsite] |= NEEDED;
                callsite = at->profile->callsites[callsite].parent;
            }
        }
    }
}

/* Collect the needed callsites. Without their removed frames, several may become one. */
static int make_callsites(struct filtering *at)
{
    struct profile *profile = at->profile;
    struct profile_callsite *made = malloc((profile->callsite_count + 1) * sizeof(*made));
    struct id_map ids = {0};
    uint32_t count = 0;
    int code = made == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; code == 0 && i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t parent =
            callsite->parent == PROFILE_NONE ? PROFILE_NONE : at->now[callsite->parent];
        at->now[i] = parent;
        if ((at->callsites[i] & NEEDED) == 0 || !shows_frame(at, i))
            continue;
        uint64_t key = (uint64_t)parent << 32 | callsite->frame;
        at->now[i] = id_map_find(&ids, key);
        if (at->now[i] != ID_MAP_NONE)
            continue;
        uint32_t depth = parent == PROFILE_NONE ? 0 : made[parent].depth + 1;
        made[count] = (struct profile_callsite){parent, callsite->frame, depth};
        code = id_map_set(&ids, key, count);
        at->now[i] = count++;
    }
    id_map_free(&ids);
    if (code < 0) {
        free(made);
        return code;
    }
    free(profile->callsites);
    profile->callsites = made;
    profile->callsite_count = count;
    return 0;
}

/* --- samples --- */

/* Dropped samples get no callsite. */
static void remap_samples(struct filtering *at)
{
    const struct profile_owner *owner = (const struct profile_owner *)at->profile;
    for (const struct profile_sample_block *block = owner->samples; block != NULL;
         block = block->next) {
        for (size_t i = 0; i < block->count; i++) {
            uint32_t *callsite = &block->samples[i].callsite;
            if (*callsite != PROFILE_NONE)
                *callsite = is_kept(at, *callsite) ? at->now[*callsite] : PROFILE_NONE;
        }
    }
    /* They are about the memory of the whole process. */
    for (size_t i = 0; i < at->profile->heap_count; i++)
        for (size_t j = 0; j < at->profile->heaps[i].dump_count; j++)
            at->profile->heaps[i].dumps[j].site_count = 0;
}

/* --- applying --- */

/* Write the patterns in words, and a warning of those that matched no frame. */
static int filter_describe(struct filtering *at)
{
    const struct profile_filter *filter = at->filter;
    struct profile *profile = at->profile;
    size_t length = 1, used = 0;
    for (size_t i = 0; i < filter->count; i++)
        length += strlen(filter->patterns[i].text) + sizeof(" --show-from ''");
    char *words = profile_merge_memory(profile, length, 1);
    char *warning = profile_merge_memory(profile, WARNING_BYTES_MAX, 1);
    if (words == NULL || warning == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < filter->count; i++)
        used += (size_t)snprintf(words + used, length - used, "%s--%s '%s'", i > 0 ? " " : "",
                                 profile_filter_names[filter->patterns[i].kind],
                                 filter->patterns[i].text);
    profile->filter = words;
    used = (size_t)snprintf(warning, WARNING_BYTES_MAX, "%.1000s", profile->warning);
    for (size_t i = 0; i < filter->count && used < WARNING_BYTES_MAX; i++)
        if (!at->matched[i])
            used += (size_t)snprintf(warning + used, WARNING_BYTES_MAX - used,
                                     "%s--%s '%.200s' matches no frame", used > 0 ? "; " : "",
                                     profile_filter_names[filter->patterns[i].kind],
                                     filter->patterns[i].text);
    profile->warning = warning;
    return 0;
}

int profile_filter_apply(const struct profile_filter *filter, struct profile *profile,
                         struct error *error)
{
    struct filtering at = {.filter = filter, .profile = profile, .error = error};
    if (filter->count == 0)
        return 0;
    for (size_t i = 0; i < filter->count; i++)
        at.kinds |= 1u << filter->patterns[i].kind;
    at.matched = calloc(filter->count, sizeof(*at.matched));
    at.frames = calloc(profile->frame_count + 1, sizeof(*at.frames));
    at.callsites = calloc(profile->callsite_count + 1, sizeof(*at.callsites));
    at.now = calloc(profile->callsite_count + 1, sizeof(*at.now));
    int code = -ENOMEM;
    if (at.matched != NULL && at.frames != NULL && at.callsites != NULL && at.now != NULL)
        code = match_frames(&at);
    if (code == 0) {
        judge_callsites(&at);
        mark_needed(&at);
        code = make_callsites(&at);
    }
    if (code == 0) {
        remap_samples(&at);
        code = profile_merge_samples(profile, has(at.kinds, PROFILE_HIDE) ||
                                                  has(at.kinds, PROFILE_SHOW_FROM));
    }
    if (code == 0)
        code = filter_describe(&at);
    id_map_free(&at.names);
    id_map_free(&at.paths);
    free(at.matched);
    free(at.frames);
    free(at.callsites);
    free(at.now);
    return code == -ENOMEM ? error_set(error, code, "no memory to filter it") : code;
}
