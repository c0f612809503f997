/* SPDX-License-Identifier: Apache-2.0 */
/* Merge the samples of dumps whose callsites have become one. */
#include "profile/merge_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/live_times.h"
#include "profile/profile_owner.h"

/* The samples of one callsite in a dump, by callsite. */
struct gathered {
    size_t dump;  /* number of the dump of the other members, from 1 */
    size_t first; /* index of its first sample, which remains */
    uint32_t count, parts;
    bool tagged;
    uint64_t members, merged_members;    /* mixed addresses of the samples */
    const struct profile_sample *merged; /* of the last dump with several */
};

/* malloc'd memory that the profile owns. */
void *profile_merge_memory(struct profile *profile, size_t count, size_t size)
{
    struct profile_owner *owner = (struct profile_owner *)profile;
    struct profile_memory *node = malloc(sizeof(*node));
    void *memory = calloc(count, size);
    if (node == NULL || memory == NULL) {
        free(node);
        free(memory);
        return NULL;
    }
    *node = (struct profile_memory){owner->memory, memory};
    owner->memory = node;
    return memory;
}

/* Return a new sample, which is among those that the profile owns: a later step may change its
 * callsite. */
static struct profile_sample *new_sample(struct profile *profile)
{
    struct profile_owner *owner = (struct profile_owner *)profile;
    struct profile_sample_block *block = malloc(sizeof(*block));
    struct profile_sample *sample = calloc(1, sizeof(*sample));
    if (block == NULL || sample == NULL) {
        free(block);
        free(sample);
        return NULL;
    }
    *block = (struct profile_sample_block){
        .next = owner->samples, .samples = sample, .count = 1, .capacity = 1};
    owner->samples = block;
    return sample;
}

static void add_figures(struct profile_sample *sum, const struct profile_sample *more)
{
    trace_figures_add(&sum->figures, &more->figures);
    trace_peak_figures_add(&sum->peak, &more->peak);
}

/* Append a sample's parts. Without a type or context, its peak is in none of them. */
static uint32_t add_parts(struct profile_part *parts, const struct profile_sample *sample,
                          bool tagged)
{
    struct profile_part whole = {.type = "", .context = "", .figures = sample->figures};
    uint32_t count = sample->part_count;
    if (count > 0)
        memcpy(parts, sample->parts, count * sizeof(*parts));
    else if (tagged)
        parts[count++] = whole;
    if (tagged && !sample->tagged)
        parts->peak = sample->peak;
    return count;
}

/* Return one sample merged from all of its callsite, or NULL if there is no memory. */
static const struct profile_sample *
merge_samples(struct profile *profile, const struct profile_dump *dump, const struct gathered *of)
{
    struct profile_sample *sum = new_sample(profile);
    struct profile_part *parts =
        profile_merge_memory(profile, (size_t)of->parts + of->count, sizeof(*parts));
    uint32_t left = of->count;
    struct live_times_sum times = {0};
    if (sum == NULL || parts == NULL)
        return NULL;
    *sum = (struct profile_sample){
        .callsite = dump->samples[of->first]->callsite, .parts = parts, .tagged = of->tagged};
    for (size_t i = of->first; left > 0; i++) {
        const struct profile_sample *sample = dump->samples[i];
        if (sample->callsite != sum->callsite)
            continue;
        add_figures(sum, sample);
        live_times_sum_add(&times, sample);
        sum->part_count += add_parts(parts + sum->part_count, sample, of->tagged);
        left--;
    }
    if (times.unknown || times.times.slice_ms == 0)
        return sum;
    struct profile_times *kept =
        profile_merge_memory(profile, profile_times_bytes(&times.times), 1);
    if (kept == NULL)
        return NULL;
    profile_times_keep(&times.times, kept);
    sum->times = kept;
    return sum;
}

static void leave_out(struct profile_left_out *left_out, const struct profile_sample *sample)
{
    add_figures(&left_out->sum, sample);
    left_out->callsites++;
}

static void merge_samples_gather(struct gathered *all, const struct profile_dump *dump,
                                 size_t number)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i];
        struct gathered *of = &all[sample->callsite];
        if (of->dump != number)
            *of = (struct gathered){.dump = number,
                                    .first = i,
                                    .merged_members = of->merged_members,
                                    .merged = of->merged};
        of->count++;
        of->parts += sample->part_count;
        of->tagged |= sample->tagged;
        of->members = (of->members ^ (uint64_t)(uintptr_t)sample) * UINT64_C(0x9e3779b97f4a7c15);
    }
}

/* Merge the samples of one callsite. Dumps with the same samples get the same sum. */
static int merge_dump(struct profile *profile, struct gathered *all, struct profile_dump *dump,
                      size_t number)
{
    merge_samples_gather(all, dump, number);
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct gathered *of = &all[dump->samples[i]->callsite];
        if (of->count == 1 || of->first != i)
            continue;
        if (of->merged == NULL || of->merged_members != of->members)
            of->merged = merge_samples(profile, dump, of);
        of->merged_members = of->members;
        if (of->merged == NULL)
            return -ENOMEM;
    }
    size_t kept = 0;
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i];
        const struct gathered *of = &all[sample->callsite];
        if (of->first == i)
            dump->samples[kept++] = of->count > 1 ? of->merged : sample;
    }
    dump->sample_count = kept;
    return 0;
}

static int merge_in_dump(struct profile *profile, struct gathered *all, struct profile_dump *dump,
                         size_t number, bool merges)
{
    size_t kept = 0;
    for (size_t i = 0; i < dump->sample_count; i++) {
        if (dump->samples[i]->callsite == PROFILE_NONE)
            leave_out(&dump->left_out, dump->samples[i]);
        else
            dump->samples[kept++] = dump->samples[i];
    }
    dump->sample_count = kept;
    int code = merges ? merge_dump(profile, all, dump, number) : 0;
    dump->part_count = 0;
    for (size_t i = 0; i < dump->sample_count; i++)
        dump->part_count += dump->samples[i]->part_count;
    return code;
}

int profile_merge_samples(struct profile *profile, bool merges)
{
    struct gathered *all = calloc(profile->callsite_count + 1, sizeof(*all));
    size_t number = 0;
    int code = all == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count && code == 0; j++)
            code = merge_in_dump(profile, all, &profile->heaps[i].dumps[j], ++number, merges);
    free(all);
    return code;
}
