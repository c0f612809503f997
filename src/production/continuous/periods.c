/* SPDX-License-Identifier: Apache-2.0 */
/* Subtract the last dump of each heap from the present one. */
#include "production/continuous/periods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "util/array.h"
#include "util/id_map.h"

/* What a callsite had allocated at the last dump. */
struct known_callsite {
    double bytes, count, bytes_variance, count_variance;
    uint64_t samples;
};

struct known_heap {
    int32_t pid;
    uint64_t image; /* which program of the session */
    char *name;
    uint64_t last_boottime_ns;      /* of its last dump */
    bool had_samples;               /* then */
    struct profile_earlier earlier; /* until then */
    bool is_over;
    struct id_map ids; /* by stack hash */
    struct known_callsite *callsites;
    size_t count, capacity;
};

struct block {
    struct block *next;
};

struct periods {
    struct known_heap *heaps;
    size_t heap_count, heap_capacity;
    struct period *made;
    size_t made_count, made_capacity;
    struct block *blocks; /* of the dumps in `made` */
    uint64_t *hashes;     /* by callsite of the profile; 0: not yet */
};

/* --- memory --- */

static void free_blocks(struct periods *periods)
{
    while (periods->blocks != NULL) {
        struct block *next = periods->blocks->next;
        free(periods->blocks);
        periods->blocks = next;
    }
    periods->made_count = 0;
}

/* Return zeroed memory that is freed with the periods. */
static void *allocate(struct periods *periods, size_t bytes)
{
    struct block *block = calloc(1, sizeof(*block) + 8 + bytes);
    if (block == NULL)
        return NULL;
    block->next = periods->blocks;
    periods->blocks = block;
    return (char *)block + 16;
}

static void free_heap(struct known_heap *heap)
{
    free(heap->name);
    id_map_free(&heap->ids);
    free(heap->callsites);
}

struct periods *periods_new(void)
{
    return calloc(1, sizeof(struct periods));
}

void periods_free(struct periods *periods)
{
    if (periods == NULL)
        return;
    free_blocks(periods);
    for (size_t i = 0; i < periods->heap_count; i++)
        free_heap(&periods->heaps[i]);
    free(periods->heaps);
    free(periods->made);
    free(periods->hashes);
    free(periods);
}

/* --- hashes of stacks --- */

static uint64_t hash_text(uint64_t seed, const char *text)
{
    return XXH3_64bits_withSeed(text, strlen(text), seed);
}

static uint64_t hash_frame(const struct profile *profile, uint64_t seed, uint32_t index)
{
    const struct profile_frame *frame = &profile->frames[index];
    if (frame->mapping == PROFILE_NONE) {
        seed = hash_text(seed, frame->linkage_name);
        seed = hash_text(seed, frame->source_file);
        uint64_t values[] = {frame->rel_pc, frame->line};
        return XXH3_64bits_withSeed(values, sizeof(values), seed);
    }
    const struct profile_mapping *mapping = &profile->mappings[frame->mapping];
    bool has_id = mapping->build_id[0] != '\0';
    seed = hash_text(seed, has_id ? mapping->build_id : mapping->path);
    return XXH3_64bits_withSeed(&frame->rel_pc, sizeof(frame->rel_pc), seed);
}

/* Return whether a frame is of the same address as its caller's: it was inlined into it. The same
 * function again is a recursion. */
static bool is_inlined(const struct profile *profile, const struct profile_callsite *callsite)
{
    if (callsite->parent == PROFILE_NONE)
        return false;
    uint32_t outer = profile->callsites[callsite->parent].frame;
    const struct profile_frame *frame = &profile->frames[callsite->frame];
    const struct profile_frame *caller = &profile->frames[outer];
    return outer != callsite->frame && frame->mapping != PROFILE_NONE &&
           frame->mapping == caller->mapping && frame->rel_pc == caller->rel_pc;
}

/* Hash all callsites: a parent comes before its children. */
static int hash_callsites(struct periods *periods, const struct profile *profile)
{
    uint64_t *hashes = calloc(profile->callsite_count + 1, sizeof(*hashes));
    if (hashes == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint64_t outer = callsite->parent != PROFILE_NONE ? hashes[callsite->parent] : 0;
        hashes[i] =
            is_inlined(profile, callsite) ? outer : hash_frame(profile, outer, callsite->frame);
    }
    free(periods->hashes);
    periods->hashes = hashes;
    return 0;
}

