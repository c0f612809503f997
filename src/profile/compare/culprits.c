/* SPDX-License-Identifier: Apache-2.0 */
/* Keys the rows by the texts and lines that they show: the profile has each text once, so that
 * its address stands for it. */
#include "profile/compare/culprits.h"

#include <errno.h>
#include <stdlib.h>

#include "util/array.h"

struct shown_frame {
    uint64_t name, source_file, line;
};

static struct shown_frame shown_frame(const struct profile *profile,
                                      const struct folding_step *step)
{
    const struct profile_frame *frame = &profile->frames[profile->callsites[step->callsite].frame];
    bool is_named = *frame->name != '\0';
    if (step->nameless > 0)
        return (struct shown_frame){.name = step->nameless, .source_file = frame->mapping};
    return (struct shown_frame){
        .name = (uint64_t)(uintptr_t)frame->name,
        .source_file = is_named ? (uint64_t)(uintptr_t)frame->source_file : frame->mapping,
        .line = is_named ? frame->line : frame->function_start,
    };
}

/* Return the id of a stack's row, from 1; 0: no memory. */
static uint64_t row_of(struct culprits *culprits, uint32_t callsite, bool *added)
{
    const struct profile *profile = culprits->profile;
    struct {
        uint64_t module, goes_on;
        struct shown_frame frames[FOLDING_STEPS_MAX];
    } key = {0};
    struct folding_row row;
    folding_row_of(culprits->folding, profile, callsite, &row);
    key.module = profile->frames[profile->callsites[row.steps[0].callsite].frame].mapping;
    for (uint32_t i = 0; i < row.count; i++)
        key.frames[i] = shown_frame(profile, &row.steps[i]);
    key.goes_on = row.next != PROFILE_NONE;
    return intern_bytes(&culprits->ids, &key, sizeof(key), added);
}

void culprits_add(struct culprits *culprits, uint32_t callsite, double bytes)
{
    bool added = false;
    if (callsite == PROFILE_NONE || !(bytes > 0))
        return;
    uint64_t id = row_of(culprits, callsite, &added);
    if (id == 0 || (added && ARRAY_RESERVE(&culprits->rows, &culprits->capacity, id - 1, 1) < 0)) {
        culprits->failed = true;
        return;
    }
    struct culprit *row = &culprits->rows[id - 1];
    if (added)
        *row = (struct culprit){.callsite = callsite};
    row->bytes += bytes;
    if (bytes > row->heaviest_bytes) {
        row->heaviest_bytes = bytes;
        row->callsite = callsite;
    }
}

int culprits_heaviest(const struct culprits *culprits, uint32_t *callsites, double *bytes,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        callsites[i] = PROFILE_NONE;
        bytes[i] = 0;
    }
    for (size_t i = 0; i < culprits->ids.count && !culprits->failed; i++) {
        struct culprit row = culprits->rows[i];
        for (size_t j = 0; j < count; j++) {
            if (!(row.bytes > bytes[j]))
                continue;
            struct culprit lighter = {.callsite = callsites[j], .bytes = bytes[j]};
            callsites[j] = row.callsite;
            bytes[j] = row.bytes;
            row = lighter;
        }
    }
    return culprits->failed ? -ENOMEM : 0;
}

void culprits_free(struct culprits *culprits)
{
    intern_free(&culprits->ids);
    free(culprits->rows);
}
