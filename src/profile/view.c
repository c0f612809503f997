/* SPDX-License-Identifier: Apache-2.0 */
/* The views and their words, the text of a frame, and the choice of dumps. */
#include "profile/view.h"

#include <errno.h>
#include <math.h>

#include "profile/rollup.h"

/* Limit, because these are gigabytes of text. The last dump of a C++ compiler, with each allocation
 * sampled, has 7 million. */
#define FRAMES_MAX (UINT64_C(1) << 28)
#define AHEAD 16u
/* Limit: a second of work, and as many callers for each stack as real ones rarely have. A compiler
 * and its shells stay below a million. */
#define CALLERS_MAX (UINT64_C(1) << 25)
#define CALLERS_PER_STACK 128u

const struct export_view_info export_view_info[EXPORT_VIEWS] = {
    [EXPORT_SPACE] = {"space", "bytes live", true},
    [EXPORT_OBJECTS] = {"objects", "allocations live", false},
    [EXPORT_ALLOC_SPACE] = {"alloc_space", "bytes ever allocated", true},
    [EXPORT_ALLOC_OBJECTS] = {"alloc_objects", "allocations ever made", false},
    [EXPORT_MAX] = {"max", "bytes live at the heap's peak", true},
};

bool export_view_is_unknown(const struct profile_heap *heap, enum export_view view)
{
    static const uint32_t needs[EXPORT_VIEWS] = {
        [EXPORT_SPACE] = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_SIZES,
        [EXPORT_OBJECTS] = PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_COUNTS,
        [EXPORT_ALLOC_SPACE] = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_SIZES,
        [EXPORT_ALLOC_OBJECTS] = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS,
        [EXPORT_MAX] = PROFILE_UNKNOWN_PEAK | PROFILE_UNKNOWN_SIZES,
    };
    return (heap->unknown & needs[view]) != 0;
}

double export_view_value(const struct profile_sample *sample, enum export_view view)
{
    switch (view) {
    case EXPORT_SPACE:
        return rollup_live_bytes(&sample->figures);
    case EXPORT_OBJECTS:
        return rollup_live_count(&sample->figures);
    case EXPORT_ALLOC_SPACE:
        return sample->figures.allocated_bytes;
    case EXPORT_ALLOC_OBJECTS:
        return sample->figures.allocated_count;
    default:
        return sample->peak.bytes;
    }
}

/* Above this, a double cannot represent all whole numbers, and neither can JavaScript's readers. */
#define SUM_MAX 0x1p53

uint64_t export_round(struct export_rounding *rounding, double value)
{
    if (value > 0)
        rounding->sum += value;
    double rounded = floor(rounding->sum + 0.5);
    uint64_t sum = rounded < SUM_MAX ? (uint64_t)rounded : (uint64_t)SUM_MAX;
    uint64_t grown = sum - rounding->written;
    rounding->written = sum;
    return grown;
}

int export_count_frames(const struct profile *profile, const struct profile_dump *dump,
                        uint64_t *frames, struct error *error)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        /* Samples of older dumps are scattered in memory. */
        if (i + AHEAD < dump->sample_count)
            __builtin_prefetch(&dump->samples[i + AHEAD]->callsite);
        *frames += (uint64_t)profile->callsites[dump->samples[i]->callsite].depth + 1;
    }
    if (*frames <= FRAMES_MAX)
        return 0;
    return error_set(error, -E2BIG,
                     "its stacks have more than %llu frames together, too many to write them one "
                     "by one; --focus, --show-from and --hide leave some out, and a flame graph "
                     "(traceconv flamegraph) needs each caller once",
                     (unsigned long long)FRAMES_MAX);
}

int export_callers_add(struct export_callers *callers, const struct profile *profile,
                       const struct profile_dump *dump, struct error *error)
{
    struct callsite_nodes *nodes = &callers->nodes;
    if (nodes->profile != profile) {
        export_callers_clear(callers);
        if (callsite_nodes_begin(nodes, profile) < 0)
            return error_set(error, -ENOMEM, "no memory to count its callers");
    }
    callsite_nodes_mark_dump(nodes, dump);
    uint64_t own = nodes->count;
    callsite_nodes_clear(nodes);
    callers->count += own;
    callers->stacks += dump->sample_count;
    if (callers->count <= CALLERS_MAX + CALLERS_PER_STACK * callers->stacks ||
        callers->count == own)
        return 0;
    return error_set(error, -E2BIG,
                     "its heaps have more than %llu callers, each heap's counted by itself, too "
                     "many to show; --pid shows one process, --focus, --show-from and --hide "
                     "leave stacks out",
                     (unsigned long long)callers->count);
}

void export_callers_clear(struct export_callers *callers)
{
    if (callers->nodes.profile != NULL)
        callsite_nodes_free(&callers->nodes);
    callers->nodes = (struct callsite_nodes){0};
}

size_t export_deepest_stack(const struct profile *profile)
{
    uint32_t most = 0;
    for (size_t i = 0; i < profile->callsite_count; i++)
        if (profile->callsites[i].depth > most)
            most = profile->callsites[i].depth;
    return (size_t)most + 1;
}

size_t export_take_stack(const struct profile *profile, uint32_t callsite, uint32_t *frames)
{
    size_t depth = 0;
    for (; callsite != PROFILE_NONE; callsite = profile->callsites[callsite].parent)
        frames[depth++] = profile->callsites[callsite].frame;
    return depth;
}