/* --- differences --- */

static struct known_heap *find_heap(struct periods *periods, const struct profile *profile,
                                    const struct profile_heap *heap)
{
    const struct profile_process *process = &profile->processes[heap->process];
    for (size_t i = 0; i < periods->heap_count; i++) {
        struct known_heap *known = &periods->heaps[i];
        if (known->pid == process->pid && known->image == process->image &&
            strcmp(known->name, heap->name) == 0)
            return known;
    }
    char *name = strdup(heap->name);
    if (name == NULL ||
        ARRAY_RESERVE(&periods->heaps, &periods->heap_capacity, periods->heap_count, 1) < 0) {
        free(name);
        return NULL;
    }
    periods->heaps[periods->heap_count] = (struct known_heap){
        .pid = process->pid,
        .image = process->image,
        .name = name,
        .last_boottime_ns = heap->start_boottime_ns,
    };
    return &periods->heaps[periods->heap_count++];
}

static struct known_callsite *find_callsite(struct known_heap *heap, uint64_t hash)
{
    uint32_t index = id_map_find(&heap->ids, hash);
    if (index != ID_MAP_NONE)
        return &heap->callsites[index];
    if (ARRAY_RESERVE(&heap->callsites, &heap->capacity, heap->count, 1) < 0 ||
        id_map_set(&heap->ids, hash, (uint32_t)heap->count) < 0)
        return NULL;
    heap->callsites[heap->count] = (struct known_callsite){0};
    return &heap->callsites[heap->count++];
}

/* Turn figures since the beginning into those of the period, and remember the former. What is live,
 * allocated minus freed, stays. */
static void take_difference(struct trace_figures *figures, struct known_callsite *known)
{
    struct known_callsite now = {
        .bytes = figures->allocated_bytes,
        .count = figures->allocated_count,
        .bytes_variance = figures->allocated_bytes_variance,
        .count_variance = figures->allocated_count_variance,
        .samples = figures->samples,
    };
    figures->allocated_bytes -= known->bytes;
    figures->freed_bytes -= known->bytes;
    figures->allocated_count -= known->count;
    figures->freed_count -= known->count;
    figures->allocated_bytes_variance -= known->bytes_variance;
    figures->freed_bytes_variance -= known->bytes_variance;
    figures->allocated_count_variance -= known->count_variance;
    figures->freed_count_variance -= known->count_variance;
    figures->samples -= known->samples;
    figures->freed_samples -= known->samples;
    *known = now;
}

static uint64_t less(uint64_t total, uint64_t earlier)
{
    return total > earlier ? total - earlier : 0;
}

/* Turn the heap's exact totals into those of the period. Call it once `dump->total` is of the
 * period. */
static void take_exact_difference(struct profile_dump *dump, struct known_heap *known)
{
    const struct trace_figures *total = &dump->total;
    const struct trace_figures allocated = {
        .allocated_bytes = total->allocated_bytes,
        .allocated_count = total->allocated_count,
        .allocated_bytes_variance = total->allocated_bytes_variance,
        .allocated_count_variance = total->allocated_count_variance,
        .samples = total->samples,
    };
    const struct profile_dump now = *dump;
    dump->earlier = known->earlier;
    /* The profiled process can write the totals. */
    dump->exact_bytes = less(now.exact_bytes, dump->earlier.exact_bytes);
    dump->exact_calls = less(now.exact_calls, dump->earlier.exact_calls);
    trace_figures_add(&known->earlier.sampled, &allocated);
    known->earlier.exact_bytes = now.exact_bytes;
    known->earlier.exact_calls = now.exact_calls;
    if (now.sampled_calls > 0) {
        dump->sampled_bytes -= dump->earlier.sampled_bytes;
        dump->sampled_calls -= dump->earlier.sampled_calls;
        known->earlier.sampled_bytes = now.sampled_bytes;
        known->earlier.sampled_calls = now.sampled_calls;
    } else { /* nothing was calibrated */
        known->earlier.sampled_bytes = known->earlier.sampled.allocated_bytes;
        known->earlier.sampled_calls = known->earlier.sampled.allocated_count;
    }
}

static bool is_empty(const struct trace_figures *figures)
{
    return figures->samples == 0 && figures->allocated_bytes == figures->freed_bytes &&
           figures->allocated_count == figures->freed_count;
}

