/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs the heaps of two sides, and finds how exact each pair is. */
#include "profile/compare/diff_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/partial.h"
#include "trace/intern.h"
#include "util/array.h"
#include "util/id_map.h"

static const struct profile_process *process_of(const struct diff_side *side, size_t index)
{
    return &side->profile->processes[side->dumps[index].heap->process];
}

/*
 * Processes and heaps are paired if certain texts and numbers are equal. To avoid comparing each
 * dump with each other one, each dump gets a number for its process and one for its group of heaps,
 * equal numbers mean equal keys, and the dumps with the same number form a list.
 */
struct pairing_side {
    const struct diff_side *dumps;
    bool *used;
    uint32_t *processes; /* by process of the profile: its number; 0: it has no dump */
    struct pairing_place {
        uint32_t process, group, twins;        /* numbers, from 1 */
        uint32_t next_of_group, next_of_twins; /* index + 1 */
    } * places;                                /* by dump */
    struct pairing_list {
        uint32_t first, last; /* index + 1 */
    } * groups, *twins;       /* by number - 1, in the order of dumps */
    bool *has_process;        /* by number - 1 */
};

struct pairing {
    struct pairing_side before, after;
    enum diff_pairing by;
    bool one_process, one_heap; /* each side has only one */
    bool pids_differ;           /* no side has two processes of one pid, one after the other */
    bool compared;              /* both sides have dumps */
    struct intern_table texts, processes, groups, twins;
    struct diff *diff;
    size_t capacity;
};

static bool has_one_process(const struct diff_side *side)
{
    for (size_t i = 1; i < side->dump_count; i++)
        if (side->dumps[i].heap->process != side->dumps[0].heap->process)
            return false;
    return side->dump_count > 0;
}

/* Return whether a browser has only one process of this name. Its command line may differ between
 * runs. */
static bool is_alone_of_its_name(const char *name)
{
    return strcmp(name, "Browser") == 0 || strcmp(name, "GPU") == 0 ||
           strcmp(name, "GPU Process") == 0;
}

static uint64_t text_number(struct pairing *pairing, const char *text)
{
    bool added;
    return intern_bytes(&pairing->texts, text, strlen(text), &added);
}

/* Return the number that is the same for all processes compared with this one; 0: no memory. */
static uint32_t process_number(struct pairing *pairing, const struct profile_process *process)
{
    bool added;
    uint64_t key[3] = {text_number(pairing, process->name), 0, 0};
    if (key[0] == 0)
        return 0;
    if (!pairing->compared) { /* without another side, each is alone */
        key[0] = (uint64_t)(uintptr_t)process;
    } else if (pairing->one_process && pairing->by != DIFF_PAIR_LABELS) {
        key[0] = 0;
    } else if (pairing->by == DIFF_PAIR_PIDS) {
        key[0] = pairing->pids_differ ? 0 : key[0];
        key[1] = (uint32_t)process->pid;
    } else if (pairing->by == DIFF_PAIR_LABELS && !is_alone_of_its_name(process->name) &&
               (key[2] = text_number(pairing, process->command)) == 0) {
        return 0;
    }
    return (uint32_t)intern_bytes(&pairing->processes, key, sizeof(key), &added);
}

static int number_dump(struct pairing *pairing, struct pairing_side *side, size_t index)
{
    bool added;
    const struct profile_heap *heap = side->dumps->dumps[index].heap;
    const struct profile_process *process = process_of(side->dumps, index);
    struct pairing_place *place = &side->places[index];
    uint32_t *known = &side->processes[heap->process];
    if (*known == 0)
        *known = process_number(pairing, process);
    uint64_t name = text_number(pairing, heap->name), own = text_number(pairing, process->name);
    uint64_t group[2] = {*known, pairing->one_heap ? 0 : name};
    /* Dumps of one process have the same start, to the nanosecond. */
    uint64_t twins[5] = {*known, name, own, (uint32_t)process->pid, heap->start_boottime_ns};
    place->process = *known;
    place->group = (uint32_t)intern_bytes(&pairing->groups, group, sizeof(group), &added);
    if (process->pid == 0 || heap->start_boottime_ns == 0)
        return *known == 0 || name == 0 || own == 0 || place->group == 0 ? -ENOMEM : 0;
    place->twins = (uint32_t)intern_bytes(&pairing->twins, twins, sizeof(twins), &added);
    return *known == 0 || name == 0 || own == 0 || place->group == 0 || place->twins == 0 ? -ENOMEM
                                                                                          : 0;
}

static int number_side(struct pairing *pairing, struct pairing_side *side)
{
    size_t count = side->dumps->dump_count;
    side->used = calloc(count + 1, sizeof(*side->used));
    side->places = calloc(count + 1, sizeof(*side->places));
    side->processes = calloc(side->dumps->profile->process_count + 1, sizeof(*side->processes));
    int code = side->used == NULL || side->places == NULL || side->processes == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = number_dump(pairing, side, i);
    return code;
}

