/*
 * See builder.h: from snapshots to dumps. What they name is resolved, samples of one callsite are
 * summed up, and what a snapshot leaves out is carried over from the one before.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/builder.h"
#include "profile/rollup.h"
#include "util/array.h"

/* Perfetto drops callstacks whose counters have come to rest, so what a dump does not
 * name is carried over from the one before; hostile files could make that too much. */
#define CARRIED_SAMPLES_MAX UINT64_C(2000000)

static int compare_parts(const void *left_pointer, const void *right_pointer)
{
    const struct profile_part *left = left_pointer, *right = right_pointer;
    if (left->tid != right->tid)
        return left->tid < right->tid ? -1 : 1;
    int order = strcmp(left->type, right->type);
    return order != 0 ? order : strcmp(left->context, right->context);
}

/* Sums up what a sample has twice: parts of callstacks that differ only in ids. How many are left.
 */
static uint32_t merge_parts(struct profile_part *parts, size_t all)
{
    uint32_t count = 0;
    if (all > 0)
        qsort(parts, all, sizeof(*parts), compare_parts);
    for (size_t i = 0; i < all; i++) {
        if (count == 0 || compare_parts(&parts[count - 1], &parts[i]) != 0) {
            parts[count++] = parts[i];
            continue;
        }
        rollup_figures_add(&parts[count - 1].figures, &parts[i].figures);
        parts[count - 1].peak_bytes += parts[i].peak_bytes;
        parts[count - 1].peak_count += parts[i].peak_count;
        parts[count - 1].peak_bytes_variance += parts[i].peak_bytes_variance;
        parts[count - 1].peak_count_variance += parts[i].peak_count_variance;
    }
    return count;
}

static int reserve_places(struct builder *builder)
{
    size_t wanted = builder->profile->callsite_count;
    if (wanted <= builder->place_count)
        return 0;
    wanted += wanted / 2;
    struct builder_places *grown = reallocarray(builder->places, wanted, sizeof(*grown));
    if (grown == NULL)
        return builder_fail(builder);
    memset(grown + builder->place_count, 0, (wanted - builder->place_count) * sizeof(*grown));
    builder->places = grown;
    builder->place_count = wanted;
    return 0;
}

/* Names each pending sample's callsite and its parts' types and contexts. Callstacks that differ
 * only in ids are one callsite, and are chained so that they are summed: next[i] follows i, `first`
 * begins a chain. */
static int resolve_samples(struct builder *builder, struct builder_sequence *sequence,
                           struct pending_dump *pending, uint32_t *next, bool *first)
{
    for (size_t i = 0; i < pending->sample_count; i++) {
        pending->samples[i].callsite =
            builder_resolve(builder, sequence, pending->origins[i].callstack);
        if (builder->error < 0)
            return builder->error;
    }
    for (size_t i = 0; i < pending->part_count; i++) {
        struct profile_part *part = &pending->parts[i];
        part->type = builder_resolve_type(builder, sequence, pending->tags[i].type);
        part->context = builder_resolve_context(builder, sequence, pending->tags[i].context);
    }
    if (reserve_places(builder) < 0)
        return builder->error;
    for (size_t i = pending->sample_count; i-- > 0;) {
        uint32_t *head = &builder->places[pending->samples[i].callsite].pending;
        if (*head != 0)
            first[*head - 1] = false;
        next[i] = *head;
        first[i] = true;
        *head = (uint32_t)i + 1;
    }
    return builder->error;
}

static int gather_parts(struct builder *builder, const struct pending_dump *pending, size_t sample,
                        size_t used)
{
    size_t count = pending->samples[sample].part_count;
    if (array_reserve(&builder->parts, &builder->part_capacity, used, count,
                      sizeof(*builder->parts)) < 0)
        return builder_fail(builder);
    if (count > 0)
        memcpy(builder->parts + used, pending->parts + pending->origins[sample].part_first,
               count * sizeof(*builder->parts));
    return 0;
}

