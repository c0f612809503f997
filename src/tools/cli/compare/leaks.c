/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the leaks of each heap from a difference, and groups the heaps by process. */
#include "tools/cli/compare/leaks.h"

#include <stdlib.h>
#include <string.h>

#include "trace/intern.h"
#include "util/id_map.h"
#include "util/xmalloc.h"

static void leaks_describe(const struct leaks *leaks, const struct diff_pair *pair,
                           struct leaks_heap *heap)
{
    bool late = pair->after_count > 0;
    const struct export_dump *dumps = late ? pair->after : pair->before;
    size_t count = late ? pair->after_count : pair->before_count;
    heap->pair = pair;
    heap->name = dumps[0].heap->name;
    heap->profile = late || leaks->before == NULL ? leaks->after->profile : leaks->before->profile;
    heap->process = &heap->profile->processes[dumps[0].heap->process];
    heap->process_count = 1;
    for (size_t i = 1; i < count; i++)
        heap->process_count += dumps[i].heap->process != dumps[i - 1].heap->process;
}

/* The keys that distinguish processes, and the numbers given to them, from 1. */
struct numbering {
    struct intern_table texts, keys;
    struct id_map unpaired; /* processes, by address */
};

/* Return the number of a heap's process, the same for processes that are printed alike. */
static uint32_t process_number(struct numbering *numbering, const struct leaks_heap *heap)
{
    bool added;
    const struct profile_process *process = heap->process;
    uint64_t key[] = {
        (uint32_t)process->pid,
        heap->process_count,
        xmalloc_id(intern_bytes(&numbering->texts, process->name, strlen(process->name), &added)),
        xmalloc_id(
            intern_bytes(&numbering->texts, process->command, strlen(process->command), &added)),
    };
    return (uint32_t)xmalloc_id(intern_bytes(&numbering->keys, key, sizeof(key), &added));
}

bool leaks_is_first_of_process(const struct leaks *leaks, size_t index)
{
    return index == 0 ||
           leaks->heaps[index - 1].process_number != leaks->heaps[index].process_number;
}

struct leak_rows_of leaks_rows_of(const struct leaks *leaks)
{
    return (struct leak_rows_of){leaks->after->profile, leaks->before != NULL};
}

/* --- heaps --- */

/* The order of heaps: the one that grows most first, then the one that grew most, or holds most. */
static int compare_heaps(const void *a, const void *b)
{
    const struct leaks_heap *left = a, *right = b;
    if (left->rows.growing != right->rows.growing)
        return left->rows.growing < right->rows.growing ? 1 : -1;
    if (left->rows.grown.size_sum != right->rows.grown.size_sum)
        return left->rows.grown.size_sum < right->rows.grown.size_sum ? 1 : -1;
    return left->pair < right->pair ? -1 : left->pair > right->pair;
}

/* Order the heaps by size, and number the processes anew in this order. */
static void rank_heaps(struct leaks *leaks, uint32_t processes)
{
    uint32_t *numbers = xcalloc((size_t)processes + 1, sizeof(*numbers)), used = 0;
    if (leaks->heap_count > 0)
        qsort(leaks->heaps, leaks->heap_count, sizeof(*leaks->heaps), compare_heaps);
    for (size_t i = 0; i < leaks->heap_count; i++) {
        uint32_t *number = &numbers[leaks->heaps[i].process_number];
        *number = *number == 0 ? ++used : *number;
        leaks->heaps[i].process_number = *number;
    }
    free(numbers);
}

/* Group the heaps by process, in the order of each process's first heap. */
static void group_heaps(struct leaks *leaks, uint32_t processes)
{
    size_t *starts = xcalloc((size_t)processes + 2, sizeof(*starts));
    struct leaks_heap *grouped = xcalloc(leaks->heap_count + 1, sizeof(*grouped));
    for (size_t i = 0; i < leaks->heap_count; i++)
        starts[leaks->heaps[i].process_number + 1]++;
    for (uint32_t i = 1; i <= processes; i++)
        starts[i + 1] += starts[i];
    for (size_t i = 0; i < leaks->heap_count; i++)
        grouped[starts[leaks->heaps[i].process_number]++] = leaks->heaps[i];
    free(starts);
    free(leaks->heaps);
    leaks->heaps = grouped;
}

