/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the block, of which nothing is believed. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "profile/live_times.h"
#include "profile/profile_owner.h"
#include "tools/view/saved/saved_profile.h"
#include "tools/view/saved/saved_profiles.h"
#include "util/xmalloc.h"

/* Read the list of texts, which the profile keeps. */
static void read_texts(struct carrier *carrier)
{
    size_t length = 0;
    carry_count(carrier, &length);
    const unsigned char *bytes = carrier_take(carrier, length);
    if (bytes == NULL || length == 0)
        return;
    if (bytes[length - 1] != '\0')
        return carrier_fail(carrier, "a text has no end");
    char *copy = memcpy(carrier_keep(carrier, length, 1), bytes, length);
    for (size_t i = 0; i < length; i++)
        carrier->text_count += copy[i] == '\0';
    carrier->texts = xcalloc(carrier->text_count + 1, sizeof(*carrier->texts));
    for (size_t i = 0; i < carrier->text_count; i++) {
        carrier->texts[i] = copy;
        copy += strlen(copy) + 1;
    }
}

/* Let the profile own the samples. */
static void keep_samples(struct profile_owner *owner, struct saved_profile *saved)
{
    owner->samples = xcalloc(1, sizeof(*owner->samples));
    owner->samples->samples = saved->samples;
    owner->samples->count = owner->samples->capacity = saved->sample_count;
}

/* Make depths, and check what a number alone does not show. */
static void check_profile(struct carrier *carrier, const struct saved_profile *saved)
{
    struct profile *profile = saved->profile;
    for (size_t i = 0; i < profile->callsite_count; i++) {
        struct profile_callsite *callsite = &profile->callsites[i];
        if (callsite->parent != PROFILE_NONE && callsite->parent >= i)
            return carrier_fail(carrier, "a callsite comes before its caller");
        callsite->depth =
            callsite->parent == PROFILE_NONE ? 0 : profile->callsites[callsite->parent].depth + 1;
    }
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++)
            for (size_t k = 0; k < heap->dumps[j].site_count; k++)
                if (heap->dumps[j].sites[k].callsite >= profile->callsite_count)
                    return carrier_fail(carrier, "a site has no callsite");
    }
    for (size_t i = 0; i < saved->sample_count; i++) {
        const struct profile_sample *sample = &saved->samples[i];
        bool has_label = sample->type != NULL && sample->context != NULL;
        bool is_single = saved->parts[i].count == 0 && sample->part_count == 1 && has_label;
        if (!is_single && saved->parts[i].count != sample->part_count)
            return carrier_fail(carrier, "a sample lacks its parts");
    }
}

/* Return when a sample's live memory was allocated; NULL: unknown. */
static const struct profile_times *read_times(struct carrier *carrier,
                                              const struct saved_times *saved)
{
    if (saved->slice_ms == 0)
        return NULL;
    if (saved->slice_count > TRACE_TIME_SLICES ||
        saved->first > TRACE_TIME_SLICES - saved->slice_count) {
        carrier_fail(carrier, "a time is in no slice");
        return NULL;
    }
    struct profile_times *times =
        carrier_keep(carrier, 1, sizeof(*times) + saved->slice_count * sizeof(times->slices[0]));
    *times = (struct profile_times){saved->slice_ms, saved->oldest_ms, saved->first,
                                    (uint32_t)saved->slice_count};
    for (size_t i = 0; i < saved->slice_count; i++)
        times->slices[i] =
            (struct profile_time_slice){(float)saved->slices[i].bytes, saved->slices[i].samples};
    return times;
}

/* Point dumps to their samples, and samples to their parts and times. */
static void link_samples(struct carrier *carrier, const struct saved_profile *saved)
{
    size_t at = 0;
    for (size_t i = 0; i < saved->sample_count; i++) {
        struct profile_sample *sample = &saved->samples[i];
        sample->parts = saved->parts[i].count > 0 ? saved->parts[i].items
                        : sample->part_count == 1 ? &sample->single
                                                  : NULL;
        sample->times = read_times(carrier, &saved->times[i]);
    }
    for (size_t i = 0; i < saved->profile->heap_count; i++) {
        struct profile_heap *heap = &saved->profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++, at++) {
            struct profile_dump *dump = &heap->dumps[j];
            const uint32_t *numbers = saved->dumps[at].items;
            dump->samples = xcalloc(saved->dumps[at].count + 1, sizeof(*dump->samples));
            for (size_t k = 0; k < saved->dumps[at].count; k++) {
                if (numbers[k] >= saved->sample_count)
                    return carrier_fail(carrier, "there is no such sample");
                dump->samples[dump->sample_count++] = &saved->samples[numbers[k]];
                if (__builtin_add_overflow(dump->part_count, saved->samples[numbers[k]].part_count,
                                           &dump->part_count))
                    return carrier_fail(carrier, "there are too many parts");
            }
        }
    }
}

