/* SPDX-License-Identifier: Apache-2.0 */
/* Gives frames with the same texts the same number. */
#include "profile/function_numbers.h"

#include <errno.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "util/id_map.h"

/* Return the number of a text; equal texts have equal numbers. `known` has the number by pointer,
 * so that a long text which many frames share is compared once. 0: no memory. */
static uint64_t number_text(struct intern_table *texts, struct id_map *known, const char *text)
{
    bool added;
    uint32_t number = id_map_find(known, (uint64_t)(uintptr_t)text);
    if (number != ID_MAP_NONE)
        return number;
    uint64_t id = intern_bytes(texts, text, strlen(text), &added);
    return id_map_set(known, (uint64_t)(uintptr_t)text, (uint32_t)id) < 0 ? 0 : id;
}

/* Return the number of a frame's function, from 1; 0: no memory. */
static uint64_t number_frame(struct function_numbers *numbers, struct id_map *known,
                             const struct profile *profile, const struct profile_frame *frame)
{
    const char *path = frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
    bool added, is_named = *frame->name != '\0',
                has_file = is_named && interpreter_frames_has(profile, frame);
    const uint64_t key[] = {
        number_text(&numbers->texts, known, path),
        is_named ? number_text(&numbers->texts, known, frame->name) : 0,
        has_file   ? number_text(&numbers->texts, known, frame->source_file)
        : is_named ? 0
                   : frame->function_start,
    };
    bool has_memory = key[0] != 0 && (!is_named || key[1] != 0) && (!has_file || key[2] != 0);
    return has_memory ? intern_bytes(&numbers->functions, key, sizeof(key), &added) : 0;
}

int function_numbers_add(struct function_numbers *numbers, const struct profile *profile,
                         const bool *only, uint32_t *of_frames)
{
    struct id_map known = {0};
    int code = 0;
    for (size_t i = 0; i < profile->frame_count && code == 0; i++) {
        if (only != NULL && !only[i])
            continue;
        uint64_t number = number_frame(numbers, &known, profile, &profile->frames[i]);
        of_frames[i] = (uint32_t)(number - 1);
        code = number == 0 ? -ENOMEM : 0;
    }
    id_map_free(&known);
    return code;
}

void function_numbers_free(struct function_numbers *numbers)
{
    intern_free(&numbers->texts);
    intern_free(&numbers->functions);
}
