/* See diff_pairs.h. */
#include "compare/diff_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

static const struct profile_process *process_of(const struct diff_side *side, size_t index)
{
    return &side->profile->processes[side->dumps[index].heap->process];
}

/* Dumps of one process tell the same start, to the nanosecond. */
static bool is_same_process(const struct diff_side *before, size_t i, const struct diff_side *after,
                            size_t j)
{
    const struct profile_heap *one = before->dumps[i].heap, *other = after->dumps[j].heap;
    const struct profile_process *process = process_of(before, i);
    return process->pid != 0 && process->pid == process_of(after, j)->pid &&
           one->start_boottime_ns != 0 && one->start_boottime_ns == other->start_boottime_ns &&
           strcmp(one->name, other->name) == 0 &&
           strcmp(process->name, process_of(after, j)->name) == 0;
}

static size_t count_processes(const struct diff_side *side)
{
    size_t count = 0;
    for (size_t i = 0; i < side->dump_count; i++) {
        size_t j = 0;
        while (j < i && side->dumps[j].heap->process != side->dumps[i].heap->process)
            j++;
        count += j == i;
    }
    return count;
}

struct pairing {
    const struct diff_side *before, *after;
    enum diff_pairing by;
    bool *before_used, *after_used;
    bool one_process, one_heap; /* on each side */
    bool pids_differ; /* on each side no two processes have one pid, one after the other */
    struct diff *diff;
    size_t capacity;
};

/* There is one of it in a browser; what labels it has is of the moment. */
static bool is_alone_of_its_name(const char *name)
{
    return strcmp(name, "Browser") == 0 || strcmp(name, "GPU") == 0 ||
           strcmp(name, "GPU Process") == 0;
}

static bool is_its_process(const struct pairing *pairing, const struct profile_process *one,
                           const struct profile_process *other)
{
    bool same_name = strcmp(one->name, other->name) == 0;
    /* Compared with nothing, each is by itself. */
    if (pairing->before->dump_count == 0 || pairing->after->dump_count == 0)
        return one == other;
    switch (pairing->by) {
    case DIFF_PAIR_PIDS:
        return (one->pid == other->pid && (same_name || pairing->pids_differ)) ||
               pairing->one_process;
    case DIFF_PAIR_LABELS:
        return same_name &&
               (is_alone_of_its_name(one->name) || strcmp(one->command, other->command) == 0);
    default:
        return same_name || pairing->one_process;
    }
}

static bool has_process(const struct pairing *pairing, const struct diff_side *side,
                        const struct profile_process *process)
{
    for (size_t i = 0; i < side->dump_count; i++)
        if (is_its_process(pairing, process_of(side, i), process))
            return true;
    return false;
}

static bool answers_to(const struct pairing *pairing, const struct diff_side *side, size_t index,
                       const struct profile_process *process, const struct profile_heap *heap)
{
    bool same_heap = strcmp(side->dumps[index].heap->name, heap->name) == 0;
    return is_its_process(pairing, process_of(side, index), process) &&
           (same_heap || pairing->one_heap);
}

static bool is_exact(const struct export_dump *dumps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (dumps[i].heap->interval_bytes != 1 || dumps[i].dump->incomplete ||
            dumps[i].heap->status.unseen_allocator != NULL ||
            dumps[i].heap->status.weighed_samples > 0)
            return false;
    return true;
}

/* The coarsest sampling of a side: what the limits of its figures must suppose. 0: a file does not
 * tell it. */
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
    if (array_reserve(&diff->pairs, &pairing->capacity, diff->pair_count, 1, sizeof(*diff->pairs)) <
        0)
        return NULL;
    struct diff_pair *pair = &diff->pairs[diff->pair_count++];
    *pair = (struct diff_pair){.same_process = false};
    return pair;
}

/* There is room for as many as the next power of two. */
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

static void finish_pair(struct diff_pair *pair)
{
    pair->exact =
        is_exact(pair->before, pair->before_count) && is_exact(pair->after, pair->after_count);
    pair->sampling.lost_interval_bytes = interval_of(pair->before, pair->before_count);
    pair->sampling.gained_interval_bytes = interval_of(pair->after, pair->after_count);
}