/* Adds to the first sample of a chain what the rest has. */
static int sum_chain(struct builder *builder, const struct pending_dump *pending,
                     const uint32_t *next, size_t first, struct profile_sample *sum)
{
    size_t parts = sum->part_count;
    if (gather_parts(builder, pending, first, 0) < 0)
        return builder->error;
    for (uint32_t at = next[first]; at != 0; at = next[at - 1]) {
        const struct profile_sample *more = &pending->samples[at - 1];
        rollup_figures_add(&sum->figures, &more->figures);
        sum->peak_bytes += more->peak_bytes;
        sum->peak_count += more->peak_count;
        sum->peak_bytes_variance += more->peak_bytes_variance;
        sum->peak_count_variance += more->peak_count_variance;
        sum->tagged |= more->tagged;
        if (gather_parts(builder, pending, at - 1, parts) < 0)
            return builder->error;
        parts += more->part_count;
    }
    sum->part_count = merge_parts(builder->parts, parts);
    sum->parts = builder->parts;
    return 0;
}

/* Padding may tell two apart that are the same: that costs memory and no more. */
static bool is_same_sample(const struct profile_sample *one, const struct profile_sample *other)
{
    return memcmp(&one->figures, &other->figures, sizeof(one->figures)) == 0 &&
           one->peak_bytes == other->peak_bytes && one->peak_count == other->peak_count &&
           one->peak_bytes_variance == other->peak_bytes_variance &&
           one->peak_count_variance == other->peak_count_variance && one->tagged == other->tagged &&
           one->part_count == other->part_count &&
           (one->part_count == 0 ||
            memcmp(one->parts, other->parts, one->part_count * sizeof(*one->parts)) == 0);
}

static int own_parts(struct builder *builder, struct profile_sample *sample)
{
    size_t bytes = sample->part_count * sizeof(*sample->parts);
    struct profile_part *parts = bytes > 0 ? builder_memory(builder, bytes) : NULL;
    if (bytes > 0 && parts == NULL)
        return builder->error;
    if (bytes > 0)
        memcpy(parts, sample->parts, bytes);
    sample->parts = parts;
    return 0;
}

/* The sample of a chain: that of the dump before where nothing has changed since. In a heap's first
 * dump it stays where it was taken. */
static const struct profile_sample *keep_sample(struct builder *builder,
                                                struct pending_dump *pending,
                                                const struct profile_dump *before,
                                                const uint32_t *next, size_t first)
{
    struct profile_sample *sum = &pending->samples[first];
    bool chained = next[first] != 0;
    sum->parts = sum->part_count == 0 ? NULL : pending->parts + pending->origins[first].part_first;
    if (chained && sum_chain(builder, pending, next, first, sum) < 0)
        return NULL;
    if (before == NULL)
        return chained && own_parts(builder, sum) < 0 ? NULL : sum;
    uint32_t place = builder->places[sum->callsite].before;
    if (place != 0 && is_same_sample(before->samples[place - 1], sum))
        return before->samples[place - 1];
    struct profile_sample *kept = builder_sample(builder);
    if (kept == NULL)
        return NULL;
    *kept = *sum;
    return own_parts(builder, kept) < 0 ? NULL : kept;
}

/* Fills the dump with the pending samples, and with those that only the one before has, if there is
 * one that goes on. */
static int fill_dump(struct builder *builder, struct pending_dump *pending,
                     const struct profile_dump *before, bool carried, const uint32_t *next,
                     const bool *first, struct profile_dump *dump)
{
    size_t most = pending->sample_count + (carried ? before->sample_count : 0);
    dump->samples = reallocarray(NULL, most + 1, sizeof(struct profile_sample *));
    if (dump->samples == NULL)
        return builder_fail(builder);
    for (size_t i = 0; i < pending->sample_count && builder->error == 0; i++) {
        if (first[i])
            dump->samples[dump->sample_count++] = keep_sample(builder, pending, before, next, i);
    }
    for (size_t i = 0; carried && i < before->sample_count && builder->error == 0; i++) {
        if (builder->places[before->samples[i]->callsite].pending != 0)
            continue;
        dump->samples[dump->sample_count++] = before->samples[i];
        builder->carried_samples++;
    }
    return builder->error;
}

