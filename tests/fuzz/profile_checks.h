/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of every profile that was read from any file. */
#ifndef HEAPPROFD_FUZZ_PROFILE_CHECKS_H
#define HEAPPROFD_FUZZ_PROFILE_CHECKS_H

#include "fuzzing.h"
#include "profile/sums.h"

static inline void check_profile(const struct profile *profile)
{
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        check(callsite->frame < profile->frame_count);
        check(callsite->parent == PROFILE_NONE || callsite->parent < i);
    }
    for (size_t i = 0; i < profile->frame_count; i++) {
        check(profile->frames[i].mapping == PROFILE_NONE ||
              profile->frames[i].mapping < profile->mapping_count);
        check(profile->frames[i].name != NULL && profile->frames[i].source_file != NULL);
    }
}

/* Check a dump's samples, and sum it up in every way. */
static inline void check_samples(const struct profile *profile, const struct profile_dump *dump)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        check(dump->samples[i]->callsite < profile->callsite_count);
        for (uint32_t j = 0; j < dump->samples[i]->part_count; j++)
            check(dump->samples[i]->parts[j].type != NULL &&
                  dump->samples[i]->parts[j].context != NULL);
    }
    static const enum dimension by[] = {DIMENSION_CALLSITE, DIMENSION_THREAD, DIMENSION_TYPE,
                                        DIMENSION_CONTEXT, DIMENSION_CALLSITE};
    struct sums_tables tables = {.profile = profile};
    sums_free(sums_by_function(&tables, dump));
    for (size_t i = 1; i < sizeof(by) / sizeof(by[0]); i++)
        sums_free(sums_by_parts(dump, &by[i - 1], 2, NULL));
    sums_tree_free(sums_tree_new(&tables, dump, false));
    sums_tree_free(sums_tree_new(&tables, dump, true));
    sums_tables_clear(&tables);
}

#endif