static int pair_same_processes(struct pairing *pairing)
{
    for (size_t j = 0; j < pairing->after->dump_count; j++) {
        for (size_t i = 0; i < pairing->before->dump_count; i++) {
            if (pairing->before_used[i] ||
                !is_same_process(pairing->before, i, pairing->after, j) ||
                !is_its_process(pairing, process_of(pairing->before, i),
                                process_of(pairing->after, j)))
                continue;
            struct diff_pair *pair = add_pair(pairing);
            if (pair == NULL ||
                add_dump(&pair->before, &pair->before_count, &pairing->before->dumps[i]) < 0 ||
                add_dump(&pair->after, &pair->after_count, &pairing->after->dumps[j]) < 0)
                return -ENOMEM;
            pair->same_process = true;
            pairing->before_used[i] = pairing->after_used[j] = true;
            finish_pair(pair);
            break;
        }
    }
    return 0;
}

/* All that answers to the names of one dump. */
static int pair_by_name(struct pairing *pairing, const struct profile_process *process,
                        const struct profile_heap *heap)
{
    struct diff_pair *pair = add_pair(pairing);
    if (pair == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < pairing->before->dump_count; i++) {
        if (!pairing->before_used[i] && answers_to(pairing, pairing->before, i, process, heap)) {
            if (add_dump(&pair->before, &pair->before_count, &pairing->before->dumps[i]) < 0)
                return -ENOMEM;
            pairing->before_used[i] = true;
        }
    }
    for (size_t j = 0; j < pairing->after->dump_count; j++) {
        if (!pairing->after_used[j] && answers_to(pairing, pairing->after, j, process, heap)) {
            if (add_dump(&pair->after, &pair->after_count, &pairing->after->dumps[j]) < 0)
                return -ENOMEM;
            pairing->after_used[j] = true;
        }
    }
    pair->process_missing = !has_process(pairing, pairing->before, process) ||
                            !has_process(pairing, pairing->after, process);
    finish_pair(pair);
    return 0;
}

static int pair_all(struct pairing *pairing)
{
    int code = pair_same_processes(pairing);
    for (size_t j = 0; j < pairing->after->dump_count && code == 0; j++)
        if (!pairing->after_used[j])
            code =
                pair_by_name(pairing, process_of(pairing->after, j), pairing->after->dumps[j].heap);
    for (size_t i = 0; i < pairing->before->dump_count && code == 0; i++)
        if (!pairing->before_used[i])
            code = pair_by_name(pairing, process_of(pairing->before, i),
                                pairing->before->dumps[i].heap);
    return code;
}

static bool have_pids_that_differ(const struct diff_side *side)
{
    for (size_t i = 0; i < side->dump_count; i++)
        for (size_t j = 0; j < i; j++)
            if (process_of(side, i) != process_of(side, j) &&
                process_of(side, i)->pid == process_of(side, j)->pid)
                return false;
    return true;
}

int diff_pairs_make(const struct diff_side *before, const struct diff_side *after,
                    enum diff_pairing by, struct diff *diff)
{
    struct pairing pairing = {.before = before, .after = after, .by = by, .diff = diff};
    pairing.one_process = count_processes(before) == 1 && count_processes(after) == 1;
    pairing.one_heap = before->dump_count == 1 && after->dump_count == 1;
    pairing.pids_differ = have_pids_that_differ(before) && have_pids_that_differ(after);
    pairing.before_used = calloc(before->dump_count + 1, sizeof(*pairing.before_used));
    pairing.after_used = calloc(after->dump_count + 1, sizeof(*pairing.after_used));
    int code = -ENOMEM;
    if (pairing.before_used != NULL && pairing.after_used != NULL)
        code = pair_all(&pairing);
    free(pairing.before_used);
    free(pairing.after_used);
    return code;
}

void diff_pairs_programs(const struct diff_side *before, const struct diff_side *after,
                         const struct diff *diff, const char *programs[2])
{
    programs[0] = programs[1] = NULL;
    if (diff->pair_count == 0 || count_processes(before) != 1 || count_processes(after) != 1)
        return;
    const char *one = process_of(before, 0)->name, *other = process_of(after, 0)->name;
    if (strcmp(one, other) != 0 && *one != '\0' && *other != '\0') {
        programs[0] = one;
        programs[1] = other;
    }
}