static void mark_before(struct builder *builder, const struct profile_dump *before, bool there)
{
    for (size_t i = 0; before != NULL && i < before->sample_count; i++)
        builder->places[before->samples[i]->callsite].before = there ? (uint32_t)i + 1 : 0;
}

static void add_dump(struct builder *builder, const struct pending_dump *pending,
                     struct profile_dump *dump)
{
    struct profile_heap *heap = &builder->profile->heaps[pending->heap];
    for (size_t i = 0; i < dump->sample_count; i++) {
        rollup_figures_add(&dump->total, &dump->samples[i]->figures);
        dump->part_count += dump->samples[i]->part_count;
    }
    dump->order = builder->dumps++;
    heap->dumps[heap->dump_count++] = *dump;
    heap->status = pending->status;
    heap->interval_bytes = pending->status.interval_bytes;
    heap->first_interval_bytes = pending->status.first_interval_bytes != 0
                                     ? pending->status.first_interval_bytes
                                     : pending->status.interval_bytes;
}

/* A heap's first dump is made of the pending samples themselves. */
static void give_samples(struct builder *builder, struct pending_dump *pending)
{
    if (pending->sample_count == 0 ||
        builder_take_over(builder, pending->samples, pending->sample_count, pending->parts) < 0)
        return;
    pending->samples = NULL;
    pending->parts = NULL;
    pending->sample_capacity = pending->part_capacity = 0;
}

static int make_dump(struct builder *builder, struct builder_sequence *sequence,
                     struct pending_dump *pending)
{
    struct profile_dump dump = {
        .boottime_ns = pending->boottime_ns,
        .final = pending->status.final,
        .incomplete = sequence->gap,
        .exact_bytes = pending->status.exact_bytes,
        .exact_calls = pending->status.exact_calls,
    };
    uint32_t *next = calloc(pending->sample_count + 1, sizeof(*next));
    bool *first = calloc(pending->sample_count + 1, sizeof(*first));
    struct profile_heap *heap = &builder->profile->heaps[pending->heap];
    if (next == NULL || first == NULL ||
        array_reserve(&heap->dumps, &builder->dump_capacities[pending->heap], heap->dump_count, 1,
                      sizeof(dump)) < 0) {
        builder_fail(builder);
    } else if (resolve_samples(builder, sequence, pending, next, first) == 0) {
        const struct profile_dump *before =
            heap->dump_count > 0 ? &heap->dumps[heap->dump_count - 1] : NULL;
        bool carried = before != NULL && !pending->status.dump_at_max &&
                       !builder->owner->as_in_trace &&
                       builder->carried_samples < CARRIED_SAMPLES_MAX;
        mark_before(builder, before, true);
        fill_dump(builder, pending, before, carried, next, first, &dump);
        mark_before(builder, before, false);
        for (size_t i = 0; i < pending->sample_count; i++)
            builder->places[pending->samples[i].callsite].pending = 0;
        if (before == NULL && builder->error == 0)
            give_samples(builder, pending);
    }
    if (builder->error == 0)
        add_dump(builder, pending, &dump);
    else
        free(dump.samples);
    free(next);
    free(first);
    return builder->error;
}

void pending_free(struct pending_dump *pending)
{
    free(pending->samples);
    free(pending->origins);
    free(pending->parts);
    free(pending->tags);
}

void builder_commit(struct builder *builder, struct builder_sequence *sequence)
{
    for (size_t i = 0; i < sequence->pending_count; i++) {
        struct pending_dump *pending = &sequence->pending[i];
        if (builder->error == 0)
            make_dump(builder, sequence, pending);
        pending_free(&sequence->spare);
        sequence->spare = *pending;
        sequence->spare.sample_count = sequence->spare.part_count = 0;
    }
    sequence->pending_count = 0;
    sequence->gap = false;
}

bool builder_commit_rest(struct builder *builder)
{
    bool any = false;
    for (size_t i = 0; i < builder->sequence_count; i++) {
        any |= builder->sequences[i].pending_count > 0;
        builder->sequences[i].gap = true;
        builder_commit(builder, &builder->sequences[i]);
    }
    return any;
}
