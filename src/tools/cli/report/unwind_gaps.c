/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the modules whose code stopped the unwinder, and the share of samples that each cost. */
#include "tools/cli/report/unwind_gaps.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/print/format.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

#define LINES_MAX 5u
#define LEAST_SHARE 0.001 /* printed as a number */

/* Values that stand for "no gap" and "code of no module" instead of a mapping. */
#define NO_GAP UINT32_MAX
#define GAP_OF_NO_MODULE (UINT32_MAX - 1)

struct gap {
    const char *module; /* path; "": code of no module */
    uint64_t samples;
    double share; /* of the dump's samples, 0 to 1 */
};

struct gaps {
    struct gap *items; /* the most samples first */
    size_t count;
};

static bool is_gap(const struct profile *profile, uint32_t callsite)
{
    const struct profile_frame *frame = &profile->frames[profile->callsites[callsite].frame];
    return frame->mapping == PROFILE_NONE && strcmp(frame->name, TRACE_NO_UNWINDING_FRAME) == 0;
}

/* Return, by callsite, the mapping of the code in which unwinding stopped, NO_GAP, or
 * GAP_OF_NO_MODULE. */
static uint32_t *find_ends(const struct profile *profile)
{
    uint32_t *ends = xcalloc(profile->callsite_count + 1, sizeof(*ends));
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t mapping = profile->frames[callsite->frame].mapping;
        ends[i] = NO_GAP;
        if (is_gap(profile, (uint32_t)i))
            ends[i] = GAP_OF_NO_MODULE;
        else if (callsite->parent != PROFILE_NONE && is_gap(profile, callsite->parent))
            ends[i] = mapping != PROFILE_NONE ? mapping : GAP_OF_NO_MODULE;
        else if (callsite->parent != PROFILE_NONE)
            ends[i] = ends[callsite->parent];
    }
    return ends;
}

static int compare_gaps(const void *left_pointer, const void *right_pointer)
{
    const struct gap *left = left_pointer, *right = right_pointer;
    if (left->samples != right->samples)
        return left->samples < right->samples ? 1 : -1;
    return strcmp(left->module, right->module);
}

static int compare_modules(const void *left, const void *right)
{
    return strcmp(((const struct gap *)left)->module, ((const struct gap *)right)->module);
}

/* Merge gaps of one path: a module may be mapped several times. */
static size_t merge(struct gap *gaps, size_t count)
{
    size_t used = 0;
    qsort(gaps, count, sizeof(*gaps), compare_modules);
    for (size_t i = 0; i < count; i++) {
        if (used > 0 && strcmp(gaps[used - 1].module, gaps[i].module) == 0)
            gaps[used - 1].samples += gaps[i].samples;
        else
            gaps[used++] = gaps[i];
    }
    return used;
}

void unwind_gap_finder_clear(struct unwind_gap_finder *finder)
{
    free(finder->ends);
    free(finder->samples);
    free(finder->found);
    *finder = (struct unwind_gap_finder){0};
}

static void unwind_gaps_begin(struct unwind_gap_finder *finder, const struct profile *profile)
{
    if (finder->ends == NULL)
        finder->ends = find_ends(profile);
    if (finder->samples == NULL)
        finder->samples = xcalloc(profile->mapping_count + 1, sizeof(*finder->samples));
}

/* Counters of a dump's samples. */
struct counts {
    uint64_t total, ending_nowhere;
    size_t found; /* entries in finder->found */
};

static void count_sample(struct unwind_gap_finder *finder, const struct profile_sample *sample,
                         struct counts *counts)
{
    uint32_t end = finder->ends[sample->callsite];
    uint64_t samples = sample->figures.samples;
    counts->total += samples;
    if (end == GAP_OF_NO_MODULE)
        counts->ending_nowhere += samples;
    if (end == GAP_OF_NO_MODULE || end == NO_GAP || samples == 0)
        return;
    if (finder->samples[end] == 0)
        XARRAY_ADD(&finder->found, &counts->found, &finder->found_capacity, end);
    finder->samples[end] += samples;
}

/* Find a dump's gaps. */
static void find_gaps(struct unwind_gap_finder *finder, const struct profile *profile,
                      const struct profile_dump *dump, struct gaps *gaps)
{
    struct counts counts = {0};
    *gaps = (struct gaps){0};
    unwind_gaps_begin(finder, profile);
    for (size_t i = 0; i < dump->sample_count; i++)
        count_sample(finder, dump->samples[i], &counts);
    gaps->items = xcalloc(counts.found + 1, sizeof(*gaps->items));
    if (counts.ending_nowhere > 0)
        gaps->items[gaps->count++] = (struct gap){"", counts.ending_nowhere, 0};
    for (size_t i = 0; i < counts.found; i++) {
        uint32_t end = finder->found[i];
        gaps->items[gaps->count++] =
            (struct gap){profile->mappings[end].path, finder->samples[end], 0};
        finder->samples[end] = 0;
    }
    if (gaps->count > 0) {
        gaps->count = merge(gaps->items, gaps->count);
        qsort(gaps->items, gaps->count, sizeof(*gaps->items), compare_gaps);
    }
    for (size_t i = 0; i < gaps->count; i++)
        gaps->items[i].share = (double)gaps->items[i].samples / (double)counts.total;
}

/* Return what the user can do about the gap. */
static const char *remedy_of(const struct gap *gap)
{
    /* Generated code is in no file, or in a file that only names it. */
    bool is_generated = gap->module[0] == '\0' || strncmp(gap->module, "[jit:", 5) == 0 ||
                        strncmp(gap->module, "/[jit:", 6) == 0;
    return !is_generated
               ? "build it with unwind tables or frame pointers (gcc and clang: "
                 "-fasynchronous-unwind-tables or -fno-omit-frame-pointer)"
               : "have what generates it keep frame pointers (java -XX:+PreserveFramePointer)";
}

void unwind_gaps_print_text(struct unwind_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, FILE *out)
{
    struct gaps gaps;
    find_gaps(finder, profile, dump, &gaps);
    for (size_t i = 0; i < gaps.count && i < LINES_MAX; i++) {
        const struct gap *gap = &gaps.items[i];
        fputs("  gaps          ", out);
        if (gap->share < LEAST_SHARE)
            fprintf(out, "less than %.1f %%", LEAST_SHARE * 100);
        else
            fprintf(out, "%.1f %%", gap->share * 100);
        fputs(" of samples: stacks end in code of ", out);
        format_print(out, gap->module[0] != '\0' ? base_name(gap->module) : "no module",
                     FORMAT_WORD_WIDTH);
        fprintf(out, " without unwind information: %s\n", remedy_of(gap));
    }
    if (gaps.count > LINES_MAX)
        fprintf(out, "  gaps          in %zu more modules: heap_profile report --json lists them\n",
                gaps.count - LINES_MAX);
    free(gaps.items);
}

void unwind_gaps_print_json(struct unwind_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, struct json_writer *json)
{
    struct gaps gaps;
    find_gaps(finder, profile, dump, &gaps);
    json_array(json, "unwind_gaps");
    for (size_t i = 0; i < gaps.count; i++) {
        const struct gap *gap = &gaps.items[i];
        json_object(json, NULL);
        json_string(json, "mapping", gap->module);
        json_unsigned(json, "samples", gap->samples);
        json_number(json, "share", gap->share);
        json_string(json, "remedy", remedy_of(gap));
        json_end_object(json);
    }
    json_end_array(json);
    free(gaps.items);
}
