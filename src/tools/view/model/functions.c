/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and names functions, and matches them against patterns. */
#include "tools/view/model/functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "profile/symbols/demangle.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

static const char *path_of(const struct profile *profile, const struct profile_frame *frame)
{
    return frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
}

void functions_add(struct functions *functions, const struct profile *profile, uint32_t *of_frames)
{
    bool *are_used = xmalloc_made(profile_frames_on_stacks(profile));
    xmalloc_code(function_numbers_add(&functions->numbers, profile, are_used, of_frames));
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct function one = {.profile = profile, .frame = (uint32_t)i};
        if (are_used[i] && of_frames[i] == functions->count)
            XARRAY_ADD(&functions->items, &functions->count, &functions->capacity, one);
    }
    free(are_used);
}

void functions_free(struct functions *functions)
{
    for (size_t i = 0; i < functions->count; i++)
        free(functions->items[i].short_name);
    function_numbers_free(&functions->numbers);
    free(functions->items);
    *functions = (struct functions){0};
}

/* Return the name without parameters. It is made when it is first needed: a profile has many more
 * functions than a page shows. */
static const char *short_name_of(struct function *function, const char *full_name)
{
    const struct profile_frame *frame = &function->profile->frames[function->frame];
    if (!function->is_shortened && *frame->obfuscated_name == '\0' && *frame->linkage_name != '\0')
        function->short_name = demangle_name_as(frame->linkage_name, DEMANGLE_SIMPLE);
    function->is_shortened = true;
    return function->short_name != NULL ? function->short_name : full_name;
}

void functions_name(struct functions *functions, uint32_t function, struct function_names *names)
{
    struct function *item = &functions->items[function];
    const struct profile_frame *frame = &item->profile->frames[item->frame];
    names->full_name = interpreter_frames_label(item->profile, frame, names->label);
    names->name =
        names->full_name == names->label ? names->label : short_name_of(item, names->full_name);
    names->path = path_of(item->profile, frame);
    names->module = base_name(names->path);
    names->file = frame->source_file;
    names->line = frame->line;
    names->kind = profile_frame_kind(frame);
}

const char *function_path(const struct function *function)
{
    return path_of(function->profile, &function->profile->frames[function->frame]);
}

/* Return whether `text` is NAME@MODULE. */
static bool is_named(const char *text, const char *name, const char *module)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == '@' &&
           strcmp(text + length + 1, module) == 0;
}

int functions_find(struct functions *functions, const char *text, uint32_t *function,
                   struct error *error)
{
    char *end, label[PROFILE_LABEL_BYTES];
    unsigned long number = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : UINT32_MAX;
    size_t found = 0;
    if (number < functions->count && *end == '\0') {
        *function = (uint32_t)number;
        return 0;
    }
    for (size_t i = 0; i < functions->count; i++) {
        const struct function *item = &functions->items[i];
        const char *path = function_path(item),
                   *name = interpreter_frames_label(item->profile,
                                                    &item->profile->frames[item->frame], label);
        bool is_exact = is_named(text, name, path);
        if (!is_exact && !is_named(text, name, base_name(path)))
            continue;
        *function = (uint32_t)i;
        found++;
        if (is_exact)
            return 0;
    }
    if (found == 0)
        return error_set(error, -ENOENT, "there is no function '%.200s' in the loaded profiles",
                         text);
    return found == 1 ? 0
                      : error_set(error, -EINVAL,
                                  "'%.200s' is the name of %zu functions: name the module by its "
                                  "whole path",
                                  text, found);
}

/* Most functions share their file and module with the one before: those are matched once. */
struct matched {
    const char *text;
    int matches;
};

static int match_once(struct matched *last, const struct profile_filter_pattern *pattern,
                      const char *text, struct error *error)
{
    if (text != last->text)
        *last = (struct matched){text, profile_filter_matches(pattern, text, error)};
    return last->matches;
}

int functions_match(struct functions *functions, const struct profile_filter_pattern *pattern,
                    uint8_t bit, uint8_t *marks, struct error *error)
{
    struct function_names names;
    struct matched file = {NULL, 0}, path = {NULL, 0};
    for (size_t i = 0; i < functions->count; i++) {
        functions_name(functions, (uint32_t)i, &names);
        int matches = profile_filter_matches(pattern, names.name, error);
        if (matches == 0 && names.full_name != names.name)
            matches = profile_filter_matches(pattern, names.full_name, error);
        if (matches == 0)
            matches = match_once(&file, pattern, names.file, error);
        if (matches == 0)
            matches = match_once(&path, pattern, names.path, error);
        if (matches < 0)
            return matches;
        marks[i] |= matches > 0 ? bit : 0;
    }
    return 0;
}