static void describe_end(const struct profile_process *process, char reason[64])
{
    const struct process_end *end = &process->end;
    reason[0] = '\0';
    if (process->has_end && end->how == PROCESS_END_EXITED)
        snprintf(reason, 64, "exit %d", end->code);
    else if (process->has_end && end->how == PROCESS_END_SIGNALED)
        snprintf(reason, 64, "signal %d%s", end->code, process_end_is_oom(end) ? " (oom)" : "");
}

/* Fill `dump` with the period's samples: those with figures in it. */
static int subtract(struct periods *periods, struct known_heap *known,
                    const struct profile_dump *now, struct profile_dump *dump)
{
    size_t count = now->sample_count;
    struct profile_sample *samples = allocate(periods, count * sizeof(*samples));
    dump->samples = allocate(periods, count * sizeof(*dump->samples));
    if (samples == NULL || dump->samples == NULL)
        return -ENOMEM;
    dump->sample_count = dump->part_count = 0;
    dump->total = (struct trace_figures){0};
    for (size_t i = 0; i < count; i++) {
        const struct profile_sample *from = now->samples[i];
        struct profile_sample *to = &samples[dump->sample_count];
        struct known_callsite *callsite = find_callsite(known, periods->hashes[from->callsite]);
        if (callsite == NULL)
            return -ENOMEM;
        *to = (struct profile_sample){.figures = from->figures, .callsite = from->callsite};
        take_difference(&to->figures, callsite);
        if (is_empty(&to->figures))
            continue;
        to->type = to->context = "";
        to->parts = &to->single;
        to->part_count = 1;
        trace_figures_add(&dump->total, &to->figures);
        dump->samples[dump->sample_count++] = to;
        dump->part_count++;
    }
    return 0;
}

static int make_period(struct periods *periods, const struct profile *profile,
                       const struct profile_heap *heap, const struct profile_dump *now,
                       int64_t offset_ns)
{
    struct known_heap *known = find_heap(periods, profile, heap);
    struct profile_dump *dump = allocate(periods, sizeof(*dump));
    char *reason = allocate(periods, 64);
    if (known == NULL || dump == NULL || reason == NULL)
        return -ENOMEM;
    *dump = *now;
    if (subtract(periods, known, now, dump) < 0)
        return -ENOMEM;
    dump->start_boottime_ns = known->last_boottime_ns;
    bool has_samples = dump->sample_count > 0, had_samples = known->had_samples;
    known->last_boottime_ns = now->boottime_ns;
    known->had_samples = has_samples;
    known->is_over |= now->final;
    if (!has_samples && !had_samples && !now->final)
        return 0; /* the next period has what was counted in this one, too */
    take_exact_difference(dump, known);
    if (now->final)
        describe_end(&profile->processes[heap->process], reason);
    const struct period period = {
        .start_ns = (int64_t)dump->start_boottime_ns + offset_ns,
        .end_ns = (int64_t)dump->boottime_ns + offset_ns,
        .profile = profile,
        .heap = heap,
        .dump = dump,
        .interval_bytes = now->interval_bytes != 0 ? now->interval_bytes : heap->interval_bytes,
        .is_final = now->final,
        .end_reason = reason,
    };
    return ARRAY_ADD(&periods->made, &periods->made_count, &periods->made_capacity, period);
}

static void forget_ended(struct periods *periods)
{
    size_t kept = 0;
    for (size_t i = 0; i < periods->heap_count; i++) {
        if (periods->heaps[i].is_over)
            free_heap(&periods->heaps[i]);
        else
            periods->heaps[kept++] = periods->heaps[i];
    }
    periods->heap_count = kept;
}

struct period *periods_make(struct periods *periods, const struct profile *profile,
                            int64_t boottime_to_realtime_ns, size_t *count, uint64_t *lost)
{
    static struct period none;
    int code = 0;
    free_blocks(periods);
    *count = 0;
    if (hash_callsites(periods, profile) < 0)
        return NULL;
    for (size_t i = 0; i < profile->heap_count && code == 0; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count && code == 0; j++) {
            *lost += heap->dumps[j].incomplete;
            if (!heap->unseen && !heap->dumps[j].incomplete)
                code =
                    make_period(periods, profile, heap, &heap->dumps[j], boottime_to_realtime_ns);
        }
    }
    free(periods->hashes);
    periods->hashes = NULL;
    if (code < 0)
        return NULL;
    forget_ended(periods);
    *count = periods->made_count;
    return periods->made != NULL ? periods->made : &none;
}
