/* SPDX-License-Identifier: Apache-2.0 */
/* Matches names with patterns. */
#include "profile/compare/stack_pattern.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/clones.h"
#include "util/base_name.h"

#define NAME_BYTES 4096

static bool is_whole(const char *name, const char *pattern)
{
    return strcmp(name, pattern) == 0 || fnmatch(pattern, name, 0) == 0;
}

/* Compare the first `length` bytes of a name. */
static bool is_begin(const char *name, size_t length, const char *pattern)
{
    char begin[NAME_BYTES];
    if (length == 0 || length >= sizeof(begin))
        return false;
    memcpy(begin, name, length);
    begin[length] = '\0';
    return is_whole(begin, pattern);
}

/* Parameters need not be in the pattern, nor what compilers append to parts of functions. */
static bool is_like(const char *name, const char *pattern)
{
    if (*name == '\0')
        return false;
    size_t parameters = strcspn(name, "("), clone = clones_name_length(name);
    return is_whole(name, pattern) ||
           (name[parameters] != '\0' && is_begin(name, parameters, pattern)) ||
           (name[clone] != '\0' && is_begin(name, clone, pattern));
}

static bool frame_matches(const struct profile *profile, uint32_t frame, const char *pattern)
{
    static const char module[] = "module:";
    const struct profile_frame *found = &profile->frames[frame];
    if (strncmp(pattern, module, strlen(module)) != 0)
        return is_like(found->name, pattern);
    if (found->mapping == PROFILE_NONE)
        return false;
    const char *path = profile->mappings[found->mapping].path;
    return fnmatch(pattern + strlen(module), base_name(path), 0) == 0;
}

/* --- chains of patterns --- */

struct chain {
    char *text;
    const char *links[STACK_PATTERN_LINKS_MAX]; /* the innermost first */
    size_t count;
};

/* Split "put < parse < main". Return false without memory. What is beyond the maximum is a part of
 * the last link, which then matches nothing. */
static bool chain_make(struct chain *chain, const char *pattern)
{
    static const char between[] = " < ";
    *chain = (struct chain){.text = strdup(pattern)};
    for (char *at = chain->text; at != NULL;) {
        chain->links[chain->count++] = at;
        at = chain->count < STACK_PATTERN_LINKS_MAX ? strstr(at, between) : NULL;
        if (at != NULL) {
            *at = '\0';
            at += strlen(between);
        }
    }
    return chain->text != NULL;
}

bool stack_pattern_matches(const struct profile *profile, uint32_t callsite, const char *pattern)
{
    struct chain chain;
    size_t found = 0;
    if (!chain_make(&chain, pattern))
        return false;
    for (; callsite != PROFILE_NONE && found < chain.count;
         callsite = profile->callsites[callsite].parent)
        found += frame_matches(profile, profile->callsites[callsite].frame, chain.links[found]);
    free(chain.text);
    return found == chain.count;
}

/* Set for each callsite how many links of the chain, the outermost first, its stack has. */
static void find_links(const struct profile *profile, const struct chain *chain,
                       const bool *const frames[], unsigned char *found)
{
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        found[i] = callsite->parent != PROFILE_NONE ? found[callsite->parent] : 0;
        if (found[i] < chain->count)
            found[i] += frames[chain->count - 1 - found[i]][callsite->frame];
    }
}

bool *stack_pattern_callsites(const struct profile *profile, const char *pattern)
{
    struct chain chain;
    bool *frames[STACK_PATTERN_LINKS_MAX] = {0};
    bool *matches = calloc(profile->callsite_count + 1, sizeof(*matches));
    unsigned char *found = calloc(profile->callsite_count + 1, sizeof(*found));
    bool has_memory = chain_make(&chain, pattern) && matches != NULL && found != NULL;
    for (size_t i = 0; i < chain.count && has_memory; i++) {
        frames[i] = calloc(profile->frame_count + 1, sizeof(*frames[i]));
        has_memory = frames[i] != NULL;
        for (uint32_t j = 0; j < profile->frame_count && has_memory; j++)
            frames[i][j] = frame_matches(profile, j, chain.links[i]);
    }
    if (has_memory)
        find_links(profile, &chain, (const bool *const *)frames, found);
    for (size_t i = 0; i < profile->callsite_count && has_memory; i++)
        matches[i] = found[i] == chain.count;
    for (size_t i = 0; i < chain.count; i++)
        free(frames[i]);
    free(found);
    free(chain.text);
    if (!has_memory) {
        free(matches);
        matches = NULL;
    }
    return matches;
}

size_t stack_pattern_name_length(const char *name)
{
    size_t clone = clones_name_length(name), parameters = strcspn(name, "(");
    size_t length = clone > 0 ? clone : strlen(name);
    if (parameters > length)
        return length;
    /* "(anonymous namespace)::f(int)", "operator()(int)" and Ruby's "block (2 levels) in f" need
     * what is in parentheses. */
    static const char call[] = "operator";
    bool is_scope = parameters == 0 || name[parameters - 1] == ':' || name[parameters - 1] == ' ';
    bool is_call = parameters >= strlen(call) &&
                   strncmp(name + parameters - strlen(call), call, strlen(call)) == 0;
    return is_scope || is_call ? length : parameters;
}
