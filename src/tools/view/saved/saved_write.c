/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the block: takes what the kept dumps need of each profile, and numbers it anew. */
#include <stdlib.h>
#include <string.h>

#include "profile/live_times.h"
#include "profile/symbols/demangle.h"
#include "tools/view/answers/answers.h"
#include "tools/view/saved/saved_profile.h"
#include "tools/view/saved/saved_profiles.h"
#include "util/id_map.h"
#include "util/xmalloc.h"

/* What of a profile is written. The copies of its parts live until it is. */
struct kept_profile {
    struct profile profile;
    const struct view_profile *of;
    uint32_t *callsites, *frames,
        *mappings; /* their numbers in the block; PROFILE_NONE: left out */
};

/* Turn marks into numbers, in order. Return how many there are. */
static size_t number_marked(uint32_t *marks, size_t count)
{
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++)
        marks[i] = marks[i] != 0 ? used++ : PROFILE_NONE;
    return used;
}

/* Mark a callsite with its callers, their frames and mappings. */
static void mark_callsite(struct kept_profile *kept, uint64_t at)
{
    const struct profile *profile = kept->of->profile;
    for (; at != PROFILE_NONE && kept->callsites[at] == 0; at = profile->callsites[at].parent) {
        uint32_t frame = profile->callsites[at].frame, mapping = profile->frames[frame].mapping;
        kept->callsites[at] = kept->frames[frame] = 1;
        if (mapping != PROFILE_NONE)
            kept->mappings[mapping] = 1;
    }
}

static uint32_t number_of(const uint32_t *numbers, uint32_t index)
{
    return index == PROFILE_NONE ? PROFILE_NONE : numbers[index];
}

/* Copy the marked items of an array. */
static void *copy_marked(const void *items, size_t bytes, const uint32_t *numbers, size_t count,
                         size_t left)
{
    char *copy = xcalloc(left + 1, bytes);
    for (size_t i = 0; i < count; i++)
        if (numbers[i] != PROFILE_NONE)
            memcpy(copy + numbers[i] * bytes, (const char *)items + i * bytes, bytes);
    return copy;
}

/* Take when a sample's live memory was allocated. */
static struct saved_times times_of(const struct profile_sample *sample)
{
    const struct profile_times *times = sample->times;
    if (times == NULL)
        return (struct saved_times){0};
    struct saved_times kept = {.slice_ms = times->slice_ms,
                               .oldest_ms = times->oldest_ms,
                               .first = times->first,
                               .slices = xcalloc(times->count + 1, sizeof(*kept.slices)),
                               .slice_count = times->count};
    for (uint32_t i = 0; i < times->count; i++)
        kept.slices[i] = (struct saved_slice){times->slices[i].bytes, times->slices[i].samples};
    return kept;
}

/* Take the samples of the kept dumps of a heap, and the numbers of each dump's. */
static void take_samples(struct saved_profile *saved, struct kept_samples *samples,
                         const struct profile_heap *heap, const bool *are_kept,
                         struct saved_list *dumps)
{
    size_t before = saved->sample_count;
    for (size_t i = 0; i < heap->dump_count; i++) {
        if (!are_kept[i])
            continue;
        uint32_t *numbers = xcalloc(heap->dumps[i].sample_count + 1, sizeof(*numbers));
        kept_samples_add(samples, &heap->dumps[i], numbers);
        for (size_t j = 0; j < heap->dumps[i].sample_count; j++)
            numbers[j] += (uint32_t)before;
        dumps[i] = (struct saved_list){numbers, heap->dumps[i].sample_count};
    }
    saved->sample_count += samples->count;
    saved->samples =
        xreallocarray(saved->samples, saved->sample_count + 1, sizeof(*saved->samples));
    saved->parts = xreallocarray(saved->parts, saved->sample_count + 1, sizeof(*saved->parts));
    saved->times = xreallocarray(saved->times, saved->sample_count + 1, sizeof(*saved->times));
    for (size_t i = 0; i < samples->count; i++) {
        const struct profile_sample *sample = samples->items[i];
        bool is_single = sample->part_count == 1 && sample->parts == &sample->single;
        saved->samples[before + i] = *sample;
        saved->times[before + i] = times_of(sample);
        saved->parts[before + i] =
            (struct saved_list){(void *)sample->parts, is_single ? 0 : sample->part_count};
    }
    kept_samples_reset(samples);
}

/* Return the answer of api/summary. */
static char *sentences_of(struct view_profiles *profiles, const struct view_profile *of,
                          const struct export_dump *at)
{
    char *text;
    size_t length;
    FILE *out = xopen_memstream(&text, &length);
    summary_write(profiles, of, at, out);
    xclose_memstream(out);
    return text;
}

