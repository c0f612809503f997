/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the dumps of a page that is a file: the last of each heap, and every Nth before it, with
 * the smallest N with which they have room. */
#include "tools/view/model/kept.h"

#include <stdlib.h>

#include "util/xmalloc.h"

/* Room for the samples that only earlier dumps have. A sample takes about 20 bytes in the file; an
 * entry in the list of a dump takes little, but reading the page takes time for it. */
#define SAMPLES_MAX 300000u
#define ENTRIES_PER_SAMPLE 16u

const struct view_kept_heap *view_kept_heap_of(const struct view_profiles *profiles,
                                               const struct profile_heap *heap)
{
    for (size_t i = 0; i < profiles->count && profiles->kept != NULL; i++) {
        const struct profile *profile = profiles->items[i].profile;
        if (heap >= profile->heaps && heap < profile->heaps + profile->heap_count)
            return &profiles->kept->profiles[i].items[heap - profile->heaps];
    }
    return NULL;
}

bool view_kept_has(const struct view_profiles *profiles, const struct export_dump *dump)
{
    const struct view_kept_heap *kept = view_kept_heap_of(profiles, dump->heap);
    return kept == NULL || (kept->dumps != NULL && kept->dumps[dump->dump - dump->heap->dumps]);
}

size_t view_kept_last(const struct view_profiles *profiles, const struct profile_heap *heap)
{
    size_t last = heap->dump_count;
    while (last > 0 &&
           !view_kept_has(profiles, &(struct export_dump){heap, &heap->dumps[last - 1]}))
        last--;
    return last - 1;
}

/* --- samples --- */

void kept_samples_add(struct kept_samples *samples, const struct profile_dump *dump,
                      uint32_t *numbers)
{
    if (samples->of_callsites == NULL)
        samples->of_callsites =
            xcalloc(samples->profile->callsite_count + 1, sizeof(*samples->of_callsites));
    XARRAY_RESERVE(&samples->items, &samples->capacity, samples->count, dump->sample_count);
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i];
        struct kept_sample *known = &samples->of_callsites[sample->callsite];
        if (known->sample != sample) {
            *known = (struct kept_sample){sample, (uint32_t)samples->count};
            samples->items[samples->count++] = sample;
        }
        numbers[i] = known->number;
    }
}

/* Clear only what is set: a profile may have many heaps, each with few of its callsites. */
void kept_samples_reset(struct kept_samples *samples)
{
    for (size_t i = 0; i < samples->count; i++)
        samples->of_callsites[samples->items[i]->callsite] = (struct kept_sample){0};
    samples->count = 0;
}

void kept_samples_free(struct kept_samples *samples)
{
    free(samples->of_callsites);
    free(samples->items);
    *samples = (struct kept_samples){0};
}

/* --- the choice --- */

static bool is_kept(const struct view_kept_heap *heap, size_t dump, size_t step)
{
    return dump <= heap->last && (heap->last - dump) % step == 0;
}

/* Add what every `step`th dump of a heap takes beside the last one. */
static void add_cost(const struct profile_heap *heap, const struct view_kept_heap *kept,
                     size_t step, struct kept_samples *samples, size_t *cost)
{
    size_t entries = 0, most = 0, last = heap->dumps[kept->last].sample_count;
    for (size_t i = 0; i <= kept->last; i++)
        if (is_kept(kept, i, step) && heap->dumps[i].sample_count > most)
            most = heap->dumps[i].sample_count;
    uint32_t *numbers = xcalloc(most + 1, sizeof(*numbers));
    for (size_t i = 0; i <= kept->last; i++) {
        if (!is_kept(kept, i, step))
            continue;
        entries += heap->dumps[i].sample_count;
        kept_samples_add(samples, &heap->dumps[i], numbers);
    }
    *cost += samples->count - last + (entries - last) / ENTRIES_PER_SAMPLE;
    kept_samples_reset(samples);
    free(numbers);
}