static void take_unpaired(struct leaks *leaks, struct numbering *numbering, struct leaks_heap *heap)
{
    uint64_t id = (uint64_t)(uintptr_t)heap->process;
    heap->process_number = (uint32_t)leaks->unpaired_count + 1;
    heap->is_reported = id_map_find(&numbering->unpaired, id) != ID_MAP_NONE;
    leaks->unpaired[leaks->unpaired_count++] = *heap;
    xmalloc_code(id_map_set(&numbering->unpaired, id, 1));
}

static void take_pair(struct leaks *leaks, struct numbering *numbering,
                      const struct diff_pair *pair)
{
    struct leaks_heap heap = {0};
    leaks_describe(leaks, pair, &heap);
    if (leaks->before != NULL && pair->process_missing) {
        take_unpaired(leaks, numbering, &heap);
        return;
    }
    heap.process_number = process_number(numbering, &heap);
    struct leaks_heap *at = &leaks->heaps[leaks->heap_count++];
    *at = heap;
    const struct leak_rows_of of = leaks_rows_of(leaks);
    xmalloc_code(leak_rows_make(&at->rows, pair, &of, &leaks->options->growth));
}

void leaks_make(struct compare_source *before, struct compare_source *after,
                const struct leaks_options *options, struct leaks *leaks)
{
    struct diff_options by = {.by = DIMENSION_CALLSITE,
                              .lines = options->lines,
                              .pairing = options->pairing,
                              .views = 1U << EXPORT_SPACE | 1U << EXPORT_OBJECTS,
                              .types = true,
                              .stacks = true,
                              .as_shown =
                                  !options->by_stack && !options->lines && !options->stacks};
    struct diff_side late = {after->profile, after->dumps, after->dump_count};
    struct diff_side early = {after->profile, NULL, 0};
    if (before != NULL)
        early = (struct diff_side){before->profile, before->dumps, before->dump_count};
    struct numbering numbering = {0};
    *leaks = (struct leaks){
        .before = before,
        .after = after,
        .options = options,
        .stacks = {.profiles = {before == NULL ? NULL : before->profile, after->profile},
                   .all_frames = options->all_frames,
                   .lines = options->lines,
                   .columns = stack_format_columns(stdout)}};
    compare_stacks_make(&leaks->stacks);
    for (int i = 0; i < 2 && !options->all_frames; i++)
        if (leaks->stacks.profiles[i] != NULL)
            by.foldings[i] = &leaks->stacks.foldings[i];
    leaks->diff = xmalloc_made(diff_new(&early, &late, &by));
    leaks->heaps = xcalloc(leaks->diff->pair_count + 1, sizeof(*leaks->heaps));
    leaks->unpaired = xcalloc(leaks->diff->pair_count + 1, sizeof(*leaks->unpaired));
    for (size_t i = 0; i < leaks->diff->pair_count; i++)
        take_pair(leaks, &numbering, &leaks->diff->pairs[i]);
    rank_heaps(leaks, numbering.keys.count);
    group_heaps(leaks, numbering.keys.count);
    intern_free(&numbering.texts);
    intern_free(&numbering.keys);
    id_map_free(&numbering.unpaired);
}

void leaks_clear(struct leaks *leaks)
{
    for (size_t i = 0; i < leaks->heap_count; i++)
        leak_rows_clear(&leaks->heaps[i].rows);
    free(leaks->heaps);
    free(leaks->unpaired);
    diff_free(leaks->diff);
    compare_stacks_clear(&leaks->stacks);
    *leaks = (struct leaks){0};
}