/* Take what the page shows of the heaps and their dumps; of heaps that are not listed, no dump. */
static void take_heaps(struct saved_profile *saved, struct view_profiles *profiles,
                       struct kept_profile *kept, const struct view_kept_heaps *heaps)
{
    struct profile *profile = &kept->profile;
    struct kept_samples samples = {.profile = kept->of->profile};
    profile->heaps = xcalloc(profile->heap_count + 1, sizeof(*profile->heaps));
    saved->are_listed = xcalloc(profile->heap_count + 1, sizeof(*saved->are_listed));
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &kept->of->profile->heaps[i];
        profile->heaps[i] = *heap;
        saved->are_listed[i] = heaps->items[i].is_listed;
        if (!saved->are_listed[i])
            profile->heaps[i].dump_count = profile->heaps[i].status.place_count = 0;
        saved->dump_count += profile->heaps[i].dump_count;
    }
    saved->are_kept = xcalloc(saved->dump_count + 1, sizeof(*saved->are_kept));
    saved->sentences = xcalloc(saved->dump_count + 1, sizeof(*saved->sentences));
    saved->dumps = xcalloc(saved->dump_count + 1, sizeof(*saved->dumps));
    size_t first = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct profile_heap *heap = &profile->heaps[i];
        const struct profile_heap *whole = &kept->of->profile->heaps[i];
        heap->dumps = xcalloc(heap->dump_count + 1, sizeof(*heap->dumps));
        for (size_t j = 0; j < heap->dump_count; j++) {
            const struct export_dump at = {whole, &whole->dumps[j]};
            bool is_kept = heaps->items[i].dumps != NULL && heaps->items[i].dumps[j];
            heap->dumps[j] = whole->dumps[j];
            heap->dumps[j].site_count = is_kept ? heap->dumps[j].site_count : 0;
            saved->are_kept[first + j] = is_kept;
            saved->sentences[first + j] =
                is_kept ? sentences_of(profiles, kept->of, &at) : xstrdup("");
        }
        take_samples(saved, &samples, heap, saved->are_kept + first, saved->dumps + first);
        first += heap->dump_count;
    }
    kept_samples_free(&samples);
}

/* Give samples, sites and places their new numbers. */
static void renumber_heaps(struct saved_profile *saved, const struct kept_profile *kept)
{
    for (size_t i = 0; i < saved->sample_count; i++)
        saved->samples[i].callsite = kept->callsites[saved->samples[i].callsite];
    for (size_t i = 0; i < kept->profile.heap_count; i++) {
        struct profile_heap *heap = &kept->profile.heaps[i];
        struct trace_heap_dump *status = &heap->status;
        struct trace_place *places = xcalloc(status->place_count + 1, sizeof(*places));
        size_t count = 0;
        for (size_t j = 0; j < status->place_count; j++) {
            places[count] = status->places[j];
            places[count].mapping = kept->mappings[status->places[j].mapping];
            count += places[count].mapping != PROFILE_NONE;
        }
        status->places = places;
        status->place_count = count;
        for (size_t j = 0; j < heap->dump_count; j++) {
            struct profile_dump *dump = &heap->dumps[j];
            struct trace_memory_site *sites = xcalloc(dump->site_count + 1, sizeof(*sites));
            for (size_t k = 0; k < dump->site_count; k++) {
                sites[k] = dump->sites[k];
                sites[k].callsite = kept->callsites[sites[k].callsite];
            }
            dump->sites = sites;
        }
    }
}

/* Return the simple name of a frame, which the page cannot make of the mangled one. */
static const char *simple_name(const struct profile_frame *frame, struct id_map *known,
                               char ***names, size_t *count, size_t *capacity)
{
    const char *mangled = frame->linkage_name;
    if (*mangled == '\0' || *frame->obfuscated_name != '\0')
        return "";
    uint32_t at = id_map_find(known, (uint64_t)(uintptr_t)mangled);
    if (at == ID_MAP_NONE) {
        char *name = xmalloc_made(demangle_name_as(mangled, DEMANGLE_SIMPLE));
        at = (uint32_t)*count;
        XARRAY_ADD(names, count, capacity, name);
        xmalloc_code(id_map_set(known, (uint64_t)(uintptr_t)mangled, at));
    }
    return (*names)[at];
}

/* Take the callsites of the samples and sites, and what these need. */
static void take_callsites(struct saved_profile *saved, struct kept_profile *kept)
{
    const struct profile *whole = kept->of->profile;
    struct profile *profile = &kept->profile;
    for (size_t i = 0; i < saved->sample_count; i++)
        mark_callsite(kept, saved->samples[i].callsite);
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            for (size_t k = 0; k < profile->heaps[i].dumps[j].site_count; k++)
                mark_callsite(kept, profile->heaps[i].dumps[j].sites[k].callsite);
    profile->callsite_count = number_marked(kept->callsites, whole->callsite_count);
    profile->frame_count = number_marked(kept->frames, whole->frame_count);
    profile->mapping_count = number_marked(kept->mappings, whole->mapping_count);
    profile->callsites = copy_marked(whole->callsites, sizeof(*whole->callsites), kept->callsites,
                                     whole->callsite_count, profile->callsite_count);
    profile->frames = copy_marked(whole->frames, sizeof(*whole->frames), kept->frames,
                                  whole->frame_count, profile->frame_count);
    profile->mappings = copy_marked(whole->mappings, sizeof(*whole->mappings), kept->mappings,
                                    whole->mapping_count, profile->mapping_count);
    for (size_t i = 0; i < profile->callsite_count; i++) {
        struct profile_callsite *callsite = &profile->callsites[i];
        callsite->parent = number_of(kept->callsites, callsite->parent);
        callsite->frame = kept->frames[callsite->frame];
    }
    for (size_t i = 0; i < profile->frame_count; i++)
        profile->frames[i].mapping = number_of(kept->mappings, profile->frames[i].mapping);
    renumber_heaps(saved, kept);
}