static void add_to_list(struct pairing_side *side, struct pairing_list *list, size_t index,
                        bool twins)
{
    if (list->last == 0)
        list->first = (uint32_t)index + 1;
    else if (twins)
        side->places[list->last - 1].next_of_twins = (uint32_t)index + 1;
    else
        side->places[list->last - 1].next_of_group = (uint32_t)index + 1;
    list->last = (uint32_t)index + 1;
}

/* Make the lists, after both sides are numbered. */
static int list_side(const struct pairing *pairing, struct pairing_side *side)
{
    side->groups = calloc(pairing->groups.count + 1, sizeof(*side->groups));
    side->twins = calloc(pairing->twins.count + 1, sizeof(*side->twins));
    side->has_process = calloc(pairing->processes.count + 1, sizeof(*side->has_process));
    if (side->groups == NULL || side->twins == NULL || side->has_process == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < side->dumps->dump_count; i++) {
        const struct pairing_place *place = &side->places[i];
        side->has_process[place->process - 1] = true;
        add_to_list(side, &side->groups[place->group - 1], i, false);
        if (place->twins != 0)
            add_to_list(side, &side->twins[place->twins - 1], i, true);
    }
    return 0;
}

static void clear_side(struct pairing_side *side)
{
    free(side->used);
    free(side->processes);
    free(side->places);
    free(side->groups);
    free(side->twins);
    free(side->has_process);
}

static bool is_exact(const struct export_dump *dumps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!profile_dump_is_exact(dumps[i].heap, dumps[i].dump))
            return false;
    return true;
}

static bool is_partial(const struct export_dump *dumps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (profile_dump_is_partial(dumps[i].heap, dumps[i].dump) ||
            profile_lacks_frees(dumps[i].heap))
            return true;
    return false;
}

/* Return the largest sampling interval of a side, on which the limits of its figures are based; 0:
 * a file does not contain it. */
static uint64_t interval_of(const struct export_dump *dumps, size_t count)
{
    uint64_t most = 1;
    for (size_t i = 0; i < count; i++) {
        if (dumps[i].heap->interval_bytes == 0)
            return 0;
        if (dumps[i].heap->interval_bytes > most)
            most = dumps[i].heap->interval_bytes;
    }
    return most;
}

static struct diff_pair *add_pair(struct pairing *pairing)
{
    struct diff *diff = pairing->diff;
    if (ARRAY_RESERVE(&diff->pairs, &pairing->capacity, diff->pair_count, 1) < 0)
        return NULL;
    struct diff_pair *pair = &diff->pairs[diff->pair_count++];
    *pair = (struct diff_pair){.same_process = false};
    return pair;
}

/* Append a dump. The capacity is the next power of two. */
static int add_dump(struct export_dump **dumps, size_t *count, const struct export_dump *dump)
{
    if ((*count & (*count - 1)) == 0) {
        size_t room = *count == 0 ? 1 : *count * 2;
        struct export_dump *grown = reallocarray(*dumps, room, sizeof(**dumps));
        if (grown == NULL)
            return -ENOMEM;
        *dumps = grown;
    }
    (*dumps)[(*count)++] = *dump;
    return 0;
}

static struct profile_calibration calibration_of(const struct export_dump *dumps, size_t count)
{
    struct profile_calibration all = {0};
    for (size_t i = 0; i < count; i++) {
        const struct profile_calibration one = rollup_calibration_of(dumps[i].heap, dumps[i].dump);
        profile_calibration_add(&all, &one);
    }
    return all;
}

static void finish_pair(struct diff_pair *pair)
{
    pair->exact =
        is_exact(pair->before, pair->before_count) && is_exact(pair->after, pair->after_count);
    pair->sampling.lost_interval_bytes = interval_of(pair->before, pair->before_count);
    pair->sampling.gained_interval_bytes = interval_of(pair->after, pair->after_count);
    pair->sampling.lost_calibration = calibration_of(pair->before, pair->before_count);
    pair->sampling.gained_calibration = calibration_of(pair->after, pair->after_count);
    pair->partial = pair->sampling.lost_interval_bytes == 1 &&
                    pair->sampling.gained_interval_bytes == 1 &&
                    (is_partial(pair->before, pair->before_count) ||
                     is_partial(pair->after, pair->after_count));
}

