/* SPDX-License-Identifier: Apache-2.0 */
/* Find the last dumps of a process that died, and compare them with those before. */
#include "tools/cli/oom/oom.h"

#include <stdlib.h>

#include "profile/compare/estimates.h"
#include "util/xmalloc.h"

bool oom_is_wanted(const struct profile_process *process, bool all)
{
    const struct process_end *end = &process->end;
    return process->has_end && (process_end_is_oom(end) || (all && end->how != PROCESS_END_EXITED));
}

static double live_bytes(const struct oom_heap *heap)
{
    return estimate_total(heap->heap, heap->last, EXPORT_SPACE, false).value;
}

static int most_live_first(const void *left, const void *right)
{
    double a = live_bytes(left), b = live_bytes(right);
    return (a < b) - (a > b);
}

static struct diff *oom_compare(const struct oom_death *death, const struct oom_heap *heap,
                                bool with_before)
{
    const struct export_dump before = {heap->heap, heap->before}, last = {heap->heap, heap->last};
    const struct diff_side early = {death->profile, &before, with_before ? 1 : 0};
    const struct diff_side late = {death->profile, &last, 1};
    const struct folding *folding = death->stacks.all_frames ? NULL : &death->stacks.foldings[1];
    const struct diff_options options = {
        .by = DIMENSION_CALLSITE,
        .pairing = DIFF_PAIR_PIDS,
        .views = 1U << EXPORT_SPACE | 1U << EXPORT_OBJECTS,
        .as_shown = true,
        .stacks = true,
        .foldings = {folding, folding},
    };
    return xmalloc_made(diff_new(&early, &late, &options));
}

static void list(const struct diff *diff, struct growth_list *list)
{
    static const struct growth_options everything;
    if (diff->pair_count > 0)
        xmalloc_code(growth_list_make(&diff->pairs[0], &everything, false, list));
}

static void describe_heap(const struct oom_death *death, struct oom_heap *heap)
{
    heap->held_diff = oom_compare(death, heap, false);
    list(heap->held_diff, &heap->held);
    if (heap->before != NULL) {
        heap->grown_diff = oom_compare(death, heap, true);
        list(heap->grown_diff, &heap->grown);
    }
}

static void list_heaps(struct oom_death *death, size_t process)
{
    for (size_t i = 0; i < death->profile->heap_count; i++) {
        const struct profile_heap *heap = &death->profile->heaps[i];
        if (heap->process != process || heap->unseen || heap->dump_count == 0 ||
            export_view_is_unknown(heap, EXPORT_SPACE))
            continue;
        const struct profile_dump *last = &heap->dumps[heap->dump_count - 1];
        death->heaps[death->heap_count++] = (struct oom_heap){
            .heap = heap, .last = last, .before = heap->dump_count > 1 ? last - 1 : NULL};
    }
    qsort(death->heaps, death->heap_count, sizeof(*death->heaps), most_live_first);
}

/* Check that the dumps are small enough to print. */
static int check_size(const struct oom_death *death, bool whole_stacks, struct error *error)
{
    struct export_callers callers = {0};
    uint64_t frames = 0;
    int code = 0;
    for (size_t i = 0; i < 2 * death->heap_count && code == 0; i++) {
        const struct oom_heap *heap = &death->heaps[i / 2];
        const struct profile_dump *dump = i % 2 == 0 ? heap->last : heap->before;
        if (dump != NULL)
            code = whole_stacks ? export_count_frames(death->profile, dump, &frames, error)
                                : export_callers_add(&callers, death->profile, dump, error);
    }
    export_callers_clear(&callers);
    return code;
}

int oom_death_make(const struct profile *profile, size_t process, const char *path,
                   const struct oom_options *options, bool whole_stacks, struct oom_death *death,
                   struct error *error)
{
    *death = (struct oom_death){.path = path,
                                .profile = profile,
                                .process = &profile->processes[process],
                                .stacks = {.profiles = {NULL, profile},
                                           .all_frames = options->all_frames,
                                           .columns = stack_format_columns(stdout)}};
    death->heaps = xcalloc(profile->heap_count + 1, sizeof(*death->heaps));
    compare_stacks_make(&death->stacks);
    list_heaps(death, process);
    int code = check_size(death, whole_stacks, error);
    for (size_t i = 0; i < death->heap_count && code == 0; i++)
        describe_heap(death, &death->heaps[i]);
    return code;
}

void oom_death_clear(struct oom_death *death)
{
    for (size_t i = 0; i < death->heap_count; i++) {
        growth_list_clear(&death->heaps[i].held);
        growth_list_clear(&death->heaps[i].grown);
        diff_free(death->heaps[i].held_diff);
        diff_free(death->heaps[i].grown_diff);
    }
    free(death->heaps);
    compare_stacks_clear(&death->stacks);
    *death = (struct oom_death){0};
}

int64_t oom_death_realtime_ns(const struct oom_death *death)
{
    int64_t offset_ns = death->profile->boottime_to_realtime_ns;
    return offset_ns == 0 ? 0 : (int64_t)death->process->end.boottime_ns + offset_ns;
}
