/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each name of the profiles its key. */
#include "tools/explore/sites_names.h"

#include <stdio.h>
#include <string.h>

#include "profile/compare/matching.h"
#include "profile/interpreter_frames.h"
#include "profile/symbols/clones.h"
#include "util/array.h"
#include "util/base_name.h"

/* Set *key to the key of these bytes, a new one if they are new. */
static int find_key(struct sites_names *names, enum sites_dimension dimension, const void *bytes,
                    size_t length, uint32_t *key, bool *added)
{
    uint64_t id = intern_bytes(&names->tables[dimension], bytes, length, added);
    struct sites_keys *keys = &names->sites->keys[dimension];
    if (id == 0 || id > UINT32_MAX)
        return -ENOMEM;
    *key = (uint32_t)id - 1;
    if (!*added)
        return 0;
    if (ARRAY_RESERVE(&keys->keys, &keys->capacity, keys->count, 1) < 0)
        return -ENOMEM;
    keys->keys[keys->count++] =
        (struct sites_key){.label = "", .frame = PROFILE_NONE, .module = PROFILE_NONE};
    return 0;
}

/* Set a label that no profile contains. */
static int make_label(struct sites_names *names, struct sites_key *key, const char *text)
{
    struct sites *sites = names->sites;
    char *copy = strdup(text);
    if (copy == NULL ||
        ARRAY_ADD(&sites->texts, &sites->text_count, &sites->text_capacity, copy) < 0) {
        free(copy);
        return -ENOMEM;
    }
    key->label = copy;
    return 0;
}

int sites_names_begin(struct sites_names *names, struct sites *sites, bool one_profile)
{
    const uint64_t self[5] = {0};
    uint32_t key;
    bool added;
    *names = (struct sites_names){.sites = sites, .one_profile = one_profile};
    int code = find_key(names, SITES_FRAME, self, sizeof(self), &key, &added);
    if (code == 0)
        sites->keys[SITES_FRAME].keys[key].label = "<self>";
    return code;
}

void sites_names_end(struct sites_names *names)
{
    for (size_t i = 0; i < SITES_DIMENSIONS; i++)
        intern_free(&names->tables[i]);
    intern_free(&names->texts);
}

/* Return the number of a text, from 1; 0: no memory. */
static uint64_t number_text(struct sites_names *names, const char *text, size_t length)
{
    bool added;
    return intern_bytes(&names->texts, text, length, &added);
}

static int find_module(struct sites_names *names, const struct profile *profile, uint32_t frame,
                       uint32_t *key)
{
    uint32_t mapping = profile->frames[frame].mapping;
    const char *path = mapping == PROFILE_NONE ? "" : profile->mappings[mapping].path, *base;
    size_t length = matching_module_length(path, &base);
    bool added;
    int code = find_key(names, SITES_MODULE, base, length, key, &added);
    if (code < 0 || !added)
        return code;
    names->sites->keys[SITES_MODULE].keys[*key] = (struct sites_key){
        .label = *path != '\0' ? base_name(path) : "[no file]",
        .profile = profile,
        .frame = frame,
    };
    return 0;
}

int sites_names_function(struct sites_names *names, const struct profile *profile, uint32_t index,
                         uint32_t *key)
{
    const struct profile_frame *frame = &profile->frames[index];
    uint32_t module;
    uint64_t parts[5] = {1};
    bool added;
    int code = find_module(names, profile, index, &module);
    if (code < 0)
        return code;
    parts[1] = module;
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
    if (parts[2] == 0)
        return -ENOMEM;
    code = find_key(names, SITES_FRAME, parts, sizeof(parts), key, &added);
    if (code < 0 || !added)
        return code;
    struct sites_key *made = &names->sites->keys[SITES_FRAME].keys[*key];
    char label[PROFILE_LABEL_BYTES];
    const char *name = interpreter_frames_label(profile, frame, label);
    *made = (struct sites_key){.label = name, .profile = profile, .frame = index, .module = module};
    return name == label ? make_label(names, made, label) : 0;
}

int sites_names_label(struct sites_names *names, enum sites_dimension dimension, const char *label,
                      uint32_t *key)
{
    static const char *const none[SITES_DIMENSIONS] = {
        [SITES_TYPE] = SITES_NO_TYPE, [SITES_CONTEXT] = "[no context]", [SITES_HEAP] = "[no name]"};
    bool added;
    if (label == names->last_labels[dimension]) {
        *key = names->last_keys[dimension];
        return 0;
    }
    int code = find_key(names, dimension, label, strlen(label), key, &added);
    if (code < 0)
        return code;
    if (added)
        names->sites->keys[dimension].keys[*key].label = *label != '\0' ? label : none[dimension];
    names->last_labels[dimension] = label;
    names->last_keys[dimension] = *key;
    return 0;
}

int sites_names_process(struct sites_names *names, const struct profile *profile, uint32_t index,
                        uint32_t *key)
{
    const struct profile_process *process = &profile->processes[index];
    uint64_t parts[2] = {number_text(names, process->name, strlen(process->name)),
                         names->one_profile ? (uint64_t)index + 1 : 0};
    bool added;
    if (parts[0] == 0)
        return -ENOMEM;
    int code = find_key(names, SITES_PROCESS, parts, sizeof(parts), key, &added);
    if (code < 0 || !added)
        return code;
    struct sites_key *made = &names->sites->keys[SITES_PROCESS].keys[*key];
    made->label = *process->name != '\0' ? process->name : "[no name]";
    if (!names->one_profile || process->pid == 0)
        return 0;
    char label[PROFILE_LABEL_BYTES];
    snprintf(label, sizeof(label), "%.200s (%d)", made->label, process->pid);
    return make_label(names, made, label);
}

int sites_names_thread(struct sites_names *names, const struct profile *profile, uint32_t process,
                       const struct profile_part *part, uint32_t *key)
{
    int32_t pid = profile->processes[process].pid;
    if (part != NULL && part->tid == 0)
        part = NULL;
    const char *name = part == NULL ? "" : profile_thread_name(profile, pid, part->tid);
    uint64_t parts[4] = {part != NULL, number_text(names, name, strlen(name))};
    bool added;
    if (parts[1] == 0)
        return -ENOMEM;
    if (part != NULL && names->one_profile) {
        parts[2] = (uint32_t)pid;
        parts[3] = (uint32_t)part->tid;
    }
    int code = find_key(names, SITES_THREAD, parts, sizeof(parts), key, &added);
    if (code < 0 || !added)
        return code;
    struct sites_key *made = &names->sites->keys[SITES_THREAD].keys[*key];
    made->label = part == NULL ? "[not known]" : *name != '\0' ? name : "[no name]";
    if (part == NULL || !names->one_profile)
        return 0;
    char label[PROFILE_LABEL_BYTES];
    snprintf(label, sizeof(label), "%.200s (%d)", made->label, part->tid);
    return make_label(names, made, label);
}
