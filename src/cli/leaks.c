/* See leaks.h. */
#include "cli/leaks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void describe(const struct leaks *leaks, const struct diff_pair *pair,
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

static bool is_same_process(const struct leaks_heap *one, const struct leaks_heap *other)
{
    return one->process->pid == other->process->pid && one->process_count == other->process_count &&
           strcmp(one->process->name, other->process->name) == 0 &&
           strcmp(one->process->command, other->process->command) == 0;
}

bool leaks_is_first_of_process(const struct leaks *leaks, size_t index)
{
    return index == 0 || !is_same_process(&leaks->heaps[index - 1], &leaks->heaps[index]);
}

/* Behind the last heap of the same process, or at the end. */
static struct leaks_heap *insert_heap(struct leaks *leaks, const struct leaks_heap *heap)
{
    size_t at = leaks->heap_count;
    while (at > 0 && !is_same_process(&leaks->heaps[at - 1], heap))
        at--;
    if (at == 0)
        at = leaks->heap_count;
    memmove(&leaks->heaps[at + 1], &leaks->heaps[at],
            (leaks->heap_count - at) * sizeof(*leaks->heaps));
    leaks->heap_count++;
    leaks->heaps[at] = *heap;
    return &leaks->heaps[at];
}

static int take_pair(struct leaks *leaks, const struct diff_pair *pair)
{
    struct leaks_heap heap = {0};
    describe(leaks, pair, &heap);
    if (leaks->before != NULL && pair->process_missing) {
        leaks->unpaired[leaks->unpaired_count++] = heap;
        return 0;
    }
    struct leaks_heap *at = insert_heap(leaks, &heap);
    int code = growth_list_make(pair, &leaks->options->growth, false, &at->grown);
    return code < 0 ? code : growth_list_make(pair, &leaks->options->growth, true, &at->shrunk);
}

int leaks_make(struct compare_source *before, struct compare_source *after,
               const struct leaks_options *options, struct leaks *leaks)
{
    const struct diff_options by = {.by = DIFF_CALLSITE,
                                    .lines = options->lines,
                                    .pairing = options->pairing,
                                    .views = 1U << EXPORT_SPACE | 1U << EXPORT_OBJECTS,
                                    .types = true};
    struct diff_side late = {after->profile, after->dumps, after->dump_count};
    struct diff_side early = {after->profile, NULL, 0};
    if (before != NULL)
        early = (struct diff_side){before->profile, before->dumps, before->dump_count};
    *leaks = (struct leaks){.before = before, .after = after, .options = options};
    leaks->diff = diff_new(&early, &late, &by);
    if (leaks->diff == NULL)
        return -ENOMEM;
    leaks->heaps = calloc(leaks->diff->pair_count + 1, sizeof(*leaks->heaps));
    leaks->unpaired = calloc(leaks->diff->pair_count + 1, sizeof(*leaks->unpaired));
    int code = leaks->heaps == NULL || leaks->unpaired == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < leaks->diff->pair_count && code == 0; i++)
        code = take_pair(leaks, &leaks->diff->pairs[i]);
    return code;
}

void leaks_clear(struct leaks *leaks)
{
    for (size_t i = 0; i < leaks->heap_count; i++) {
        growth_list_clear(&leaks->heaps[i].grown);
        growth_list_clear(&leaks->heaps[i].shrunk);
    }
    free(leaks->heaps);
    free(leaks->unpaired);
    diff_free(leaks->diff);
    *leaks = (struct leaks){0};
}
