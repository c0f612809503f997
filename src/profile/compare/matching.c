/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers the functions, modules and callsites of two profiles, so that equal ones get equal
 * numbers. */
#include "profile/compare/matching.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "profile/symbols/clones.h"
#include "trace/intern.h"
#include "util/base_name.h"
#include "util/hash_index.h"
#include "util/id_map.h"
#include "util/keyed_hash.h"

/*
 * Numbers pairs of numbers, from 1. There are many more callsites than anything else, and their
 * number is bounded in advance.
 */
struct pair_table {
    struct hash_index index;
    struct number_pair {
        uint32_t first, second;
    } * pairs;            /* by number - 1 */
    uint32_t count, last; /* last: the number found by the previous call */
};

/* The tables that assign numbers. */
struct numbers {
    struct intern_table texts, functions, modules, frames, builds;
    struct pair_table callsites, exact;
    struct id_map names, files; /* numbers of texts, by address: many frames share one text */
    const struct matching_options *options;
    bool failed;
};

/* Allocate room for `most` pairs. Return 0 or -ENOMEM. */
static int pair_table_make(struct pair_table *table, size_t most)
{
    table->pairs = malloc((most + 1) * sizeof(*table->pairs));
    /* At most half of the slots are used, for speed. */
    return table->pairs != NULL ? hash_index_reserve(&table->index, most + most / 2, NULL, NULL)
                                : -ENOMEM;
}

static void pair_table_free(struct pair_table *table)
{
    hash_index_free(&table->index);
    free(table->pairs);
}

static uint32_t pair_number(struct pair_table *table, uint32_t first, uint32_t second)
{
    /* The other side mostly has the same pairs in the same order. */
    const struct number_pair *next = &table->pairs[table->last];
    if (table->last < table->count && next->first == first && next->second == second)
        return ++table->last;
    const struct number_pair *pairs = table->pairs;
    uint32_t *slot = HASH_INDEX_SLOT(&table->index, keyed_hash_pair(first, second), i,
                                     pairs[i].first == first && pairs[i].second == second);
    if (*slot == 0) {
        table->pairs[table->count] = (struct number_pair){first, second};
        *slot = ++table->count;
    }
    return table->last = *slot;
}

size_t matching_module_length(const char *path, const char **base)
{
    *base = base_name(path);
    const char *version = strstr(*base, ".so.");
    if (version != NULL && isdigit((unsigned char)version[4]))
        return (size_t)(version - *base) + 3;
    return strlen(*base);
}

static uint64_t matching_number_of(struct numbers *numbers, struct intern_table *table,
                                   const void *key, size_t length)
{
    bool added;
    uint64_t id = intern_bytes(table, key, length, &added);
    numbers->failed |= id == 0;
    return id;
}

static uint64_t text_number(struct numbers *numbers, const char *text, size_t length)
{
    return matching_number_of(numbers, &numbers->texts, text, length);
}

/* Return the number of a text that lives as long as its profile, so its address can be a key. Only
 * the first length_of() bytes count. */
static uint64_t kept_text_number(struct numbers *numbers, struct id_map *known, const char *text,
                                 size_t (*length_of)(const char *text))
{
    uint32_t number = id_map_find(known, (uint64_t)(uintptr_t)text);
    if (number != ID_MAP_NONE)
        return number;
    uint64_t made = text_number(numbers, text, length_of(text));
    numbers->failed |= id_map_set(known, (uint64_t)(uintptr_t)text, (uint32_t)made) < 0;
    return made;
}

static uint64_t module_number(struct numbers *numbers, const char *path, int side)
{
    const char *base, *program = numbers->options->programs[side];
    size_t length = matching_module_length(path, &base);
    /* No base name contains a slash. */
    if (program != NULL && strcmp(base, program) == 0)
        return text_number(numbers, "/program", strlen("/program"));
    return text_number(numbers, base, length);
}

/* Collect the build IDs of a profile's modules. */
static void take_builds(struct numbers *numbers, const struct profile *profile)
{
    for (size_t i = 0; i < profile->mapping_count; i++) {
        const char *build_id = profile->mappings[i].build_id;
        if (*build_id != '\0')
            matching_number_of(numbers, &numbers->builds, build_id, strlen(build_id));
    }
}

/* Number the frames of a side; `exact` gets their numbers with addresses. */
static void number_frames(struct numbers *numbers, const struct profile *profile, int side,
                          struct matching_side *matched, uint64_t *frames, uint64_t *exact)
{
    for (size_t i = 0; i < profile->frame_count && !numbers->failed; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        const struct profile_mapping *mapping =
            frame->mapping == PROFILE_NONE ? NULL : &profile->mappings[frame->mapping];
        uint64_t module = module_number(numbers, mapping != NULL ? mapping->path : "", side);
        uint64_t name = kept_text_number(numbers, &numbers->names, frame->name, clones_name_length);
        uint64_t function[3] = {name, 0, 0}, key[4] = {0};
        matched->modules[i] =
            matching_number_of(numbers, &numbers->modules, &module, sizeof(module));
        if (*frame->name == '\0') {
            bool known =
                mapping == NULL || *mapping->build_id == '\0' ||
                intern_find(&numbers->builds, mapping->build_id, strlen(mapping->build_id)) != 0;
            function[1] = module;
            function[2] = known ? frame->function_start + 1 : 0;
        } else if (interpreter_frames_has(profile, frame)) {
            /* Many functions have one name, as "<module>". */
            function[1] =
                kept_text_number(numbers, &numbers->files, base_name(frame->source_file), strlen);
        }
        matched->functions[i] =
            matching_number_of(numbers, &numbers->functions, function, sizeof(function));
        key[0] = matched->functions[i];
        key[1] = module;
        if (numbers->options->lines && *frame->source_file != '\0') {
            key[2] = kept_text_number(numbers, &numbers->files, frame->source_file, strlen);
            key[3] = frame->line + UINT64_C(1);
        }
        frames[i] = matching_number_of(numbers, &numbers->frames, key, sizeof(key));
        uint64_t place[] = {frames[i], frame->rel_pc, frame->line};
        exact[i] = matching_number_of(numbers, &numbers->frames, place, sizeof(place));
    }
}