static int pair_same_processes(struct pairing *pairing)
{
    struct pairing_side *before = &pairing->before, *after = &pairing->after;
    for (size_t j = 0; j < after->dumps->dump_count; j++) {
        uint32_t twins = after->places[j].twins;
        uint32_t first = twins == 0 ? 0 : before->twins[twins - 1].first;
        if (first == 0)
            continue;
        struct diff_pair *pair = add_pair(pairing);
        if (pair == NULL ||
            add_dump(&pair->before, &pair->before_count, &before->dumps->dumps[first - 1]) < 0 ||
            add_dump(&pair->after, &pair->after_count, &after->dumps->dumps[j]) < 0)
            return -ENOMEM;
        pair->same_process = true;
        before->used[first - 1] = after->used[j] = true;
        before->twins[twins - 1].first = before->places[first - 1].next_of_twins;
        finish_pair(pair);
    }
    return 0;
}

/* Add the dumps of a group that are not paired yet. */
static int add_group(struct pairing_side *side, uint32_t group, struct export_dump **dumps,
                     size_t *count)
{
    for (uint32_t at = side->groups[group - 1].first; at != 0;
         at = side->places[at - 1].next_of_group) {
        if (side->used[at - 1])
            continue;
        if (add_dump(dumps, count, &side->dumps->dumps[at - 1]) < 0)
            return -ENOMEM;
        side->used[at - 1] = true;
    }
    return 0;
}

/* Pair all dumps of one group. */
static int pair_by_name(struct pairing *pairing, const struct pairing_place *place)
{
    struct diff_pair *pair = add_pair(pairing);
    if (pair == NULL ||
        add_group(&pairing->before, place->group, &pair->before, &pair->before_count) < 0 ||
        add_group(&pairing->after, place->group, &pair->after, &pair->after_count) < 0)
        return -ENOMEM;
    pair->process_missing = !pairing->before.has_process[place->process - 1] ||
                            !pairing->after.has_process[place->process - 1];
    finish_pair(pair);
    return 0;
}

static int pair_rest(struct pairing *pairing, const struct pairing_side *side)
{
    int code = 0;
    for (size_t i = 0; i < side->dumps->dump_count && code == 0; i++)
        if (!side->used[i])
            code = pair_by_name(pairing, &side->places[i]);
    return code;
}

/* Return 1 if all processes have different pids, 0 if not, or -ENOMEM. */
static int have_pids_that_differ(const struct diff_side *side)
{
    struct id_map processes = {0};
    int differ = 1;
    for (size_t i = 0; i < side->dump_count && differ > 0; i++) {
        uint32_t process = side->dumps[i].heap->process;
        uint64_t pid = (uint32_t)side->profile->processes[process].pid;
        uint32_t known = id_map_find(&processes, pid);
        if (known == ID_MAP_NONE)
            differ = id_map_set(&processes, pid, process) < 0 ? -ENOMEM : 1;
        else if (known != process)
            differ = 0;
    }
    id_map_free(&processes);
    return differ;
}

static int pair_all(struct pairing *pairing)
{
    int before_differ = have_pids_that_differ(pairing->before.dumps);
    int after_differ = have_pids_that_differ(pairing->after.dumps);
    if (before_differ < 0 || after_differ < 0)
        return -ENOMEM;
    pairing->pids_differ = before_differ && after_differ;
    int code = number_side(pairing, &pairing->before);
    code = code < 0 ? code : number_side(pairing, &pairing->after);
    code = code < 0 ? code : list_side(pairing, &pairing->before);
    code = code < 0 ? code : list_side(pairing, &pairing->after);
    code = code < 0 ? code : pair_same_processes(pairing);
    code = code < 0 ? code : pair_rest(pairing, &pairing->after);
    return code < 0 ? code : pair_rest(pairing, &pairing->before);
}

int diff_pairs_make(const struct diff_side *before, const struct diff_side *after,
                    enum diff_pairing by, struct diff *diff)
{
    struct pairing pairing = {
        .before.dumps = before,
        .after.dumps = after,
        .by = by,
        .one_process = has_one_process(before) && has_one_process(after),
        .one_heap = before->dump_count == 1 && after->dump_count == 1,
        .compared = before->dump_count > 0 && after->dump_count > 0,
        .diff = diff,
    };
    int code = pair_all(&pairing);
    clear_side(&pairing.before);
    clear_side(&pairing.after);
    intern_free(&pairing.texts);
    intern_free(&pairing.processes);
    intern_free(&pairing.groups);
    intern_free(&pairing.twins);
    return code;
}

void diff_pairs_programs(const struct diff_side *before, const struct diff_side *after,
                         const struct diff *diff, const char *programs[2])
{
    programs[0] = programs[1] = NULL;
    if (diff->pair_count == 0 || !has_one_process(before) || !has_one_process(after))
        return;
    const char *one = process_of(before, 0)->name, *other = process_of(after, 0)->name;
    if (strcmp(one, other) != 0 && *one != '\0' && *other != '\0') {
        programs[0] = one;
        programs[1] = other;
    }
}