/* Return the smallest step for which earlier dumps have room; 0: for none. */
static size_t find_step(const struct view_kept *kept, const struct view_profiles *profiles)
{
    size_t longest = 0, cost = SAMPLES_MAX + 1, step = 1;
    for (; cost > SAMPLES_MAX; step *= 2) {
        cost = longest = 0;
        for (size_t i = 0; i < profiles->count; i++) {
            const struct profile *profile = profiles->items[i].profile;
            struct kept_samples samples = {.profile = profile};
            for (size_t j = 0; j < profile->heap_count; j++) {
                const struct view_kept_heap *heap = &kept->profiles[i].items[j];
                if (heap->last == 0)
                    continue;
                longest = heap->last > longest ? heap->last : longest;
                add_cost(&profile->heaps[j], heap, step, &samples, &cost);
            }
            kept_samples_free(&samples);
        }
        if (step > longest)
            return 0;
    }
    return step / 2;
}

static void keep_earlier(struct view_kept *kept, const struct view_profiles *profiles)
{
    size_t step = find_step(kept, profiles);
    for (size_t i = 0; i < profiles->count && step > 0; i++)
        for (size_t j = 0; j < profiles->items[i].profile->heap_count; j++) {
            struct view_kept_heap *heap = &kept->profiles[i].items[j];
            for (size_t dump = 0; heap->dumps != NULL && dump <= heap->last; dump++)
                heap->dumps[dump] |= is_kept(heap, dump, step);
        }
}

void view_kept_add(struct view_kept *kept, const struct view_profiles *profiles,
                   const struct export_dump *dump)
{
    for (size_t i = 0; i < profiles->count; i++) {
        const struct profile *profile = profiles->items[i].profile;
        if (dump->heap < profile->heaps || dump->heap >= profile->heaps + profile->heap_count)
            continue;
        struct view_kept_heap *heap = &kept->profiles[i].items[dump->heap - profile->heaps];
        size_t index = (size_t)(dump->dump - dump->heap->dumps);
        heap->is_listed = true;
        if (heap->dumps == NULL)
            heap->dumps = xcalloc(dump->heap->dump_count, sizeof(*heap->dumps));
        heap->dumps[index] = true;
        heap->last = index > heap->last ? index : heap->last;
    }
}

static void keep_all(struct view_kept *kept, const struct view_profiles *profiles)
{
    for (size_t i = 0; i < profiles->count; i++) {
        const struct profile *profile = profiles->items[i].profile;
        for (size_t j = 0; j < profile->heap_count; j++) {
            const struct profile_heap *heap = &profile->heaps[j];
            kept->profiles[i].items[j].is_listed = true;
            if (heap->dump_count == 0 || heap->unseen)
                continue;
            const struct export_dump last = {heap, &heap->dumps[heap->dump_count - 1]};
            view_kept_add(kept, profiles, &last);
        }
    }
}

void view_kept_make(struct view_kept *kept, const struct view_profiles *profiles,
                    const struct view_choice *choice)
{
    *kept = (struct view_kept){0};
    for (size_t i = 0; i < profiles->count; i++) {
        struct view_kept_heaps *heaps = &kept->profiles[i];
        size_t count = profiles->items[i].profile->heap_count;
        heaps->items = xcalloc(count + 1, sizeof(*heaps->items));
        heaps->count = count;
    }
    if (choice->dumps == NULL)
        keep_all(kept, profiles);
    for (size_t i = 0; i < choice->count; i++)
        view_kept_add(kept, profiles, &choice->dumps[i]);
    if (choice->with_earlier)
        keep_earlier(kept, profiles);
}

void view_kept_clear(struct view_kept *kept)
{
    for (size_t i = 0; i < VIEW_PROFILES_MAX; i++) {
        for (size_t j = 0; j < kept->profiles[i].count; j++)
            free(kept->profiles[i].items[j].dumps);
        free(kept->profiles[i].items);
    }
    *kept = (struct view_kept){0};
}
