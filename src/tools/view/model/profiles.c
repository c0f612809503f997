/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the profiles of the page, and what filters leave of their stacks. */
#include "tools/view/model/profiles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "util/xmalloc.h"

int view_profiles_add(struct view_profiles *profiles, const char *path, struct profile *profile,
                      struct error *error)
{
    if (profiles->count == VIEW_PROFILES_MAX) {
        profile_free(profile);
        return error_set(error, -E2BIG, "'%s': the page shows at most %u profiles", path,
                         VIEW_PROFILES_MAX);
    }
    struct folding folding;
    xmalloc_code(folding_make(&folding, profile));
    view_profiles_take(profiles, path, profile, &folding);
    return 0;
}

void view_profiles_take(struct view_profiles *profiles, const char *path, struct profile *profile,
                        const struct folding *folding)
{
    struct view_profile *item = &profiles->items[profiles->count++];
    item->path = xstrdup(path);
    item->profile = profile;
    item->folding = *folding;
    item->of_frames = xcalloc(profile->frame_count + 1, sizeof(*item->of_frames));
    item->of_callsites = xcalloc(profile->callsite_count + 1, sizeof(*item->of_callsites));
    functions_add(&profiles->functions, profile, item->of_frames);
    stack_tree_add(&profiles->tree, &profiles->index, profile, item->of_frames, item->of_callsites);
    for (size_t i = 0; i < profile->frame_count && profile->has_loops && !profiles->interprets; i++)
        profiles->interprets = interpreter_frames_has(profile, &profile->frames[i]);
}

void view_profiles_link(struct view_profiles *profiles)
{
    stack_index_free(&profiles->index);
    stack_tree_link(&profiles->tree);
}

static void filtered_clear(struct view_filtered *filtered)
{
    free(filtered->key);
    free(filtered->on_stack);
    free(filtered->of_nodes);
    stack_tree_free(&filtered->tree);
    *filtered = (struct view_filtered){0};
}

void view_profiles_free(struct view_profiles *profiles)
{
    for (size_t i = 0; i < profiles->count; i++) {
        struct view_profile *item = &profiles->items[i];
        free(item->path);
        free(item->of_frames);
        free(item->of_callsites);
        folding_clear(&item->folding);
        profile_free(item->profile);
    }
    free(profiles->budgets);
    filtered_clear(&profiles->filtered);
    functions_free(&profiles->functions);
    stack_tree_free(&profiles->tree);
    stack_index_free(&profiles->index);
}

struct view_profile *view_profiles_of(struct view_profiles *profiles, const struct profile *profile)
{
    for (size_t i = 0; i < profiles->count; i++)
        if (profiles->items[i].profile == profile)
            return &profiles->items[i];
    return NULL;
}

/* --- filters --- */

/* Return the bits of the patterns of a kind. */
static uint8_t bits_of(const struct profile_filter *filter, enum profile_filter_kind kind)
{
    uint8_t bits = 0;
    for (size_t i = 0; i < filter->count; i++)
        if (filter->patterns[i].kind == kind)
            bits |= (uint8_t)(1u << i);
    return bits;
}

/* Return the patterns as one text; malloc'd. */
static char *key_of(const struct profile_filter *filter)
{
    char *key;
    size_t length;
    FILE *out = xopen_memstream(&key, &length);
    for (size_t i = 0; i < filter->count; i++)
        fprintf(out, "%d %zu %s\n", (int)filter->patterns[i].kind, strlen(filter->patterns[i].text),
                filter->patterns[i].text);
    xclose_memstream(out);
    return key;
}

static int make_filtered(struct view_profiles *profiles, const struct profile_filter *filter,
                         uint8_t *marks, struct error *error)
{
    struct view_filtered *filtered = &profiles->filtered;
    const struct stack_tree *tree = &profiles->tree;
    const struct stack_hiding hiding = {
        .marks = marks,
        .hide = bits_of(filter, PROFILE_HIDE),
        .show_from = bits_of(filter, PROFILE_SHOW_FROM),
    };
    filtered->on_stack = xcalloc(tree->count + 1, 1);
    for (size_t i = 0; i < filter->count; i++) {
        int matched = functions_match(&profiles->functions, &filter->patterns[i],
                                      (uint8_t)(1u << i), marks, error);
        if (matched < 0)
            return matched;
    }
    for (size_t i = 0; i < tree->count; i++) {
        uint32_t parent = tree->nodes[i].parent;
        filtered->on_stack[i] = (uint8_t)(marks[tree->nodes[i].function] |
                                          (parent == STACK_NONE ? 0 : filtered->on_stack[parent]));
    }
    filtered->hides = hiding.hide != 0 || hiding.show_from != 0;
    if (!filtered->hides)
        return 0;
    filtered->of_nodes = xcalloc(tree->count + 1, sizeof(*filtered->of_nodes));
    stack_tree_without(tree, &hiding, &filtered->tree, filtered->of_nodes);
    stack_tree_link(&filtered->tree);
    return 0;
}

int view_profiles_filter(struct view_profiles *profiles, const struct profile_filter *filter,
                         struct error *error)
{
    struct view_filtered *filtered = &profiles->filtered;
    char *key = key_of(filter);
    if (filtered->key != NULL && strcmp(filtered->key, key) == 0) {
        free(key);
        return 0;
    }
    filtered_clear(filtered);
    filtered->key = key;
    if (filter->count == 0)
        return 0;
    uint8_t *marks = xcalloc(profiles->functions.count + 1, 1);
    int code = make_filtered(profiles, filter, marks, error);
    free(marks);
    if (code < 0)
        filtered_clear(filtered);
    return code;
}

uint32_t view_profiles_node(const struct view_profiles *profiles,
                            const struct profile_filter *filter, const struct view_profile *of,
                            uint32_t callsite)
{
    uint32_t node = of->of_callsites[callsite];
    if (filter->count == 0)
        return node;
    uint8_t on_stack = profiles->filtered.on_stack[node];
    uint8_t focus = bits_of(filter, PROFILE_FOCUS), ignore = bits_of(filter, PROFILE_IGNORE);
    if ((on_stack & focus) != focus || (on_stack & ignore) != 0)
        return STACK_NONE;
    return profiles->filtered.hides ? profiles->filtered.of_nodes[node] : node;
}

/* Return whether a function has a name, and another one in its module has none. */
static bool names(const struct function *function, const struct function *nameless)
{
    const struct profile_frame *named = &function->profile->frames[function->frame],
                               *other = &nameless->profile->frames[nameless->frame];
    return *named->name != '\0' && *other->name == '\0' && named->mapping != PROFILE_NONE &&
           other->mapping != PROFILE_NONE &&
           strcmp(function->profile->mappings[named->mapping].path,
                  nameless->profile->mappings[other->mapping].path) == 0;
}

uint32_t view_profiles_holder(struct view_profiles *profiles, const struct stack_tree *tree,
                              uint32_t node)
{
    uint32_t other = STACK_NONE, outermost = STACK_NONE;
    for (; node != STACK_NONE; node = tree->nodes[node].parent) {
        const struct function *function = &profiles->functions.items[tree->nodes[node].function];
        const struct view_profile *of = view_profiles_of(profiles, function->profile);
        const struct known_frames *known = folding_of(&of->folding, function->frame);
        outermost = tree->nodes[node].function;
        if (known == NULL)
            return outermost;
        if (!known->allocates &&
            (other == STACK_NONE || names(function, &profiles->functions.items[other])))
            other = outermost;
    }
    return other != STACK_NONE ? other : outermost;
}
