/* SPDX-License-Identifier: Apache-2.0 */
/* Matches names with patterns. */
#include "compare/stack_pattern.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/clones.h"
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

bool stack_pattern_matches(const struct profile *profile, uint32_t callsite, const char *pattern)
{
    for (; callsite != PROFILE_NONE; callsite = profile->callsites[callsite].parent)
        if (frame_matches(profile, profile->callsites[callsite].frame, pattern))
            return true;
    return false;
}

bool *stack_pattern_callsites(const struct profile *profile, const char *pattern)
{
    bool *frames = calloc(profile->frame_count + 1, sizeof(*frames));
    bool *matches = calloc(profile->callsite_count + 1, sizeof(*matches));
    if (frames == NULL || matches == NULL) {
        free(frames);
        free(matches);
        return NULL;
    }
    for (uint32_t i = 0; i < profile->frame_count; i++)
        frames[i] = frame_matches(profile, i, pattern);
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        matches[i] = frames[callsite->frame] ||
                     (callsite->parent != PROFILE_NONE && matches[callsite->parent]);
    }
    free(frames);
    return matches;
}

size_t stack_pattern_name_length(const char *name)
{
    size_t clone = clones_name_length(name), parameters = strcspn(name, "(");
    size_t length = clone > 0 ? clone : strlen(name);
    if (parameters > length)
        return length;
    /* "(anonymous namespace)::f(int)" and "operator()(int)" need what is in parentheses. */
    static const char call[] = "operator";
    bool is_scope = parameters == 0 || name[parameters - 1] == ':';
    bool is_call = parameters >= strlen(call) &&
                   strncmp(name + parameters - strlen(call), call, strlen(call)) == 0;
    return is_scope || is_call ? length : parameters;
}