/* Take which heaps and dumps there are, and their sentences. */
static void read_kept(struct carrier *carrier, const struct saved_profile *saved,
                      struct view_kept_heaps *kept)
{
    const struct profile *profile = saved->profile;
    size_t at = 0;
    kept->count = profile->heap_count;
    kept->items = xcalloc(kept->count + 1, sizeof(*kept->items));
    for (size_t i = 0; i < kept->count; i++) {
        struct view_kept_heap *heap = &kept->items[i];
        size_t count = profile->heaps[i].dump_count;
        heap->is_listed = saved->are_listed[i];
        if (count > 0 && memchr(saved->are_kept + at, true, count) != NULL) {
            heap->dumps = xcalloc(count, sizeof(*heap->dumps));
            memcpy(heap->dumps, saved->are_kept + at, count * sizeof(*heap->dumps));
            heap->sentences = carrier_keep(carrier, count, sizeof(*heap->sentences));
            memcpy(heap->sentences, saved->sentences + at, count * sizeof(*heap->sentences));
        }
        for (size_t j = 0; j < count && heap->dumps != NULL; j++)
            heap->last = heap->dumps[j] ? j : heap->last;
        at += count;
    }
}

static struct folding read_folding(struct carrier *carrier, const struct saved_profile *saved)
{
    size_t count = saved->profile->frame_count;
    struct known_frames *known = carrier_keep(carrier, saved->known_count, sizeof(*known));
    struct folding folding = {xcalloc(count + 1, sizeof(*folding.frames))};
    memcpy(known, saved->known, saved->known_count * sizeof(*known));
    for (size_t i = 0; i < count; i++)
        folding.frames[i] = saved->known_of[i] == PROFILE_NONE ? NULL : &known[saved->known_of[i]];
    return folding;
}

static void read_profile(struct carrier *page, struct saved_profiles *into)
{
    struct profile_owner *owner = xcalloc(1, sizeof(*owner));
    struct saved_profile saved = {.profile = &owner->profile};
    struct carrier carrier = *page;
    char path[PATH_MAX];
    size_t length = 0;
    carry_count(&carrier, &length);
    const unsigned char *bytes = carrier_take(&carrier, length);
    snprintf(path, sizeof(path), "%.*s", bytes == NULL ? 0 : (int)length, (const char *)bytes);
    carrier.profile = saved.profile;
    carrier.counts[LOSSES] = TRACE_LOSS_IDS;
    read_texts(&carrier);
    saved_profile_carry(&carrier, &saved);
    if (!carrier.failed)
        check_profile(&carrier, &saved);
    keep_samples(owner, &saved);
    if (!carrier.failed)
        link_samples(&carrier, &saved);
    if (!carrier.failed) {
        struct folding folding = read_folding(&carrier, &saved);
        read_kept(&carrier, &saved, &into->kept.profiles[into->profiles.count]);
        view_profiles_take(&into->profiles, path, saved.profile, &folding);
    } else {
        profile_free(saved.profile);
    }
    free(saved.known);
    saved_profile_free(&saved);
    free(carrier.texts);
    page->at = carrier.at;
    page->failed = carrier.failed;
}

int saved_profiles_read(struct saved_profiles *saved, const void *bytes, size_t length,
                        struct error *error)
{
    struct carrier carrier = {.reads = true,
                              .bytes = bytes,
                              .at = bytes,
                              .end = (const unsigned char *)bytes + length,
                              .error = error};
    uint32_t version = 0, count = 0, native = 0;
    *saved = (struct saved_profiles){0};
    carry_number(&carrier, &version);
    carry_number(&carrier, &count);
    carry_number(&carrier, &native);
    if (!carrier.failed && version != SAVED_VERSION)
        carrier_fail(&carrier, "it is of another version");
    if (count > VIEW_PROFILES_MAX)
        carrier_fail(&carrier, "it has too many profiles");
    carry_budgets(&carrier, &saved->profiles.budgets);
    for (uint32_t i = 0; i < count && !carrier.failed; i++)
        read_profile(&carrier, saved);
    saved_opening_carry(&carrier, &saved->profiles, &saved->opening);
    view_profiles_link(&saved->profiles);
    saved->profiles.native = native != 0;
    saved->profiles.kept = &saved->kept;
    saved->profiles.opening = &saved->opening;
    return carrier.failed ? -EBADMSG : 0;
}

void saved_profiles_free(struct saved_profiles *saved)
{
    view_profiles_free(&saved->profiles);
    view_kept_clear(&saved->kept);
}