static void number_callsites(struct numbers *numbers, const struct profile *profile,
                             struct matching_side *matched, const uint64_t *frames,
                             const uint64_t *exact)
{
    bool addresses = matched->exact != matched->callsites;
    /* A parent precedes its children. Frame numbers fit into 32 bits: there are no more than
     * frames. */
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t parent = callsite->parent;
        bool root = parent == PROFILE_NONE;
        matched->callsites[i] =
            pair_number(&numbers->callsites, root ? 0 : (uint32_t)matched->callsites[parent],
                        (uint32_t)frames[callsite->frame]);
        if (addresses)
            matched->exact[i] =
                pair_number(&numbers->exact, root ? 0 : (uint32_t)matched->exact[parent],
                            (uint32_t)exact[callsite->frame]);
    }
}

static void number_side(struct numbers *numbers, const struct profile *profile, int side,
                        struct matching_side *matched)
{
    uint64_t *frames = calloc(profile->frame_count + 1, sizeof(*frames));
    uint64_t *exact = calloc(profile->frame_count + 1, sizeof(*exact));
    matched->functions = calloc(profile->frame_count + 1, sizeof(*matched->functions));
    matched->modules = calloc(profile->frame_count + 1, sizeof(*matched->modules));
    matched->callsites = calloc(profile->callsite_count + 1, sizeof(*matched->callsites));
    matched->exact = numbers->options->addresses
                         ? calloc(profile->callsite_count + 1, sizeof(*matched->exact))
                         : matched->callsites;
    numbers->failed |= frames == NULL || exact == NULL || matched->functions == NULL ||
                       matched->modules == NULL || matched->callsites == NULL ||
                       matched->exact == NULL;
    if (!numbers->failed)
        number_frames(numbers, profile, side, matched, frames, exact);
    if (!numbers->failed)
        number_callsites(numbers, profile, matched, frames, exact);
    free(frames);
    free(exact);
}

/* Keep only the builds that both profiles have. */
static void find_builds(struct numbers *numbers, const struct profile *before,
                        const struct profile *after)
{
    struct intern_table both = {0};
    take_builds(numbers, before);
    for (size_t i = 0; i < after->mapping_count; i++) {
        const char *build_id = after->mappings[i].build_id;
        if (intern_find(&numbers->builds, build_id, strlen(build_id)) != 0)
            matching_number_of(numbers, &both, build_id, strlen(build_id));
    }
    intern_free(&numbers->builds);
    numbers->builds = both;
}

struct matching *matching_new(const struct profile *before, const struct profile *after,
                              const struct matching_options *options)
{
    struct numbers numbers = {.options = options};
    struct matching *matching = calloc(1, sizeof(*matching));
    if (matching == NULL)
        return NULL;
    size_t most = before->callsite_count + (before != after ? after->callsite_count : 0);
    numbers.failed = pair_table_make(&numbers.callsites, most) < 0 ||
                     (options->addresses && pair_table_make(&numbers.exact, most) < 0);
    find_builds(&numbers, before, after);
    if (!numbers.failed)
        number_side(&numbers, before, 0, &matching->sides[0]);
    if (before == after)
        matching->sides[1] = matching->sides[0];
    else if (!numbers.failed)
        number_side(&numbers, after, 1, &matching->sides[1]);
    matching->function_count = numbers.functions.count;
    matching->module_count = numbers.modules.count;
    matching->callsite_count = numbers.callsites.count;
    id_map_free(&numbers.names);
    id_map_free(&numbers.files);
    intern_free(&numbers.texts);
    intern_free(&numbers.functions);
    intern_free(&numbers.modules);
    intern_free(&numbers.frames);
    pair_table_free(&numbers.callsites);
    pair_table_free(&numbers.exact);
    intern_free(&numbers.builds);
    if (numbers.failed) {
        matching_free(matching);
        return NULL;
    }
    return matching;
}

static void free_side(struct matching_side *side)
{
    if (side->exact != side->callsites)
        free(side->exact);
    free(side->callsites);
    free(side->functions);
    free(side->modules);
}

void matching_free(struct matching *matching)
{
    if (matching == NULL)
        return;
    if (matching->sides[1].callsites != matching->sides[0].callsites)
        free_side(&matching->sides[1]);
    free_side(&matching->sides[0]);
    free(matching);
}
