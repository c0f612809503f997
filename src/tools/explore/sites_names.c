/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each name of the profiles its key. */
#include "tools/explore/sites_names.h"

#include <stdio.h>
#include <string.h>

#include "profile/compare/matching.h"
#include "profile/interpreter_frames.h"
#include "profile/symbols/clones.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

/* Return the key of these bytes, a new one if they are new. */
static uint32_t find_key(struct sites_names *names, enum sites_dimension dimension,
                         const void *bytes, size_t length, bool *added)
{
    static const struct sites_key unnamed = {
        .label = "", .frame = PROFILE_NONE, .module = PROFILE_NONE};
    uint64_t id = xmalloc_id(intern_bytes(&names->tables[dimension], bytes, length, added));
    struct sites_keys *keys = &names->sites->keys[dimension];
    if (*added)
        XARRAY_ADD(&keys->keys, &keys->count, &keys->capacity, unnamed);
    return (uint32_t)id - 1;
}

/* Set a label that no profile contains. */
static void make_label(struct sites_names *names, struct sites_key *key, const char *text)
{
    struct sites *sites = names->sites;
    char *copy = xstrdup(text);
    XARRAY_ADD(&sites->texts, &sites->text_count, &sites->text_capacity, copy);
    key->label = copy;
}

void sites_names_begin(struct sites_names *names, struct sites *sites, bool one_profile)
{
    const uint64_t self[5] = {0};
    bool added;
    *names = (struct sites_names){.sites = sites, .one_profile = one_profile};
    uint32_t key = find_key(names, SITES_FRAME, self, sizeof(self), &added);
    sites->keys[SITES_FRAME].keys[key].label = "<self>";
}

void sites_names_end(struct sites_names *names)
{
    for (size_t i = 0; i < SITES_DIMENSIONS; i++)
        intern_free(&names->tables[i]);
    intern_free(&names->texts);
}

/* Return the number of a text, from 1. */
static uint64_t number_text(struct sites_names *names, const char *text, size_t length)
{
    bool added;
    return xmalloc_id(intern_bytes(&names->texts, text, length, &added));
}

static uint32_t find_module(struct sites_names *names, const struct profile *profile,
                            uint32_t frame)
{
    uint32_t mapping = profile->frames[frame].mapping;
    const char *path = mapping == PROFILE_NONE ? "" : profile->mappings[mapping].path, *base;
    size_t length = matching_module_length(path, &base);
    bool added;
    uint32_t key = find_key(names, SITES_MODULE, base, length, &added);
    if (added)
        names->sites->keys[SITES_MODULE].keys[key] = (struct sites_key){
            .label = *path != '\0' ? base_name(path) : "[no file]",
            .profile = profile,
            .frame = frame,
        };
    return key;
}

uint32_t sites_names_function(struct sites_names *names, const struct profile *profile,
                              uint32_t index)
{
    const struct profile_frame *frame = &profile->frames[index];
    uint32_t module = find_module(names, profile, index);
    uint64_t parts[5] = {1, module};
    bool added;
    if (*frame->name != '\0') {
        parts[2] = number_text(names, frame->name, clones_name_length(frame->name));
        /* Many functions have one name, as "<module>", in a mapping of them all. */
        if (interpreter_frames_has(profile, frame))
            parts[4] = number_text(names, frame->source_file, strlen(frame->source_file));
    } else {
        const char *build_id =
            frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].build_id;
        parts[0] = 2;
        parts[2] = number_text(names, build_id, strlen(build_id));
        parts[3] = frame->function_start;
    }
    uint32_t key = find_key(names, SITES_FRAME, parts, sizeof(parts), &added);
    if (!added)
        return key;
    struct sites_key *made = &names->sites->keys[SITES_FRAME].keys[key];
    char label[PROFILE_LABEL_BYTES];
    const char *name = interpreter_frames_label(profile, frame, label);
    *made = (struct sites_key){.label = name, .profile = profile, .frame = index, .module = module};
    if (name == label)
        make_label(names, made, label);
    return key;
}

uint32_t sites_names_label(struct sites_names *names, enum sites_dimension dimension,
                           const char *label)
{
    static const char *const none[SITES_DIMENSIONS] = {
        [SITES_TYPE] = SITES_NO_TYPE, [SITES_CONTEXT] = "[no context]", [SITES_HEAP] = "[no name]"};
    bool added;
    if (label == names->last_labels[dimension])
        return names->last_keys[dimension];
    uint32_t key = find_key(names, dimension, label, strlen(label), &added);
    if (added)
        names->sites->keys[dimension].keys[key].label = *label != '\0' ? label : none[dimension];
    names->last_labels[dimension] = label;
    names->last_keys[dimension] = key;
    return key;
}

uint32_t sites_names_process(struct sites_names *names, const struct profile *profile,
                             uint32_t index)
{
    const struct profile_process *process = &profile->processes[index];
    uint64_t parts[2] = {number_text(names, process->name, strlen(process->name)),
                         names->one_profile ? (uint64_t)index + 1 : 0};
    bool added;
    uint32_t key = find_key(names, SITES_PROCESS, parts, sizeof(parts), &added);
    if (!added)
        return key;
    struct sites_key *made = &names->sites->keys[SITES_PROCESS].keys[key];
    made->label = *process->name != '\0' ? process->name : "[no name]";
    if (!names->one_profile || process->pid == 0)
        return key;
    char label[PROFILE_LABEL_BYTES];
    snprintf(label, sizeof(label), "%.200s (%d)", made->label, process->pid);
    make_label(names, made, label);
    return key;
}

uint32_t sites_names_thread(struct sites_names *names, const struct profile *profile,
                            uint32_t process, const struct profile_part *part)
{
    int32_t pid = profile->processes[process].pid;
    if (part != NULL && part->tid == 0)
        part = NULL;
    const char *name = part == NULL ? "" : profile_thread_name(profile, pid, part->tid);
    uint64_t parts[4] = {part != NULL, number_text(names, name, strlen(name))};
    bool added;
    if (part != NULL && names->one_profile) {
        parts[2] = (uint32_t)pid;
        parts[3] = (uint32_t)part->tid;
    }
    uint32_t key = find_key(names, SITES_THREAD, parts, sizeof(parts), &added);
    if (!added)
        return key;
    struct sites_key *made = &names->sites->keys[SITES_THREAD].keys[key];
    made->label = part == NULL ? "[not known]" : *name != '\0' ? name : "[no name]";
    if (part == NULL || !names->one_profile)
        return key;
    char label[PROFILE_LABEL_BYTES];
    snprintf(label, sizeof(label), "%.200s (%d)", made->label, part->tid);
    make_label(names, made, label);
    return key;
}