/* Take the groups into which frames are folded. */
static void take_known(struct saved_profile *saved, const struct kept_profile *kept)
{
    const struct profile *whole = kept->of->profile;
    struct id_map ids = {0};
    size_t capacity = 0;
    saved->known_of = xcalloc(kept->profile.frame_count + 1, sizeof(*saved->known_of));
    for (size_t i = 0; i < whole->frame_count; i++) {
        const struct known_frames *known = folding_of(&kept->of->folding, (uint32_t)i);
        uint32_t frame = kept->frames[i], at = PROFILE_NONE;
        if (frame == PROFILE_NONE)
            continue;
        if (known != NULL && (at = id_map_find(&ids, (uint64_t)(uintptr_t)known)) == ID_MAP_NONE) {
            at = (uint32_t)saved->known_count;
            XARRAY_ADD(&saved->known, &saved->known_count, &capacity, *known);
            xmalloc_code(id_map_set(&ids, (uint64_t)(uintptr_t)known, at));
        }
        saved->known_of[frame] = at;
    }
    id_map_free(&ids);
}

static void write_profile(struct carrier *page, struct saved_profile *saved)
{
    struct carrier carrier = {.reads = false};
    char *texts, *columns;
    size_t text_bytes, column_bytes;
    carrier.texts_out = xopen_memstream(&texts, &text_bytes);
    carrier.out = xopen_memstream(&columns, &column_bytes);
    saved_profile_carry(&carrier, saved);
    xclose_memstream(carrier.texts_out);
    xclose_memstream(carrier.out);
    carry_count(page, &text_bytes);
    fwrite(texts, 1, text_bytes, page->out);
    fwrite(columns, 1, column_bytes, page->out);
    intern_free(&carrier.text_ids);
    free(texts);
    free(columns);
}

static void kept_profile_free(struct kept_profile *kept)
{
    for (size_t i = 0; i < kept->profile.heap_count; i++) {
        struct profile_heap *heap = &kept->profile.heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++)
            free((void *)heap->dumps[j].sites);
        free((void *)heap->status.places);
        free(heap->dumps);
    }
    free(kept->profile.heaps);
    free(kept->profile.callsites);
    free(kept->profile.frames);
    free(kept->profile.mappings);
    free(kept->callsites);
    free(kept->frames);
    free(kept->mappings);
}

static void save_profile(struct carrier *page, struct view_profiles *profiles,
                         const struct view_profile *of, const struct view_kept_heaps *heaps)
{
    const struct profile *whole = of->profile;
    struct kept_profile kept = {
        .profile = *whole,
        .of = of,
        .callsites = xcalloc(whole->callsite_count + 1, sizeof(uint32_t)),
        .frames = xcalloc(whole->frame_count + 1, sizeof(uint32_t)),
        .mappings = xcalloc(whole->mapping_count + 1, sizeof(uint32_t)),
    };
    struct saved_profile saved = {.profile = &kept.profile};
    struct id_map names_of = {0};
    char **names = NULL;
    size_t name_count = 0, name_capacity = 0;
    take_heaps(&saved, profiles, &kept, heaps);
    take_callsites(&saved, &kept);
    take_known(&saved, &kept);
    for (size_t i = 0; i < kept.profile.frame_count; i++)
        kept.profile.frames[i].linkage_name =
            simple_name(&kept.profile.frames[i], &names_of, &names, &name_count, &name_capacity);
    write_profile(page, &saved);
    for (size_t i = 0; i < name_count; i++)
        free(names[i]);
    free(names);
    id_map_free(&names_of);
    for (size_t i = 0; i < saved.dump_count; i++)
        free((void *)saved.sentences[i]);
    free(saved.known);
    free(saved.samples);
    saved_profile_free(&saved);
    kept_profile_free(&kept);
}

void saved_profiles_write(struct view_profiles *profiles, const struct view_kept *kept,
                          const struct view_opening *opening, FILE *out)
{
    struct carrier carrier = {.out = out};
    struct view_opening copy = *opening;
    uint32_t version = SAVED_VERSION, count = (uint32_t)profiles->count, native = profiles->native;
    char *budgets = profiles->budgets;
    carry_number(&carrier, &version);
    carry_number(&carrier, &count);
    carry_number(&carrier, &native);
    carry_budgets(&carrier, &budgets);
    for (size_t i = 0; i < profiles->count; i++) {
        size_t length = strlen(profiles->items[i].path);
        carry_count(&carrier, &length);
        fwrite(profiles->items[i].path, 1, length, out);
        save_profile(&carrier, profiles, &profiles->items[i], &kept->profiles[i]);
    }
    saved_opening_carry(&carrier, profiles, &copy);
}
