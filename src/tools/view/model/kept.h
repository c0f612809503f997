/* SPDX-License-Identifier: Apache-2.0 */
/* Which heaps and dumps of the profiles are in a page that is a file, and what it opens on. */
#ifndef HEAPPROFD_VIEW_KEPT_H
#define HEAPPROFD_VIEW_KEPT_H

#include "tools/view/model/profiles.h"
#include "tools/view/model/selection.h"

struct view_kept_heap {
    bool is_listed;         /* the page knows the heap, though it may have no dump */
    bool *dumps;            /* by dump: it is kept; NULL: none is */
    size_t last;            /* the last that is kept */
    const char **sentences; /* of a page that is a file, by dump: the answer of api/summary */
};

struct view_kept {
    struct view_kept_heaps {
        struct view_kept_heap *items;
        size_t count;
    } profiles[VIEW_PROFILES_MAX];
};

#define VIEW_OPENING_FLAME "flame"

/* The selection that the page opens on. */
struct view_opening {
    const char *tab;             /* VIEW_OPENING_FLAME, or NULL: the first */
    struct export_dump at, base; /* base.dump NULL: no difference */
    enum export_view view;
};

struct view_choice {
    const struct export_dump *dumps; /* NULL: all heaps with their last dumps */
    size_t count;
    bool with_earlier; /* other dumps of these heaps, too, as far as there is room */
};

/* Return what is kept of a heap; NULL: everything is here. */
const struct view_kept_heap *view_kept_heap_of(const struct view_profiles *profiles,
                                               const struct profile_heap *heap);
/* Return whether a dump's stacks are here: in a page that is a file, those of the kept dumps are.
 */
bool view_kept_has(const struct view_profiles *profiles, const struct export_dump *dump);
/* Return the number of the last such dump of a heap; SIZE_MAX: none. */
size_t view_kept_last(const struct view_profiles *profiles, const struct profile_heap *heap);

void view_kept_make(struct view_kept *kept, const struct view_profiles *profiles,
                    const struct view_choice *choice);
/* Keep one more dump. */
void view_kept_add(struct view_kept *kept, const struct view_profiles *profiles,
                   const struct export_dump *dump);
void view_kept_clear(struct view_kept *kept);

/* Numbers the samples of a heap's kept dumps, the dumps in order of time. Dumps that share a sample
 * share its number. Begin with the profile and zeros. */
struct kept_samples {
    const struct profile *profile;
    struct kept_sample {
        const struct profile_sample *sample; /* NULL: none yet */
        uint32_t number;
    } * of_callsites;
    const struct profile_sample **items;
    size_t count, capacity;
};

/* Set numbers[i] to the number of each sample i of a dump. */
void kept_samples_add(struct kept_samples *samples, const struct profile_dump *dump,
                      uint32_t *numbers);
/* Forget the samples, so that those of another heap can be numbered. */
void kept_samples_reset(struct kept_samples *samples);
void kept_samples_free(struct kept_samples *samples);

#endif
